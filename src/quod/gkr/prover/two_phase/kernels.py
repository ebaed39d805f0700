"""Kernels over the gates of a layer: values, and the tables of both phases.

Entries are ordered by proof, then by wire of the layer, then by instance of the circuit: entry
(((proof << log_size) + wire) << log_instances) + instance.
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
    """Compute n values of a layer from the values below it."""
    coefficients = Coefficients(k, form, gates)
    mixed = coefficients.mixed
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
            product = coefficients.load(code, proof, instance)
            for x in inputs:
                product = carried(
                    mixed, mixed.multiply(product, power(taken, value(x), POWERS.get(kind, 1)))
                )
            return product

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
    """Compute the table of the first phase, n entries from `first` on.

    The entry of input x is the sum over the gates of x of coefficient times weight of the output,
    and times V[y] in products.
    """
    coefficients = Coefficients(k, form, gates)
    mixed, f = coefficients.mixed, coefficients.mixed.extended
    i = k.global_id()
    with k.if_(i < n):
        proof, place, instance = _parts(k, i, sizes.log_below, sizes.log_instances)
        taken = mixed.base if form.below_is_base else f

        def part(_kind: str, *row: Value) -> Any:
            z, *inputs, code = row
            product = coefficients.load(code, proof, instance)
            for y in inputs:
                at = (((proof << sizes.log_below) + y) << sizes.log_instances) + instance
                product = carried(
                    mixed, mixed.multiply(product, taken.carried(taken.load(below, at)))
                )
            return mixed.multiply(f.load(weights, (proof << sizes.log_size) + z), product)

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
    """Compute the table of the second phase, n entries from `first` on.

    The entry of input y is the sum over the products of y of coefficient, weight of the output and
    eq of the other input.
    """
    i, size = k.global_id(), k.constant(1, u32) << log_below
    proof, place = i >> log_below, i & (size - 1)
    coefficients = Coefficients(k, form, gates)
    mixed, f = coefficients.mixed, coefficients.mixed.extended
    with k.if_(i < n):

        def part(_kind: str, *row: Value) -> Any:
            z, x, code = row
            weight = f.load(weights, (proof << log_size) + z)
            both = f.carried(weight * f.load(at_x, (proof << log_below) + x))
            return mixed.multiply(both, coefficients.load(code, proof, k.constant(0, u32)))

        f.store(table, first + i, added_gates(mixed, f, form.kinds, gates, place, size, part))


def _parts(
    k: Builder, i: Value, log_size: Value, log_instances: Value
) -> tuple[Value, Value, Value]:
    """The proof, the wire of a layer and the instance of an entry."""
    one = k.constant(1, u32)
    row = i >> log_instances
    return row >> log_size, row & ((one << log_size) - 1), i & ((one << log_instances) - 1)
