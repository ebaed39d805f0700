"""Matrices of a subgroup: loads, products, copies that fill with zeros, and mistakes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.protocol import AnyDevice
from quod.errors import KernelError
from quod.kernel import (
    F32,
    I32,
    U32,
    Builder,
    Machine,
    Pointer,
    bf16,
    e4m3,
    e5m2,
    f16,
    f32,
    i8,
    kernel,
    u32,
    u64,
)
from quod.kernel.errors import InterpreterError, TraceError, VerificationFailure
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value
from quod.kernel.ops import float8
from tests.conftest import open_for_test
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import line_of, refuses
from tests.support.devices import present
from tests.support.ptx_assembler import ARCHITECTURES, assemble, usage

GPU = ptx_machine(64)
HALVES = (f16, bf16)
FLOATS8 = (e4m3, e5m2)


def multiply(
    k: Builder, a: Value, b: Value, c: Value, *, element: Type, transposed: bool,
    other: Type | None = None,
) -> None:  # fmt: skip
    """C += A B for each subgroup: 16 by 8 words of A, as many of B, 16 by 16 of C."""
    warps, lane, base = k.workgroup_size // 32, k.lane_id(), k.subgroup_id() * 128
    room_a, room_b = k.shared(u32, 128 * warps), k.shared(u32, 128 * warps)
    for room, matrix in ((room_a, a), (room_b, b)):
        k.copy_async(room, base + lane * 4, matrix, base + lane * 4, 4)
    k.copy_async_commit()
    k.copy_async_wait()
    k.barrier()
    row, middle, last = lane % 8, lane // 8 % 2, lane // 16
    words_a = k.load_matrices(room_a, base + (row + middle * 8) * 8 + last * 4)
    down, right = (middle, last) if transposed else (last, middle)
    place = base + (row + down * 8) * 8 + right * 4
    words_b = k.load_matrices(room_b, place, transposed=transposed)
    at = k.subgroup_id() * 256 + lane // 4 * 16 + lane % 4 * 2
    for half in range(2):
        places = [at + 8 * half + step for step in (0, 1, 128, 129)]
        sums = [c[place] for place in places]
        products = k.mma(element, words_a, words_b[2 * half : 2 * half + 2], sums, other=other)
        for place, value in zip(places, products, strict=True):
            c[place] = value


@kernel
def products(
    k: Builder, a: Pointer[U32], b: Pointer[U32], c: Pointer[F32], *, element: Type,
    transposed: bool, other: Type | None = None,
) -> None:  # fmt: skip
    multiply(k, a, b, c, element=element, transposed=transposed, other=other)


@kernel
def whole_products(k: Builder, a: Pointer[U32], b: Pointer[U32], c: Pointer[I32]) -> None:
    multiply(k, a, b, c, element=i8, transposed=False)


def words(matrix: Any, element: Type) -> Any:
    """A matrix of small numbers as words of elements."""
    if element is i8:
        return np.ascontiguousarray(matrix.astype(np.int8)).view(np.uint32)
    if element in FLOATS8:
        return np.ascontiguousarray(float8.nearest(element, matrix)).view(np.uint32)
    if element is f16:
        return np.ascontiguousarray(matrix.astype(np.float16)).view(np.uint32)
    bits = np.ascontiguousarray(matrix.astype(np.float32)).view(np.uint32)
    if element is f32:
        return bits
    return np.ascontiguousarray((bits >> 16).astype(np.uint16)).view(np.uint32)


@pytest.fixture(scope="module", params=present("emulated", "emulated:ptx", "cuda"))
def tensor_device(request: pytest.FixtureRequest) -> Any:
    with open_for_test(request.param) as device:
        yield device


@pytest.mark.parametrize(
    ("element", "transposed"),
    [(f16, False), (f16, True), (bf16, False), (bf16, True), (f32, False)],
)  # fmt: skip
def test_products_of_small_numbers_are_exact(
    tensor_device: AnyDevice, element: Type, transposed: bool
) -> None:
    random = np.random.default_rng(4)
    depth = 8 if element is f32 else 16
    a = random.integers(-9, 10, (6, 16, depth))
    b = random.integers(-9, 10, (6, depth, 16))
    c = random.integers(-99, 100, (6, 16, 16)).astype(np.float32)
    operand_b = b if transposed else np.swapaxes(b, 1, 2)
    device = tensor_device
    compiled = device.compile(products, lanes=64, element=element, transposed=transposed)
    memory = [
        device.upload(x.reshape(-1)) for x in (words(a, element), words(operand_b, element), c)
    ]
    device.launch(compiled, 1, *memory)
    sums = c.reshape(-1).copy()
    device.download(memory[2], sums)
    expected = c + a @ b
    assert np.array_equal(sums.reshape(6, 16, 16)[:2], expected[:2])
    assert np.array_equal(sums.reshape(6, 16, 16)[2:], c[2:])


@pytest.mark.parametrize("pair", list(product(FLOATS8, repeat=2)), ids=str)
def test_products_of_8_bits(tensor_device: AnyDevice, pair: tuple[Type, Type]) -> None:
    """Sums of small numbers, which any way of adding them up makes exact; each pair of types."""
    random = np.random.default_rng(4)
    a, b = (
        random.integers(-8, 9, shape).astype(np.float32) / (4 if element is e4m3 else 1)
        for shape, element in zip(((2, 16, 32), (2, 16, 32)), pair, strict=True)
    )
    a, b = (
        float8.values_of(element, float8.nearest(element, x))
        for element, x in zip(pair, (a, b), strict=True)
    )
    c = random.integers(-99, 100, (2, 16, 16)).astype(np.float32)
    compiled = tensor_device.compile(
        products, lanes=64, element=pair[0], transposed=False, other=pair[1]
    )
    arguments = words(a, pair[0]), words(b, pair[1]), c
    memory = [tensor_device.upload(x.reshape(-1)) for x in arguments]
    tensor_device.launch(compiled, 1, *memory)
    sums = c.reshape(-1).copy()
    tensor_device.download(memory[2], sums)
    expected = c + a @ np.swapaxes(b, 1, 2)
    assert np.array_equal(sums.reshape(2, 16, 16), expected)


def test_integer_products_wrap_modulo_2_to_the_32(tensor_device: AnyDevice) -> None:
    random = np.random.default_rng(4)
    a, b = random.integers(-128, 128, (2, 16, 32)), random.integers(-128, 128, (2, 32, 16))
    a[0], b[0] = -128, -128
    c = random.integers(-(1 << 31), 1 << 31, (2, 16, 16)).astype(np.int32)
    c[0, :8] = (1 << 31) - 1
    compiled = tensor_device.compile(whole_products, lanes=64)
    arguments = words(a, i8), words(np.swapaxes(b, 1, 2), i8), c
    memory = [tensor_device.upload(x.reshape(-1)) for x in arguments]
    tensor_device.launch(compiled, 1, *memory)
    sums = c.reshape(-1).copy()
    tensor_device.download(memory[2], sums)
    assert np.array_equal(sums.reshape(2, 16, 16), (c + a @ b).astype(np.int32))


@pytest.mark.parametrize("name", present("emulated", "emulated:ptx", "cuda"))
def test_subnormal_infinite_and_rounded_operands(name: str) -> None:
    """Subnormal halves count, f32 loses what tf32 has no place for, what is no number spreads."""
    a, b = np.zeros((2, 16, 16)), np.zeros((2, 16, 16))
    a[0, 3], b[0, :, 5] = 2.0**-24, 0.5
    a[1, 4, 2], b[1, 2, 6], b[1, 2, 7] = np.inf, 0, 1
    c = np.zeros((2, 16, 16), np.float32)
    with open_for_test(name) as device:
        for element, least in ((f16, 8 * 2.0**-24), (bf16, 8 * 2.0**-24), (f32, 2.0)):
            operands = [a, np.swapaxes(b, 1, 2)]
            if element is f32:
                operands = [np.zeros((2, 16, 8)) for _ in range(2)]
                operands[0][0, 3, :2], operands[1][0, 5, :2] = 1 + 2.0**-11, 1
            compiled = device.compile(products, lanes=64, element=element, transposed=False)
            memory = [
                device.upload(x.reshape(-1)) for x in (*(words(x, element) for x in operands), c)
            ]
            device.launch(compiled, 1, *memory)
            sums = c.copy().reshape(-1)
            device.download(memory[2], sums)
            sums = sums.reshape(2, 16, 16)
            assert sums[0, 3, 5] == least
            assert np.count_nonzero(sums[0]) == 1
            if element is not f32:
                assert np.isnan(sums[1, 4, 6])
                assert np.isposinf(sums[1, 4, 7])
                assert not sums[1, :4].any()


@kernel
def filled(k: Builder, count: U32, x: Pointer[U32], y: Pointer[U32]) -> None:
    room, i = k.shared(u32, 4 * k.workgroup_size), k.local_id()
    k.copy_async(room, 4 * i, x, 4 * i, 4, where=4 * i < count)
    k.copy_async_commit()
    k.copy_async_wait()
    k.store(y, 4 * i, *k.load(room, 4 * i, 4))


def test_copies_fill_with_zeros(tensor_device: AnyDevice) -> None:
    """Masked elements are not read, because memory may end there."""
    x, y = np.arange(1, 101, dtype=np.uint32), np.full(256, 7, np.uint32)
    device = tensor_device
    memory = device.upload(x), device.upload(y)
    device.launch(device.compile(filled, lanes=64), 1, 100, *memory)
    device.download(memory[1], y)
    assert y.tolist() == [*range(1, 101), *[0] * 156]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_matrix_products_assemble_without_spills(arch: str) -> None:
    machine = ptx_machine(64, arch)
    for element in (*HALVES, f32):
        traced = products.trace(machine, element=element, transposed=element is not f32)
        cubin, log = assemble(ptx.emit(traced, machine), arch)
        assert cubin
        assert not usage(log).spill_store_bytes
    assert assemble(ptx.emit(whole_products.trace(machine), machine), arch)[0]
    if machine.has("float8_cores"):
        for element, other in product(FLOATS8, repeat=2):
            traced = products.trace(machine, element=element, transposed=False, other=other)
            assert assemble(ptx.emit(traced, machine), arch)[0]


# --- mistakes


def stops(body: Any, message: str, size: int = 512) -> None:
    """The interpreter refuses the line that is marked."""
    definition = kernel(body)
    room = f"the shared memory of line {line_of(definition, 'k.shared')}"
    with pytest.raises(InterpreterError) as caught:
        interpret(definition.trace(GPU), 1, [np.zeros(size, np.uint32)])
    place = f"{__file__}:{line_of(definition, '# here')}"
    expected = message.replace("ROOM", room)
    assert str(caught.value) == f"{place}: instance 0 of workgroup 0 {expected}"


def test_matrix_loads_require_completed_stores() -> None:
    def not_waited(k: Builder, x: Pointer[U32]) -> None:
        room, i = k.shared(u32, 256), k.local_id()
        k.copy_async(room, 4 * i, x, 4 * i, 4)
        k.copy_async_commit()
        k.barrier()
        x[i] = k.load_matrices(room, 4 * i)[0]  # here

    def filled_not_waited(k: Builder, x: Pointer[U32]) -> None:
        room, i = k.shared(u32, 256), k.local_id()
        k.copy_async(room, 4 * i, x, 4 * i, 4, where=i > 100)
        k.copy_async_commit()
        k.copy_async_wait(1)
        k.barrier()
        x[i] = k.load_matrices(room, 4 * i)[0]  # here

    def no_barrier(k: Builder, x: Pointer[U32]) -> None:
        """Others of the subgroup get what this one stored."""
        room, i = k.shared(u32, 256), k.local_id()
        k.copy_async(room, 4 * i, x, 4 * i, 4)
        k.copy_async_commit()
        k.copy_async_wait()
        x[i] = k.load_matrices(room, 4 * i)[0]  # here

    def too_early(k: Builder, x: Pointer[U32]) -> None:
        room, i = k.shared(u32, 256), k.local_id()
        k.store(room, 4 * i, *[i] * 4)
        k.barrier()
        x[i] = k.load_matrices(room, 4 * i)[0]
        k.copy_async(room, 4 * i, x, 4 * i, 4)  # here

    def unaligned(k: Builder, x: Pointer[U32]) -> None:
        room, i = k.shared(u32, 512), k.local_id()
        x[i] = k.load_matrices(room, 4 * i + 2)[0]  # here

    def outside(k: Builder, x: Pointer[U32]) -> None:
        room, i = k.shared(u32, 4), k.local_id()
        k.store(room, i % 4, k.constant(0, u32))
        k.barrier()
        x[i] = k.load_matrices(room, 4 + 4 * (i % 2))[0]  # here

    barrier = "a barrier is needed between"
    stops(not_waited, "loads from ROOM what was not set")
    stops(filled_not_waited, "loads from ROOM what was not set")
    stops(no_barrier, f"loads for others from ROOM what it stored; {barrier}")
    stops(too_early, f"changes in ROOM what another instance loaded; {barrier}")
    row = "loads a row of a matrix at byte 8 of ROOM, which is not a multiple of 16"
    stops(unaligned, row)
    stops(outside, "loads element 4 of ROOM, which has 4 of type u32")


def test_matrix_ops_require_full_uniform_subgroups() -> None:
    def some(k: Builder, x: Pointer[U32]) -> None:
        room, i = k.shared(u32, 256), k.local_id()
        with k.if_(x[0] == i):
            x[i] = k.load_matrices(room, 4 * i)[0]  # here

    def loads(k: Builder, x: Pointer[U32]) -> None:
        x[0] = k.load_matrices(k.shared(u32, 256), 0)[0]  # here

    def multiplies(k: Builder, x: Pointer[U32]) -> None:
        word, number = x[0], k.constant(0.0, f32)
        sums = k.mma(f16, [word] * 4, [word] * 2, [number] * 4)  # here
        x[0] = k.bitcast(sums[0], u32)

    with pytest.raises(VerificationFailure, match="a load_matrices that not every instance reach"):
        kernel(some).trace(GPU)
    lacking = Machine("llvm", 64, frozenset({"subgroup"}), subgroup_size=32)
    message = "load_matrices needs tensor cores, which the machine for llvm has not"
    refuses(loads, VerificationFailure, message, machine=lacking)
    refuses(
        loads, VerificationFailure, message.replace("llvm", "ptx"), machine=ptx_machine(64, "sm_75")
    )
    required = "mma_f16 is for whole subgroups of 32, not for a workgroup of {} in subgroups of {}"
    refuses(multiplies, VerificationFailure, required.format(48, 32), machine=ptx_machine(48))
    small = Machine("ptx", 64, GPU.features, subgroup_size=16)
    refuses(multiplies, VerificationFailure, required.format(64, 16), machine=small)


def test_operands_that_are_refused() -> None:
    def global_memory(k: Builder, x: Pointer[U32]) -> None:
        x[0] = k.load_matrices(x, 0)[0]  # here

    def long_index(k: Builder, x: Pointer[U32]) -> None:
        x[0] = k.load_matrices(k.shared(u32, 4), k.constant(0, u64))[0]  # here

    def few_words(k: Builder, x: Pointer[U32]) -> None:
        k.mma(bf16, [x[0]] * 2, [x[0]] * 2, [])  # here

    def other_type(k: Builder, x: Pointer[U32]) -> None:
        k.mma(u32, [x[0]] * 4, [x[0]] * 2, [])  # here

    def numbers(k: Builder, x: Pointer[U32]) -> None:
        k.mma(f16, [x[0]] * 4, [x[0]] * 2, [x[0]] * 4)  # here

    def condition(k: Builder, x: Pointer[U32]) -> None:
        k.copy_async(k.shared(u32, 4), 0, x, 0, where=x[0])  # here

    takes = "load_matrices takes a pointer to u32 in shared memory and a u32, not (ptr<u32, "
    of_type = "operand 7 of mma_f16 must be f32, not u32; convert one with value.cast(type)"
    for body, error, message in (
        (global_memory, VerificationFailure, f"{takes}global>, u32)"),
        (long_index, VerificationFailure, f"{takes}shared>, u64)"),
        (few_words, TraceError, "an instance has 4 values of A, not 2"),
        (
            other_type, TraceError,
            "k.mma multiplies f16, bf16, f32, i8, e4m3 or e5m2 by the same type, or e4m3 by e5m2 "
            "in either order, not u32",
        ),
        (numbers, TraceError, of_type),
        (
            condition, VerificationFailure,
            "the condition of copy_async_or_zero must be bool, not u32",
        ),
    ):  # fmt: skip
        refuses(body, error, message, machine=GPU)


def test_unsupported_targets_report_the_reason() -> None:
    from quod.codegen.llvm import emitter as llvm

    traced = filled.trace(EIGHT)
    with pytest.raises(KernelError, match=r"LLVM has no rule .* load and store in a branch"):
        llvm.emit(traced, EIGHT)
    with pytest.raises(KernelError, match="copy_async_or_zero needs sm_80 or newer"):
        ptx.emit(filled.trace(ptx_machine(64, "sm_75")), ptx_machine(64, "sm_75"))
