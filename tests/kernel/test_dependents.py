"""Kernels that overlap with earlier launches: rules, and emitted code."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest

from quod.codegen.pointers import pointer_uses
from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.interpreter import interpret_ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.field import Element, ElementOf
from quod.field.moduli import BN254_FR as FR
from quod.kernel import (
    F32,
    U32,
    U64,
    Builder,
    KernelDefinition,
    Pointer,
    Value,
    function,
    kernel,
    u32,
)
from quod.kernel.errors import InterpreterError, TraceError, VerificationFailure
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.parse import ParseError, parse
from quod.kernel.ir.text import to_text
from quod.kernel.verifier.verify import verify
from tests.kernel.refusals import line_of
from tests.support.ptx_assembler import ARCHITECTURES, assemble, sass

WIDTH = 32
MACHINE = ptx_machine(WIDTH)


@kernel(constant="w")
def weighted(k: Builder, n: U32, w: Pointer[U32], x: Pointer[U32], y: Pointer[U32]) -> None:
    """y[i] = w[i] x[i], where w is asked for before the launches before have ended."""
    i = k.global_id()
    with k.if_(i < n) as branch:
        branch.yield_(w[i])
    with branch.otherwise():
        branch.yield_(k.constant(0, u32))
    k.launch_dependents()
    k.dependency_wait()
    with k.if_(i < n):
        y[i] = branch.results * x[i]


def traced(body: Callable[[Builder, Value, Value], None]) -> KernelDefinition:
    """A kernel of two arrays of which `w` is constant."""

    def made(k: Builder, w: Pointer[U32], x: Pointer[U32]) -> None:
        body(k, w, x)

    return kernel(constant=("w",))(made)


# --- what is right


@function
def wait_in_a_function(k: Builder, value: Value) -> Value:
    k.dependency_wait()
    return value


@function
def load_in_a_function(k: Builder, pointer: Value) -> Value:
    return pointer[0]


def in_a_function(k: Builder, w: Value, x: Value) -> None:
    x[k.local_id()] = wait_in_a_function(k, load_in_a_function(k, w)) + x[k.local_id()]


def on_both_sides(k: Builder, w: Value, x: Value) -> None:
    with k.if_(k.workgroup_id() < 1) as branch:
        k.dependency_wait()
        x[0] = w[0]
    with branch.otherwise():
        k.dependency_wait()
    x[1] = w[1]


def before_a_loop_is_left(k: Builder, w: Value, x: Value) -> None:
    with k.while_(k.constant(0, u32)) as loop:
        k.dependency_wait()
        loop.check(loop.carried < x[0])
        loop.next(loop.carried + 1)
    x[1] = loop.results


def more_than_once(k: Builder, w: Value, x: Value) -> None:
    k.dependency_wait()
    with k.range(0, 3) as loop:
        k.dependency_wait()
        x[loop.index] = w[loop.index]


def with_memory_of_its_own(k: Builder, w: Value, x: Value) -> None:
    room, table = k.shared(u32, WIDTH), k.table(u32, [3, 4])
    room[k.local_id()] = w[k.local_id()] + table[k.local_id() % 2]
    k.barrier()
    k.dependency_wait()
    x[k.local_id()] = room[k.workgroup_size - 1 - k.local_id()]


@pytest.mark.parametrize(
    "body",
    [in_a_function, on_both_sides, before_a_loop_is_left, more_than_once, with_memory_of_its_own],
)
def test_dependency_wait_on_every_path(body: Callable[[Builder, Value, Value], None]) -> None:
    traced_kernel = traced(body).trace(MACHINE)
    assert pointer_uses(traced_kernel).early == (0,)
    again = parse(to_text(traced_kernel))
    verify(again, MACHINE)
    assert (again.constant, to_text(again)) == (("w",), to_text(traced_kernel))


def test_constant_arrays_with_multiword_parameters() -> None:
    """An element comes before, of four words; what is early is a slot of the launch."""

    @kernel(constant=("w",))
    def scaled(
        k: Builder, r: Annotated[Element, ElementOf(FR)], x: Pointer[U64], w: Pointer[U64]
    ) -> None:
        factor = w[0]
        k.dependency_wait()
        x[0] = factor

    traced_kernel = scaled.trace(MACHINE)
    assert traced_kernel.constant == ("w",)
    assert pointer_uses(traced_kernel).early == (traced_kernel.parameters.index("w"),)
    assert traced_kernel.parameters.index("w") == len(traced_kernel.parameters) - 1 > 2


# --- what is refused


def no_wait(k: Builder, w: Value, x: Value) -> None:
    x[0] = w[0]
    k.launch_dependents()  # here


def on_one_side(k: Builder, w: Value, x: Value) -> None:
    with k.if_(k.workgroup_id() < 1):
        k.dependency_wait()  # here


def in_a_counted_loop(k: Builder, w: Value, x: Value) -> None:
    with k.range(0, w[0]):
        k.dependency_wait()  # here


def behind_the_check(k: Builder, w: Value, x: Value) -> None:
    with k.while_(k.constant(0, u32)) as loop:
        loop.check(loop.carried < w[0])
        k.dependency_wait()  # here
        loop.next(loop.carried + 1)


def load_before(k: Builder, w: Value, x: Value) -> None:
    early = x[0]  # here
    k.dependency_wait()
    x[1] = early


def load_behind_one_side(k: Builder, w: Value, x: Value) -> None:
    with k.if_(k.workgroup_id() < 1):
        k.dependency_wait()
    x[0] = w[0]  # here
    k.dependency_wait()


def load_in_a_first_round(k: Builder, w: Value, x: Value) -> None:
    with k.while_(k.constant(0, u32)) as loop:
        loop.check(loop.carried < x[0])  # here
        k.dependency_wait()
        loop.next(loop.carried + 1)
    k.dependency_wait()


def load_through_arithmetic(k: Builder, w: Value, x: Value) -> None:
    room = k.shared(u32, 1)
    with k.range(0, 2, carry=k.pointer_add(x, 4)) as loop:
        room[0] = loop.carried[1]  # here
        loop.next(k.pointer_add(loop.carried, 1))
    k.dependency_wait()


def atomic_before(k: Builder, w: Value, x: Value) -> None:
    k.atomic_add(x, 0, 1)  # here
    k.dependency_wait()


def copy_before(k: Builder, w: Value, x: Value) -> None:
    room = k.shared(u32, 4)
    k.copy_async(room, 0, x, 0, 4)  # here
    k.dependency_wait()


def prefetch_before(k: Builder, w: Value, x: Value) -> None:
    k.prefetch(x, 0, 4)  # here
    k.dependency_wait()


REACHED = (
    "reaches x before k.dependency_wait(), where the launches before may not have ended; wait "
    "first, or name what nothing stores to in @kernel(constant=('x',))"
)
SOME_WAYS = (
    "k.dependency_wait() is not reached on all ways through the kernel; write it outside branches "
    "and loops, or on each side"
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (no_wait, "k.launch_dependents() is for kernels that wait themselves"),
        (on_one_side, SOME_WAYS),
        (in_a_counted_loop, SOME_WAYS),
        (behind_the_check, SOME_WAYS),
        (load_before, f"load {REACHED}"),
        (load_behind_one_side, f"store {REACHED}"),
        (load_in_a_first_round, f"load {REACHED}"),
        (load_through_arithmetic, f"load {REACHED}"),
        (atomic_before, f"atomic_add {REACHED}"),
        (copy_before, f"copy_async {REACHED}"),
        (prefetch_before, f"prefetch {REACHED}"),
    ],
)
def test_accesses_before_the_dependency_wait_are_rejected(
    body: Callable[[Builder, Value, Value], None], message: str
) -> None:
    with pytest.raises(VerificationFailure, match=re.escape(message)) as caught:
        traced(body).trace(MACHINE)
    assert caught.value.location.line == line_of(body, "# here")


def test_a_constant_array_is_only_read() -> None:
    def stores(k: Builder, w: Value, x: Value) -> None:
        k.pointer_add(w, 2)[0] = x[0]

    with pytest.raises(VerificationFailure, match="store through w, of which the kernel says"):
        traced(stores).trace(MACHINE)


@pytest.mark.parametrize(
    ("constant", "message"),
    [
        (("w", "v"), r"constant=\('w', 'v'\) names no parameter 'v'"),
        ("n", "parameter n is u32, but only an array can be constant"),
        (None, "constant=None is neither a parameter name nor a tuple"),
    ],
)
def test_constant_parameters_must_be_arrays(constant: Any, message: str) -> None:
    with pytest.raises(TraceError, match=message):

        @kernel(constant=constant)
        def wrong(k: Builder, n: U32, w: Pointer[F32]) -> None:
            k.dependency_wait()

        wrong.trace(MACHINE)


def test_the_text_names_parameters() -> None:
    text = to_text(weighted.trace(MACHINE))
    assert " constant %w {" in text
    with pytest.raises(ParseError, match="%v is no parameter"):
        parse(text.replace("constant %w", "constant %w, %v"))
    with pytest.raises(VerificationFailure, match="n is no array that could be constant"):
        verify(parse(text.replace("constant %w", "constant %w, %n")), MACHINE)


# --- what they become


def test_interpreters_report_the_dependency_wait() -> None:
    """Stores of earlier launches become visible at the wait."""
    traced_kernel = weighted.trace(MACHINE)
    w, expected = np.arange(5, 45, dtype=np.uint32), np.arange(40, dtype=np.uint32)
    text = ptx.emit(traced_kernel, MACHINE)

    def arrays() -> tuple[np.ndarray, np.ndarray, Callable[[], None]]:  # type: ignore[type-arg]
        x = np.full(40, 0xA5A5A5A5, np.uint32)

        def waiting() -> None:
            x[:] = expected

        return x, np.zeros(40, np.uint32), waiting

    x, y, waiting = arrays()
    interpret(traced_kernel, 2, [40, w, x, y], waiting=waiting)
    assert (y == w * expected).all()
    x, y, waiting = arrays()
    interpret_ptx(text, 2, [40, w, x, y], waiting=waiting)
    assert (y == w * expected).all()
    x, y, waiting = arrays()
    interpret_ptx(text.replace("griddepcontrol.wait;", ""), 2, [40, w, x, y], waiting=waiting)
    assert (y != w * expected).any()
    with pytest.raises(InterpreterError, match="controls no launches"):
        interpret_ptx(text.replace("griddepcontrol.wait", "griddepcontrol.go"), 2, [40, w, x, y])


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_assembled(arch: str) -> None:
    """Loads of constant arrays precede the wait; other loads follow it."""
    machine = ptx_machine(WIDTH, arch)
    text = ptx.emit(weighted.trace(machine), machine)
    instructions = re.findall("LDG|PREEXIT|ACQBULK", "\n".join(sass(assemble(text, arch)[0])))
    overlaps = arch != "sm_80"
    assert ("griddepcontrol" in text) == overlaps
    assert instructions == (["LDG", "PREEXIT", "ACQBULK", "LDG"] if overlaps else ["LDG", "LDG"])
