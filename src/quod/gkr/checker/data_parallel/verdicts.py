"""The checks of each layer: that values are elements, and that they agree with those above."""

from __future__ import annotations

from quod.field.extension import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.checker.parameters import PartialSums, PerProof, Records
from quod.gkr.checker.proof_buffer import Parts, ProofBuffer
from quod.gkr.checker.records import FAILED, PASSED, READ
from quod.kernel import U32, Builder, Pointer, kernel, u32

LAYER_ROW = 11
"""Numbers of the row of a layer."""


@kernel
def check_layers(
    k: Builder,
    n: U32,
    layers: U32,
    rows: Pointer[U32],
    sent: PerProof,
    challenges: PerProof,
    checked: PerProof,
    made: PerProof,
    parts: PartialSums,
    records: Records,
    *,
    field: FieldSpec,
) -> None:
    """Both checks of each layer of each proof.

    A row is that of the layer's messages (`quod.gkr.checker.data_parallel.messages`), and where the
    parts of the claim, of the constants and of the gates begin, and end.
    """
    f, i = field_arithmetic(k, field, inlined=True), k.global_id()
    with k.if_(i < n):
        proof, layer = i // layers, i % layers
        row = k.load(rows, layer * LAYER_ROW, LAYER_ROW)
        rounds, degree, element, step, across, first_run, stop_run = row[:7]
        claim, constants, gates, stop = row[7:]
        (ticket,) = k.load(parts.begun, 0)
        found = Parts(k, f, parts, proof, ticket)
        found.need(made, proof, layer, layers)
        (reader,) = k.load(records.words, proof * records.stride + READ)

        never = k.constant(0, u32)
        with k.range(first_run, stop_run, carry=(never, never)) as loop:
            (tag,) = k.load(checked.entries, proof * checked.stride + loop.index)
            stale, wrong = loop.carried
            verdict = tag ^ ticket
            loop.next((stale | (verdict >> 2), wrong | verdict))
        stale, wrong = loop.results

        left = f.carried(found.sum(claim, constants) - found.sum(constants, gates))
        own = ProofBuffer(k, f, sent, challenges, proof)
        left = own.rounds(left, (rounds, degree, element, step), (never, never + 1, across))
        difference = f.carried(found.sum(gates, stop) - left)
        fresh = found.fresh & (reader == ticket) & (stale == 0)
        with k.if_(fresh):
            verdicts = [
                ticket + k.select(right, k.constant(PASSED, u32), FAILED)
                for right in (wrong == PASSED, f.is_zero(difference))
            ]
            place = proof * records.stride + records.first + 2 * layer
            k.store(records.words, place, *verdicts)
