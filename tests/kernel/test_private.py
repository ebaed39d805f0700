"""Private memory of each instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.codegen.llvm.private_arrays import interleaved_arrays
from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.lowering import lower
from quod.codegen.wgsl.machine import PORTABLE
from quod.kernel import (
    U32,
    U64,
    Builder,
    Machine,
    Pointer,
    TraceError,
    Value,
    VerificationFailure,
    f32,
    kernel,
    u8,
    u16,
    u32,
    u64,
)  # fmt: skip
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.parse import parse
from quod.kernel.ir.text import to_text
from quod.kernel.verifier.verify import verify
from tests.conftest import need
from tests.kernel.refusals import refuses
from tests.support.executors import run_everywhere
from tests.support.ptx_assembler import assemble
from tests.support.tint import Tint
from tests.support.wgsl_runner import DRIVERS, DriverError, runner

MACHINE = PORTABLE.machine(8)
LANES, LENGTH = 8, 7


@kernel
def turn(k: Builder, x: Pointer[U64], places: Pointer[U32], y: Pointer[U64]) -> None:
    """Each instance puts its numbers where indices say, and takes them back through a function."""
    room = k.private(u64, LENGTH + 1)
    lane = k.global_id()

    def taken(builder: Builder, memory: Value, place: Value) -> Value:
        return memory[place] + memory[LENGTH]

    room[LENGTH] = lane.cast(u64) << 40
    with k.range(0, LENGTH) as loop:
        at = lane * LENGTH + loop.index
        room[places[at]] = x[at]
    with k.range(0, LENGTH) as loop:
        y[lane * LENGTH + loop.index] = k.call("taken", taken, room, loop.index)


def arguments() -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Return the arguments of `turn`, and the array that it should store."""
    source = np.random.default_rng(7)
    x = source.integers(0, 1 << 63, 2 * LANES * LENGTH, np.uint64)
    places = np.concatenate([source.permutation(LENGTH) for _ in range(2 * LANES)])
    expected = np.empty_like(x)
    for lane in range(2 * LANES):
        span = slice(lane * LENGTH, (lane + 1) * LENGTH)
        expected[span][places[span]] = x[span] + (np.uint64(lane) << np.uint64(40))
    return [x, places.astype(np.uint32), np.zeros_like(x)], expected


def test_private_memory_is_per_instance() -> None:
    traced = turn.trace(MACHINE)
    arrays, expected = arguments()
    interpret(traced, 2, arrays)
    assert np.array_equal(arrays[2], expected)
    arrays, _ = arguments()
    words = [array.view(np.uint32) for array in arrays]
    interpret(lower(traced, MACHINE).kernel, 2, words)
    assert np.array_equal(arrays[2], expected)


def test_private_memory_on_every_executor() -> None:
    arrays, expected = arguments()
    outputs = run_everywhere(turn, 2, arrays, lowered=True)
    assert np.array_equal(outputs[2], expected)


@kernel
def narrow(k: Builder, n: U32, x: Pointer[U32], y: Pointer[U32]) -> None:
    """Bytes, halves and floats of an instance's own, some of which inactive instances would set."""
    octets, halves, floats = k.private(u8, 9), k.private(u16, 4), k.private(f32, 3)
    i = k.global_id()
    with k.range(0, 4) as loop:
        octets[loop.index] = x[i] >> (loop.index * 8)
        halves[loop.index] = x[i] >> (loop.index * 4)
        floats[loop.index % 3] = x[i].cast(f32)
    with k.if_(i < n):
        octets[0] = k.constant(7, u32)
        halves[x[i] % 4] = i
    y[i] = octets[x[i] % 4] + octets[0] + halves[3] + k.bitcast(floats[x[i] % 3], u32)


def test_narrow_elements_on_every_executor() -> None:
    x = np.random.default_rng(3).integers(0, 1 << 32, 32, np.uint32)
    (_, words) = run_everywhere(narrow, 4, [13, x, np.zeros_like(x)], lowered=True)
    for i, (value, result) in enumerate(zip(x.tolist(), words.tolist(), strict=True)):
        octets = [value >> 8 * at & 255 for at in range(4)]
        halves = [value >> 4 * at & 0xFFFF for at in range(4)]
        if i < 13:
            octets[0], halves[value % 4] = 7, i
        bits = int(np.float32(value).view(np.uint32))
        assert result == (octets[value % 4] + octets[0] + halves[3] + bits) % (1 << 32)


@kernel
def accumulate(k: Builder, x: Pointer[U64], y: Pointer[U64]) -> None:
    """Arrays that only loads and stores use, with uniform and varying indices, under a mask."""
    i = k.global_id()
    sums, last = k.private(u64, 4), k.private(u64, 2)
    for index in range(4):
        sums[index] = i.cast(u64)
    with k.range(0, 8) as loop:
        value = x[i * 8 + loop.index]
        with k.if_((value & 1) != 0):
            # Lanes whose value is even keep their elements.
            sums[loop.index % 4] = sums[loop.index % 4] + value
            k.store(last, 0, value, loop.index.cast(u64))
        with k.if_((value & 2) != 0):
            place = (value >> 2).cast(u32) % 4
            sums[place] = sums[place] ^ value
    pair = k.load(last, 0, 2)
    y[i] = sums[0] + 3 * sums[1] + 5 * sums[2] + 7 * sums[3] + k.select(i < 3, pair[0], pair[1])


