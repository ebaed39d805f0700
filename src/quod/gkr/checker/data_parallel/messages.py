"""The messages of the data-parallel reduction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quod.frozen import frozen
from quod.gkr.checker.messages import Check, InputClaims, Messages, Point, Row
from quod.gkr.reduction import degree_by_columns, taken_places
from quod.transcript.labels import Label

Places = NDArray[np.uint32]


@frozen(eq=False)
class Values:
    """Values of a layer: of which places, the element of the first one, and the point at which they
    are combined. Those of the outputs are 0, and no elements."""

    places: Places
    first: int
    point: Point


@frozen(eq=False)
class LayerMessages:
    """What a proof has for a layer: the values of it and of the layer below, the point of the
    instances, and the row: rounds, degree, first element, first challenge and that of the point
    before; the runs of the values below, from where to where."""

    number: int
    above: Values
    below: Values
    across: tuple[int, ...]
    row: Row


class DataParallelMessages(Messages):
    """`layers` are those of each layer, from the last one to the first."""

    layers: list[LayerMessages]

    def _all_layers(self, outputs: Point, across: tuple[int, ...]) -> InputClaims:
        self.layers = []
        values = Values(np.arange(self.circuit.zeros, dtype=np.uint32), 0, outputs)
        for number in reversed(range(len(self.circuit.layers))):
            layer = self._layer(number, values, across)
            self.layers.append(layer)
            values = layer.below
            rounds, _, _, step, *_ = layer.row
            across = tuple(range(step, step + rounds)) if rounds else across
        return InputClaims((values.point,), across)

    def _layer(self, number: int, above: Values, across: tuple[int, ...]) -> LayerMessages:
        circuit = self.circuit
        degree = degree_by_columns(circuit.kinds[number])
        rounds = len(across) if degree > 1 else 0
        element, step = self.elements, len(self.rows)
        for _ in range(rounds):
            self._message(Label.ROUND, degree)
        places, first, run = taken_places(circuit, number), self.elements, len(self.runs)
        end = self._many(Label.VALUES, len(places))
        # Of values that are no elements a reader knows before it compares them.
        record = 2 * len(self.layers)
        self.checks.append(Check(record, end, None))
        failure = f"layer {number} is not what the proof claims"
        self.checks.append(Check(record + 1, end, failure))
        below = Values(places, first, Point(self._draw(circuit.log_below(number))))
        row = (rounds, degree, element, step, across[0] if across else 0, run, len(self.runs))
        return LayerMessages(number, above, below, across, row)
