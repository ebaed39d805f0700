"""The data-parallel reduction in plain integers: from a claim about a layer to the layer below.

A claim is a weighted sum of a layer's values at the point of the instances. The sumcheck is over
the instances alone, for all wires at once; the values of all wires are sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from quod.commitment.scheme import Claim
from quod.errors import VerificationError
from quod.field.plain_element import PlainElement, coefficients_of
from quod.gkr.protocol import Challenges, Layer, ProtocolSteps
from quod.gkr.reduction import find_sent_wires
from quod.gkr.verifier.gates import LayerGates, eq_table
from quod.gkr.verifier.step_reader import StepReader
from quod.layered.circuit import KINDS, POWERS


class DataParallelVerifier:
    """The verification of all layers, from the outputs to the inputs.

    weights, claim: the weights of a layer's values, and the claimed weighted sum.
    point: the point of the wires at which the values are combined.
    instance_point: the point of the instances.
    """

    def __init__(self, gates: LayerGates, steps: ProtocolSteps, messages: StepReader) -> None:
        self.gates, self.steps, self.messages = gates, steps, messages
        self.circuit, self.field = gates.circuit, gates.field
        zeros = [PlainElement.zero(self.field)] * self.circuit.zeros
        self._combine(range(len(zeros)), zeros, steps.outputs)
        self.instance_point = messages.challenges(steps.instances)

    def claims(self) -> list[Claim]:
        """Verify all layers, and return the claims about the inputs that remain."""
        for layer in self.steps.layers:
            self._layer(layer)
        return [
            Claim(coefficients_of([*self.point, *self.instance_point]), self.claim.coefficients)
        ]

    def _combine(
        self, wires: Iterable[int], values: Iterable[PlainElement], point: Challenges
    ) -> None:
        """Draw a point, and combine values of some wires into one claim at the point."""
        self.point = self.messages.challenges(point)
        eq_weights = eq_table(self.field, self.point)
        self.claim = PlainElement.zero(self.field)
        self.weights = [self.claim] * len(eq_weights)
        for wire, value in zip(wires, values, strict=True):
            self.weights[wire] = eq_weights[wire]
            self.claim += eq_weights[wire] * value

    def _layer(self, layer: Layer) -> None:
        """Reduce a claim about a layer to a claim about the layer below it."""
        number, (sumcheck,) = layer.number, layer.sumchecks
        claim = self.gates.without_constants(number, self.claim, self.weights, self.instance_point)
        claim, round_challenges = self.messages.rounds(sumcheck.rounds, claim, self.instance_point)
        if round_challenges:
            self.instance_point = round_challenges
        sent_wires = find_sent_wires(self.circuit, number).tolist()
        sent_values = self.messages.values(sumcheck.values)
        values = dict(zip(sent_wires, sent_values, strict=True))
        if self._weighted(number, values) != claim:
            raise VerificationError(sumcheck.failure)
        self._combine(sent_wires, sent_values, layer.challenges)

    def _weighted(self, layer_index: int, values: dict[int, PlainElement]) -> PlainElement:
        """Return the sum over gates of output weight times coefficient times values of inputs."""
        total = PlainElement.zero(self.field)
        for kind in KINDS:
            if kind == "constant":
                continue
            exponent = POWERS.get(kind, 1)
            for output, coefficient_index, *inputs in self.gates.rows(layer_index, kind):
                term = self.weights[output] * self.gates.coefficient(coefficient_index)
                for wire in inputs:
                    term *= values[wire] ** exponent
                total += term
        return total
