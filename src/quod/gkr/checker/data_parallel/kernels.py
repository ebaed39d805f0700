"""Sums of values and sums over gates, weighted by eq of their wires.

The values are elements of a proof, so no kernel copies them to a table. A wire's coordinates are
split into upper and lower ones, each with an eq table. The wires of a partial sum have the same
upper coordinates, so one product multiplies the whole partial sum by the upper factor. In the
kernels `sent` has the elements of the proofs, `tables` their eq tables, and `parts` the partial
sums. A tile is one partial sum of one proof.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quod.field.any_field import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.checker.gates import Gates, SumForm
from quod.gkr.checker.proof_buffer import of_integer
from quod.gkr.checker.structs import Challenges, GateTables, PartialSums, PerProof, Tiles
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums

PART_ROW = 7
"""The length of a row, which describes one partial sum."""

_AT_ONCE = 4
"""The number of products that share one modular reduction."""


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
    """Compute a partial sum of consecutive values, each times the weight of its wire.

    A row has the index of the upper coordinates' entry of eq, the first entry of the lower
    coordinates' table, the first element, an unused number, the first index in `places`, the number
    of values, and the index of the partial sum. `places` has the lower coordinates of each wire.
    """
    f = field_arithmetic(k, field, inlined=True)
    sums = WorkgroupSums(k, f, 1)
    proof, tile = k.workgroup_id() // tiles.count, k.workgroup_id() % tiles.count + tiles.first
    upper, lower, element, _, first, count, part = k.load(rows, tile * PART_ROW, PART_ROW)
    table_start, values_start = proof * tables.stride, proof * sent.stride + element

    def pair(item: Value) -> tuple[Any, Any]:
        (lower_bits,) = k.load(places, first + item)
        weight = f.bounded(f.load(tables.entries, table_start + lower + lower_bits))
        return weight, f.bounded(f.load(sent.entries, values_start + item))

    (total,) = sums.totals([_sum_of_products(k, f, count, pair)])
    with k.if_(k.local_id() == 0):
        # Each product has one factor that was loaded as an integer; the sum is converted once.
        total = of_integer(
            f, f.bounded(total * f.bounded(f.load(tables.entries, table_start + upper)))
        )
        f.store(parts.words, proof * parts.stride + part, f.bounded(total))
        k.store(parts.words, parts.tags + proof * parts.stride + part, *k.load(parts.run_start, 0))


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
    """Compute a partial sum over gates: coefficient times weight of the output, times all inputs.

    A row has the index of the upper coordinates' entry of eq, the first entry of the lower
    coordinates' table, the number of factors, the first entry of the instances' table, the first
    gate, the number of gates (`by_instance`: of pairs of a gate and an instance), and the index of
    the partial sum. `gates` has columns: the lower coordinates of outputs, elements of the proof,
    and coefficients.
    """
    mixed = MixedField(k, form.field)
    f = mixed.extended
    sums = WorkgroupSums(k, f, 1)
    proof, tile = k.workgroup_id() // tiles.count, k.workgroup_id() % tiles.count + tiles.first
    upper, lower, factors, instances, first, count, part = k.load(
        gates.rows, tile * PART_ROW, PART_ROW
    )
    table_start, values_start = proof * tables.stride, proof * sent.stride
    reader = Gates(k, mixed, form, gates, challenges, proof)

    def pair(index: Value) -> tuple[Any, Any]:
        gate = reader.at(first + index)
        weight = f.bounded(f.load(tables.entries, table_start + lower + gate.output))
        weight = reader.times_coefficient(weight, gate)
        input_values = [
            f.bounded(f.load(sent.entries, values_start + element_index))
            for element_index in gate.inputs
        ]
        if form.by_instance:
            input_values = [
                f.bounded(f.load(tables.entries, table_start + instances + gate.instance))
            ]
        if form.inputs == 1:
            # A power of the input: `_sum_of_products` multiplies by the last factor.
            with k.range(1, factors, carry=weight) as power:
                power.next(f.bounded(power.carried * input_values[0]))
            weight = power.results
        if form.inputs == 2:
            weight = f.bounded(weight * input_values.pop())
        return weight, input_values[0] if input_values else f.bounded(f.one())

    (total,) = sums.totals([_sum_of_products(k, f, count, pair)])
    with k.if_(k.local_id() == 0):
        total = f.bounded(total * f.bounded(f.load(tables.entries, table_start + upper)))
        # Each product has `factors` factors that were loaded as integers.
        with k.range(0, factors, carry=total) as integers:
            integers.next(f.bounded(of_integer(f, integers.carried)))
        f.store(parts.words, proof * parts.stride + part, integers.results)
        k.store(parts.words, parts.tags + proof * parts.stride + part, *k.load(parts.run_start, 0))


def _sum_of_products(
    k: Builder, f: Any, count: Value, pair: Callable[[Value], tuple[Any, Any]]
) -> Any:
    """Sum this kernel instance's share of `count` products; `pair(i)` has the factors of one."""
    size, local = k.workgroup_size, k.local_id()
    unrolled = count // (_AT_ONCE * size) * (_AT_ONCE * size)
    with k.range(local, unrolled, _AT_ONCE * size, carry=f.bounded(f.zero())) as loop:
        pairs = [pair(loop.index + index * size) for index in range(_AT_ONCE)]
        loop.next(f.bounded(loop.carried + f.sum_of_products(pairs)))
    with k.range(unrolled + local, count, size, carry=loop.results) as remainder:
        remainder.next(f.bounded(remainder.carried + f.sum_of_products([pair(remainder.index)])))
    return remainder.results
