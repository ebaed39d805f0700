"""Kernels that compare what a proof says of layers and inputs with what the circuit gives.

A verdict is a record that only a check writes, made of the ticket of its run: neither zeros nor
what an earlier run has left say anything.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from quod.circuit.layered import KINDS, POWERS
from quod.field.extension import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.checker.kernels import READ, of_integer
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.value import Value

CLAIM_ROW, LAYER_ROW = 3, 14 + len(KINDS) + 1

PASSED, FAILED = 1, 2
"""What a check adds to the ticket, a multiple of four."""


class Parts:
    """Sums of parts inside kernels, and whether this run has made them."""

    def __init__(
        self, k: Builder, f: Any, partial: Value, own: Value, tags: Value, ticket: Value
    ) -> None:
        self._k, self._f, self._partial, self._ticket = k, f, partial, ticket
        self._own, self._tags = own, tags
        self.fresh = ticket == ticket
        """Whether all parts so far have the run's ticket."""

    def sum(self, first: Value, stop: Value) -> Any:
        k, f = self._k, self._f
        with k.range(first, stop, carry=(f.carried(f.zero()), k.constant(0, u32))) as loop:
            total, others = loop.carried
            place = self._own + loop.index
            (tag,) = k.load(self._partial, self._tags + place)
            loop.next(
                (f.carried(total + f.load(self._partial, place)), others | (tag ^ self._ticket))
            )
        self.fresh = self.fresh & (loop.results[1] == 0)
        return loop.results[0]


@kernel
def check_claims(
    k: Builder,
    n: U32,
    claims: U32,
    elements: U32,
    parts: U32,
    tags: U32,
    stride: U32,
    first_record: U32,
    rows: Pointer[U32],
    sent: Pointer[U32],
    partial: Pointer[U32],
    begun: Pointer[U32],
    records: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Compares values of the inputs with claims. A row is an element of the proof and the parts
    from where to where."""
    f, i = field_arithmetic(k, field, inlined=True), k.global_id()
    with k.if_(i < n):
        proof, claim = i // claims, i % claims
        (ticket,) = k.load(begun, 0)
        value, first, stop = k.load(rows, claim * CLAIM_ROW, CLAIM_ROW)
        found = Parts(k, f, partial, proof * parts, tags, ticket)
        difference = found.sum(first, stop) - of_integer(f, f.load(sent, proof * elements + value))
        with k.if_(found.fresh):
            verdict = k.select(f.is_zero(difference), k.constant(PASSED, u32), FAILED)
            k.store(records, proof * stride + first_record + claim, ticket + verdict)


@kernel
def check_layers(
    k: Builder,
    n: U32,
    layers: U32,
    messages: U32,
    elements: U32,
    parts: U32,
    tags: U32,
    stride: U32,
    first_record: U32,
    rows: Pointer[U32],
    sent: Pointer[U32],
    challenges: Pointer[U32],
    partial: Pointer[U32],
    begun: Pointer[U32],
    records: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Both checks of each layer of each proof, from the sums over its gates.

    A row is what `quod.gkr.checker.schedule` says of a layer.
    """
    f, i = field_arithmetic(k, field, inlined=True), k.global_id()
    with k.if_(i < n):
        proof, layer = i // layers, i % layers
        row = k.load(rows, layer * LAYER_ROW, LAYER_ROW)
        starts = dict(zip(KINDS, pairwise(row[14:]), strict=True))
        (ticket,) = k.load(begun, 0)
        found = Parts(k, f, partial, proof * parts, tags, ticket)
        (reader,) = k.load(records, proof * stride + READ)
        found.fresh = found.fresh & (reader == ticket)
        sums = {kind: found.sum(*bounds) for kind, bounds in starts.items()}

        own = _Sent(k, f, sent, challenges, proof * elements, proof * messages)
        claims, value, other, factor = row[:4]
        rounds, degree, element, step, halves, weighted, across = row[4:11]
        second_rounds, second_element, second_step = row[11:14]
        has_second = second_rounds != 0

        zero = f.carried(f.zero())
        claim = f.carried(own.element(value) + own.challenge(factor) * own.element(other))
        claim = f.select(claims == 2, claim, f.select(claims == 1, own.element(value), zero))
        left = own.rounds(
            f.carried(claim - sums["constant"]), (rounds, degree, element, step),
            (halves, weighted, across),
        )  # fmt: skip
        last = element + rounds * degree
        at_x, slope = own.element(last), own.element(last + k.minimum(second_rounds, 1))
        slope = f.select(has_second, slope, sums["add"])
        expected, power = f.carried(slope * at_x), at_x
        for kind in POWERS:
            power = f.carried(power * at_x)
            expected = f.carried(expected + sums[kind] * power)
        is_first_right = f.is_zero(expected - left)

        never = k.constant(0, u32)
        left = own.rounds(
            f.carried(slope - sums["add"]),
            (second_rounds, k.constant(2, u32), second_element, second_step), (never,) * 3,
        )  # fmt: skip
        at_y = own.element(second_element + second_rounds * 2)
        is_second_right = f.is_zero(f.carried(sums["multiply"] * at_y) - left)
        with k.if_(found.fresh):
            verdicts = [
                ticket + k.select(right, k.constant(PASSED, u32), FAILED)
                for right in (is_first_right, is_second_right)
            ]
            k.store(records, proof * stride + first_record + 2 * layer, *verdicts)


class _Sent:
    """A proof and its challenges inside a kernel."""

    def __init__(
        self, k: Builder, f: Any, sent: Value, challenges: Value, first: Value, first_step: Value
    ) -> None:
        self._k, self._f, self._sent, self._challenges = k, f, sent, challenges
        self._first, self._first_step = first, first_step
        self._half = (f.modulus.value + 1) // 2

    def element(self, place: Value) -> Any:
        """An element that was sent."""
        f = self._f
        return f.carried(of_integer(f, f.load(self._sent, self._first + place)))

    def challenge(self, step: Value) -> Any:
        """The challenge after a message."""
        return self._f.carried(self._f.load(self._challenges, self._first_step + step))

    def rounds(self, claim: Any, sumcheck: tuple[Value, ...], weights: tuple[Value, ...]) -> Any:
        """What the rounds of a sumcheck leave of a claim.

        `sumcheck` is how many they are, their degree, the first coefficient and the first
        challenge. `weights` are how many variables are weighted by eq of 1/2, whether those behind
        are by eq of challenges, and the first of these; without weights all rounds halve.
        """
        k, f, half = self._k, self._f, self._half
        rounds, degree, first, step = sumcheck
        halves, weighted, across = weights
        is_weighted = weighted != 0
        with k.range(0, halves, carry=claim) as halving:
            halving.next(f.carried(halving.carried * half))
        a_half = f.carried(f.one() * half)
        with k.range(0, rounds, carry=halving.results) as loop:
            number, own = loop.index, first + loop.index * degree
            place = self.challenge(step + number)
            top = self.element(own + degree - 1)
            with k.range(1, degree, carry=(top, top)) as inner:
                total, others = inner.carried
                coefficient = self.element(own + degree - 1 - inner.index)
                inner.next(
                    (f.carried(total * place + coefficient), f.carried(others + coefficient))
                )
            total, others = inner.results
            is_behind = is_weighted & (number >= halves)
            behind = self.challenge(k.select(is_behind, across + number - halves, step))
            weight = f.select(is_behind, behind, a_half)
            before = f.select(is_weighted, loop.carried, f.carried(loop.carried * half))
            constant = f.carried(before - weight * others)
            loop.next(f.carried(total * place + constant))
        return loop.results
