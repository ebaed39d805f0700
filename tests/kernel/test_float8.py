"""Floats of 8 bits: every value, every middle of two with what is beside it, in memory of every
kind and four in a word, against rounding in plain Python."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device import CpuDevice
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, KernelError
from quod.kernel import (
    Builder,
    KernelDefinition,
    Machine,
    Pointer,
    TraceError,
    Type,
    Value,
    VerificationFailure,
    e4m3,
    e5m2,
    f16,
    f32,
    u32,
)
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.parse import parse
from quod.kernel.ir.value import F32
from quod.kernel.ops import float8
from quod.kernel.verifier.verify import verify
from tests.kernel.machines import EIGHT, MANY
from tests.kernel.op_kernels import elementwise
from tests.kernel.refusals import refuses
from tests.kernel.test_halves import EACH, in_memory, same_floats
from tests.support.executors import run_everywhere
from tests.support.ptx_assembler import assemble

Array = np.ndarray[Any, Any]

FLOATS8 = [e4m3, e5m2]
NATIVE = Machine("llvm", 1024, frozenset({"u64", "f16", "bf16", "floats8"}))
FORMATS = {e4m3: (3, -9, 0x7E), e5m2: (2, -16, 0x7B)}
"""Digits behind the point, the exponent of the least number above zero, and the greatest's bits."""


def value_of(bits: int, element: Type) -> float:
    """The value that the specification gives bits."""
    digits, least, greatest = FORMATS[element]
    sign, size = -1.0 if bits & 0x80 else 1.0, bits & 0x7F
    if size > greatest:
        return sign * math.inf if element is e5m2 and size == greatest + 1 else math.nan
    exponent, significand = size >> digits, size & ((1 << digits) - 1)
    if exponent:
        significand += 1 << digits
    return sign * math.ldexp(significand, least + max(exponent, 1) - 1)


def nearest(value: float, element: Type) -> int:
    """The bits of the number nearest to one, ties to even, the greatest beyond it."""
    digits, least, greatest = FORMATS[element]
    if math.isnan(value):
        return 0x7F
    sign = 0x80 if math.copysign(1, value) < 0 else 0
    if math.isinf(value):
        return sign | greatest
    exponent = max(math.frexp(value)[1] - digits - 1, least) if value else least
    # Exact, as the value has 24 bits; Python's round is to even.
    significand = round(math.ldexp(abs(value), -exponent))
    return sign | min(significand + ((exponent - least) << digits), greatest)


