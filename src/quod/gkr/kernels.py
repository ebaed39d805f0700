"""Kernels over the gates of a layer: values, and the tables of both phases.

Gates are sorted once a circuit by what a table has an entry for, so that an instance adds up a run
of them and writes one entry: no atomics, and nothing is cleared before. A gate in a run is three
numbers; `NONE` and `FIFTH` in place of an input say what kind it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quod.field.extension import field_arithmetic
from quod.field.spec import FieldSpec
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.value import Value
from quod.sumcheck.mixed import MixedField

NONE = 0xFFFFFFFF
"""No input."""

FIFTH = 0xFFFFFFFE
"""In place of the second input: the fifth power of the first one."""


@kernel
def layer_values(
    k: Builder,
    n: U32,
    starts: Pointer[U32],
    gates: Pointer[U32],
    coefficients: Pointer[U32],
    below: Pointer[U32],
    values: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """values[z] of n values of a layer, from the gates (x, y, coefficient) of z."""
    f: Any = field_arithmetic(k, field)

    def part(x: Value, y: Value, coefficient: Value) -> Any:
        own = f.carried(f.load(coefficients, coefficient))
        own = _times_input(k, f, own, x, below)
        with k.if_(y == FIFTH) as branch:
            square = f.square(f.load(below, x))
            branch.give(f.carried(own * f.square(square)))
        with branch.otherwise():
            branch.give(_times_input(k, f, own, y, below))
        return branch.results

    _add_up_runs(f, n, starts, gates, values, part)


def _times_input(k: Builder, f: Any, element: Any, place: Value, values: Value) -> Any:
    """The element times a value, or alone where there is no input."""
    with k.if_(place == NONE) as branch:
        branch.give(element)
    with branch.otherwise():
        branch.give(f.carried(element * f.load(values, place)))
    return branch.results


@kernel
def output_weights(
    k: Builder,
    n: U32,
    log_size: U32,
    points: Pointer[U32],
    factor: Pointer[U32],
    weights: Pointer[U32],
    *,
    field: FieldSpec,
    claims: int,
) -> None:
    """weights[z] = eq(first point, z), with two `claims` plus factor[0] * eq(second point, z)."""
    f, z = field_arithmetic(k, field), k.global_id()
    with k.if_(z < n):
        starts = [f.carried(f.one())]
        if claims == 2:
            starts.append(f.carried(f.load(factor, 0)))
        with k.range(0, log_size, carry=tuple(starts)) as loop:
            bit = (z >> (log_size - 1 - loop.index)) & 1
            products = []
            for claim, product in enumerate(loop.carried):
                w = f.carried(f.load(points, loop.index + log_size * claim))
                chosen = f.select(bit != 0, w, f.carried(1 - w))
                products.append(f.carried(product * chosen))
            loop.next(tuple(products))
        total = loop.results[0]
        for product in loop.results[1:]:
            total = total + product
        f.store(weights, z, total)


@kernel
def first_phase(
    k: Builder,
    n: U32,
    starts: Pointer[U32],
    gates: Pointer[U32],
    coefficients: Pointer[U32],
    below: Pointer[U32],
    weights: Pointer[U32],
    table: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """table[x]: the sum of coefficient * weight[z] * V[y] over the gates (z, y, _) of x."""
    mixed = MixedField(k, field)
    f, base = mixed.extended, mixed.base

    def part(z: Value, y: Value, coefficient: Value) -> Any:
        own = base.carried(base.load(coefficients, coefficient))
        return mixed.multiply(f.load(weights, z), _times_input(k, base, own, y, below))

    _add_up_runs(f, n, starts, gates, table, part)


@kernel
def second_phase(
    k: Builder,
    n: U32,
    starts: Pointer[U32],
    gates: Pointer[U32],
    coefficients: Pointer[U32],
    at_x: Pointer[U32],
    weights: Pointer[U32],
    table: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """table[y]: the sum of coefficient * weight[z] * eq[x] over the gates (z, x, _) of y."""
    mixed = MixedField(k, field)
    f, base = mixed.extended, mixed.base

    def part(z: Value, x: Value, coefficient: Value) -> Any:
        product = f.load(weights, z) * f.load(at_x, x)
        return mixed.multiply(product, base.carried(base.load(coefficients, coefficient)))

    _add_up_runs(f, n, starts, gates, table, part)


def _add_up_runs(
    f: Any, n: Value, starts: Value, gates: Value, table: Value,
    part: Callable[[Value, Value, Value], Any],
) -> None:  # fmt: skip
    """table[i], for i below n: the sum of what the gates of run i give."""
    k = f.k
    entry = k.global_id()
    with k.if_(entry < n):
        with k.range(starts[entry], starts[entry + 1], carry=f.carried(f.zero())) as run:
            found = part(*k.load(gates, run.index * 3, 3))
            run.next(f.carried(run.carried + found))
        f.store(table, entry, run.results)
