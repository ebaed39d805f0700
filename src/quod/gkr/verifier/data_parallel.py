"""The data-parallel reduction in plain integers: from a claim about a layer to one about the next.

A claim is a weighted sum of a layer's values at the point of the instances. The sumcheck is over
the instances alone, for all wires at once; the values of all wires are sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from quod.commitment.scheme import Claim
from quod.errors import VerificationError
from quod.field.plain_element import PlainElement, coefficients_of
from quod.gkr.protocol import Challenges, Layer, ProtocolSteps
from quod.gkr.reduction import taken_places
from quod.gkr.verifier.gates import LayerGates, eq_table
from quod.gkr.verifier.step_reader import StepReader
from quod.layered.circuit import KINDS, POWERS


class DataParallelVerifier:
    """The verification of all layers, from the outputs to the inputs.

    weights, claim: the weights of a layer's values, and the claimed weighted sum.
    point: the point of the wires at which the values are combined.
    across: the point of the instances.
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
        self, places: Iterable[int], values: Iterable[PlainElement], point: Challenges
    ) -> None:
        """Draw a point, and combine the values of some wires of a layer to one claim there."""
        self.point = self.messages.challenges(point)
        corners = eq_table(self.field, self.point)
        self.claim = PlainElement.zero(self.field)
        self.weights = [self.claim] * len(corners)
        for place, value in zip(places, values, strict=True):
            self.weights[place] = corners[place]
            self.claim += corners[place] * value

    def _layer(self, layer: Layer) -> None:
        """Reduce a claim about a layer to one about the layer below it."""
        number, (sumcheck,) = layer.number, layer.sumchecks
        claim = self.gates.without_constants(number, self.claim, self.weights, self.instance_point)
        claim, drawn = self.messages.rounds(sumcheck.rounds, claim, self.instance_point)
        if drawn:
            self.instance_point = drawn
        taken = taken_places(self.circuit, number).tolist()
        sent = self.messages.values(sumcheck.values)
        values = dict(zip(taken, sent, strict=True))
        if self._weighted(number, values) != claim:
            raise VerificationError(sumcheck.failure)
        self._combine(taken, sent, layer.challenges)

    def _weighted(self, number: int, values: dict[int, PlainElement]) -> PlainElement:
        """Return the sum over gates of output weight times coefficient times values of inputs."""
        total = PlainElement.zero(self.field)
        for kind in KINDS:
            if kind == "constant":
                continue
            exponent = POWERS.get(kind, 1)
            for output, coefficient, *taken in self.gates.rows(number, kind):
                part = self.weights[output] * self.gates.coefficient(coefficient)
                for x in taken:
                    part *= values[x] ** exponent
                total += part
        return total
