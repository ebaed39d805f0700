"""Sums over gates, weighted by eq of the outputs and of the inputs."""

from __future__ import annotations

from quod.gkr.checker.gates import Gates, SumForm
from quod.gkr.checker.structs import Challenges, GateTables, PartialSums, PerProof, Tiles
from quod.kernel import Builder, kernel
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums

PART_ROW = 6
"""The length of a row, which describes one partial sum."""


@kernel
def add_gates(
    k: Builder,
    tiles: Tiles,
    gates: GateTables,
    challenges: Challenges,
    tables: PerProof,
    parts: PartialSums,
    *,
    form: SumForm,
) -> None:
    """Compute a partial sum over gates of coefficient * weight of the output * eq of each input.

    A row has the first entries of the tables of the weights and of both inputs, the first gate, the
    number of gates (`by_instance`: of pairs of a gate and an instance), and the index of the
    partial sum. `gates` has columns of outputs, inputs and coefficients.
    """
    mixed = MixedField(k, form.field)
    f = mixed.extended
    sums = WorkgroupSums(k, f, 1)
    proof, tile = k.workgroup_id() // tiles.count, k.workgroup_id() % tiles.count + tiles.first
    weights, first_input, second_input, first, count, part = k.load(
        gates.rows, tile * PART_ROW, PART_ROW
    )
    table_start = proof * tables.stride
    reader = Gates(k, mixed, form, gates, challenges, proof)

    with k.range(k.local_id(), count, k.workgroup_size, carry=f.bounded(f.zero())) as loop:
        gate = reader.at(first + loop.index)
        entries = [start + x for start, x in zip((first_input, second_input), gate.inputs)]
        if form.by_instance:
            entries = [first_input + gate.instance]
        product = f.bounded(f.load(tables.entries, table_start + weights + gate.output))
        product = reader.times_coefficient(product, gate)
        for entry in entries:
            product = f.bounded(product * f.bounded(f.load(tables.entries, table_start + entry)))
        loop.next(f.bounded(loop.carried + product))
    (total,) = sums.totals([loop.results])
    with k.if_(k.local_id() == 0):
        f.store(parts.words, proof * parts.stride + part, total)
        k.store(parts.words, parts.tags + proof * parts.stride + part, *k.load(parts.run_start, 0))
