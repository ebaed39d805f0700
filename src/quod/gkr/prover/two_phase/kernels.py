"""Kernels over the gates of a layer: values, and the tables of both phases.

Entries are those of all proofs of a batch, in each the places of a layer, in each the instances of
the circuit: entry ((proof << log_size) + place << log_instances) + instance.
"""

from __future__ import annotations

from typing import Any

from quod.gkr.prover.gates import (
    Coefficients,
    GateForm,
    GateTable,
    LayerSizes,
    added_gates,
    carried,
    power,
)
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.ir.value import Value
from quod.layered.circuit import POWERS


@kernel
def layer_values(
    k: Builder,
    n: U32,
    sizes: LayerSizes,
    gates: GateTable,
    below: Pointer[U32],
    values: Pointer[U32],
    *,
    form: GateForm,
) -> None:
    """values[i] of n entries of a layer, from the values below it."""
    known = Coefficients(k, form, gates)
    mixed = known.mixed
    f = mixed.base if form.below_is_base and not form.has_random else mixed.extended
    i = k.global_id()
    with k.if_(i < n):
        proof, place, instance = _parts(k, i, sizes.log_size, sizes.log_instances)
        taken = mixed.base if form.below_is_base else mixed.extended

        def value(x: Value) -> Any:
            at = (((proof << sizes.log_below) + x) << sizes.log_instances) + instance
            return taken.carried(taken.load(below, at))

        def part(kind: str, *row: Value) -> Any:
            *inputs, code = row
            own = known.load(code, proof, instance)
            for x in inputs:
                own = carried(
                    mixed, mixed.multiply(own, power(taken, value(x), POWERS.get(kind, 1)))
                )
            return own

        total = added_gates(
            mixed, f, form.kinds, gates, place, k.constant(1, u32) << sizes.log_size, part
        )
        f.store(values, i, total)


@kernel
def first_phase(
    k: Builder,
    n: U32,
    first: U32,
    sizes: LayerSizes,
    gates: GateTable,
    below: Pointer[U32],
    weights: Pointer[U32],
    table: Pointer[U32],
    *,
    form: GateForm,
) -> None:
    """table[first + i]: for input x of entry i the sum over its gates of coefficient times weight
    of the output, and times V[y] in products."""
    known = Coefficients(k, form, gates)
    mixed, f = known.mixed, known.mixed.extended
    i = k.global_id()
    with k.if_(i < n):
        proof, place, instance = _parts(k, i, sizes.log_below, sizes.log_instances)
        taken = mixed.base if form.below_is_base else f

        def part(_kind: str, *row: Value) -> Any:
            z, *inputs, code = row
            own = known.load(code, proof, instance)
            for y in inputs:
                at = (((proof << sizes.log_below) + y) << sizes.log_instances) + instance
                own = carried(mixed, mixed.multiply(own, taken.carried(taken.load(below, at))))
            return mixed.multiply(f.load(weights, (proof << sizes.log_size) + z), own)

        total = added_gates(
            mixed, f, form.kinds, gates, place, k.constant(1, u32) << sizes.log_below, part
        )
        f.store(table, first + i, total)


@kernel
def second_phase(
    k: Builder,
    n: U32,
    first: U32,
    log_size: U32,
    log_below: U32,
    gates: GateTable,
    at_x: Pointer[U32],
    weights: Pointer[U32],
    table: Pointer[U32],
    *,
    form: GateForm,
) -> None:
    """table[first + i]: for input y of entry i the sum over products of coefficient, weight of the
    output and eq of the other input."""
    i, size = k.global_id(), k.constant(1, u32) << log_below
    proof, place = i >> log_below, i & (size - 1)
    known = Coefficients(k, form, gates)
    mixed, f = known.mixed, known.mixed.extended
    with k.if_(i < n):

        def part(_kind: str, *row: Value) -> Any:
            z, x, code = row
            weight = f.load(weights, (proof << log_size) + z)
            both = f.carried(weight * f.load(at_x, (proof << log_below) + x))
            return mixed.multiply(both, known.load(code, proof, k.constant(0, u32)))

        f.store(table, first + i, added_gates(mixed, f, form.kinds, gates, place, size, part))


def _parts(
    k: Builder, i: Value, log_size: Value, log_instances: Value
) -> tuple[Value, Value, Value]:
    """The proof, the place in a layer and the instance of an entry."""
    one = k.constant(1, u32)
    row = i >> log_instances
    return row >> log_size, row & ((one << log_size) - 1), i & ((one << log_instances) - 1)
