"""The two checks of each layer, computed from the sums over its gates."""

from __future__ import annotations

from itertools import pairwise

from quod.field.extension import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.checker.proof_buffer import ProofBuffer, SumReader
from quod.gkr.checker.records import FAILED, PASSED, READ
from quod.gkr.checker.structs import PartialSums, PerProof, Records
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.layered.circuit import KINDS, POWERS

LAYER_ROW = 14 + len(KINDS) + 1
"""Numbers of the row of a layer."""


@kernel
def check_layers(
    k: Builder,
    n: U32,
    layers: U32,
    rows: Pointer[U32],
    sent: PerProof,
    challenges: PerProof,
    tile_tickets: PerProof,
    parts: PartialSums,
    records: Records,
    *,
    field: FieldSpec,
) -> None:
    """Compute both verdicts on each layer of each proof from the sums over its gates.

    A row is as in `layer_rows` of `quod.gkr.checker.two_phase.schedule`.
    """
    f, i = field_arithmetic(k, field, inlined=True), k.global_id()
    with k.if_(i < n):
        proof, layer = i // layers, i % layers
        row = k.load(rows, layer * LAYER_ROW, LAYER_ROW)
        starts = dict(zip(KINDS, pairwise(row[14:]), strict=True))
        (ticket,) = k.load(parts.run_start, 0)
        sums = SumReader(k, f, parts, proof, ticket)
        sums.require_tiles(tile_tickets, proof, layer, layers)
        (reader,) = k.load(records.words, proof * records.stride + READ)
        sums.fresh = sums.fresh & (reader == ticket)
        gate_sums = {kind: sums.sum(*bounds) for kind, bounds in starts.items()}

        buffer = ProofBuffer(k, f, sent, challenges, proof)
        claims, value, other, factor = row[:4]
        rounds, degree, element, step, halves, weighted, across = row[4:11]
        second_rounds, second_element, second_step = row[11:14]
        has_second = second_rounds != 0

        zero = f.carried(f.zero())
        claim = f.carried(buffer.element(value) + buffer.challenge(factor) * buffer.element(other))
        claim = f.select(claims == 2, claim, f.select(claims == 1, buffer.element(value), zero))
        last_claim = buffer.rounds(
            f.carried(claim - gate_sums["constant"]), (rounds, degree, element, step),
            (halves, weighted, across),
        )  # fmt: skip
        last = element + rounds * degree
        at_x, slope = buffer.element(last), buffer.element(last + k.minimum(second_rounds, 1))
        slope = f.select(has_second, slope, gate_sums["add"])
        expected, power = f.carried(slope * at_x), at_x
        for kind in POWERS:
            power = f.carried(power * at_x)
            expected = f.carried(expected + gate_sums[kind] * power)
        is_first_right = f.is_zero(expected - last_claim)

        never = k.constant(0, u32)
        last_claim = buffer.rounds(
            f.carried(slope - gate_sums["add"]),
            (second_rounds, k.constant(2, u32), second_element, second_step), (never,) * 3,
        )  # fmt: skip
        at_y = buffer.element(second_element + second_rounds * 2)
        is_second_right = f.is_zero(f.carried(gate_sums["multiply"] * at_y) - last_claim)
        with k.if_(sums.fresh):
            verdicts = [
                ticket + k.select(right, k.constant(PASSED, u32), FAILED)
                for right in (is_first_right, is_second_right)
            ]
            place = proof * records.stride + records.first + 2 * layer
            k.store(records.words, place, *verdicts)
