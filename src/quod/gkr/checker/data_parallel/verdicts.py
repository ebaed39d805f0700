"""The checks of each layer: values must be elements and agree with the claim from above."""

from __future__ import annotations

from quod.field.any_field import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.checker.proof_buffer import ProofBuffer, SumReader
from quod.gkr.checker.records import FAILED, PASSED, READ
from quod.gkr.checker.structs import PartialSums, PerProof, Records
from quod.kernel import U32, Builder, Pointer, kernel, u32

LAYER_ROW = 11
"""The length of the row of a layer."""


@kernel
def check_layers(
    k: Builder,
    n: U32,
    layers: U32,
    rows: Pointer[U32],
    sent: PerProof,
    challenges: PerProof,
    checked: PerProof,
    tile_tickets: PerProof,
    parts: PartialSums,
    records: Records,
    *,
    field: FieldSpec,
) -> None:
    """Compute both verdicts on each layer of each proof.

    A row has the row of the layer's messages (`quod.gkr.checker.data_parallel.messages`), then the
    index of the first partial sum of the claim, of the constants and of the other gates, and the
    index after the last.
    """
    f, i = field_arithmetic(k, field, inlined=True), k.global_id()
    with k.if_(i < n):
        proof, layer = i // layers, i % layers
        row = k.load(rows, layer * LAYER_ROW, LAYER_ROW)
        rounds, degree, element, first_challenge, first_coordinate, first_run, stop_run = row[:7]
        claim, constants, gates, stop = row[7:]
        (ticket,) = k.load(parts.run_start, 0)
        sums = SumReader(k, f, parts, proof, ticket)
        sums.require_tiles(tile_tickets, proof, layer, layers)
        (read_ticket,) = k.load(records.words, proof * records.stride + READ)

        zero = k.constant(0, u32)
        with k.range(first_run, stop_run, carry=(zero, zero)) as loop:
            (tag,) = k.load(checked.entries, proof * checked.stride + loop.index)
            stale, wrong = loop.carried
            # A ticket is a multiple of four: a tag of this run differs only in its verdict.
            verdict = tag ^ ticket
            loop.next((stale | (verdict >> 2), wrong | verdict))
        stale, wrong = loop.results

        last_claim = f.bounded(sums.sum(claim, constants) - sums.sum(constants, gates))
        buffer = ProofBuffer(k, f, sent, challenges, proof)
        last_claim = buffer.rounds(
            last_claim,
            (rounds, degree, element, first_challenge),
            (zero, zero + 1, first_coordinate),
        )
        difference = f.bounded(sums.sum(gates, stop) - last_claim)
        fresh = sums.fresh & (read_ticket == ticket) & (stale == 0)
        with k.if_(fresh):
            verdicts = [
                ticket + k.select(passes, k.constant(PASSED, u32), FAILED)
                for passes in (wrong == PASSED, f.is_zero(difference))
            ]
            record = proof * records.stride + records.first + 2 * layer
            k.store(records.words, record, *verdicts)
