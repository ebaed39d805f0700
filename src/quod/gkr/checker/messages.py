"""What a proof of a layered circuit has where: it follows from the circuit, never from the proof.

Challenges are counted as the messages after which they are drawn, elements of a proof from the
first behind the commitment.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quod.circuit.layered import POWERS, LayeredCircuit
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.transcript.labels import Label
from quod.transcript.transcript import header

NONE = 0xFFFFFFFF
"""In a row: there is no such thing."""

Row = tuple[int, ...]
"""Numbers that a kernel reads."""


@frozen
class Point:
    """A point by the challenges that are its coordinates, and the one that multiplies its eq."""

    coordinates: tuple[int, ...]
    scale: int = NONE


@frozen
class Message:
    """A message of elements: the first, and how many."""

    first: int
    count: int


@frozen
class Check:
    """A comparison: its record among those of a proof, the last message that it takes, and what is
    said of a proof that fails it."""

    record: int
    message: int
    failure: str


@frozen
class Claims:
    """What is claimed of a layer at `points`: the elements `values`, none of the outputs."""

    points: tuple[Point, ...]
    across: tuple[int, ...]
    values: tuple[int, ...]

    @property
    def row(self) -> Row:
        """How many values there are, two of them, and the challenge that combines them."""
        scale = self.points[-1].scale if len(self.values) == 2 else 0
        first, second, *_ = (*self.values, 0, 0)
        return len(self.values), first, second, scale


@frozen
class LayerMessages:
    """What a proof has for a layer: the claims about it and about the layer below, and the row of
    both sumchecks: rounds, degree, first element, first challenge; of the first how many variables
    are weighted by 1/2, whether the others are by challenges, and the first of these; of the second
    rounds, first element and first challenge."""

    number: int
    above: Claims
    below: Claims
    row: Row


class Messages:
    """All messages of a proof behind the commitment."""

    def __init__(
        self, circuit: LayeredCircuit, field: FieldSpec, *, chain: int, log_instances: int
    ) -> None:
        self.circuit, self.field, self.log_instances = circuit, field, log_instances
        self.rows: list[Row] = []
        """The header of each, and its first element."""
        self.of_elements: dict[int, Message] = {}
        self.elements = 0
        """Elements of a proof."""
        self.checks: list[Check] = []
        """In the order in which a proof is read."""
        self.layers: list[LayerMessages] = []
        """From the last one to the first."""
        self.first_random = chain - 1
        """The challenge that is the first random coefficient."""
        claims = self._begin(chain)
        for number in reversed(range(len(circuit.layers))):
            self.layers.append(self._layer(number, claims))
            claims = self.layers[-1].below
        self.claims = claims
        """Those about the inputs."""

    @property
    def most_words(self) -> int:
        """32-bit words of the longest message."""
        return max(each.count for each in self.of_elements.values()) * self.field.words

    def _message(self, label: Label, count: int = 0) -> int:
        """The number of the next message, of so many elements."""
        number = len(self.rows)
        start = int.from_bytes(header(label, 4 * self.field.words * count), "little")
        self.rows.append((start, self.elements if count else 0))
        if count:
            self.of_elements[number] = Message(self.elements, count)
            self.elements += count
        return number

    def _begin(self, chain: int) -> Claims:
        """The chain, the random coefficients and the first point."""
        circuit = self.circuit
        for _ in range(chain):
            self._message(Label.CHAIN)
        point = circuit.randoms + circuit.log_outputs
        for _ in range(point + self.log_instances - 1):
            self._message(Label.NEXT)
        drawn = range(self.first_random, len(self.rows))
        outputs = Point(tuple(drawn[circuit.randoms : point]))
        return Claims((outputs,), tuple(drawn[point:]), ())

    def _layer(self, number: int, above: Claims) -> LayerMessages:
        gates, below = self.circuit.layers[number].gates, self.circuit.log_below(number)
        exponents = [exponent for kind, exponent in POWERS.items() if len(gates[kind])]
        has_products = len(gates["multiply"]) > 0
        more = len(above.across) if has_products or exponents else 0
        degree = max([2, *(exponent + 1 for exponent in exponents)])
        failure = f"layer {number} is not what the proof claims"
        first, steps, end = self._sumcheck(below + more, degree, 1 + has_products, failure)
        weights = (below, 1, above.across[0]) if more else (0, 0, 0)
        across = tuple(steps[below:]) if more else above.across
        points, values = [Point(tuple(steps[:below]))], [self.of_elements[end].first]
        second: Row = (0, 0, 0)
        if has_products:
            failure = f"the products of layer {number} are not what the proof claims"
            (rounds, _, *second_begins), steps, end = self._sumcheck(
                below, 2, 1, failure, is_second=True
            )
            second = (rounds, *second_begins)
            points.append(Point(tuple(steps), end))
            values.append(self.of_elements[end].first)
        claims = Claims(tuple(points), across, tuple(values))
        return LayerMessages(number, above, claims, (*above.row, *first, *weights, *second))

    def _sumcheck(
        self, rounds: int, degree: int, values: int, failure: str, *, is_second: bool = False
    ) -> tuple[Row, range, int]:
        """The row of a sumcheck, its challenges, and its last message."""
        element, step = self.elements, len(self.rows)
        for _ in range(rounds):
            self._message(Label.ROUND, degree)
        end = self._message(Label.VALUES, values)
        self.checks.append(Check(2 * len(self.layers) + is_second, end, failure))
        return (rounds, degree, element, step), range(step, end), end


def words_of(rows: Sequence[Row]) -> NDArray[np.uint32]:
    """Rows as they are uploaded, one where there are none."""
    return np.array(rows or [(0,)], np.uint32).reshape(-1)
