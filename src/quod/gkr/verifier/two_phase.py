"""The two-phase reduction in plain integers: from claims about a layer to claims about the next.

The two phases of Xie et al., "Libra", CRYPTO 2019.
"""

from __future__ import annotations

from quod.commitment.scheme import Claim
from quod.errors import VerificationError
from quod.field.plain_extension import add, one, power, product, scaled, subtract
from quod.gkr.protocol import Layer, ProtocolSteps, Rounds
from quod.gkr.reduction import exponents_of
from quod.gkr.verifier.gates import LayerGates
from quod.gkr.verifier.step_reader import StepReader
from quod.sumcheck.eq_reference import equalities
from quod.transcript.elements import Plain


class TwoPhaseVerifier:
    """The layers from the outputs to the inputs.

    `points` and `values` are claims about a layer, all at `across`, the point of the instances;
    `factors` combine the second one with the first.
    """

    def __init__(self, gates: LayerGates, steps: ProtocolSteps, messages: StepReader) -> None:
        self.gates, self.steps, self.messages = gates, steps, messages
        self.circuit, self.field = gates.circuit, gates.field
        self.points = [messages.challenges(steps.outputs)]
        self.values: list[Plain] = [(0,) * self.field.degree]
        self.factors: list[Plain] = []
        self.across = messages.challenges(steps.instances)

    def claims(self) -> list[Claim]:
        """What is left to show about the inputs."""
        for layer in self.steps.layers:
            self._layer(layer)
            self.factors = self.messages.challenges(layer.challenges)
        return [
            Claim((*point, *self.across), value)
            for point, value in zip(self.points, self.values, strict=True)
        ]

    def _layer(self, layer: Layer) -> None:
        """From claims about a layer to claims about the one below it."""
        circuit, field, messages, number = self.circuit, self.field, self.messages, layer.number
        first, *products = layer.sumchecks
        weights, claim = self._combined()
        if number == len(circuit.layers) - 1:
            outputs = len(weights)
            weights[circuit.zeros :] = [(0,) * field.degree] * (outputs - circuit.zeros)
        claim = self.gates.without_constants(number, claim, weights, self.across)

        x, left = self._first_rounds(first.rounds, claim)
        value, *rest = messages.values(first.values)
        at_x = equalities(field, x)
        linear = self._weighted(number, "add", weights, at_x)
        slope = rest[0] if rest else linear
        expected = product(field, slope, value)
        for exponent in exponents_of(circuit.kinds[number]):
            factor = self._weighted(number, f"power{exponent}", weights, at_x)
            expected = add(field, expected, product(field, factor, power(field, value, exponent)))
        if expected != left:
            raise VerificationError(first.failure)
        self.points, self.values = [x], [value]
        if not products:
            return

        (second,) = products
        left, y = messages.rounds(second.rounds, subtract(field, slope, linear))
        (other,) = messages.values(second.values)
        at_y = equalities(field, y)
        both: Plain = (0,) * field.degree
        for output, coefficient, left_input, right_input in self.gates.rows(number, "multiply"):
            part = product(field, weights[output], at_x[left_input])
            part = product(field, part, at_y[right_input])
            both = add(field, both, self.gates.times_coefficient(part, coefficient))
        if product(field, both, other) != left:
            raise VerificationError(second.failure)
        self.points.append(y)
        self.values.append(other)

    def _combined(self) -> tuple[list[Plain], Plain]:
        """One claim of several: the weight of each value of the layer, and the weighted sum."""
        field, value = self.field, self.values[0]
        weights = equalities(field, self.points[0])
        others = zip(self.points[1:], self.values[1:], self.factors, strict=True)
        for point, claimed, factor in others:
            weights = [
                add(field, weight, product(field, factor, more))
                for weight, more in zip(weights, equalities(field, point), strict=True)
            ]
            value = add(field, value, product(field, factor, claimed))
        return weights, value

    def _first_rounds(self, rounds: Rounds, claim: Plain) -> tuple[list[Plain], Plain]:
        """The point of the inputs, and the claim there, after the first sumcheck."""
        field, below = self.field, rounds.wires
        if not rounds.instances:
            left, x = self.messages.rounds(rounds, claim)
            return x, left
        # Weighted by eq of the instances alone: that of 1/2 is 1/2 wherever it is looked at.
        half = (field.modulus.value + 1) // 2
        point = [*[scaled(field, one(field), half)] * below, *self.across]
        claim = scaled(field, claim, pow(half, below, field.modulus.value))
        left, found = self.messages.rounds(rounds, claim, point)
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
