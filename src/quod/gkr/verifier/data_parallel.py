"""The data-parallel reduction in plain integers: from a claim about a layer to one about the next.

A claim is a weighted sum of a layer's values at the point of the instances. The sumcheck is over
the instances alone, for all wires at once; the values of all wires are sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from quod.commitment.scheme import Claim
from quod.errors import VerificationError
from quod.field.plain_extension import add, power, product
from quod.gkr.protocol import Challenges, Layer, ProtocolSteps
from quod.gkr.reduction import taken_places
from quod.gkr.verifier.gates import LayerGates
from quod.gkr.verifier.step_reader import StepReader
from quod.layered.circuit import KINDS, POWERS
from quod.sumcheck.eq_reference import equalities
from quod.transcript.elements import Plain


class DataParallelVerifier:
    """The layers from the outputs to the inputs.

    `weights` and `claim` are those of a layer's values, at `point` and at `across`, the point of
    the instances.
    """

    def __init__(self, gates: LayerGates, steps: ProtocolSteps, messages: StepReader) -> None:
        self.gates, self.steps, self.messages = gates, steps, messages
        self.circuit, self.field = gates.circuit, gates.field
        zeros = [(0,) * self.field.degree] * self.circuit.zeros
        self._combine(range(len(zeros)), zeros, steps.outputs)
        self.across = messages.challenges(steps.instances)

    def claims(self) -> list[Claim]:
        """What is left to show about the inputs."""
        for layer in self.steps.layers:
            self._layer(layer)
        return [Claim((*self.point, *self.across), self.claim)]

    def _combine(self, places: Iterable[int], values: Iterable[Plain], point: Challenges) -> None:
        """One claim of those about the values at some places of a layer, at a point that is
        drawn."""
        field = self.field
        self.point = self.messages.challenges(point)
        corners = equalities(field, self.point)
        self.claim: Plain = (0,) * field.degree
        self.weights = [self.claim] * len(corners)
        for place, value in zip(places, values, strict=True):
            self.weights[place] = corners[place]
            self.claim = add(field, self.claim, product(field, corners[place], value))

    def _layer(self, layer: Layer) -> None:
        """From a claim about a layer to one about the layer below it."""
        number, (sumcheck,) = layer.number, layer.sumchecks
        left = self.gates.without_constants(number, self.claim, self.weights, self.across)
        left, drawn = self.messages.rounds(sumcheck.rounds, left, self.across)
        if drawn:
            self.across = drawn
        taken = taken_places(self.circuit, number).tolist()
        sent = self.messages.values(sumcheck.values)
        values = dict(zip(taken, sent, strict=True))
        if self._weighted(number, values) != left:
            raise VerificationError(sumcheck.failure)
        self._combine(taken, sent, layer.challenges)

    def _weighted(self, number: int, values: dict[int, Plain]) -> Plain:
        """The sum over gates that take values: weight of the output, coefficient, values."""
        field = self.field
        total: Plain = (0,) * field.degree
        for kind in KINDS:
            if kind == "constant":
                continue
            exponent = POWERS.get(kind, 1)
            for output, coefficient, *taken in self.gates.rows(number, kind):
                part = self.gates.times_coefficient(self.weights[output], coefficient)
                for x in taken:
                    part = product(field, part, power(field, values[x], exponent))
                total = add(field, total, part)
        return total
