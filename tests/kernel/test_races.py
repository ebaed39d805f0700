"""Races in a workgroup whose instances all meet at each barrier, and what is none; with named
barriers elsewhere in the kernel it is the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from quod.kernel import Builder, Value, u32
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.accesses import SinceBarrier
from tests.kernel.races import LANES, Body, run
from tests.kernel.refusals import line_of

LAST = LANES - 1


@contextmanager
def one(k: Builder, instance: int) -> Iterator[None]:
    with k.if_(k.local_id() == instance):
        yield


# --- races


def all_store_then_the_last(k: Builder, room: Value, x: Value) -> None:
    """A store of all instances may come behind the next store of one."""
    room[0] = k.constant(7, u32)
    with one(k, LAST):
        room[0] = k.constant(8, u32)  # here


def all_store_and_the_last_loads(k: Builder, room: Value, x: Value) -> None:
    room[0] = k.constant(7, u32)
    with one(k, LAST):
        x[0] = room[0]  # here


def the_same_then_another(k: Builder, room: Value, x: Value) -> None:
    """A store of what is there hides no store before it."""
    with one(k, 0):
        room[0] = k.constant(7, u32)
    with one(k, 40):
        room[0] = k.constant(7, u32)
        room[0] = k.constant(8, u32)  # here


def the_same_after_an_atomic(k: Builder, room: Value, x: Value) -> None:
    with one(k, 0):
        k.atomic_add(room, 5, 0)
    with one(k, 40):
        room[5] = k.constant(5, u32)
        room[5] = k.constant(6, u32)  # here


def an_atomic_after_a_store(k: Builder, room: Value, x: Value) -> None:
    """An instance that changes what it stored does not hide the store."""
    with one(k, 0):
        room[0] = k.constant(7, u32)
        k.atomic_add(room, 0, 1)
    with one(k, 40):
        k.atomic_add(room, 0, 1)  # here


def a_store_among_atomics(k: Builder, room: Value, x: Value) -> None:
    for instance in (0, 40):
        with one(k, instance):
            k.atomic_add(room, 0, 1)
    with one(k, 0):
        room[0] = k.constant(7, u32)  # here


def a_load_of_atomics(k: Builder, room: Value, x: Value) -> None:
    for instance in (0, 40):
        with one(k, instance):
            k.atomic_add(room, 0, 1)
    with one(k, 0):
        x[0] = room[0]  # here


RACES = [
    all_store_then_the_last, all_store_and_the_last_loads, the_same_then_another,
    the_same_after_an_atomic, an_atomic_after_a_store, a_store_among_atomics, a_load_of_atomics,
]  # fmt: skip


# --- what is in order


def what_it_changed_itself(k: Builder, room: Value, x: Value) -> None:
    """Nobody else touched what an instance changed atomically."""
    k.atomic_add(room, k.local_id(), 1)
    x[k.local_id()] = room[k.local_id()]
    room[k.local_id()] = k.local_id() + 5
    k.atomic_add(room, k.local_id(), 1)


def atomics_between_barriers(k: Builder, room: Value, x: Value) -> None:
    room[0] = k.constant(7, u32)
    k.barrier()
    k.atomic_add(room, 0, 1)
    k.barrier()
    x[k.local_id()] = room[0]


def the_same_as_is_loaded(k: Builder, room: Value, x: Value) -> None:
    """A store of what is there disturbs no load before it."""
    x[k.local_id()] = room[3]
    with one(k, 40):
        room[3] = k.constant(3, u32)


ORDERED = [what_it_changed_itself, atomics_between_barriers, the_same_as_is_loaded]


def behind_a_named_barrier(body: Body) -> Body:
    def made(k: Builder, room: Value, x: Value) -> None:
        k.named_barrier(1, LANES)
        body(k, room, x)

    return made


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("body", RACES)
def test_races_are_detected(body: Body, is_named: bool) -> None:
    with pytest.raises(InterpreterError) as caught:
        run(behind_a_named_barrier(body) if is_named else body)
    assert caught.value.location.line == line_of(body, "# here")


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("body", ORDERED)
def test_ordered_accesses_are_not_races(body: Body, is_named: bool) -> None:
    run(behind_a_named_barrier(body) if is_named else body)


def test_matrix_products_do_not_hide_races() -> None:
    """Waiting for products does not order the loads of an instance."""
    accesses = SinceBarrier(1, 8)
    places, first, second = np.array([[3]]), np.array([0]), np.array([1])
    accesses.record_loads(places, first)
    accesses.record_products(places, first)
    accesses.barrier(None, products_only=True)
    assert accesses.loaded(places, second).all()
    assert not accesses.loaded(places, first).any()
    accesses.barrier(None, products_only=False)
    assert not accesses.loaded(places, second).any()
