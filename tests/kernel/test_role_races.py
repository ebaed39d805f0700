"""Races between subgroups that meet at named barriers, and ordered accesses."""

from __future__ import annotations

import pytest

from quod.kernel import Builder, Value, u32
from quod.kernel.errors import InterpreterError
from tests.kernel.races import LANES, PAIR, Body, run
from tests.kernel.refusals import line_of

# --- races


def from_an_arrival(k: Builder, room: Value, x: Value) -> None:
    """An instance that only arrives does not know what others did before."""
    with k.if_(k.subgroup_id() == 0):
        room[k.lane_id()] = k.lane_id() + 1
        k.named_barrier(1, PAIR)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier_arrive(1, PAIR)
        x[k.lane_id()] = room[k.lane_id()]  # here


def from_elsewhere(k: Builder, room: Value, x: Value) -> None:
    """One subgroup does not come where the others meet."""
    with k.if_(k.subgroup_id() == 0):
        room[k.lane_id()] = k.lane_id() + 1  # here
        k.named_barrier(1, PAIR)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier(1, PAIR)
    with k.if_(k.subgroup_id() == 2):
        x[k.lane_id()] = room[k.lane_id()]


def after_the_arrival(k: Builder, room: Value, x: Value) -> None:
    """A second round whose producer does not wait for a free place."""
    with k.if_(k.subgroup_id() == 0):
        room[k.lane_id()] = k.lane_id() + 1
        k.named_barrier_arrive(1, PAIR)
        room[k.lane_id()] = k.lane_id() + 2
        k.named_barrier_arrive(2, PAIR)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier(1, PAIR)
        x[k.lane_id()] = room[k.lane_id()]  # here
        k.named_barrier(2, PAIR)


def one_of_two_consumers(k: Builder, room: Value, x: Value) -> None:
    """The producer waits for one of those that loaded the same words."""
    with k.if_(k.subgroup_id() == 0):
        room[k.lane_id()] = k.lane_id() + 1
        k.named_barrier_arrive(1, LANES)
        k.named_barrier(2, PAIR)
        room[k.lane_id()] = k.lane_id() + 2  # here
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier(1, LANES)
        x[k.lane_id()] = room[k.lane_id()]
    with k.if_(k.subgroup_id() == 2):
        k.named_barrier(1, LANES)
        x[k.lane_id() + 32] = room[k.lane_id()]
        k.named_barrier_arrive(2, PAIR)


def the_wrong_order(k: Builder, room: Value, x: Value) -> None:
    """The third subgroup hears of the second one before that hears of the first."""
    with k.if_(k.subgroup_id() == 0):
        room[k.lane_id()] = k.lane_id() + 1
        k.named_barrier_arrive(1, PAIR)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier_arrive(2, PAIR)
        k.named_barrier(1, PAIR)
    with k.if_(k.subgroup_id() == 2):
        k.named_barrier(2, PAIR)
        x[k.lane_id()] = room[k.lane_id()]  # here


def within_a_subgroup(k: Builder, room: Value, x: Value) -> None:
    """Arriving does not order instances of one subgroup either."""
    with k.if_(k.subgroup_id() == 0):
        room[k.lane_id()] = k.lane_id() + 1
        k.named_barrier_arrive(1, PAIR)
        x[k.lane_id()] = room[k.lane_id() ^ 1]  # here
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier(1, PAIR)


def atomics(k: Builder, room: Value, x: Value) -> None:
    """Those of both are none, and a load is one."""
    with k.if_(k.subgroup_id() == 0):
        k.atomic_add(room, 0, 1)
        k.named_barrier(1, PAIR)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier_arrive(1, PAIR)
        k.atomic_add(room, 0, 1)
        x[k.lane_id()] = room[0]  # here


