"""The messages of the two-phase reduction."""

from __future__ import annotations

from quod.frozen import frozen
from quod.gkr.checker.messages import Check, InputClaims, Messages, Point, Row
from quod.layered.circuit import POWERS
from quod.transcript.labels import Label


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


class TwoPhaseMessages(Messages):
    """`layers` are those of each layer, from the last one to the first."""

    layers: list[LayerMessages]

    def _all_layers(self, outputs: Point, across: tuple[int, ...]) -> InputClaims:
        self.layers = []
        claims = Claims((outputs,), across, ())
        for number in reversed(range(len(self.circuit.layers))):
            self.layers.append(self._layer(number, claims))
            claims = self.layers[-1].below
        self.values = claims.values
        """The elements that are claimed of the inputs."""
        return InputClaims(claims.points, claims.across)

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
