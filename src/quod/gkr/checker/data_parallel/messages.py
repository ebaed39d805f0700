"""The messages of the data-parallel reduction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quod.frozen import frozen
from quod.gkr.checker.messages import Check, InputClaims, Messages, Point, Row
from quod.gkr.protocol import Layer
from quod.gkr.reduction import Reduction, find_sent_wires

Wires = NDArray[np.uint32]


@frozen(eq=False)
class LayerValues:
    """The values of a layer that the proof contains.

    wires: the wires of the values.
    first: the index of the element of the first value; outputs are 0 and have no elements.
    point: the point at which the values are combined.
    """

    wires: Wires
    first: int
    point: Point


@frozen(eq=False)
class LayerMessages:
    """The messages of a layer in a proof.

    above, below: the values of the layer, and of the layer below it.
    instance_point: the point in the instance variables.
    row: the number of rounds, the degree, the first element, the first challenge, the first
        challenge of the previous instance point, and the range of runs of the values below.
    """

    number: int
    above: LayerValues
    below: LayerValues
    instance_point: tuple[int, ...]
    row: Row


class DataParallelMessages(Messages):
    """The messages of all layers in `layers`, from the outputs to the inputs."""

    reduction = Reduction.DATA_PARALLEL
    layers: list[LayerMessages]

    def _all_layers(self, outputs: Point, instance_point: tuple[int, ...]) -> InputClaims:
        self.layers = []
        values = LayerValues(np.arange(self.circuit.zeros, dtype=np.uint32), 0, outputs)
        for steps in self.protocol.layers:
            layer = self._layer(steps, values, instance_point)
            self.layers.append(layer)
            values = layer.below
            round_count, _, _, first_challenge, *_ = layer.row
            instance_point = (
                tuple(range(first_challenge, first_challenge + round_count))
                if round_count
                else instance_point
            )
        return InputClaims((values.point,), instance_point)

    def _layer(
        self, layer: Layer, above: LayerValues, instance_point: tuple[int, ...]
    ) -> LayerMessages:
        (sumcheck,) = layer.sumchecks
        rounds, challenge_indices, first_run = (
            sumcheck.rounds,
            self._rounds(sumcheck.rounds),
            len(self.runs),
        )
        last_message = self._values(sumcheck.values)
        # The first check is that the values are valid elements, the second compares them.
        verdict_index = 2 * len(self.layers)
        self.checks.append(Check(verdict_index, last_message, None))
        self.checks.append(Check(verdict_index + 1, last_message, sumcheck.failure))
        wires, point = (
            find_sent_wires(self.circuit, layer.number),
            self._challenges(layer.challenges),
        )
        below = LayerValues(wires, sumcheck.values.first, Point(point))
        first_row = (rounds.variables, rounds.degree, rounds.first, challenge_indices.start)
        row = (*first_row, instance_point[0] if instance_point else 0, first_run, len(self.runs))
        return LayerMessages(layer.number, above, below, instance_point, row)
