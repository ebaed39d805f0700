"""A prover of false statements that lies wherever a false message may be accepted."""

from __future__ import annotations

import random
from collections.abc import Callable

from quod.errors import VerificationError
from quod.field.plain_extension import product
from quod.gkr import VerifyingKey, verify
from quod.gkr.reduction import Reduction, find_claimed_wires
from quod.gkr.statement import Statement
from quod.layered import LayeredCircuit
from quod.layered.circuit import POWERS
from quod.sumcheck.eq_reference import equalities
from quod.transcript import Label
from tests.reference import sumcheck
from tests.reference.gkr import Level, ModelByColumns, ModelProver
from tests.reference.sumcheck import Plain, add, embed, multilinear, negate

Place = tuple[int, str, int]
"""A layer, the phase "x" or "y" of its sumchecks, by columns "s", and a round."""


class LyingProver(ModelProver):
    """Proves what is false over a prime field of a few elements.

    In each round that `lies` says it adds to the true polynomial one with as many zeros as its
    degree allows, which makes up for what is wrong with the claim; a challenge that is one of the
    zeros makes the claim true. With `both` it sends false values, too.
    """

    def __init__(
        self, statement: Statement, inputs: list[list[int]], lies: Callable[[Place], bool],
        *, both: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(statement, inputs)
        self._lies, self._both = lies, both
        self._random = random.Random(repr((inputs, statement.public)))
        self._error = 0
        """The verifier's claim minus the true one."""

    def _sumcheck(
        self, phase: tuple[int, str], terms: sumcheck.Terms, tables: Level,
        point: list[Plain] | None,
    ) -> tuple[list[Plain], list[Plain]]:  # fmt: skip
        field, p = self.field, self.field.modulus.value
        half = (p + 1) // 2
        degree = max(len(factors) for _, factors in terms)
        rounds: list[Plain] = []

        def challenge(message: list[Plain]) -> Plain:
            number = len(rounds)
            weight = None if point is None else point[number][0]
            lie = [self._error * (half if weight is None else 1) % p] + [0] * degree
            if self._error and self._lies((*phase, number)):
                lie = self._polynomial(degree, weight)
            sent = [
                add(field, c, embed(field, lie_part))
                for c, lie_part in zip(message, lie[1:], strict=True)
            ]
            self.writer.elements(Label.ROUND, field, sent)
            rounds.append(self.writer.transcript.challenge(field))
            self._error = _value(lie, rounds[-1][0], p)
            return rounds[-1]

        _, challenges, values = sumcheck.prove(field, terms, tables, point, challenge)
        return challenges, values

    def _polynomial(self, degree: int, weight: int | None) -> list[int]:
        """Coefficients of a polynomial with `degree` zeros that claims what is wrong."""
        p = self.field.modulus.value
        while True:
            polynomial = [1]
            for zero in self._random.sample(range(p), degree):
                polynomial = [
                    (a - zero * b) % p
                    for a, b in zip([0, *polynomial], [*polynomial, 0], strict=True)
                ]
            low, high = polynomial[0], sum(polynomial)
            total = (low + high if weight is None else (1 - weight) * low + weight * high) % p
            if total:
                scale = self._error * pow(total, -1, p)
                return [c * scale % p for c in polynomial]


class CheatingProver(LyingProver):
    """By places. Where a sumcheck ends with a false claim it sends false values that agree with it;
    with `both` two for one, which a factor of 1 in p makes true."""

    def _factors(self, number: int) -> list[Plain]:
        factors, field = super()._factors(number), self.field
        level: Level = self.levels[number + 1]
        if number == len(self.circuit.layers) - 1:
            level = [row if z < self.circuit.zeros else [embed(field, 0)] * len(row)
                     for z, row in enumerate(level)]  # fmt: skip
        table = [value for row in level for value in row]
        error = embed(field, 0)
        for factor, (point, claimed) in zip(factors, self.claims, strict=True):
            true = multilinear(field, table, [*point, *self.across])
            difference = add(field, claimed, negate(field, true))
            error = add(field, error, product(field, factor, difference))
        self._error = error[0]
        return factors

    def _sumcheck(
        self, phase: tuple[int, str], terms: sumcheck.Terms, tables: Level,
        point: list[Plain] | None,
    ) -> tuple[list[Plain], list[Plain]]:  # fmt: skip
        if point is not None:
            p = self.field.modulus.value
            half = pow(2, -1, p)
            self._error = self._error * pow(half, self.circuit.log_below(phase[0]), p) % p
        return super()._sumcheck(phase, terms, tables, point)

    def _first_values(self, messages: list[Plain], *, has_products: bool) -> list[Plain]:
        """V and h, or V alone, that agree with the rounds; powers are left as they are."""
        p = self.field.modulus.value
        (value,), (slope,) = messages[:2]
        if not self._error:
            return super()._first_values(messages, has_products=has_products)
        if not has_products:
            # What multiplies V is known: nothing agrees where it is 0.
            wrong = value + self._error * pow(slope, -1, p) if slope else value
            return [embed(self.field, wrong)]
        target = value * slope + self._error
        if len(messages) == 2 and (self._both or not value):
            value = value + 1 if (value + 1) % p else value + 2
        if not value % p:
            return super()._first_values(messages, has_products=has_products)
        wrong = target * pow(value, -1, p)
        self._error = (wrong - slope) % p
        return [embed(self.field, value), embed(self.field, wrong)]

    def _second_value(self, messages: list[Plain]) -> list[Plain]:
        p = self.field.modulus.value
        (value,), (factor,) = messages
        wrong = value + self._error * pow(factor, -1, p) if factor else value
        return [embed(self.field, wrong)]


class CheatingByColumns(LyingProver, ModelByColumns):
    """By columns. With `both` it sends values that agree with a false claim and differ from the
    true ones by a polynomial with as many zeros as there may be, a factor for each coordinate.
    """

    def _layer(self, number: int, below: Level) -> None:
        p = self.field.modulus.value
        ((point, (claimed,)),) = self.claims
        weights = equalities(self.field, point)
        self._weights = {
            z: weights[z].coefficients[0] for z in find_claimed_wires(self.circuit, number).tolist()
        }
        above = self.levels[number + 1]
        true = sum(w * self._collapsed(above[z])[0] for z, w in self._weights.items())
        self._error, self._number = (claimed - true) % p, number
        super()._layer(number, below)

    def _sent_values(self, values: list[Plain]) -> list[Plain]:
        field, p = self.field, self.field.modulus.value
        if not self._error or not self._both:
            return values
        size = self.circuit.log_below(self._number)
        assert len(values) == 1 << size
        true = [value for (value,) in values]
        wanted = (self._gate_sum(true) + self._error) % p
        for _ in range(20):
            corners = [1]
            for zero in self._random.sample(range(p), size):
                corners = [c * (bit - zero) for c in corners for bit in (0, 1)]
            for scale in range(1, p):
                wrong = [(v + scale * c) % p for v, c in zip(true, corners, strict=True)]
                if self._gate_sum(wrong) == wanted:
                    return [embed(field, value) for value in wrong]
        return values

    def _gate_sum(self, values: list[int]) -> int:
        """Return the gates' sum of the layer over values below it, without its constants."""
        total, p = 0, self.field.modulus.value
        for kind in self.circuit.layers[self._number].gates:
            for z, place, *taken in self._gates(self._number, kind) if kind != "constant" else ():
                part = self._weights.get(z, 0) * self._coefficient(place, 0)[0]
                for x in taken:
                    part *= values[x] ** POWERS.get(kind, 1)
                total += part
        return total % p


def _value(polynomial: list[int], place: int, p: int) -> int:
    return sum(c * pow(place, at, p) for at, c in enumerate(polynomial)) % p


def accepted(
    key: VerifyingKey, circuit: LayeredCircuit, inputs: list[list[int]], public: list[list[int]],
    lies: Callable[[Place], bool], *, both: bool = False,
) -> bool:  # fmt: skip
    """Return whether the verifier takes a cheating prover's proof of a false statement."""
    statement = Statement(key, circuit, public, len(inputs), allow_bits=0)
    cheater = CheatingByColumns if key.reduction is Reduction.DATA_PARALLEL else CheatingProver
    proof = cheater(statement, inputs, lies, both=both).prove()
    try:
        verify(key, circuit, public, proof, instances=len(inputs), allow_bits=0)
    except VerificationError:
        return False
    return True
