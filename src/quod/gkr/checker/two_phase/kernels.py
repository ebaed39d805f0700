"""Sums over gates, weighted by eq of the outputs and of the inputs."""

from __future__ import annotations

from quod.gkr.checker.gates import Gates, SumForm
from quod.kernel import U32, Builder, Pointer, kernel
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums

PART_ROW = 6
"""Numbers of a row of a part."""


@kernel
def add_gates(
    k: Builder,
    first_tile: U32,
    tiles: U32,
    parts: U32,
    tags: U32,
    gates_total: U32,
    stride: U32,
    numbers: U32,
    public: U32,
    first_random: U32,
    messages: U32,
    log_instances: U32,
    rows: Pointer[U32],
    gates: Pointer[U32],
    coefficients: Pointer[U32],
    challenges: Pointer[U32],
    tables: Pointer[U32],
    partial: Pointer[U32],
    begun: Pointer[U32],
    *,
    form: SumForm,
) -> None:
    """A part of a sum over gates: coefficient times weight of the output, times eq of each input.

    A row is where the tables of the weights and of both inputs begin, the first gate and the number
    of them (`by_instance` instances of gates), and the part. `gates` are columns of outputs, inputs
    and coefficients. Behind the parts there is the ticket of the run for each.
    """
    mixed = MixedField(k, form.field)
    f = mixed.extended
    sums = WorkgroupSums(k, f, 1)
    proof, tile = k.workgroup_id() // tiles, k.workgroup_id() % tiles + first_tile
    weights, first_input, second_input, first, count, part = k.load(rows, tile * PART_ROW, PART_ROW)
    own = proof * stride

    known = Gates(
        k, mixed, form, (gates, gates_total), (coefficients, numbers, public, log_instances),
        (challenges, messages, first_random), proof,
    )  # fmt: skip

    with k.range(k.local_id(), count, k.workgroup_size, carry=f.carried(f.zero())) as loop:
        gate = known.at(first + loop.index)
        places = [start + x for start, x in zip((first_input, second_input), gate.inputs)]
        if form.by_instance:
            places = [first_input + gate.instance]
        part_sum = f.carried(f.load(tables, own + weights + gate.output))
        part_sum = known.times_coefficient(part_sum, gate)
        for place in places:
            part_sum = f.carried(part_sum * f.carried(f.load(tables, own + place)))
        loop.next(f.carried(loop.carried + part_sum))
    (total,) = sums.totals([loop.results])
    with k.if_(k.local_id() == 0):
        f.store(partial, proof * parts + part, total)
        k.store(partial, tags + proof * parts + part, *k.load(begun, 0))
