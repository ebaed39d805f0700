"""The interpreter: memory after a kernel, and errors with file and line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from quod.kernel import (
    F32,
    I32,
    U8,
    U16,
    U32,
    U64,
    Bool,
    Builder,
    KernelDefinition,
    Machine,
    Pointer,
    Value,
    bool_,
    function,
    kernel,
    u32,
    u64,
)
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.interpreter import interpret
from tests.kernel.control_kernels import CASES, Case
from tests.kernel.machines import EIGHT, FOUR, MANY, ONE
from tests.kernel.random_kernels import kernels
from tests.kernel.refusals import line_of


@pytest.mark.parametrize("machine", [ONE, FOUR, EIGHT], ids=lambda m: str(m.workgroup_size))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_examples_match_expectations(case: Case, machine: Machine) -> None:
    if case.per_workgroup and machine is not EIGHT:
        # What such a kernel computes depends on the size; that it runs is checked all the same.
        machine = EIGHT
    traced = case.definition.trace(machine)
    for at_once in (1, 3):
        arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in case.arguments]
        interpret(traced, 32 // machine.workgroup_size, arguments, groups_at_once=at_once)
        for number, array in enumerate(arguments):
            if isinstance(array, np.ndarray):
                expected = case.expected.get(number, case.arguments[number].tolist())
                assert array.tolist() == expected, f"argument {number}"


@given(kernels())
@settings(max_examples=30)
def test_workgroups_in_step(definition: KernelDefinition) -> None:
    """Random kernels leave the same however many workgroups run together."""
    x = np.random.default_rng(4).integers(0, 1 << 64, 7 * 4 * 16, np.uint64)
    traced = definition.trace(FOUR)
    outputs = []
    for at_once in (1, 3, 7):
        y = np.zeros_like(x)
        interpret(traced, 7, [x, y], groups_at_once=at_once)
        outputs.append(y)
    np.testing.assert_array_equal(outputs[1], outputs[0])
    np.testing.assert_array_equal(outputs[2], outputs[0])


def refused(
    definition: KernelDefinition,
    arguments: list[Any],
    message: str,
    *,
    line: str = "# here",
    groups: int = 1,
    machine: Machine = EIGHT,
    **options: int,
) -> None:
    """The kernel stops with exactly this message, at the line that is marked."""
    with pytest.raises(InterpreterError) as caught:
        interpret(definition.trace(machine), groups, arguments, **options)
    assert str(caught.value) == f"{__file__}:{line_of(definition, line)}: {message}"


def test_out_of_bounds_load() -> None:
    @kernel
    def gather(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        i = k.global_id()
        with k.if_(i != 3):
            y[i] = x[i + 1]  # here

    x, y = np.arange(12, dtype=np.uint32), np.zeros(16, np.uint32)
    message = "instance 3 of workgroup 1 loads element 12 of x, which has 12 of type u32"
    refused(gather, [x, y], message, groups=2)
    # Lockstep: the workgroup before is complete, this one has stored nothing.
    assert y.tolist() == [1, 2, 3, 0, 5, 6, 7, 8, *[0] * 8]


def test_inactive_instances_do_nothing() -> None:
    @kernel
    def guarded(k: Builder, n: U32, x: Pointer[U32], y: Pointer[U32]) -> None:
        i = k.global_id()
        with k.if_(i < n):
            y[i] = x[i]
            k.atomic_add(y, i, 1)

    x, y = np.arange(3, dtype=np.uint32), np.zeros(3, np.uint32)
    interpret(guarded.trace(EIGHT), 1, [3, x, y])
    assert y.tolist() == [1, 2, 3]


def test_out_of_bounds_store() -> None:
    @kernel
    def scatter(k: Builder, y: Pointer[U32]) -> None:
        k.store(y, k.global_id() * 2, k.global_id(), k.global_id())  # here

    message = "instance 7 of workgroup 0 stores to element 15 of y, which has 15 of type u32"
    refused(scatter, [np.zeros(15, np.uint32)], message)


def test_huge_index() -> None:
    @kernel
    def huge(k: Builder, y: Pointer[U64]) -> None:
        index = ~k.global_id().cast(u64)
        k.pointer_add(y, index)[k.constant(1 << 61, u64)] = index  # here

    message = "instance 0 of workgroup 0 stores to element 2251799813685248 of y, which has 9"
    refused(huge, [np.zeros(9, np.uint64)], f"{message} of type u64")


def test_out_of_bounds_atomic() -> None:
    @kernel
    def count(k: Builder, y: Pointer[U32]) -> None:
        k.atomic_add(y, k.global_id(), 1)  # here

    message = "instance 4 of workgroup 0 adds to element 4 of y, which has 4 of type u32"
    refused(count, [np.zeros(4, np.uint32)], message)


def test_empty_buffer() -> None:
    @kernel
    def first(k: Builder, y: Pointer[U8]) -> None:
        y[0] = y[0] + 1  # here

    message = "instance 0 of workgroup 0 loads element 0 of y, which has 0 of type u8"
    refused(first, [np.zeros(0, np.uint8)], message)


def test_unaligned() -> None:
    @kernel
    def unaligned(k: Builder, x: Pointer[U32], y: Pointer[U64]) -> None:
        i = k.local_id()
        y[i] = k.pointer_add(x, i).cast(u64)[0]  # here

    message = "instance 1 of workgroup 0 loads a u64 at byte 4 of x, which is not a multiple of 8"
    refused(unaligned, [np.zeros(32, np.uint32), np.zeros(8, np.uint64)], message)


def test_partial_last_element() -> None:
    @kernel
    def wide(k: Builder, x: Pointer[U32], y: Pointer[U64]) -> None:
        y[0] = x.cast(u64)[1]  # here

    message = "instance 0 of workgroup 0 loads element 1 of x, which has 1 of type u64"
    refused(wide, [np.zeros(3, np.uint32), np.zeros(1, np.uint64)], message)


def test_read_only() -> None:
    @kernel
    def write(k: Builder, y: Pointer[U32]) -> None:
        y[0] = 1  # here

    array = np.zeros(4, np.uint32)
    array.flags.writeable = False
    refused(write, [array], "instance 0 of workgroup 0 stores to y, which is read-only")


def test_conflicting_stores() -> None:
    @kernel
    def conflict(k: Builder, y: Pointer[U32]) -> None:
        y[k.local_id() >> 1] = k.local_id()  # here

    message = "instance 0 of workgroup 0 and instance 1 of workgroup 0 store different values to "
    refused(conflict, [np.zeros(4, np.uint32)], message + "element 0 of y at once")


def test_conflicting_stores_of_two_workgroups() -> None:
    @kernel
    def conflict(k: Builder, y: Pointer[U32]) -> None:
        with k.if_(k.local_id() == 3):
            y[2] = k.workgroup_id()

    with pytest.raises(
        InterpreterError,
        match="instance 3 of workgroup 0 and instance 3 of workgroup 2 store different values to "
        "element 2 of y at once",
    ):
        interpret(conflict.trace(EIGHT), 3, [np.zeros(4, np.uint32)], groups_at_once=3)


def test_equal_stores_do_not_conflict() -> None:
    @kernel
    def agree(k: Builder, y: Pointer[U32]) -> None:
        y[k.local_id() >> 1] = k.local_id() >> 1

    y = np.zeros(4, np.uint32)
    interpret(agree.trace(EIGHT), 1, [y])
    assert y.tolist() == [0, 1, 2, 3]


def test_unset_shared_memory() -> None:
    @kernel
    def unset(k: Builder, y: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        with k.if_(i != 6):
            room[i] = i
        k.barrier()
        y[i] = room[i]  # here

    memory = f"the shared memory of line {line_of(unset, 'k.shared')}"
    message = f"instance 6 of workgroup 0 loads from {memory} what was not set"
    refused(unset, [np.zeros(8, np.uint32)], message)


def test_shared_memory_is_fresh_in_each_workgroup() -> None:
    @kernel
    def fresh(k: Builder, y: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        with k.if_(k.workgroup_id() == 0):
            room[k.local_id()] = 1
        y[k.global_id()] = room[k.local_id()]  # here

    memory = f"the shared memory of line {line_of(fresh, 'k.shared')}"
    message = f"instance 0 of workgroup 1 loads from {memory} what was not set"
    refused(fresh, [np.zeros(16, np.uint32)], message, groups=2)


def test_shared_atomic_on_unset_memory() -> None:
    @kernel
    def count(k: Builder) -> None:
        room = k.shared(u32, 1)
        k.atomic_add(room, 0, 1)  # here

    memory = f"the shared memory of line {line_of(count, 'k.shared')}"
    refused(count, [], f"instance 0 of workgroup 0 adds to {memory} what was not set")


def test_read_after_write_needs_a_barrier() -> None:
    @kernel
    def racy(k: Builder, y: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        room[i] = i
        y[i] = room[7 - i]  # here

    memory = f"the shared memory of line {line_of(racy, 'k.shared')}"
    message = f"loads from {memory} what another instance stored; a barrier is needed between"
    refused(racy, [np.zeros(8, np.uint32)], f"instance 0 of workgroup 0 {message}")


def test_write_after_read_needs_a_barrier() -> None:
    @kernel
    def racy(k: Builder, y: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        room[i] = i
        k.barrier()
        y[i] = room[7 - i]
        room[i] = i + 1  # here

    memory = f"the shared memory of line {line_of(racy, 'k.shared')}"
    message = f"changes in {memory} what another instance loaded; a barrier is needed between"
    refused(racy, [np.zeros(8, np.uint32)], f"instance 0 of workgroup 0 {message}")


def test_write_after_write_needs_a_barrier() -> None:
    @kernel
    def racy(k: Builder) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        room[i] = i
        room[7 - i] = i + 20  # here

    memory = f"the shared memory of line {line_of(racy, 'k.shared')}"
    message = f"changes in {memory} what another instance stored; a barrier is needed between"
    refused(racy, [], f"instance 0 of workgroup 0 {message}")


def test_shared_read_and_write_is_a_race() -> None:
    @kernel
    def racy(k: Builder, y: Pointer[U32]) -> None:
        room = k.shared(u32, 1)
        i = k.local_id()
        with k.if_(i == 2):
            room[0] = 5
        k.barrier()
        y[i] = room[0]
        with k.if_(i == 7):
            room[0] = 6  # here

    memory = f"the shared memory of line {line_of(racy, 'k.shared')}"
    message = f"changes in {memory} what another instance loaded; a barrier is needed between"
    refused(racy, [np.zeros(8, np.uint32)], f"instance 7 of workgroup 0 {message}")


def test_invalid_bool() -> None:
    @kernel
    def strange(k: Builder, x: Pointer[U8], y: Pointer[U32]) -> None:
        flag = x.cast(bool_)[k.local_id()]  # here
        y[k.local_id()] = flag.cast(u32)

    bytes_ = np.array([0, 1, 0, 2, 1, 1, 0, 0], np.uint8)
    message = "instance 3 of workgroup 0 loads a bool from x that is neither 0 nor 1"
    refused(strange, [bytes_, np.zeros(8, np.uint32)], message)


def test_step_zero() -> None:
    @kernel
    def stuck(k: Builder, step: I32, y: Pointer[I32]) -> None:
        with k.range(y[0], 10, step) as loop:  # here
            y[0] = loop.index

    y = np.zeros(1, np.int32)
    refused(stuck, [0, y], "the step of a loop must be above zero")
    refused(stuck, [-1, y], "the step of a loop must be above zero")


def test_index_wraps() -> None:
    @kernel
    def wraps(k: Builder, stop: U32, y: Pointer[U32]) -> None:
        with k.range(0, stop, 0x9000_0000) as loop:  # here
            y[0] = loop.index

    message = "the index of a loop passes the end of u32"
    refused(wraps, [0xF000_0000, np.zeros(1, np.uint32)], message)


def test_endless_loops() -> None:
    @kernel
    def endless(k: Builder, y: Pointer[U32]) -> None:
        with k.while_(k.local_id()) as loop:  # here
            loop.check(loop.carried < 100)
            loop.next(loop.carried)

    message = "the loop ran 50 times and goes on"
    refused(endless, [np.zeros(1, np.uint32)], message, iteration_limit=50)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "take_all takes 6 arguments, not 0"),
        ([-1, 0, 0.0, True, None, None], "argument n must be a number that fits u32, not -1"),
        (
            [1 << 32, 0, 0.0, True, 0, 0],
            "argument n must be a number that fits u32, not 4294967296",
        ),
        (
            [1 << 80, 0, 0.0, True, 0, 0],
            f"argument n must be a number that fits u32, not {1 << 80}",
        ),
        ([1.5, 0, 0.0, True, 0, 0], "argument n must be a number that fits u32, not 1.5"),
        (["1", 0, 0.0, True, 0, 0], "argument n must be a number that fits u32, not '1'"),
        (
            [1, 1 << 31, 0.0, True, 0, 0],
            "argument m must be a number that fits i32, not 2147483648",
        ),
        ([1, 0, 1e300, True, 0, 0], "argument a must be a number that fits f32, not 1e+300"),
        ([1, 0, 0.0, 2, 0, 0], "argument b must be a number that fits bool, not 2"),
        ([1, 0, 0.0, True, 5, 0], "argument x must be an array of uint32, not int"),
        (
            [1, 0, 0.0, True, np.zeros(1, np.int32), 0],
            "argument x must be an array of uint32, not int32",
        ),
        (
            [1, 0, 0.0, True, np.zeros((2, 2), np.uint32).T, 0],
            "argument x must be C-contiguous",
        ),
        (
            [1, 0, 0.0, True, np.zeros(1, np.uint32), np.zeros(1, np.uint32)],
            "argument y must be an array of uint16, not uint32",
        ),
    ],
)
def test_arguments(arguments: list[Any], message: str) -> None:
    @kernel
    def take_all(  # here
        k: Builder, n: U32, m: I32, a: F32, b: Bool, x: Pointer[U32], y: Pointer[U16]
    ) -> None:
        x[0] = n

    with pytest.raises(InterpreterError) as caught:
        interpret(take_all.trace(EIGHT), 1, arguments)
    # A kernel begins where its decorator stands.
    assert str(caught.value) == f"{__file__}:{line_of(take_all, '# here') - 1}: {message}"


def test_no_workgroups() -> None:
    @kernel
    def outside(k: Builder, y: Pointer[U32]) -> None:
        y[100] = 1

    interpret(outside.trace(EIGHT), 0, [np.zeros(1, np.uint32)])
    with pytest.raises(InterpreterError, match="a grid cannot have -1 workgroups"):
        interpret(outside.trace(EIGHT), -1, [np.zeros(1, np.uint32)])


def test_integer_identities() -> None:
    @kernel
    def identities(k: Builder, y: Pointer[U32]) -> None:
        i = k.global_id()
        k.store(y, i * 4, k.local_id(), k.workgroup_id(), k.num_workgroups(), i)

    y = np.zeros((32, 4), np.uint32)
    interpret(identities.trace(EIGHT), 4, [y])
    assert y.tolist() == [[i % 8, i // 8, 4, i] for i in range(32)]


def test_one_buffer_as_two_arguments() -> None:
    @kernel
    def alias(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        y[k.local_id()] = 3
        x[k.local_id()] = y[k.local_id()] + 1

    both = np.zeros(8, np.uint32)
    interpret(alias.trace(EIGHT), 1, [both, both])
    assert both.tolist() == [4] * 8


def test_location_inside_a_function() -> None:
    @function
    def read(k: Builder, x: Value, i: Value) -> Value:
        return x[i]  # here

    @kernel
    def outside(k: Builder, x: Pointer[U32]) -> None:
        x[0] = read(k, x, k.local_id() + 2)

    with pytest.raises(InterpreterError) as caught:
        interpret(outside.trace(EIGHT), 1, [np.zeros(4, np.uint32)])
    assert caught.value.location.line == line_of(read.__wrapped__, "# here")  # type: ignore[attr-defined]


def test_a_thousand_instances() -> None:
    @kernel
    def many(k: Builder, y: Pointer[U32]) -> None:
        y[k.global_id()] = k.local_id()

    y = np.zeros(2048, np.uint32)
    interpret(many.trace(MANY), 2, [y])
    assert y.tolist() == [*range(1024), *range(1024)]


@pytest.mark.parametrize("places", [1, 3, 100])
def test_atomic_adds_run_in_instance_order(places: int) -> None:
    @kernel
    def tally(
        k: Builder, at: Pointer[U32], values: Pointer[U32], y: Pointer[U32], previous: Pointer[U32]
    ) -> None:
        i = k.global_id()
        with k.if_(at[i] != places):
            previous[i] = k.atomic_add(y, at[i], values[i])

    rng = np.random.default_rng(places)
    at = rng.integers(0, places + 1, 64).astype(np.uint32)
    values = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
    y, previous = np.full(places, 0xFFFFFFFF, np.uint32), np.full(64, 7, np.uint32)
    sums, before = y.tolist(), previous.tolist()
    for lane, (place, value) in enumerate(zip(at.tolist(), values.tolist(), strict=True)):
        if place != places:
            before[lane] = sums[place]
            sums[place] = (sums[place] + value) % 2**32
    interpret(tally.trace(EIGHT), 8, [at, values, y, previous], groups_at_once=8)
    assert y.tolist() == sums
    assert previous.tolist() == before
