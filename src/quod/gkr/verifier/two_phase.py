"""The two-phase reduction in plain integers: from claims about a layer to claims about the next.

The two phases of Xie et al., "Libra", CRYPTO 2019.
"""

from __future__ import annotations

from quod.commitment.scheme import Claim
from quod.errors import VerificationError
from quod.field.plain_extension import add, one, power, product, scaled, subtract
from quod.gkr.security import degree_of, exponents_of, is_linear
from quod.gkr.verifier.gates import LayerGates
from quod.sumcheck.eq_reference import equalities
from quod.sumcheck.verifier import read_rounds
from quod.transcript.elements import Plain
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader


class TwoPhaseVerifier:
    """The way down: `points` and `values` are claims about a layer, all at `across`, the point of
    the instances."""

    def __init__(self, gates: LayerGates, reader: ProofReader) -> None:
        self.gates, self.reader = gates, reader
        self.circuit, self.field = gates.circuit, gates.field
        self.log_instances = gates.statement.log_instances
        draw = reader.transcript.challenges
        self.points = [draw(self.field, self.circuit.log_outputs)]
        self.values: list[Plain] = [(0,) * self.field.degree]
        self.across = draw(self.field, self.log_instances)

    def claims(self) -> list[Claim]:
        """What is left to show about the inputs."""
        for number in reversed(range(len(self.circuit.layers))):
            self._layer(number)
        return [
            Claim((*point, *self.across), value)
            for point, value in zip(self.points, self.values, strict=True)
        ]

    def _layer(self, number: int) -> None:
        """From claims about a layer to claims about the one below it."""
        circuit, field, reader = self.circuit, self.field, self.reader
        kinds, below = circuit.kinds[number], circuit.log_below(number)
        weights, claim = self._combined()
        if number == len(circuit.layers) - 1:
            outputs = len(weights)
            weights[circuit.zeros :] = [(0,) * field.degree] * (outputs - circuit.zeros)
        claim = self.gates.without_constants(number, claim, weights, self.across)

        x, left = self._first_rounds(kinds, below, claim)
        value, *rest = reader.elements(Label.VALUES, field, 2 if "multiply" in kinds else 1)
        at_x = equalities(field, x)
        linear = self._weighted(number, "add", weights, at_x)
        slope = rest[0] if rest else linear
        expected = product(field, slope, value)
        for exponent in exponents_of(kinds):
            factor = self._weighted(number, f"power{exponent}", weights, at_x)
            expected = add(field, expected, product(field, factor, power(field, value, exponent)))
        if expected != left:
            raise VerificationError(f"layer {number} is not what the proof claims")
        self.points, self.values = [x], [value]
        if not rest:
            return

        claim = subtract(field, slope, linear)
        left, y = read_rounds(reader, field, degree=2, variables=below, claim=claim)
        (other,) = reader.elements(Label.VALUES, field, 1)
        at_y = equalities(field, y)
        both: Plain = (0,) * field.degree
        for output, coefficient, first, second in self.gates.rows(number, "multiply"):
            part = product(field, product(field, weights[output], at_x[first]), at_y[second])
            both = add(field, both, self.gates.times_coefficient(part, coefficient))
        if product(field, both, other) != left:
            raise VerificationError(f"the products of layer {number} are not what the proof claims")
        self.points.append(y)
        self.values.append(other)

    def _combined(self) -> tuple[list[Plain], Plain]:
        """One claim of several: the weight of each value of the layer, and the weighted sum."""
        field, value = self.field, self.values[0]
        weights = equalities(field, self.points[0])
        for point, claimed in zip(self.points[1:], self.values[1:], strict=True):
            factor = self.reader.transcript.challenge(field)
            weights = [
                add(field, weight, product(field, factor, more))
                for weight, more in zip(weights, equalities(field, point), strict=True)
            ]
            value = add(field, value, product(field, factor, claimed))
        return weights, value

    def _first_rounds(
        self, kinds: frozenset[str], below: int, claim: Plain
    ) -> tuple[list[Plain], Plain]:
        """The point of the inputs, and the claim there, after the first sumcheck."""
        field, more = self.field, self.log_instances
        if is_linear(kinds) or not more:
            left, x = read_rounds(
                self.reader, field, degree=degree_of(kinds), variables=below, claim=claim
            )
            return x, left
        # Weighted by eq of the instances alone: that of 1/2 is 1/2 wherever it is looked at.
        half = (field.modulus.value + 1) // 2
        point = [*[scaled(field, one(field), half)] * below, *self.across]
        claim = scaled(field, claim, pow(half, below, field.modulus.value))
        left, found = read_rounds(
            self.reader, field, degree=degree_of(kinds), variables=below + more, claim=claim,
            point=point,
        )  # fmt: skip
        self.across = found[below:]
        return found[:below], left

    def _weighted(self, number: int, kind: str, weights: list[Plain], at_x: list[Plain]) -> Plain:
        """The sum over gates of one input: coefficient, weight of the output, eq of the input."""
        field = self.field
        total: Plain = (0,) * field.degree
        for output, coefficient, x in self.gates.rows(number, kind):
            part = product(field, weights[output], at_x[x])
            total = add(field, total, self.gates.times_coefficient(part, coefficient))
        return total
