"""The two checks of each layer, computed from the sums over its gates."""

from __future__ import annotations

from itertools import pairwise

from quod.field.any_field import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.checker.proof_buffer import ProofBuffer, SumReader
from quod.gkr.checker.records import FAILED, PASSED, READ
from quod.gkr.checker.structs import PartialSums, PerProof, Records
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.layered.circuit import KINDS, POWERS

LAYER_ROW = 14 + len(KINDS) + 1
"""The length of the row of a layer."""


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

    A row has the row of the layer's messages (`quod.gkr.checker.two_phase.messages`), then the
    index of the first partial sum of each kind of gate, and the index after the last.
    """
    f, i = field_arithmetic(k, field, inlined=True), k.global_id()
    with k.if_(i < n):
        proof, layer = i // layers, i % layers
        row = k.load(rows, layer * LAYER_ROW, LAYER_ROW)
        bounds_of_kinds = dict(zip(KINDS, pairwise(row[14:]), strict=True))
        (ticket,) = k.load(parts.run_start, 0)
        sums = SumReader(k, f, parts, proof, ticket)
        sums.require_tiles(tile_tickets, proof, layer, layers)
        (read_ticket,) = k.load(records.words, proof * records.stride + READ)
        sums.fresh = sums.fresh & (read_ticket == ticket)
        gate_sums = {kind: sums.sum(*bounds) for kind, bounds in bounds_of_kinds.items()}

        buffer = ProofBuffer(k, f, sent, challenges, proof)
        value_count, first_value, second_value, scale = row[:4]
        rounds, degree, element, first_challenge, halves, has_eq, first_coordinate = row[4:11]
        second_rounds, second_element, second_challenge = row[11:14]
        has_second = second_rounds != 0

        zero = f.bounded(f.zero())
        claim = f.bounded(
            buffer.element(first_value) + buffer.challenge(scale) * buffer.element(second_value)
        )
        claim = f.select(
            value_count == 2, claim, f.select(value_count == 1, buffer.element(first_value), zero)
        )
        last_claim = buffer.rounds(
            f.bounded(claim - gate_sums["constant"]), (rounds, degree, element, first_challenge),
            (halves, has_eq, first_coordinate),
        )  # fmt: skip
        last = element + rounds * degree
        at_x, slope = buffer.element(last), buffer.element(last + k.minimum(second_rounds, 1))
        slope = f.select(has_second, slope, gate_sums["add"])
        expected, power = f.bounded(slope * at_x), at_x
        for kind in POWERS:
            power = f.bounded(power * at_x)
            expected = f.bounded(expected + gate_sums[kind] * power)
        is_first_right = f.is_zero(expected - last_claim)

        zero_word = k.constant(0, u32)
        last_claim = buffer.rounds(
            f.bounded(slope - gate_sums["add"]),
            (second_rounds, k.constant(2, u32), second_element, second_challenge), (zero_word,) * 3,
        )  # fmt: skip
        at_y = buffer.element(second_element + second_rounds * 2)
        is_second_right = f.is_zero(f.bounded(gate_sums["multiply"] * at_y) - last_claim)
        with k.if_(sums.fresh):
            verdicts = [
                ticket + k.select(passes, k.constant(PASSED, u32), FAILED)
                for passes in (is_first_right, is_second_right)
            ]
            record = proof * records.stride + records.first + 2 * layer
            k.store(records.words, record, *verdicts)
