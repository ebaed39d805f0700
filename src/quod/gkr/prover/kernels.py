"""Kernels that both reductions launch: eq tables, and values at the point of the instances."""

from __future__ import annotations

from typing import Any

from quod.field.any_field import field_arithmetic
from quod.field.spec import FieldSpec
from quod.kernel import U32, Builder, Pointer, Struct, kernel, u32
from quod.kernel.ir.value import Value
from quod.sumcheck.eq_tables import scaled_eq_table
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums


class ClaimPoints(Struct):
    """The points of one or two claims in the prover states, `stride` elements per proof.

    first, second: the offsets of the points in a proof's state, in elements.
    factor: the offset of the challenge that multiplies the second claim.
    """

    first: U32
    second: U32
    stride: U32
    factor: U32
    elements: Pointer[U32]


@kernel
def corner_weights(
    k: Builder,
    n: U32,
    log_size: U32,
    zeros: U32,
    points: ClaimPoints,
    weights: Pointer[U32],
    *,
    field: FieldSpec,
    claims: int,
    log_each: int,
) -> None:
    """Expand each proof's eq table: weights[z] = eq(first, z) + factor * eq(second, z).

    With one claim the second term is absent. Weights from index `zeros` on are 0. An instance
    computes 2**log_each of the n weights. They differ in the upper bits of z, so adjacent instances
    store to adjacent addresses.
    """
    f, i = field_arithmetic(k, field, inlined=True), k.global_id()
    with k.if_(i < n >> log_each):
        upper_variables = log_size - log_each
        proof, lower_bits = i >> upper_variables, i & ((k.constant(1, u32) << upper_variables) - 1)
        point_start = proof * points.stride

        def coordinate(start: Value, variable: Value) -> Any:
            return f.bounded(f.load(points.elements, point_start + start + variable))

        starts = [f.bounded(f.one())]
        if claims == 2:
            starts.append(f.bounded(f.load(points.elements, point_start + points.factor)))
        with k.range(0, upper_variables, carry=tuple(starts)) as loop:
            bit = (lower_bits >> (upper_variables - 1 - loop.index)) & 1
            products = []
            for product, start in zip(loop.carried, (points.first, points.second), strict=False):
                coordinate_value = coordinate(start, loop.index + log_each)
                eq_factor = f.select(bit != 0, coordinate_value, f.bounded(1 - coordinate_value))
                products.append(f.bounded(product * eq_factor))
            loop.next(tuple(products))
        totals: list[Any] = []
        for product, start in zip(loop.results, (points.first, points.second), strict=False):
            coordinates = [
                coordinate(start, k.constant(position, u32)) for position in range(log_each)
            ]
            entries = scaled_eq_table(f, product, coordinates)
            totals = (
                [f.bounded(a + b) for a, b in zip(totals, entries, strict=True)]
                if totals
                else entries
            )
        for position, total in enumerate(totals):
            wire = (k.constant(position, u32) << upper_variables) + lower_bits
            weight = f.select(wire < zeros, f.bounded(total), f.bounded(f.zero()))
            f.store(weights, (proof << log_size) + wire, weight)


@kernel
def collapse_instances(
    k: Builder,
    n: U32,
    first: U32,
    places: U32,
    log_instances: U32,
    values: Pointer[U32],
    shares: Pointer[U32],
    collapsed: Pointer[U32],
    *,
    field: FieldSpec,
    is_base: bool,
    by_workgroup: bool,
) -> None:
    """Evaluate n wires at the point of the instances: collapsed[i] = sum of shares times values.

    values: from entry `first` on, by proof, wire (`places` per proof) and instance.
    shares: the eq table of the point, 2**log_instances elements per proof.
    by_workgroup: a workgroup computes each wire, otherwise a single kernel instance.
    """
    mixed = MixedField(k, field)
    f = mixed.extended
    value_field = mixed.base if is_base else f
    count = k.constant(1, u32) << log_instances

    def weighted_sum(wire: Value, start: Value | int, step: Value | int) -> Any:
        proof = wire // places
        with k.range(start, count, step, carry=f.bounded(f.zero())) as loop:
            value = value_field.load(values, first + (wire << log_instances) + loop.index)
            weight = f.load(shares, (proof << log_instances) + loop.index)
            loop.next(f.bounded(loop.carried + mixed.multiply(weight, value)))
        return loop.results

    if by_workgroup:
        sums, wire = WorkgroupSums(k, f, 1), k.workgroup_id()
        (total,) = sums.totals([weighted_sum(wire, k.local_id(), k.workgroup_size)])
        with k.if_(k.local_id() == 0):
            f.store(collapsed, wire, total)
        return
    wire = k.global_id()
    with k.if_(wire < n):
        f.store(collapsed, wire, weighted_sum(wire, 0, 1))
