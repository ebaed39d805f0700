"""The messages of the two-phase reduction."""

from __future__ import annotations

from quod.frozen import frozen
from quod.gkr.checker.messages import NONE, Check, InputClaims, Messages, Point, Row
from quod.gkr.protocol import Layer, Sumcheck
from quod.gkr.reduction import Reduction


@frozen
class Claims:
    """Claims about a layer.

    points: a point of the wire variables per claim.
    instance_point: the point of the instance variables.
    values: the index of the element of each claimed value; the outputs' claim has no element.
    """

    points: tuple[Point, ...]
    instance_point: tuple[int, ...]
    values: tuple[int, ...]

    @property
    def row(self) -> Row:
        """The number of values (at most 2), their elements, and the challenge that combines them.

        Absent elements are 0.
        """
        scale = self.points[-1].scale if len(self.values) == 2 else 0
        first, second, *_ = (*self.values, 0, 0)
        return len(self.values), first, second, scale


@frozen
class LayerMessages:
    """The messages of a layer.

    above, below: the claims about the layer, and about the layer below it.
    row: the row of `above`; for the first sumcheck the number of rounds, the degree, the first
        element, the first challenge, the number of variables with the eq coordinate 1/2, whether
        challenges are the coordinates of the other variables, and the first of these challenges;
        for the second sumcheck the number of rounds, the first element and the first challenge.
    """

    number: int
    above: Claims
    below: Claims
    row: Row


class TwoPhaseMessages(Messages):
    """The messages of all layers in `layers`, from the outputs to the inputs."""

    reduction = Reduction.TWO_PHASE
    layers: list[LayerMessages]

    def _all_layers(self, outputs: Point, instance_point: tuple[int, ...]) -> InputClaims:
        self.layers = []
        claims = Claims((outputs,), instance_point, ())
        for layer in self.protocol.layers:
            self.layers.append(self._layer(layer, claims))
            claims = self.layers[-1].below
        self.values = claims.values
        """The indices of the elements that are the claimed values of the inputs."""
        return InputClaims(claims.points, claims.instance_point)

    def _layer(self, layer: Layer, above: Claims) -> LayerMessages:
        first, *second_sumchecks = layer.sumchecks
        rounds, challenge_indices = first.rounds, self._sumcheck(first)
        points, values = [Point(tuple(challenge_indices[: rounds.wires]))], [first.values.first]
        instance_point, eq_row = above.instance_point, (0, 0, 0)
        if rounds.instances:
            instance_point, eq_row = (
                tuple(challenge_indices[rounds.wires :]),
                (rounds.wires, 1, above.instance_point[0]),
            )
        first_row = (rounds.variables, rounds.degree, rounds.first, challenge_indices.start)
        second_row: Row = (0, 0, 0)
        points_of_products = []
        for second in second_sumchecks:
            challenge_indices = self._sumcheck(second, is_second=True)
            second_row = (second.rounds.variables, second.rounds.first, challenge_indices.start)
            points_of_products.append(tuple(challenge_indices))
            values.append(second.values.first)
        (scale,) = self._challenges(layer.challenges) or (NONE,)
        points += [Point(point, scale) for point in points_of_products]
        claims = Claims(tuple(points), instance_point, tuple(values))
        row = (*above.row, *first_row, *eq_row, *second_row)
        return LayerMessages(layer.number, above, claims, row)

    def _sumcheck(self, sumcheck: Sumcheck, *, is_second: bool = False) -> range:
        """Append the messages and the check of a sumcheck; return the indices of its challenges."""
        challenge_indices = self._rounds(sumcheck.rounds)
        last_message = self._values(sumcheck.values)
        self.checks.append(Check(2 * len(self.layers) + is_second, last_message, sumcheck.failure))
        return challenge_indices
