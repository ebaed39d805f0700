"""The data-parallel reduction in plain integers: from a claim about a layer to one about the next.

A claim is a weighted sum of a layer's values at the point of the instances. The sumcheck is over
the instances alone, for all wires at once; the values of all wires are sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from quod.commitment.scheme import Claim
from quod.errors import VerificationError
from quod.field.plain_extension import add, power, product
from quod.gkr.reduction import degree_by_columns, taken_places
from quod.gkr.verifier.gates import LayerGates
from quod.layered.circuit import KINDS, POWERS
from quod.sumcheck.eq_reference import equalities
from quod.sumcheck.verifier import read_rounds
from quod.transcript.elements import Plain
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader


class DataParallelVerifier:
    """The way down: `weights` and `claim` are those of a layer's values, at `point` and at
    `across`, the point of the instances."""

    def __init__(self, gates: LayerGates, reader: ProofReader) -> None:
        self.gates, self.reader = gates, reader
        self.circuit, self.field = gates.circuit, gates.field
        zeros = [(0,) * self.field.degree] * self.circuit.zeros
        self._combine(range(len(zeros)), zeros, self.circuit.log_outputs)
        self.across = reader.transcript.challenges(self.field, gates.statement.log_instances)

    def claims(self) -> list[Claim]:
        """What is left to show about the inputs."""
        for number in reversed(range(len(self.circuit.layers))):
            self._layer(number)
        return [Claim((*self.point, *self.across), self.claim)]

    def _combine(self, places: Iterable[int], values: Iterable[Plain], log_size: int) -> None:
        """One claim of those about the values at some places of a layer, at a point that is
        drawn."""
        field = self.field
        self.point = self.reader.transcript.challenges(field, log_size)
        corners = equalities(field, self.point)
        self.claim: Plain = (0,) * field.degree
        self.weights = [self.claim] * len(corners)
        for place, value in zip(places, values, strict=True):
            self.weights[place] = corners[place]
            self.claim = add(field, self.claim, product(field, corners[place], value))

    def _layer(self, number: int) -> None:
        """From a claim about a layer to one about the layer below it."""
        circuit, field, reader = self.circuit, self.field, self.reader
        left = self.gates.without_constants(number, self.claim, self.weights, self.across)
        degree = degree_by_columns(circuit.kinds[number])
        if degree > 1:
            left, self.across = read_rounds(
                reader, field, degree=degree, variables=len(self.across), claim=left,
                point=self.across,
            )  # fmt: skip
        taken = taken_places(circuit, number).tolist()
        sent = reader.many_elements(Label.VALUES, field, len(taken))
        values = dict(zip(taken, sent, strict=True))
        if self._weighted(number, values) != left:
            raise VerificationError(f"layer {number} is not what the proof claims")
        self._combine(taken, sent, circuit.log_below(number))

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
