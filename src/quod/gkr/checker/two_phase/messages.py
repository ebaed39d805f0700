"""The messages of the two-phase reduction."""

from __future__ import annotations

from quod.frozen import frozen
from quod.gkr.checker.messages import NONE, Check, InputClaims, Messages, Point, Row
from quod.gkr.protocol import Layer, Sumcheck
from quod.gkr.reduction import Reduction


@frozen
class Claims:
    """Claims about a layer at `points`: their elements are `values`; outputs have none."""

    points: tuple[Point, ...]
    instance_point: tuple[int, ...]
    values: tuple[int, ...]

    @property
    def row(self) -> Row:
        """The number of claims, both elements, and the challenge that combines them."""
        scale = self.points[-1].scale if len(self.values) == 2 else 0
        first, second, *_ = (*self.values, 0, 0)
        return len(self.values), first, second, scale


@frozen
class LayerMessages:
    """The messages of a layer.

    above, below: the claims about the layer, and about the layer below it.
    row: the row of `above`; of the first sumcheck the rounds, degree, first element and first
        challenge, the number of variables that are weighted by 1/2, whether eq of challenges
        weights the other variables, and the first of these; of the second sumcheck the rounds,
        first element and first challenge.
    """

    number: int
    above: Claims
    below: Claims
    row: Row


class TwoPhaseMessages(Messages):
    """The messages of all layers in `layers`, from the outputs to the inputs."""

    reduction = Reduction.TWO_PHASE
    layers: list[LayerMessages]

    def _all_layers(self, outputs: Point, across: tuple[int, ...]) -> InputClaims:
        self.layers = []
        claims = Claims((outputs,), across, ())
        for layer in self.protocol.layers:
            self.layers.append(self._layer(layer, claims))
            claims = self.layers[-1].below
        self.values = claims.values
        """The elements that are claimed of the inputs."""
        return InputClaims(claims.points, claims.instance_point)

    def _layer(self, layer: Layer, above: Claims) -> LayerMessages:
        first, *products = layer.sumchecks
        rounds, drawn = first.rounds, self._sumcheck(first)
        points, values = [Point(tuple(drawn[: rounds.wires]))], [first.values.first]
        across, weights = above.instance_point, (0, 0, 0)
        if rounds.instances:
            across, weights = (
                tuple(drawn[rounds.wires :]),
                (rounds.wires, 1, above.instance_point[0]),
            )
        first_row = (rounds.variables, rounds.degree, rounds.first, drawn.start)
        second_row: Row = (0, 0, 0)
        points_of_products = []
        for second in products:
            drawn = self._sumcheck(second, is_second=True)
            second_row = (second.rounds.variables, second.rounds.first, drawn.start)
            points_of_products.append(tuple(drawn))
            values.append(second.values.first)
        (scale,) = self._challenges(layer.challenges) or (NONE,)
        points += [Point(point, scale) for point in points_of_products]
        claims = Claims(tuple(points), across, tuple(values))
        row = (*above.row, *first_row, *weights, *second_row)
        return LayerMessages(layer.number, above, claims, row)

    def _sumcheck(self, sumcheck: Sumcheck, *, is_second: bool = False) -> range:
        """Append the messages and the check of a sumcheck; return the numbers of its challenges."""
        drawn = self._rounds(sumcheck.rounds)
        end = self._values(sumcheck.values)
        self.checks.append(Check(2 * len(self.layers) + is_second, end, sumcheck.failure))
        return drawn
