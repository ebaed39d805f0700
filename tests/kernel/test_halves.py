"""Floats of 16 bits: in memory of every kind, and two in a word, against Python's own rounding."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from quod.codegen.llvm import emitter as llvm
from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.machine import PORTABLE
from quod.device import CpuDevice
from quod.device.cpu.processor import host_processor
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError
from quod.kernel import (
    Builder,
    KernelDefinition,
    Location,
    Machine,
    Pointer,
    TraceError,
    Type,
    Value,
    VerificationFailure,
    bf16,
    f16,
    f32,
    pointer,
    u32,
)
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.parse import parse
from quod.kernel.ir.value import F32
from quod.kernel.verifier.verify import verify
from tests.conftest import need
from tests.kernel.machines import EIGHT, MANY
from tests.kernel.op_kernels import elementwise
from tests.kernel.refusals import refuses
from tests.support.executors import run_everywhere
from tests.support.ptx_assembler import assemble
from tests.support.tint import Tint
from tests.support.wgsl_runner import DRIVERS, DriverError, runner

Array = np.ndarray[Any, Any]

HALVES = [f16, bf16]
NATIVE = Machine("llvm", 1024, frozenset({"u64", "f16", "bf16"}))
SIGNIFICANT = {f16: (11, -24, 16), bf16: (8, -133, 128)}
"""Digits, the exponent of the least number above zero, and that of the first beyond the range."""


def nearest(value: float, element: Type) -> int:
    """The bits of the element nearest to a number, ties to even, in plain Python."""
    digits, least, top = SIGNIFICANT[element]
    if math.isnan(value):
        return 0x7FFF
    sign = 0x8000 if math.copysign(1, value) < 0 else 0
    beyond = (0x1F << 10) if element is f16 else (0xFF << 7)
    if math.isinf(value):
        return sign | beyond
    size = Fraction(abs(value))
    exponent = max(math.frexp(abs(value))[1] - digits, least) if value else least
    significand = round(size / Fraction(2) ** exponent)  # Python's round is to even
    if significand * Fraction(2) ** exponent >= Fraction(2) ** top:
        return sign | beyond
    # Whole numbers below 2**digits at the least exponent are subnormal or the first normal ones.
    return sign | (significand + ((exponent - least) << (digits - 1)))


def value_of(bits: int, element: Type) -> float:
    if element is bf16:
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    return float(struct.unpack("<e", struct.pack("<H", bits))[0])


def hostile_floats(element: Type, count: int) -> Array:
    """Numbers and both middles beside them, the ends of the ranges, then any bits."""
    random = np.random.default_rng(3)
    bits = np.concatenate([np.arange(0, 1 << 16, 641), [0, 1, 2, 0x3FF, 0x400, 0x7BFF, 0x7F7F]])
    exact = np.array([value_of(int(b), element) for b in bits], np.float32)
    following = np.array([value_of(int(b + 1) & 0xFFFF, element) for b in bits], np.float32)
    with np.errstate(all="ignore"):
        middle = ((exact.astype(np.float64) + following) / 2).astype(np.float32)
        beside = [np.nextafter(middle, np.float32(end)) for end in (-np.inf, np.inf)]
    ends = [65504, 65519.99, 65520, 65536, 3.4e38, 3.39e38, 2.0**-25, 2.0**-24, 6.1e-5, 1e-45, -0.0]
    special = np.array([*ends, *[-end for end in ends], np.inf, -np.inf, np.nan], np.float32)
    any_bits = random.integers(0, 1 << 32, count, np.uint64).astype(np.uint32).view(np.float32)
    return np.resize(np.concatenate([special, exact, middle, *beside, any_bits]), count)


def test_model_matches_numpy_and_struct() -> None:
    for value in hostile_floats(f16, 3000).tolist():
        if not math.isnan(value):
            with np.errstate(over="ignore"):
                assert nearest(value, f16) == int(np.float16(value).view(np.uint16)), value
    assert [nearest(1.0, bf16), nearest(-(2.0**-133), bf16)] == [0x3F80, 0x8001]
    assert [nearest(1 + 2.0**-8, bf16), nearest(1 + 3 * 2.0**-8, bf16)] == [0x3F80, 0x3F82]
    assert nearest(3.4e38, bf16) == 0x7F80


def packing(element: Type) -> KernelDefinition:
    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        return [(k.pack_f16 if element is f16 else k.pack_bf16)(*operands)]

    return elementwise("packing", [f32, f32], [u32], compute)


def unpacking(element: Type) -> KernelDefinition:
    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        return list((k.unpack_f16 if element is f16 else k.unpack_bf16)(operands[0]))

    return elementwise("unpacking", [u32], [f32, f32], compute)


@pytest.mark.parametrize("machine", [MANY, NATIVE], ids=["made of ops", "instructions"])
@pytest.mark.parametrize("element", HALVES, ids=str)
def test_rounding(element: Type, machine: Machine) -> None:
    low = hostile_floats(element, 4096)
    high = low[::-1].copy()
    packed = np.zeros(4096, np.uint32)
    interpret(packing(element).trace(machine), 4, [low, high, packed])
    wanted = [nearest(value, element) for value in low.tolist()]
    assert (packed & 0xFFFF).tolist() == wanted
    assert (packed >> 16).tolist() == wanted[::-1]


@pytest.mark.parametrize("element", HALVES, ids=str)
def test_packing_on_every_executor(element: Type) -> None:
    low = hostile_floats(element, 1024)
    arguments = [low, np.roll(low, 1), np.zeros(1024, np.uint32)]
    (_, _, packed) = run_everywhere(packing(element), 128, arguments, lowered=True)
    assert (packed & 0xFFFF).tolist() == [nearest(value, element) for value in low.tolist()]


def same_floats(actual: Array, wanted: Array) -> bool:
    missing = np.isnan(wanted)
    same = actual.view(np.uint32) == wanted.view(np.uint32)
    return bool(np.where(missing, np.isnan(actual), same).all())


@pytest.mark.parametrize("machine", [MANY, NATIVE], ids=["made of ops", "instructions"])
@pytest.mark.parametrize("element", HALVES, ids=str)
def test_every_value(element: Type, machine: Machine) -> None:
    bits = np.arange(1 << 16, dtype=np.uint32)
    low, high = np.zeros(1 << 16, np.float32), np.zeros(1 << 16, np.float32)
    words = bits | bits[::-1] << np.uint32(16)
    interpret(unpacking(element).trace(machine), 64, [words, low, high])
    wanted = np.array([value_of(b, element) for b in range(1 << 16)], np.float32)
    assert same_floats(low, wanted)
    assert same_floats(high, wanted[::-1].copy())


@pytest.mark.parametrize("element", HALVES, ids=str)
def test_unpacking_on_every_executor(element: Type) -> None:
    # Without NaN, whose bits are nobody's.
    finite = [b for b in range(0, 1 << 16, 53) if not math.isnan(value_of(b, element))]
    bits = np.resize(np.array([0, 1, 0x3FF, 0x400, 0x8001, *finite], np.uint32), 1024)
    arguments = [
        bits | bits[::-1] << np.uint32(16),
        *(np.zeros(1024, np.float32) for _ in range(2)),
    ]
    (_, low, _) = run_everywhere(unpacking(element), 128, arguments, lowered=True)
    assert same_floats(low, np.array([value_of(b, element) for b in bits.tolist()], np.float32))


# --- in memory

EACH = 3
"""Elements an instance: places are odd."""


def in_memory(element: Type, *, shared: bool = True) -> KernelDefinition:
    """Takes elements through all kinds of memory, at odd places, and changes them on the way."""

    def moved(k: Builder, n: Value, x: Value, y: Value, loaded: Value) -> None:
        private = k.private(element, EACH)
        room = k.shared(element, EACH * k.workgroup_size) if shared else y
        i = k.global_id() * EACH
        lane = k.local_id() * EACH if shared else i
        with k.if_(k.global_id() < n):
            values = k.load(x, i, EACH)
            k.store(loaded, i, *values)
            k.store(room, lane, *values)
            with k.range(0, EACH) as loop:
                private[loop.index] = room[lane + loop.index] * 1.25
            for at in range(EACH):
                y[i + EACH - 1 - at] = private[at] + 1.0

    memory = pointer(element)
    parameters = {"n": u32, "x": memory, "y": memory, "loaded": pointer(f32)}
    return KernelDefinition("moved", moved, parameters, Location(__file__, 1))


def contents(element: Type, count: int) -> Array:
    """Bits of numbers that stay finite here."""
    some = np.random.default_rng(9).normal(0, 3, count).astype(np.float32)
    return np.array([nearest(value, element) for value in some.tolist()], np.uint16)


def expected_of(element: Type, bits: Array, n: int) -> tuple[Array, Array]:
    values = np.array([value_of(b, element) for b in bits.tolist()], np.float32)
    scaled = [nearest(v, element) for v in (values * np.float32(1.25)).tolist()]
    raised = np.array([value_of(b, element) for b in scaled], np.float32) + np.float32(1)
    rows = np.array([nearest(v, element) for v in raised.tolist()], np.uint16).reshape(-1, EACH)
    y, loaded = np.zeros_like(bits), np.zeros(len(bits), np.float32)
    y.reshape(-1, EACH)[:n] = rows[:n, ::-1]
    loaded[: EACH * n] = values[: EACH * n]
    return y, loaded


def as_elements(bits: Array, element: Type) -> Array:
    return bits.view(np.float16) if element is f16 else bits


@pytest.mark.parametrize("element", HALVES, ids=str)
def test_conversions_on_every_executor(element: Type) -> None:
    count, n = 32, 29
    bits = contents(element, EACH * count)
    y, loaded = expected_of(element, bits, n)
    x = as_elements(bits, element)
    arguments = [n, x, np.zeros_like(x), np.zeros_like(loaded)]
    # A store to part of a word reads the rest, which WGSL sets and the interpreter does not.
    for shared in (True, False):
        definition = in_memory(element, shared=shared)
        outputs = run_everywhere(definition, count // 8, arguments, lowered=not shared)
        assert np.array_equal(outputs[1].view(np.uint16), y)
        assert np.array_equal(outputs[2], loaded)


@pytest.mark.parametrize("element", HALVES, ids=str)
def test_conversions_on_a_device(device: AnyDevice, element: Type) -> None:
    compiled = device.compile(in_memory(element))
    count = 2 * compiled.lanes
    bits = contents(element, EACH * count)
    y, loaded = expected_of(element, bits, count - 1)
    x = as_elements(bits, element)
    buffers = [device.upload(a) for a in (x, np.zeros_like(x), np.zeros_like(loaded))]
    device.launch(compiled, 2, count - 1, *buffers)
    downloaded, found_wide = np.empty_like(x), np.empty_like(loaded)
    device.download(buffers[1], downloaded)
    device.download(buffers[2], found_wide)
    assert np.array_equal(downloaded.view(np.uint16), y)
    assert np.array_equal(found_wide, loaded)


@pytest.mark.parametrize("driver", DRIVERS)
def test_conversions_on_wgsl_drivers(driver: str) -> None:
    try:
        wgsl_runner = runner(driver)
    except DriverError as error:
        need(str(error), "" if driver == "gpu" else "QUOD_TEST_DRIVERS")
        raise
    machine = PORTABLE.machine(64)
    for element in HALVES:
        low = hostile_floats(element, 1024)
        # A driver may take a subnormal f32 for zero, and any NaN for another number.
        low = np.where(np.isnan(low) | (np.abs(low) < 2.0**-126), np.float32(1), low)
        arguments = [low, low[::-1].copy(), np.zeros(1024, np.uint32)]
        wgsl_runner.run(packing(element).trace(machine), machine, 16, arguments)
        wanted = [nearest(value, element) for value in low.tolist()]
        assert (arguments[2] & 0xFFFF).tolist() == wanted


# --- what is written


def test_ptx_instructions() -> None:
    machine = ptx_machine(64)
    text = ptx.emit(packing(f16).trace(machine), machine)
    assert text.count("cvt.rn.f16x2.f32") == 1
    assert assemble(text, "sm_90a")
    text = ptx.emit(unpacking(f16).trace(machine), machine)
    assert text.count("cvt.f32.f16") == 2
    assert assemble(text, "sm_90a")
    text = ptx.emit(packing(bf16).trace(machine), machine)
    assert text.count("cvt.rn.bf16x2.f32") == 1
    assert assemble(text, "sm_90a")


@pytest.mark.parametrize("element", HALVES, ids=str)
def test_old_gpus_emulate_conversions_with_integers(element: Type) -> None:
    machine = ptx_machine(64, "sm_75")
    text = ptx.emit(in_memory(element).trace(machine), machine)
    assert "16x2" not in text
    assert assemble(text, "sm_75")


def test_llvm_uses_cpu_conversion_instructions() -> None:
    native = Machine("llvm", 8, frozenset({"u64", "f16"}))
    assert "fptrunc <8 x float>" in llvm.emit(packing(f16).trace(native), native)
    assert "half" not in llvm.emit(packing(f16).trace(EIGHT), EIGHT)
    device = CpuDevice(threads=1)
    assert device.machine(8).has("f16") == host_processor().has_f16


def test_emitted_wgsl_is_valid(tint: Tint, naga: Callable[[str], list[str]]) -> None:
    machine = PORTABLE.machine(64)
    text = wgsl.translate(in_memory(f16).trace(machine), machine, dialect="tint").text
    assert tint.errors(text) == naga(text) == []


# --- what is refused


def test_invalid_operands_are_rejected() -> None:
    def number(k: Builder, y: Pointer[F32]) -> None:
        y[0].cast(f16)  # here

    def stored(k: Builder, y: Pointer[F32]) -> None:
        k.store(y.cast(bf16), 0, k.constant(1, u32))  # here

    def fixed(k: Builder, y: Pointer[F32]) -> None:
        k.constant(1.0, f16)  # here

    def tabled(k: Builder, y: Pointer[F32]) -> None:
        k.table(f16, [0.5])  # here

    for body, message in (
        (number, "cannot convert f32 to f16"),
        (stored, "an f32 is stored here, not a u32; convert it with value.cast(type)"),
        (fixed, "there are no constants of type f16"),
        (tabled, "there are no tables of f16; make one of f32"),
    ):
        refuses(body, TraceError, message)


def test_verification() -> None:
    head = "kernel @k(%x: ptr<f16, global>, %n: u32, %a: f32) workgroup 8 shared 0 {\n"
    for body in ("%0: f32 = load %x, %n", "store %x, %n, %a"):
        with pytest.raises(VerificationFailure, match="f16 is in memory as u16"):
            verify(parse(f"{head}{body}\nyield\n}}"), EIGHT)


@pytest.mark.parametrize(
    ("element", "dtype"), [(f16, np.uint16), (f16, np.float32), (bf16, np.float16), (bf16, "u4")]
)
def test_arrays_of_other_types_are_refused(element: Type, dtype: Any) -> None:
    device = CpuDevice(threads=1)
    x = np.zeros(EACH * 8, dtype)
    good = as_elements(np.zeros(EACH * 8, np.uint16), element)
    compiled = device.compile(in_memory(element))
    with pytest.raises(DeviceError, match=f"argument x of kernel moved .* elements are {element}"):
        device.launch(compiled, 1, 1, x, good, np.zeros(EACH * 8, np.float32))
