"""Kernels that check claims about the inputs of proofs."""

from __future__ import annotations

from quod.field.any_field import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.checker.messages import NONE
from quod.gkr.checker.proof_buffer import SumReader, of_integer
from quod.gkr.checker.records import FAILED, PASSED
from quod.gkr.checker.structs import PartialSums, PerProof, Records, Tiles
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums

EVALUATION_ROW, CLAIM_ROW = 9, 5
"""The lengths of both kinds of rows."""


@kernel
def evaluate_tables(
    k: Builder,
    tiles: Tiles,
    log_size: U32,
    rows: Pointer[U32],
    factors: PerProof,
    values: Pointer[U32],
    parts: PartialSums,
    *,
    field: FieldSpec,
    claims: int,
) -> None:
    """Evaluate a chunk of each proof's table of inputs, integers below p, at one or two points.

    A row has log2 of the number of lower factors, the first upper and the first lower factor of
    both points, the range of the tile's upper factors, and the index of each point's partial sum.
    """
    mixed = MixedField(k, field)
    f, base = mixed.extended, mixed.base
    sums = WorkgroupSums(k, f, claims)
    proof, tile = k.workgroup_id() // tiles.count, k.workgroup_id() % tiles.count + tiles.first
    row = k.load(rows, tile * EVALUATION_ROW, EVALUATION_ROW)
    log_low, start, stop = row[0], row[5], row[6]
    size, factors_start = k.constant(1, u32) << log_low, proof * factors.stride
    zeros = tuple(f.bounded(f.zero()) for _ in range(claims))
    with k.range(start, stop, carry=zeros) as outer:
        with k.range(k.local_id(), size, k.workgroup_size, carry=zeros) as inner:
            value_index = (proof << log_size) + (outer.index << log_low) + inner.index
            value = base.bounded(base.load(values, value_index))
            lowers = [
                f.load(factors.entries, factors_start + row[2 + 2 * n] + inner.index)
                for n in range(claims)
            ]
            products = [mixed.multiply(f.bounded(lower), value) for lower in lowers]
            inner.next(
                tuple(f.bounded(a + b) for a, b in zip(inner.carried, products, strict=True))
            )
        uppers = [
            f.load(factors.entries, factors_start + row[1 + 2 * n] + outer.index)
            for n in range(claims)
        ]
        outer.next(
            tuple(
                f.bounded(total + f.bounded(upper) * part)
                for total, upper, part in zip(outer.carried, uppers, inner.results, strict=True)
            )
        )
    # The kernel loaded integers as elements in Montgomery form.
    totals = [f.bounded(of_integer(f, total)) for total in sums.totals(list(outer.results))]
    with k.if_(k.local_id() == 0):
        for n, total in enumerate(totals):
            part_index = proof * parts.stride + row[7 + n]
            f.store(parts.words, part_index, total)
            tag = parts.tags + proof * parts.stride + row[7 + n]
            k.store(parts.words, tag, *k.load(parts.run_start, 0))


@kernel
def check_claims(
    k: Builder,
    n: U32,
    claims: U32,
    rows: Pointer[U32],
    sent: PerProof,
    parts: PartialSums,
    claimed: Pointer[U32],
    records: Records,
    *,
    field: FieldSpec,
    evaluates: bool,
) -> None:
    """Compute the claims about the inputs; with `evaluates` compare them with the table's values.

    A row has an element of the proof or `NONE`, the range of the partial sums that are added to
    it, and the range of the partial sums of the table's value.
    """
    f, i = field_arithmetic(k, field, inlined=True), k.global_id()
    with k.if_(i < n):
        proof, claim = i // claims, i % claims
        (ticket,) = k.load(parts.run_start, 0)
        element_index, claim_first, claim_stop, table_first, table_stop = k.load(
            rows, claim * CLAIM_ROW, CLAIM_ROW
        )
        sums = SumReader(k, f, parts, proof, ticket)
        is_sent = element_index != NONE
        element = f.load(sent.entries, proof * sent.stride + k.select(is_sent, element_index, 0))
        element = f.select(is_sent, f.bounded(of_integer(f, element)), f.bounded(f.zero()))
        claim_value = f.bounded(sums.sum(claim_first, claim_stop) + element)
        verdict = k.constant(PASSED, u32)
        if evaluates:
            difference = f.bounded(sums.sum(table_first, table_stop) - claim_value)
            verdict = k.select(f.is_zero(difference), verdict, FAILED)
        with k.if_(sums.fresh):
            f.store(claimed, i, claim_value)
            record = proof * records.stride + records.first + claim
            k.store(records.words, record, ticket + verdict)
