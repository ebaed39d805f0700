"""Sums of values and over gates, weighted by eq of the places that they are of.

Values are elements of a proof, so that no table of them is made. Of eq there are tables of the
lower coordinates alone: a part is of places whose upper coordinates are the same, and multiplied by
eq of these once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quod.field.extension import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.checker.gates import Gates, SumForm
from quod.gkr.checker.parameters import Challenges, GateTables, PartialSums, PerProof, Tiles
from quod.gkr.checker.proof_buffer import of_integer
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums

PART_ROW = 7
"""Numbers of a row of a part."""

_AT_ONCE = 4
"""Products that are reduced together."""


@kernel
def add_values(
    k: Builder,
    tiles: Tiles,
    rows: Pointer[U32],
    places: Pointer[U32],
    sent: PerProof,
    tables: PerProof,
    parts: PartialSums,
    *,
    field: FieldSpec,
) -> None:
    """A part of a sum of values in a row: each times the weight of its place.

    A row is the entry of eq of the upper coordinates, where the table of the lower ones begins, the
    first element, nothing, the first place, how many there are, and the part. Places are those of
    the lower coordinates.
    """
    f = field_arithmetic(k, field, inlined=True)
    sums = WorkgroupSums(k, f, 1)
    proof, tile = k.workgroup_id() // tiles.count, k.workgroup_id() % tiles.count + tiles.first
    upper, lower, element, _, first, count, part = k.load(rows, tile * PART_ROW, PART_ROW)
    own, values = proof * tables.stride, proof * sent.stride + element

    def pair(item: Value) -> tuple[Any, Any]:
        (place,) = k.load(places, first + item)
        weight = f.carried(f.load(tables.entries, own + lower + place))
        return weight, f.carried(f.load(sent.entries, values + item))

    (total,) = sums.totals([_sum_of_products(k, f, count, pair)])
    with k.if_(k.local_id() == 0):
        total = of_integer(f, f.carried(total * f.carried(f.load(tables.entries, own + upper))))
        f.store(parts.words, proof * parts.stride + part, f.carried(total))
        k.store(parts.words, parts.tags + proof * parts.stride + part, *k.load(parts.begun, 0))


@kernel
def add_gates(
    k: Builder,
    tiles: Tiles,
    gates: GateTables,
    challenges: Challenges,
    sent: PerProof,
    tables: PerProof,
    parts: PartialSums,
    *,
    form: SumForm,
) -> None:
    """A part of a sum over gates: coefficient times weight of the output, times all inputs.

    A row is the entry of eq of the upper coordinates, where the table of the lower ones begins, how
    many elements are multiplied, where the table of the instances begins, the first gate and the
    number of them (`by_instance` instances of gates), and the part. `gates` are columns of outputs
    by their lower coordinates, of elements of the proof and of coefficients.
    """
    mixed = MixedField(k, form.field)
    f = mixed.extended
    sums = WorkgroupSums(k, f, 1)
    proof, tile = k.workgroup_id() // tiles.count, k.workgroup_id() % tiles.count + tiles.first
    upper, lower, factors, instances, first, count, part = k.load(
        gates.rows, tile * PART_ROW, PART_ROW
    )
    own, values = proof * tables.stride, proof * sent.stride
    known = Gates(k, mixed, form, gates, challenges, proof)

    def pair(number: Value) -> tuple[Any, Any]:
        gate = known.at(first + number)
        weight = f.carried(f.load(tables.entries, own + lower + gate.output))
        weight = known.times_coefficient(weight, gate)
        taken = [f.carried(f.load(sent.entries, values + place)) for place in gate.inputs]
        if form.by_instance:
            taken = [f.carried(f.load(tables.entries, own + instances + gate.instance))]
        if form.inputs == 1:
            with k.range(1, factors, carry=weight) as power:
                power.next(f.carried(power.carried * taken[0]))
            weight = power.results
        if form.inputs == 2:
            weight = f.carried(weight * taken.pop())
        return weight, taken[0] if taken else f.carried(f.one())

    (total,) = sums.totals([_sum_of_products(k, f, count, pair)])
    with k.if_(k.local_id() == 0):
        total = f.carried(total * f.carried(f.load(tables.entries, own + upper)))
        with k.range(0, factors, carry=total) as integers:
            integers.next(f.carried(of_integer(f, integers.carried)))
        f.store(parts.words, proof * parts.stride + part, integers.results)
        k.store(parts.words, parts.tags + proof * parts.stride + part, *k.load(parts.begun, 0))


def _sum_of_products(
    k: Builder, f: Any, count: Value, pair: Callable[[Value], tuple[Any, Any]]
) -> Any:
    """The sum of the products of so many pairs, all instances of a workgroup together, in each its
    own part."""
    size, local = k.workgroup_size, k.local_id()
    whole = count // (_AT_ONCE * size) * (_AT_ONCE * size)
    with k.range(local, whole, _AT_ONCE * size, carry=f.carried(f.zero())) as loop:
        pairs = [pair(loop.index + at * size) for at in range(_AT_ONCE)]
        loop.next(f.carried(loop.carried + f.sum_of_products(pairs)))
    with k.range(whole + local, count, size, carry=loop.results) as rest:
        rest.next(f.carried(rest.carried + f.sum_of_products([pair(rest.index)])))
    return rest.results