def test_interleaved_arrays_on_every_executor() -> None:
    x = np.random.default_rng(5).integers(0, 1 << 62, (32, 8), np.uint64)
    x[:, 0] |= 1
    (_, words) = run_everywhere(accumulate, 4, [x.reshape(-1), np.zeros(32, np.uint64)])
    for lane, row in enumerate(x.tolist()):
        sums, last = [lane] * 4, (0, 0)
        for step, value in enumerate(row):
            if value & 1:
                sums[step % 4] += value
                last = value, step
            if value & 2:
                sums[(value >> 2) % 4] ^= value
        total = sum(f * s for f, s in zip((1, 3, 5, 7), sums, strict=True))
        assert int(words[lane]) == (total + last[lane >= 3]) % (1 << 64)


def test_only_arrays_of_loads_and_stores_are_interleaved() -> None:
    """`turn` passes its array to a function."""
    for definition, count in ((accumulate, 2), (turn, 0), (narrow, 3)):
        assert len(interleaved_arrays(definition.trace(MACHINE).block)) == count


def test_private_memory_in_ptx() -> None:
    machine = ptx_machine(64)
    text = ptx.emit(turn.trace(machine), machine)
    assert f"  .local .align 16 .b8 private0[{8 * (LENGTH + 1)}];" in text
    assert assemble(text, "sm_90a")
    assert assemble(ptx.emit(narrow.trace(machine), machine), "sm_90a")


@pytest.mark.parametrize("driver", DRIVERS)
def test_private_memory_on_wgsl_drivers(driver: str) -> None:
    try:
        wgsl_runner = runner(driver)
    except DriverError as error:
        need(str(error), "" if driver == "gpu" else "QUOD_TEST_DRIVERS")
        raise
    for target in wgsl_runner.strengths.values():
        arrays, expected = arguments()
        machine = target.machine(LANES)
        wgsl_runner.run(turn.trace(machine), machine, 2, arrays)
        assert np.array_equal(arrays[2], expected)


def test_emitted_wgsl_is_valid(tint: Tint, naga: Callable[[str], list[str]]) -> None:
    text = wgsl.translate(turn.trace(MACHINE), MACHINE, dialect="tint").text
    assert f"var<private> private0: array<u32, {2 * (LENGTH + 1)}>;" in text
    # A function knows where memory begins that it is given whole.
    assert f"private0[{2 * LENGTH}u]" in text
    assert tint.errors(text) == naga(text) == []


def test_text_round_trips() -> None:
    traced = turn.trace(MACHINE)
    again = parse(to_text(traced))
    verify(again, MACHINE)
    assert to_text(again) == to_text(traced)


def test_unset_private_memory_is_reported() -> None:
    @kernel
    def unset(k: Builder, y: Pointer[U32]) -> None:
        room = k.private(u32, 3)
        with k.if_(k.local_id() != 5):
            room[1] = k.local_id()
        y[k.local_id()] = room[1]

    message = r"instance 5 of workgroup 0 loads from the private memory of line .* what was not set"
    with pytest.raises(InterpreterError, match=message):
        interpret(unset.trace(MACHINE), 1, [np.zeros(8, np.uint32)])


def test_out_of_bounds_access_is_reported() -> None:
    @kernel
    def outside(k: Builder, y: Pointer[U32]) -> None:
        k.private(u32, 3)[k.local_id()] = 1

    with pytest.raises(InterpreterError, match=r"instance 3 .* stores to element 3"):
        interpret(outside.trace(MACHINE), 1, [np.zeros(8, np.uint32)])


def test_invalid_private_memory_is_rejected() -> None:
    def too_much(k: Builder, y: Pointer[U32]) -> None:
        k.private(u32, 2000)
        k.private(u32, 49)  # here

    def inside(k: Builder, y: Pointer[U32]) -> None:
        with k.if_(y[0] == 0):
            k.private(u32, 3)  # here

    def nothing(k: Builder, y: Pointer[U32]) -> None:
        k.private(u32, 0)  # here

    for body, message in (
        (
            inside,
            "private memory is declared at the top of a kernel, outside any region or function",
        ),
        (nothing, "private memory holds at least one element, not 0"),
    ):
        refuses(body, TraceError, message)
    refuses(
        too_much, VerificationFailure,
        "the kernel needs 8196 bytes of private memory, and an instance has 8192; take shared or "
        "global memory",
    )  # fmt: skip


def test_verification() -> None:
    head = "kernel @k(%b: bool) workgroup 8 shared 0 {\n"
    array = "%0: ptr<u32, private> = private 4\n"
    kernel_of_it = parse(f"{head}{array}yield\n}}")
    verify(kernel_of_it, MACHINE)
    verify(kernel_of_it, Machine("ptx", 8, frozenset()))
    wrong = {
        "%0: ptr<u32, shared> = private 4\n": "private gives a pointer to private memory, not",
        "%0: ptr<u32, private> = private 0\n": "private memory holds at least one element, not 0",
        f"if %b {{\n{array}yield\n}} else {{\nyield\n}}\n": "private memory is declared at the top",
    }
    for body, message in wrong.items():
        with pytest.raises(VerificationFailure, match=message):
            verify(parse(f"{head}{body}yield\n}}"), MACHINE)
