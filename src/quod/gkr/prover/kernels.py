"""Kernels that both reductions launch: eq tables, and values at the point of the instances."""

from __future__ import annotations

from typing import Any

from quod.field.extension import field_arithmetic
from quod.field.spec import FieldSpec
from quod.kernel import U32, Builder, Pointer, Struct, kernel, u32
from quod.kernel.ir.value import Value
from quod.sumcheck.eq_tables import at_corners
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums


class ClaimPoints(Struct):
    """The points of one claim or two: `stride` elements a proof.

    In each proof the points begin at `first` and `second`; element `factor` multiplies the second
    claim.
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

    With one claim the second term is absent. From `zeros` on the weights are 0. An instance
    computes 2**log_each of n weights, which share the factors of the lower variables, so that
    neighbouring instances store to neighbouring addresses.
    """
    f, i = field_arithmetic(k, field, inlined=True), k.global_id()
    with k.if_(i < n >> log_each):
        upper_variables = log_size - log_each
        proof, lower = i >> upper_variables, i & ((k.constant(1, u32) << upper_variables) - 1)
        point_start = proof * points.stride

        def coordinate(start: Value, variable: Value) -> Any:
            return f.carried(f.load(points.elements, point_start + start + variable))

        starts = [f.carried(f.one())]
        if claims == 2:
            starts.append(f.carried(f.load(points.elements, point_start + points.factor)))
        with k.range(0, upper_variables, carry=tuple(starts)) as loop:
            bit = (lower >> (upper_variables - 1 - loop.index)) & 1
            products = []
            for product, start in zip(loop.carried, (points.first, points.second), strict=False):
                w = coordinate(start, loop.index + log_each)
                chosen = f.select(bit != 0, w, f.carried(1 - w))
                products.append(f.carried(product * chosen))
            loop.next(tuple(products))
        totals: list[Any] = []
        for product, start in zip(loop.results, (points.first, points.second), strict=False):
            ahead = [coordinate(start, k.constant(place, u32)) for place in range(log_each)]
            corners = at_corners(f, product, ahead)
            totals = (
                [f.carried(a + b) for a, b in zip(totals, corners, strict=True)]
                if totals
                else corners
            )
        for place, total in enumerate(totals):
            z = (k.constant(place, u32) << upper_variables) + lower
            kept = f.select(z < zeros, f.carried(total), f.carried(f.zero()))
            f.store(weights, (proof << log_size) + z, kept)


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
    """Evaluate n wires at the point of the instances: collapsed[p] = sum of shares times values.

    Values begin at entry `first`: the `places` wires of each proof, of each wire all instances. A
    proof has a share for each instance. A workgroup or an instance computes a wire.
    """
    mixed = MixedField(k, field)
    f = mixed.extended
    taken = mixed.base if is_base else f
    count = k.constant(1, u32) << log_instances

    def added(place: Value, start: Value | int, step: Value | int) -> Any:
        proof = place // places
        with k.range(start, count, step, carry=f.carried(f.zero())) as loop:
            value = taken.load(values, first + (place << log_instances) + loop.index)
            share = f.load(shares, (proof << log_instances) + loop.index)
            loop.next(f.carried(loop.carried + mixed.multiply(share, value)))
        return loop.results

    if by_workgroup:
        sums, place = WorkgroupSums(k, f, 1), k.workgroup_id()
        (total,) = sums.totals([added(place, k.local_id(), k.workgroup_size)])
        with k.if_(k.local_id() == 0):
            f.store(collapsed, place, total)
        return
    place = k.global_id()
    with k.if_(place < n):
        f.store(collapsed, place, added(place, 0, 1))
