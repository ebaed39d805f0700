"""The two-phase reduction in plain integers: from claims about a layer to the layer below.

The phases are those of Xie et al., "Libra", CRYPTO 2019.
"""

from __future__ import annotations

from quod.commitment.scheme import Claim
from quod.errors import VerificationError
from quod.field.plain_element import PlainElement, coefficients_of
from quod.gkr.protocol import Layer, ProtocolSteps, Rounds
from quod.gkr.reduction import exponents_of
from quod.gkr.verifier.gates import LayerGates, eq_table
from quod.gkr.verifier.step_reader import StepReader


class TwoPhaseVerifier:
    """The verification of all layers, from the outputs to the inputs.

    points, values: the claims about a layer.
    instance_point: the point of the instances, common to all claims.
    factors: the challenges that combine the second claim with the first.
    """

    def __init__(self, gates: LayerGates, steps: ProtocolSteps, messages: StepReader) -> None:
        self.gates, self.steps, self.messages = gates, steps, messages
        self.circuit, self.field = gates.circuit, gates.field
        self.zero = PlainElement.zero(self.field)
        self.points = [messages.challenges(steps.outputs)]
        self.values = [self.zero]
        self.factors: list[PlainElement] = []
        self.instance_point = messages.challenges(steps.instances)

    def claims(self) -> list[Claim]:
        """Verify all layers, and return the claims about the inputs that remain."""
        for layer in self.steps.layers:
            self._layer(layer)
            self.factors = self.messages.challenges(layer.challenges)
        return [
            Claim(coefficients_of([*point, *self.instance_point]), value.coefficients)
            for point, value in zip(self.points, self.values, strict=True)
        ]

    def _layer(self, layer: Layer) -> None:
        """Reduce the claims about a layer to claims about the layer below it."""
        circuit, messages, number = self.circuit, self.messages, layer.number
        first, *second_sumchecks = layer.sumchecks
        weights, claim = self._combined()
        if number == len(circuit.layers) - 1:
            weights[circuit.zeros :] = [self.zero] * (len(weights) - circuit.zeros)
        claim = self.gates.without_constants(number, claim, weights, self.instance_point)

        x, last_claim = self._first_rounds(first.rounds, claim)
        # With products, the rounds end at slope * value + powers: the proof sends the slope, which
        # is the sum of linear gates plus that of products, for the second sumcheck to check.
        value, *slopes = messages.values(first.values)
        at_x = eq_table(self.field, x)
        linear = self._weighted(number, "add", weights, at_x)
        slope = slopes[0] if slopes else linear
        expected = slope * value
        for exponent in exponents_of(circuit.kinds[number]):
            factor = self._weighted(number, f"power{exponent}", weights, at_x)
            expected += factor * value**exponent
        if expected != last_claim:
            raise VerificationError(first.failure)
        self.points, self.values = [x], [value]
        if not second_sumchecks:
            return

        (second,) = second_sumchecks
        last_claim, y = messages.rounds(second.rounds, slope - linear)
        (second_value,) = messages.values(second.values)
        at_y = eq_table(self.field, y)
        product_sum = self.zero
        for output, coefficient_index, left_input, right_input in self.gates.rows(
            number, "multiply"
        ):
            product = weights[output] * at_x[left_input] * at_y[right_input]
            product_sum += product * self.gates.coefficient(coefficient_index)
        if product_sum * second_value != last_claim:
            raise VerificationError(second.failure)
        self.points.append(y)
        self.values.append(second_value)

    def _combined(self) -> tuple[list[PlainElement], PlainElement]:
        """Combine the claims; return the weights of values, and the weighted sum."""
        value, weights = self.values[0], eq_table(self.field, self.points[0])
        second_claims = zip(self.points[1:], self.values[1:], self.factors, strict=True)
        for point, second_value, factor in second_claims:
            eq = eq_table(self.field, point)
            weights = [a + factor * b for a, b in zip(weights, eq, strict=True)]
            value += factor * second_value
        return weights, value

    def _first_rounds(
        self, rounds: Rounds, claim: PlainElement
    ) -> tuple[list[PlainElement], PlainElement]:
        """Verify the first sumcheck; return its point in the wire variables and the claim there."""
        wire_rounds, p = rounds.wires, self.field.modulus.value
        if not rounds.instances:
            last_claim, x = self.messages.rounds(rounds, claim)
            return x, last_claim
        # eq with the coordinate 1/2 is 1/2 at both values of a wire variable. So the claim is
        # halved per wire variable, and only eq of the instances weights the polynomial.
        half = (p + 1) // 2
        point = [*[PlainElement.one(self.field) * half] * wire_rounds, *self.instance_point]
        last_claim, round_challenges = self.messages.rounds(
            rounds, claim * pow(half, wire_rounds, p), point
        )
        self.instance_point = round_challenges[wire_rounds:]
        return round_challenges[:wire_rounds], last_claim

    def _weighted(
        self, layer_index: int, kind: str, weights: list[PlainElement], at_x: list[PlainElement]
    ) -> PlainElement:
        """Return the sum over gates of one input: coefficient * output weight * eq of the input."""
        total = self.zero
        for output, coefficient_index, wire in self.gates.rows(layer_index, kind):
            total += weights[output] * at_x[wire] * self.gates.coefficient(coefficient_index)
        return total