def store_then_atomics(k: Builder, room: Value, x: Value) -> None:
    """An element that one instance stores and changes may not be changed by another one."""
    with k.if_(k.subgroup_id() == 0):
        with k.if_(k.lane_id() == 0):
            room[0] = k.constant(7, u32)
            k.atomic_add(room, 0, 1)
        k.named_barrier(1, PAIR)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier_arrive(1, PAIR)
        k.atomic_add(room, 0, 1)  # here


def copies(k: Builder, room: Value, x: Value) -> None:
    """A copy into what is being loaded."""
    with k.if_(k.subgroup_id() == 0):
        k.named_barrier_arrive(1, PAIR)
        k.copy_async(room, k.lane_id(), x, k.lane_id())
        k.copy_async_commit()
        k.copy_async_wait(0)
    with k.if_(k.subgroup_id() == 1):
        x[k.lane_id() + 32] = room[k.lane_id()]  # here
        k.named_barrier(1, PAIR)


def matrices_loaded(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() == 0):
        room[k.lane_id()] = k.lane_id() + 1
        k.named_barrier(1, PAIR)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier_arrive(1, PAIR)
        x[k.lane_id()] = k.load_matrices(room, 4 * k.lane_id())[0]  # here


def matrices_stored(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() == 0):
        k.store_matrices(room, 4 * k.lane_id(), [k.lane_id() + 1] * 4)
        k.named_barrier(1, PAIR)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier_arrive(1, PAIR)
        x[k.lane_id()] = room[k.lane_id()]  # here


@pytest.mark.parametrize(
    "body",
    [
        from_an_arrival, from_elsewhere, after_the_arrival, one_of_two_consumers, the_wrong_order,
        within_a_subgroup, atomics, store_then_atomics, copies, matrices_loaded, matrices_stored,
    ],
)  # fmt: skip
def test_role_races_are_detected(body: Body) -> None:
    """The error is at the later of the two accesses in interpretation order."""
    with pytest.raises(InterpreterError) as caught:
        run(body)
    assert caught.value.location.line == line_of(body, "# here")


# --- who comes again


def it_alone(k: Builder, room: Value, x: Value) -> None:
    """The first subgroup may come twice before the second one comes, if it is late."""
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier(1, PAIR)
        k.named_barrier(1, PAIR)
    with k.if_(k.subgroup_id() == 0):
        k.named_barrier_arrive(1, PAIR)
        k.named_barrier(1, PAIR)  # here


def one_of_a_role(k: Builder, room: Value, x: Value) -> None:
    """Subgroups of one role are not in step."""
    with k.if_(k.subgroup_id() < 2):
        k.named_barrier_arrive(1, PAIR)
        k.named_barrier(1, PAIR)  # here


def while_others_wait(k: Builder, room: Value, x: Value) -> None:
    """The second subgroup waits where it has only arrived, and the third one is late."""
    with k.if_(k.subgroup_id() == 0):
        k.named_barrier(1, LANES)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier_arrive(1, LANES)
        k.named_barrier(1, LANES)  # here
    with k.if_(k.subgroup_id() == 2):
        k.named_barrier_arrive(1, LANES)


def and_others_wait_elsewhere(k: Builder, room: Value, x: Value) -> None:
    """The second arrival is the cause, and not a deadlock."""
    with k.if_(k.subgroup_id() == 0):
        k.named_barrier(2, LANES)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier_arrive(1, PAIR)
        k.named_barrier(1, PAIR)  # here
        k.named_barrier(2, LANES)
    with k.if_(k.subgroup_id() == 2):
        k.named_barrier(2, LANES)
        k.named_barrier(1, PAIR)


@pytest.mark.parametrize(
    "body", [it_alone, one_of_a_role, while_others_wait, and_others_wait_elsewhere]
)
def test_early_repeated_arrivals_are_detected(body: Body) -> None:
    with pytest.raises(InterpreterError) as caught:
        run(body, "may come to .* again before the others")
    assert caught.value.location.line == line_of(body, "# here")


# --- what is in order


