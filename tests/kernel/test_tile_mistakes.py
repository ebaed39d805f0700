"""Kernels that take sums of products, tiles and mbarriers for what they are not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from quod.codegen.ptx.machine import ptx_machine
from quod.kernel import F32, Builder, Pointer, Value, f16, function, kernel, u32
from quod.kernel.builder_tiles import TileOperand
from quod.kernel.errors import VerificationFailure

MACHINE = ptx_machine(128, "sm_90a")

# --- sums

Body = Callable[[Builder, TileOperand, Value], None]


def place_of(k: Builder, room: Value) -> TileOperand:
    return TileOperand(room, k.constant(0, u32))


def trace(body: Body) -> Any:
    def traced(k: Builder, y: Pointer[F32]) -> None:
        body(k, place_of(k, k.shared(u32, 2048, alignment=1024)), y)

    return kernel(workgroup=128)(traced).trace(MACHINE)


def four(k: Builder, y: Value) -> list[Value]:
    return [y[k.local_id() + at] for at in range(4)]


def product(k: Builder, tile: TileOperand, sums: Any) -> tuple[Value, ...]:
    k.mma_begin()
    return k.mma_tiles(f16, tile, tile, sums)


def done(k: Builder, tile: TileOperand, sums: Any) -> tuple[Value, ...]:
    sums = product(k, tile, sums)
    k.mma_commit()
    return k.mma_wait(0, sums)


def one_value_in_all_places(k: Builder, tile: TileOperand, y: Value) -> None:
    y[0] = done(k, tile, k.mma_wait(0, [y[0]] * 4))[0]


def used_beside_a_wait(k: Builder, tile: TileOperand, y: Value) -> None:
    given = four(k, y)
    y[0] = done(k, tile, k.mma_wait(0, given))[0] + given[0]


def waited_for_twice(k: Builder, tile: TileOperand, y: Value) -> None:
    sums = product(k, tile, four(k, y))
    k.mma_commit()
    first, second = k.mma_wait(0, sums), k.mma_wait(0, sums)
    y[0] = done(k, tile, first)[0] + second[0]


def in_every_round(k: Builder, tile: TileOperand, y: Value) -> None:
    given = four(k, y)
    with k.range(0, 3):
        y[0] = done(k, tile, given)[0]


def before_the_check(k: Builder, tile: TileOperand, y: Value) -> None:
    with k.while_([k.constant(0, u32), *four(k, y)]) as loop:
        sums = done(k, tile, loop.carried[1:])
        loop.check(loop.carried[0] < 3)
        loop.next([loop.carried[0] + 1, *sums])
    y[0] = loop.results[1]


@function
def under_way(k: Builder, room: Value, a: Value, b: Value, c: Value, d: Value) -> Any:
    return product(k, place_of(k, room), [y * 2 for y in (a, b, c, d)])


@function
def of_the_caller(k: Builder, room: Value, a: Value, b: Value, c: Value, d: Value) -> Any:
    return done(k, place_of(k, room), [a, b, c, d])


@function
def same(k: Builder, value: Value) -> Value:
    return value


def through_a_function(k: Builder, tile: TileOperand, y: Value) -> None:
    y[0] = under_way(k, tile.pointer, *four(k, y))[0]


def of_a_caller(k: Builder, tile: TileOperand, y: Value) -> None:
    given = four(k, y)
    y[0] = of_the_caller(k, tile.pointer, *given)[0] + given[0]


def by_another_name(k: Builder, tile: TileOperand, y: Value) -> None:
    given = four(k, y)
    y[0] = done(k, tile, [same(k, value) for value in given])[0] + given[0]


def in_a_later_group(k: Builder, tile: TileOperand, y: Value) -> None:
    sums = product(k, tile, four(k, y))
    with k.if_(k.workgroup_id() < 1):
        k.mma_commit()
        y[0] = k.mma_wait(1, sums)[0]


def of_a_loop_without_groups(k: Builder, tile: TileOperand, y: Value) -> None:
    with k.range(0, 3, carry=four(k, y)) as loop:
        loop.next(list(product(k, tile, loop.carried)))
    k.mma_commit()
    y[0] = k.mma_wait(1, loop.results)[0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (one_value_in_all_places, "a sum of products is used once more"),
        (used_beside_a_wait, "a sum of products is used once more"),
        (waited_for_twice, "a sum of products is used once more"),
        (in_every_round, "mma_tiles takes sums of outside the loop or function"),
        (before_the_check, "mma_tiles takes sums of outside the loop or function"),
        (through_a_function, "the function under_way gives sums of products that are under way"),
        (of_a_caller, "mma_tiles takes sums of outside the loop or function"),
        (by_another_name, "mma_tiles takes a sum that call gives, which may be in the register"),
        (in_a_later_group, "mma_wait takes sums of a group that it does not wait for"),
        (of_a_loop_without_groups, "mma_wait takes sums of a group that it does not wait for"),
    ],
)
def test_sums_have_registers_of_their_own(body: Body, message: str) -> None:
    with pytest.raises(VerificationFailure, match=re.escape(message)) as caught:
        trace(body)
    assert str(caught.value.location).startswith(__file__)


def test_loops_carry_sums_under_way() -> None:
    """A loop with a check too, and one whose products are one group with what follows."""

    def checked(k: Builder, tile: TileOperand, y: Value) -> None:
        k.mma_begin()
        with k.while_([k.constant(0, u32), *four(k, y)]) as loop:
            loop.check(loop.carried[0] < 3)
            sums = k.mma_tiles(f16, tile, tile, loop.carried[1:])
            k.mma_commit()
            loop.next([loop.carried[0] + 1, *sums])
        y[0] = k.mma_wait(0, loop.results[1:])[0]

    def one_group(k: Builder, tile: TileOperand, y: Value) -> None:
        with k.range(0, 3, carry=four(k, y)) as loop:
            loop.next(list(product(k, tile, loop.carried)))
        k.mma_commit()
        y[0] = k.mma_wait(0, loop.results)[0]

    trace(checked)
    trace(one_group)
