"""A prover of false statements, as good as any: it lies where a lie may pass."""

from __future__ import annotations

import random
from collections.abc import Callable

from quod.circuit import LayeredCircuit
from quod.errors import VerificationError
from quod.field.plain_extension import product
from quod.gkr import VerifyingKey, verify
from quod.gkr.statement import Statement
from quod.transcript import Label
from tests.reference import sumcheck
from tests.reference.gkr import Level, ModelProver
from tests.reference.sumcheck import Plain, add, embed, multilinear, negate

Place = tuple[int, str, int]
"""A layer, the phase "x" or "y" of its sumchecks, and a round."""


class CheatingProver(ModelProver):
    """Proves what is false over a prime field of a few elements.

    In each round that `lies` says it adds to the true polynomial one with as many zeros as its
    degree allows, which makes up for what is wrong with the claim; a challenge that is one of the
    zeros makes the claim true. Where a sumcheck ends with a false claim it sends false values that
    agree with it; with `both` it sends two for one, which a factor of 1 in p makes true.
    """

    def __init__(
        self, statement: Statement, inputs: list[list[int]], lies: Callable[[Place], bool],
        *, both: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(statement, inputs)
        self._lies, self._both = lies, both
        self._random = random.Random(repr((inputs, statement.public)))
        self._error = 0
        """What the verifier's claim is above the true one."""

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
        field, p = self.field, self.field.modulus.value
        half = (p + 1) // 2
        degree = max(len(factors) for _, factors in terms)
        if point is not None:
            self._error = self._error * pow(half, self.circuit.log_below(phase[0]), p) % p
        rounds: list[Plain] = []

        def challenge(message: list[Plain]) -> Plain:
            number = len(rounds)
            weight = None if point is None else point[number][0]
            lie = [self._error * (half if weight is None else 1) % p] + [0] * degree
            if self._error and self._lies((*phase, number)):
                lie = self._polynomial(degree, weight)
            sent = [
                add(field, c, embed(field, more)) for c, more in zip(message, lie[1:], strict=True)
            ]
            self.writer.elements(Label.ROUND, field, sent)
            rounds.append(self.writer.transcript.challenge(field))
            self._error = _value(lie, rounds[-1][0], p)
            return rounds[-1]

        _, found, values = sumcheck.prove(field, terms, tables, point, challenge)
        return found, values

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

    def _first_values(self, found: list[Plain], *, has_products: bool) -> list[Plain]:
        """V and h, or V alone, that agree with the rounds; powers are left as they are."""
        p = self.field.modulus.value
        (value,), (slope,) = found[:2]
        if not self._error:
            return super()._first_values(found, has_products=has_products)
        if not has_products:
            # What multiplies V is known: nothing agrees where it is 0.
            wrong = value + self._error * pow(slope, -1, p) if slope else value
            return [embed(self.field, wrong)]
        left = value * slope + self._error
        if len(found) == 2 and (self._both or not value):
            value = value + 1 if (value + 1) % p else value + 2
        if not value % p:
            return super()._first_values(found, has_products=has_products)
        wrong = left * pow(value, -1, p)
        self._error = (wrong - slope) % p
        return [embed(self.field, value), embed(self.field, wrong)]

    def _second_value(self, found: list[Plain]) -> list[Plain]:
        p = self.field.modulus.value
        (value,), (known,) = found
        wrong = value + self._error * pow(known, -1, p) if known else value
        return [embed(self.field, wrong)]


def _value(polynomial: list[int], place: int, p: int) -> int:
    return sum(c * pow(place, at, p) for at, c in enumerate(polynomial)) % p


def accepted(
    key: VerifyingKey, circuit: LayeredCircuit, inputs: list[list[int]], public: list[list[int]],
    lies: Callable[[Place], bool], *, both: bool = False,
) -> bool:  # fmt: skip
    """Whether the verifier takes what a cheating prover says of a false statement."""
    statement = Statement(key, circuit, public, len(inputs))
    proof = CheatingProver(statement, inputs, lies, both=both).prove()
    try:
        verify(key, circuit, public, proof, instances=len(inputs))
    except VerificationError:
        return False
    return True
