"""Memory of each instance alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.lower import lower
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
    kernel,
    u32,
    u64,
)  # fmt: skip
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter import interpret
from quod.kernel.parse import parse
from quod.kernel.text import to_text
from quod.kernel.verify import verify
from tests.conftest import need
from tests.kernel.refusals import refuses
from tests.tint import Tint
from tests.wgsl_runner import DRIVERS, DriverError, runner

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
    """What `turn` is given, and what it should store."""
    source = np.random.default_rng(7)
    x = source.integers(0, 1 << 63, 2 * LANES * LENGTH, np.uint64)
    places = np.concatenate([source.permutation(LENGTH) for _ in range(2 * LANES)])
    expected = np.empty_like(x)
    for lane in range(2 * LANES):
        own = slice(lane * LENGTH, (lane + 1) * LENGTH)
        expected[own][places[own]] = x[own] + (np.uint64(lane) << np.uint64(40))
    return [x, places.astype(np.uint32), np.zeros_like(x)], expected


def test_each_instance_has_its_own() -> None:
    traced = turn.trace(MACHINE)
    given, expected = arguments()
    interpret(traced, 2, given)
    assert np.array_equal(given[2], expected)
    given, _ = arguments()
    words = [array.view(np.uint32) for array in given]
    interpret(lower(traced, MACHINE).kernel, 2, words)
    assert np.array_equal(given[2], expected)


@pytest.mark.parametrize("driver", DRIVERS)
def test_on_drivers(driver: str) -> None:
    try:
        found = runner(driver)
    except DriverError as error:
        need(str(error), "" if driver == "gpu" else "QUOD_TEST_DRIVERS")
        raise
    for target in found.strengths.values():
        given, expected = arguments()
        machine = target.machine(LANES)
        found.run(turn.trace(machine), machine, 2, given)
        assert np.array_equal(given[2], expected)


def test_written(tint: Tint, naga: Callable[[str], list[str]]) -> None:
    text = wgsl.translate(turn.trace(MACHINE), MACHINE, dialect="tint").text
    assert f"var<private> private0: array<u32, {2 * (LENGTH + 1)}>;" in text
    # A function knows where memory begins that it is given whole.
    assert f"private0[{2 * LENGTH}u]" in text
    assert tint.errors(text) == naga(text) == []


def test_text() -> None:
    traced = turn.trace(MACHINE)
    again = parse(to_text(traced))
    verify(again, MACHINE)
    assert to_text(again) == to_text(traced)


def test_unset() -> None:
    @kernel
    def unset(k: Builder, y: Pointer[U32]) -> None:
        room = k.private(u32, 3)
        with k.if_(k.local_id() != 5):
            room[1] = k.local_id()
        y[k.local_id()] = room[1]

    message = r"instance 5 of workgroup 0 loads from the private memory of line .* what was not set"
    with pytest.raises(InterpreterError, match=message):
        interpret(unset.trace(MACHINE), 1, [np.zeros(8, np.uint32)])


def test_outside() -> None:
    @kernel
    def outside(k: Builder, y: Pointer[U32]) -> None:
        k.private(u32, 3)[k.local_id()] = 1

    with pytest.raises(InterpreterError, match=r"instance 3 .* stores to element 3"):
        interpret(outside.trace(MACHINE), 1, [np.zeros(8, np.uint32)])


def test_refusals() -> None:
    def elsewhere(k: Builder, y: Pointer[U32]) -> None:
        k.private(u32, 3)  # here

    def inside(k: Builder, y: Pointer[U32]) -> None:
        with k.if_(y[0] == 0):
            k.private(u32, 3)  # here

    def nothing(k: Builder, y: Pointer[U32]) -> None:
        k.private(u32, 0)  # here

    for body, message, machine in (
        (elsewhere, "kernels for llvm have no private memory", Machine("llvm", 8, frozenset())),
        (
            inside,
            "private memory is declared at the top of a kernel, outside any region or function",
            MACHINE,
        ),
        (nothing, "private memory holds at least one element, not 0", MACHINE),
    ):
        refuses(body, TraceError, message, machine=machine)


def test_verification() -> None:
    head = "kernel @k(%b: bool) workgroup 8 shared 0 {\n"
    own = "%0: ptr<u32, private> = private 4\n"
    kernel_of_it = parse(f"{head}{own}yield\n}}")
    verify(kernel_of_it, MACHINE)
    with pytest.raises(VerificationFailure, match="kernels for ptx have no private memory"):
        verify(kernel_of_it, Machine("ptx", 8, frozenset()))
    wrong = {
        "%0: ptr<u32, shared> = private 4\n": "private gives a pointer to private memory, not",
        "%0: ptr<u32, private> = private 0\n": "private memory holds at least one element, not 0",
        f"if %b {{\n{own}yield\n}} else {{\nyield\n}}\n": "private memory is declared at the top",
    }
    for body, message in wrong.items():
        with pytest.raises(VerificationFailure, match=message):
            verify(parse(f"{head}{body}yield\n}}"), MACHINE)