@functools.cache
def numbers(element: Type) -> tuple[Array, Array]:
    """All f16, all bf16, the middles of all neighbours and what is beside them, as f32; then what
    they are as elements."""
    of_16_bits = np.arange(1 << 16, dtype=np.uint16)
    finite = np.array([value_of(bits, element) for bits in range(FORMATS[element][2] + 1)])
    middles = (finite[1:] + finite[:-1]).astype(np.float32) / 2
    beyond = np.float32(finite[-1] + (finite[-1] - finite[-2]) / 2)
    middles = np.append(middles, beyond)
    near = [np.nextafter(middles, np.float32(end)) for end in (-np.inf, np.inf)]
    near = [side for each in (middles, *near) for side in (each, -each)]
    floats = np.concatenate([
        of_16_bits.view(np.float16).astype(np.float32),
        (of_16_bits.astype(np.uint32) << 16).view(np.float32),
        *near,
    ]).astype(np.float32)  # fmt: skip
    floats = np.resize(floats, -(-len(floats) // 1024) * 1024)
    return floats, np.array([nearest(value, element) for value in floats.tolist()], np.uint8)


def packing(element: Type) -> KernelDefinition:
    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        return [k.pack_float8(element, *operands)]

    return elementwise("packing", [f32] * 4, [u32], compute)


def unpacking(element: Type) -> KernelDefinition:
    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        return list(k.unpack_float8(element, operands[0]))

    return elementwise("unpacking", [u32], [f32] * 4, compute)


def rolled(values: Array) -> list[Array]:
    return [np.roll(values, shift) for shift in (0, 1, 5, 77)]


def words_of(bits: Array) -> Array:
    """A word of the four elements that lists have at each place."""
    return np.ascontiguousarray(np.stack(rolled(bits), axis=1)).view(np.uint32).reshape(-1)


def test_encoding_matches_the_specification() -> None:
    """The table of section 5: largest, smallest normal and smallest subnormal values."""
    assert [value_of(b, e4m3) for b in (0x7E, 0x08, 0x01)] == [448, 2.0**-6, 2.0**-9]
    assert [value_of(b, e5m2) for b in (0x7B, 0x04, 0x01)] == [57344, 2.0**-14, 2.0**-16]
    assert math.isnan(value_of(0x7F, e4m3))
    assert value_of(0xFC, e5m2) == -math.inf
    assert [nearest(x, e4m3) for x in (464, 465, 1e9, -math.inf)] == [0x7E, 0x7E, 0x7E, 0xFE]
    assert [nearest(x, e4m3) for x in (1.0625, 1.1875, 2.0**-10, -0.0)] == [0x38, 0x3A, 0, 0x80]
    assert [float8.greatest(element) for element in FLOATS8] == [448, 57344]


@pytest.mark.parametrize("element", FLOATS8, ids=str)
def test_numpy_conversions(element: Type) -> None:
    values, bits = numbers(element)
    assert np.array_equal(float8.nearest(element, values), bits)
    every = np.arange(256, dtype=np.uint8)
    wanted = np.array([value_of(b, element) for b in range(256)], np.float32)
    assert same_floats(float8.values_of(element, every), wanted)
    finite = every[~np.isnan(wanted) & ~np.isinf(wanted)]
    assert np.array_equal(float8.nearest(element, float8.values_of(element, finite)), finite)


@pytest.mark.parametrize("machine", [MANY, NATIVE], ids=["made of ops", "instructions"])
@pytest.mark.parametrize("element", FLOATS8, ids=str)
def test_rounding(element: Type, machine: Machine) -> None:
    values, bits = numbers(element)
    packed = np.zeros(len(values), np.uint32)
    interpret(packing(element).trace(machine), len(values) // 1024, [*rolled(values), packed])
    assert np.array_equal(packed, words_of(bits))


@pytest.mark.parametrize("machine", [MANY, NATIVE], ids=["made of ops", "instructions"])
@pytest.mark.parametrize("element", FLOATS8, ids=str)
def test_every_value(element: Type, machine: Machine) -> None:
    bits = np.resize(np.arange(256, dtype=np.uint8), 1024)
    wanted = np.array([value_of(b, element) for b in bits.tolist()], np.float32)
    unpacked = [np.zeros(1024, np.float32) for _ in range(4)]
    interpret(unpacking(element).trace(machine), 1, [words_of(bits), *unpacked])
    for actual, expected in zip(unpacked, rolled(wanted), strict=True):
        assert same_floats(actual, expected)


def hostile(element: Type) -> tuple[Array, Array]:
    """The middles, what is beside them, and some of the others."""
    values, bits = numbers(element)
    chosen = np.r_[len(values) - 2048 : len(values) : 3, 0 : 1 << 17 : 384][:1024]
    return np.resize(values[chosen], 1024), np.resize(bits[chosen], 1024)


@pytest.mark.parametrize("element", FLOATS8, ids=str)
def test_packing_on_every_executor(element: Type) -> None:
    values, bits = hostile(element)
    arguments = [*rolled(values), np.zeros(1024, np.uint32)]
    packed = run_everywhere(packing(element), 128, arguments, lowered=True)[-1]
    assert np.array_equal(packed, words_of(bits))


@pytest.mark.parametrize("element", FLOATS8, ids=str)
def test_unpacking_on_every_executor(element: Type) -> None:
    # Without NaN, whose bits are nobody's.
    kept = [b for b in range(256) if not math.isnan(value_of(b, element))]
    bits = np.resize(np.array(kept, np.uint8), 1024)
    arguments = [words_of(bits), *(np.zeros(1024, np.float32) for _ in range(4))]
    unpacked = run_everywhere(unpacking(element), 128, arguments, lowered=True)[1:]
    wanted = np.array([value_of(b, element) for b in bits.tolist()], np.float32)
    for actual, expected in zip(unpacked, rolled(wanted), strict=True):
        assert same_floats(actual, expected)


# --- on devices


def launched(device: AnyDevice, definition: KernelDefinition, *arrays: Array) -> list[Array]:
    compiled = device.compile(definition)
    memory = [device.upload(each) for each in arrays]
    device.launch(compiled, -(-len(arrays[0]) // compiled.lanes), *memory)
    results = [np.empty_like(each) for each in arrays]
    for buffer, array in zip(memory, results, strict=True):
        device.download(buffer, array)
    return results


@pytest.mark.parametrize("element", FLOATS8, ids=str)
def test_every_number_on_a_device(device: AnyDevice, element: Type) -> None:
    values, bits = numbers(element)
    if device.kind == "webgpu":
        # A driver may take a subnormal f32 for zero, and what is no number for another.
        odd = ~np.isfinite(values) | (np.abs(values) < 2.0**-126)
        values, bits = np.where(odd, np.float32(0), values), np.where(odd, np.uint8(0), bits)
    results = launched(device, packing(element), *rolled(values), np.zeros(len(values), np.uint32))
    assert np.array_equal(results[-1], words_of(bits))
    every = np.resize(np.arange(256, dtype=np.uint8), 1024)
    wanted = np.array([value_of(b, element) for b in every.tolist()], np.float32)
    if device.kind == "webgpu":
        every, wanted = (
            np.where(np.isfinite(wanted), x, 0).astype(x.dtype) for x in (every, wanted)
        )
    empty = [np.zeros(1024, np.float32) for _ in range(4)]
    results = launched(device, unpacking(element), words_of(every), *empty)
    for actual, expected in zip(results[1:], rolled(wanted), strict=True):
        assert same_floats(actual, expected)


@pytest.mark.parametrize("element", FLOATS8, ids=str)
def test_elements_in_memory(device: AnyDevice, element: Type) -> None:
    """In all memory spaces, at unaligned addresses; adjacent bytes are unchanged."""
    compiled = device.compile(in_memory(element))
    count = 2 * compiled.lanes
    values = np.random.default_rng(9).normal(0, 3, EACH * count)
    x = np.array([nearest(value, element) for value in values.tolist()], np.uint8)
    values = np.array([value_of(b, element) for b in x.tolist()], np.float32)
    scaled = [value_of(nearest(v, element), element) for v in (values * 1.25).tolist()]
    rows = np.array([nearest(v + 1.0, element) for v in scaled], np.uint8).reshape(-1, EACH)
    y, loaded = np.zeros_like(x), np.zeros_like(values)
    y.reshape(-1, EACH)[:-1] = rows[:-1, ::-1]
    loaded[:-EACH] = values[:-EACH]
    buffers = [device.upload(a) for a in (x, np.zeros_like(x), np.zeros_like(loaded))]
    device.launch(compiled, 2, count - 1, *buffers)
    downloaded, found_wide = np.empty_like(x), np.empty_like(loaded)
    device.download(buffers[1], downloaded)
    device.download(buffers[2], found_wide)
    assert np.array_equal(downloaded, y)
    assert np.array_equal(found_wide, loaded)


# --- what is written


def test_ptx_instructions() -> None:
    machine = ptx_machine(64, "sm_89")
    for element in FLOATS8:
        text = ptx.emit(packing(element).trace(machine), machine)
        assert text.count(f"cvt.rn.satfinite.{element}x2.f32") == 2
        assert assemble(text, "sm_89")
    text = ptx.emit(unpacking(e4m3).trace(machine), machine)
    assert text.count("cvt.rn.f16x2.e4m3x2") == 2
    assert assemble(text, "sm_89")
    stored = ptx.emit(in_memory(e4m3, shared=False).trace(machine), machine)
    assert assemble(stored, "sm_89")


@pytest.mark.parametrize("element", FLOATS8, ids=str)
def test_old_gpus_emulate_conversions_with_integers(element: Type) -> None:
    machine = ptx_machine(64, "sm_80")
    text = ptx.emit(in_memory(element).trace(machine), machine)
    assert "satfinite" not in text
    assert "e4m3x2" not in text
    assert assemble(text, "sm_80")


# --- what is refused


def test_invalid_operands_are_rejected() -> None:
    def number(k: Builder, y: Pointer[F32]) -> None:
        y[0].cast(e4m3)  # here

    def stored(k: Builder, y: Pointer[F32]) -> None:
        k.store(y.cast(e5m2), 0, k.constant(1, u32))  # here

    def tabled(k: Builder, y: Pointer[F32]) -> None:
        k.table(e4m3, [0.5])  # here

    def other(k: Builder, y: Pointer[F32]) -> None:
        k.unpack_float8(f16, k.constant(1, u32))  # here

    def few(k: Builder, y: Pointer[F32]) -> None:
        k.pack_float8(e5m2, y[0], y[1])  # here

    for body, message in (
        (number, "cannot convert f32 to e4m3"),
        (stored, "an f32 is stored here, not a u32; convert it with value.cast(type)"),
        (tabled, "there are no tables of e4m3; make one of f32"),
        (other, "k.unpack_float8 is for e4m3 and e5m2, not f16"),
        (few, "k.pack_float8 takes four f32, not 2"),
    ):
        refuses(body, TraceError, message)


def test_verification() -> None:
    head = "kernel @k(%x: ptr<e4m3, global>, %n: u32, %a: f32) workgroup 8 shared 0 {\n"
    for body in ("%0: f32 = load %x, %n", "store %x, %n, %a"):
        with pytest.raises(VerificationFailure, match="e4m3 is in memory as u8"):
            verify(parse(f"{head}{body}\nyield\n}}"), EIGHT)


def test_instructions_require_machine_support() -> None:
    traced = packing(e4m3).trace(ptx_machine(64, "sm_89"))
    with pytest.raises(KernelError, match="pack_e4m3 needs sm_89 or newer"):
        ptx.emit(traced, ptx_machine(64, "sm_80"))


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.uint16, "V1", bool])
def test_arrays_of_other_types_are_refused(dtype: Any) -> None:
    device = CpuDevice(threads=1)
    good = np.zeros(EACH * 8, np.uint8)
    compiled = device.compile(in_memory(e4m3))
    with pytest.raises(DeviceError, match=r"argument x of kernel moved .* elements are e4m3"):
        device.launch(compiled, 1, 1, good.astype(dtype), good, np.zeros(EACH * 8, np.float32))
