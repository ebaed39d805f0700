"""Integers of 8 and 16 bits in memory: loads extend them, signed ones by their sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.codegen.llvm import emitter as llvm
from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.machine import PORTABLE
from quod.device import CpuDevice
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError
from quod.kernel import (
    I16,
    I32,
    U32,
    Builder,
    KernelDefinition,
    Location,
    Pointer,
    TraceError,
    Type,
    Value,
    VerificationFailure,
    i8,
    i16,
    i32,
    kernel,
    pointer,
    u8,
    u16,
    u32,
)
from quod.kernel.ir.parse import parse
from quod.kernel.ir.text import to_text
from quod.kernel.ir.types import loaded_type
from quod.kernel.ops.semantics import NUMPY_TYPES
from quod.kernel.verifier.verify import verify
from tests.conftest import need
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import refuses
from tests.support.executors import run_everywhere
from tests.support.ptx_assembler import assemble
from tests.support.tint import Tint
from tests.support.wgsl_runner import DRIVERS, DriverError, runner

Array = np.ndarray[Any, Any]

NARROW = [u8, u16, i8, i16]
EACH = 3
"""Elements an instance: places are odd."""


def hostile(element: Type, count: int) -> Array:
    """The ends of the type and what is beside them, then any bits."""
    dtype = np.dtype(NUMPY_TYPES[element])
    ends = np.array([-1, 0, 1, 127, -128, 128, 255, 32767, -32768, -129], np.int64).astype(dtype)
    return np.resize(np.concatenate([ends, hostile_bits(dtype, count)]), count)


def hostile_bits(dtype: np.dtype[Any], count: int) -> Array:
    return np.frombuffer(np.random.default_rng(5).bytes(count * dtype.itemsize), dtype)


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
                private[loop.index] = room[lane + loop.index] + 1
            # What does not fit loses its upper bits; what comes back is extended again.
            for at in range(EACH):
                y[i + EACH - 1 - at] = private[at] * 3 - 1000

    narrow = pointer(element)
    parameters = {"n": u32, "x": narrow, "y": narrow, "loaded": pointer(loaded_type(element))}
    return KernelDefinition("moved", moved, parameters, Location(__file__, 1))


def expected_of(element: Type, x: Array, n: int) -> tuple[Array, Array]:
    """Return the y and loaded that `in_memory` leaves, of zeros."""
    dtype, wide = x.dtype, np.dtype(NUMPY_TYPES[loaded_type(element)])
    rows = x.reshape(-1, EACH)[:n].astype(np.int64)
    bumped = (rows + 1).astype(dtype).astype(np.int64)
    y, loaded = np.zeros_like(x), np.zeros(len(x), wide)
    y.reshape(-1, EACH)[:n] = (bumped * 3 - 1000).astype(dtype)[:, ::-1]
    loaded.reshape(-1, EACH)[:n] = rows.astype(wide)
    return y, loaded


@pytest.mark.parametrize("element", NARROW, ids=str)
def test_conversions_on_every_executor(element: Type) -> None:
    count, n = 32, 29
    x = hostile(element, EACH * count)
    y, loaded = expected_of(element, x, n)
    arguments = [n, x, np.zeros_like(x), np.zeros_like(loaded)]
    # A store to part of a word reads the rest, which WGSL sets and the interpreter does not.
    for shared in (True, False):
        definition = in_memory(element, shared=shared)
        outputs = run_everywhere(definition, count // 8, arguments, lowered=not shared)
        assert np.array_equal(outputs[1], y)
        assert np.array_equal(outputs[2], loaded)
    if element.kind == "signed":
        assert outputs[2].min() == np.iinfo(x.dtype).min
        assert outputs[2].max() == np.iinfo(x.dtype).max


@kernel
def counted(k: Builder, n: U32, x: Pointer[I16], y: Pointer[I32]) -> None:
    """One element a lane: what vectors load side by side, and what inactive lanes leave."""
    i = k.global_id()
    with k.if_(i < n):
        y[i] = x[i] // 2
        x[i] = -x[i]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 31])
def test_adjacent_narrow_elements_keep_their_values(n: int) -> None:
    x = hostile(i16, 32)
    outputs = run_everywhere(counted, 4, [n, x, np.zeros(32, np.int32)], lowered=True)
    wanted = np.where(np.arange(32) < n, x.astype(np.int32) // 2, 0)
    assert np.array_equal(outputs[1], wanted)
    turned = np.concatenate([-x[:n].astype(np.int32), x[n:]]).astype(np.int16)
    assert np.array_equal(outputs[0], turned)


LEAST = [-128, 127, -1, 0, 5, -7, 1]


@kernel
def tables(k: Builder, y: Pointer[I32]) -> None:
    octets, halves = k.table(i8, LEAST), k.table(i16, [n * 256 for n in LEAST])
    i = k.global_id()
    y[i] = octets[i % len(LEAST)] + halves[(i * 3) % len(LEAST)]


def test_tables_on_every_executor() -> None:
    (words,) = run_everywhere(tables, 2, [np.zeros(16, np.int32)], lowered=True)
    assert words.tolist() == [LEAST[i % 7] + 256 * LEAST[3 * i % 7] for i in range(16)]


# --- devices, from arrays of NumPy


def run_on(device: AnyDevice, element: Type) -> None:
    kernel_of_it = device.compile(in_memory(element))
    lanes = kernel_of_it.lanes
    count, n = 2 * lanes, 2 * lanes - 1
    x = hostile(element, EACH * count)
    y, loaded = expected_of(element, x, n)
    buffers = [device.upload(x), device.upload(np.zeros_like(x))]
    wide = device.upload(np.zeros_like(loaded))
    assert buffers[0].dtype == x.dtype
    device.launch(kernel_of_it, 2, n, *buffers, wide)
    downloaded, found_wide = np.empty_like(x), np.empty_like(loaded)
    device.download(buffers[1], downloaded)
    device.download(wide, found_wide)
    assert np.array_equal(downloaded, y)
    assert np.array_equal(found_wide, loaded)


@pytest.mark.parametrize("element", [i8, i16], ids=str)
def test_conversions_on_gpus(gpu_device: AnyDevice, element: Type) -> None:
    run_on(gpu_device, element)


@pytest.mark.parametrize("element", [i8, i16], ids=str)
def test_conversions_on_cpus(device: AnyDevice, element: Type) -> None:
    run_on(device, element)


@pytest.mark.parametrize("start", [0, 1, 3])
def test_byte_arrays_may_be_unaligned(start: int) -> None:
    device = CpuDevice(threads=1)
    kernel_of_it = device.compile(in_memory(i8))
    count = kernel_of_it.lanes
    x = hostile(i8, EACH * count + 3)[start : start + EACH * count]
    y, loaded = expected_of(i8, x, count)
    room = np.full(len(x) + 8, 99, np.int8)
    unaligned, wide = room[start + 1 : start + 1 + len(x)], np.zeros_like(loaded)
    device.launch(kernel_of_it, 1, count, x, unaligned, wide)
    assert np.array_equal(unaligned, y)
    assert np.array_equal(wide, loaded)
    assert (room[: start + 1] == 99).all()
    assert (room[start + 1 + len(x) :] == 99).all()
    with pytest.raises(DeviceError, match="argument x of kernel moved is an array of float32"):
        device.launch(kernel_of_it, 1, count, x.astype(np.float32), unaligned, wide)


@pytest.mark.parametrize("driver", DRIVERS)
def test_conversions_on_wgsl_drivers(driver: str) -> None:
    try:
        wgsl_runner = runner(driver)
    except DriverError as error:
        need(str(error), "" if driver == "gpu" else "QUOD_TEST_DRIVERS")
        raise
    for element in (i8, i16):
        machine = PORTABLE.machine(8)
        x = hostile(element, EACH * 8)
        y, loaded = expected_of(element, x, 7)
        arguments = [7, x, np.zeros_like(x), np.zeros_like(loaded)]
        wgsl_runner.run(in_memory(element).trace(machine), machine, 1, arguments)
        assert np.array_equal(arguments[2], y)
        assert np.array_equal(arguments[3], loaded)


# --- what is written


def test_emitted_wgsl_is_valid(tint: Tint, naga: Callable[[str], list[str]]) -> None:
    machine = PORTABLE.machine(64)
    text = wgsl.translate(in_memory(i8).trace(machine), machine, dialect="tint").text
    assert tint.errors(text) == naga(text) == []


@pytest.mark.parametrize("element", [i8, i16], ids=str)
def test_ptx_sign_extends(element: Type) -> None:
    machine = ptx_machine(64)
    text = ptx.emit(in_memory(element).trace(machine), machine)
    for space in ("global", "shared", "local"):
        assert f"ld.{space}.s{element.bits} " in text
    assert f"ld.global.u{element.bits} " not in text
    assert assemble(text, "sm_90a")


def test_llvm_sign_extends() -> None:
    text = llvm.emit(in_memory(i8).trace(EIGHT), EIGHT)
    assert "sext <8 x i8>" in text
    assert "zext <8 x i8>" not in text
    assert "zext <8 x i8>" in llvm.emit(in_memory(u8).trace(EIGHT), EIGHT)


def test_text_round_trips() -> None:
    traced = in_memory(i16).trace(EIGHT)
    again = parse(to_text(traced))
    verify(again, EIGHT)
    assert to_text(again) == to_text(traced)


# --- what is refused


def test_invalid_operands_are_rejected() -> None:
    def number(k: Builder, y: Pointer[I32]) -> None:
        y[0].cast(i8)  # here

    def stored(k: Builder, y: Pointer[I32]) -> None:
        k.store(y.cast(i16), 0, k.constant(1, u32))  # here

    def adds(k: Builder, y: Pointer[I32]) -> None:
        k.atomic_add(y.cast(i8), 0, 1)  # here

    def fixed(k: Builder, y: Pointer[I32]) -> None:
        k.constant(1, i16)  # here

    def large(k: Builder, y: Pointer[I32]) -> None:
        k.table(i8, [-128, 128])  # here

    for body, message in (
        (number, "cannot convert i32 to i8"),
        (stored, "an i32 is stored here, not a u32; convert it with value.cast(type)"),
        (adds, "atomic_add works on u32 and u64, not on i8"),
        (fixed, "there are no constants of type i16"),
        (large, "128 does not fit i8"),
    ):
        refuses(body, TraceError, message)


def test_verification() -> None:
    head = "kernel @k(%x: ptr<i8, global>, %n: u32) workgroup 8 shared 0 {\n"
    loaded = parse(f"{head}%0: i32 = load %x, %n\nyield\n}}")
    verify(loaded, EIGHT)
    with pytest.raises(VerificationFailure, match="gives i32, not"):
        verify(parse(f"{head}%0: u32 = load %x, %n\nyield\n}}"), EIGHT)
    assert (loaded_type(i8), loaded_type(i16), loaded_type(u8)) == (i32, i32, u32)