def through_another(k: Builder, room: Value, x: Value) -> None:
    """The third subgroup hears of the first one from the second."""
    with k.if_(k.subgroup_id() == 0):
        room[k.lane_id()] = k.lane_id() + 1
        k.named_barrier_arrive(1, PAIR)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier(1, PAIR)
        k.named_barrier_arrive(2, PAIR)
    with k.if_(k.subgroup_id() == 2):
        k.named_barrier(2, PAIR)
        other = k.lane_id() ^ 1
        x[k.lane_id()] = room[other]
        room[other] = k.lane_id() + 2


def both_consumers(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() == 0) as producer, k.range(0, 3) as loop:
        with k.if_(loop.index > 0):
            k.named_barrier(2, LANES)
        room[k.lane_id()] = x[k.lane_id()] + loop.index
        k.named_barrier_arrive(1, LANES)
    with producer.otherwise(), k.range(0, 3) as loop:
        k.named_barrier(1, LANES)
        x[k.local_id()] = room[k.lane_id() ^ 1]
        with k.if_(loop.index < 2):
            k.named_barrier_arrive(2, LANES)


def what_is_its_own(k: Builder, room: Value, x: Value) -> None:
    """An instance knows what it did itself, whatever it comes to."""
    with k.if_(k.subgroup_id() == 0):
        room[k.lane_id()] = k.lane_id() + 1
        k.named_barrier_arrive(1, PAIR)
        room[k.lane_id()] += 1
        k.atomic_add(room, k.lane_id(), 1)
        x[k.lane_id()] = room[k.lane_id()]
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier(1, PAIR)


def among_themselves(k: Builder, room: Value, x: Value) -> None:
    """A wait orders the accesses of a subgroup, at a barrier of it alone as well."""
    with k.if_(k.subgroup_id() == 0):
        room[k.lane_id()] = k.lane_id() + 1
        k.named_barrier(1, 32)
        x[k.lane_id()] = room[k.lane_id() ^ 1]
        k.named_barrier(1, 32)
        room[k.lane_id()] = k.lane_id() + 2


def a_barrier_of_all(k: Builder, room: Value, x: Value) -> None:
    """It orders also what comes before and behind a barrier that somebody has not come to yet."""
    with k.if_(k.subgroup_id() == 0):
        k.named_barrier_arrive(1, PAIR)
        room[k.lane_id()] = k.lane_id() + 1
    k.barrier()
    with k.if_(k.subgroup_id() == 1):
        x[k.lane_id()] = room[k.lane_id()]
        k.named_barrier(1, PAIR)


def copies_in_turns(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() == 0):
        k.copy_async(room, k.lane_id(), x, k.lane_id())
        k.copy_async_commit()
        k.copy_async_wait(0)
        k.named_barrier_arrive(1, PAIR)
        k.named_barrier(2, PAIR)
        k.copy_async(room, k.lane_id(), x, k.lane_id())
        k.copy_async_commit()
        k.copy_async_wait(0)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier(1, PAIR)
        x[k.lane_id() + 32] = room[k.lane_id() ^ 1]
        k.named_barrier_arrive(2, PAIR)


def matrices_in_turns(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() == 0):
        k.store_matrices(room, 4 * k.lane_id(), [k.lane_id() + 1] * 4)
        k.named_barrier_arrive(1, PAIR)
        k.named_barrier(2, PAIR)
        k.store_matrices(room, 4 * k.lane_id(), [k.lane_id() + 2] * 4)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier(1, PAIR)
        x[k.lane_id()] = k.load_matrices(room, 4 * k.lane_id())[0]
        k.named_barrier_arrive(2, PAIR)


@pytest.mark.parametrize(
    "body",
    [
        through_another, both_consumers, what_is_its_own, among_themselves, a_barrier_of_all,
        copies_in_turns, matrices_in_turns,
    ],
)  # fmt: skip
def test_ordered_accesses_are_not_races(body: Body) -> None:
    run(body)
