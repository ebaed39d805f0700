"""The tables and sums that the check of a data-parallel proof computes."""

from __future__ import annotations

import numpy as np

from quod.gkr.checker.data_parallel.messages import DataParallelMessages, LayerMessages, LayerValues
from quod.gkr.checker.factors import tiles
from quod.gkr.checker.gates import SumForm
from quod.gkr.checker.messages import NONE, Point
from quod.gkr.checker.schedule import Schedule, Sum, Words
from quod.layered.circuit import KINDS, POWERS

_LOG_LOW = 9
_MIN_LOG_FACTOR = 4
_VALUES_EACH = 1 << 10


class DataParallelSchedule(Schedule):
    """All rows of a circuit's data-parallel proofs; `values` has the sums of sent values."""

    def __init__(self, messages: DataParallelMessages, *, evaluates_inputs: bool) -> None:
        super().__init__(messages, evaluates_inputs=evaluates_inputs)
        self.messages = messages
        self.values = Sum()
        self._instances: dict[tuple[int, ...], int] = {}
        for layer in messages.layers:
            self._layer(layer)
        weights = self._weights(messages.layers[-1].below.point)
        first_part = self.parts
        self._add_values(messages.layers[-1].below, weights)
        self._claim_inputs([(NONE, first_part, self.parts)])

    def _layer(self, layer: LayerMessages) -> None:
        weights = self._weights(layer.above.point)
        starts = [self.parts]
        if layer.number < len(self.circuit.layers) - 1:
            self._add_values(layer.above, weights)
        starts.append(self.parts)
        self._add_gates(layer, weights, "constant")
        starts.append(self.parts)
        for kind in KINDS:
            if kind != "constant":
                self._add_gates(layer, weights, kind)
        self.layer_rows.append((*layer.row, *starts, self.parts))

    def _weights(self, point: Point) -> tuple[int, int, int]:
        """Return log2 of the size of a point's lower eq table, and the tables' first entries.

        The upper table's first entry comes before the lower table's.
        """
        upper_count = max(0, len(point.coordinates) - _LOG_LOW)
        upper, lower = point.coordinates[:upper_count], point.coordinates[upper_count:]
        return len(lower), self._table(upper), self._table(lower)

    def _table(self, coordinates: tuple[int, ...]) -> int:
        """Append the eq table of a point, and return its first entry."""
        first = self.table_entries
        self.table_entries += 1 << len(coordinates)
        self._write_table(first, [Point(coordinates)], 1 << len(coordinates), _MIN_LOG_FACTOR)
        return first

    def _by_upper(self, outputs: Words, weights: tuple[int, int, int]) -> list[tuple[int, Words]]:
        """Group outputs by their upper coordinates.

        Returns for each group the index of its entry of eq, and the indices of its outputs.
        """
        log_low, upper, _ = weights
        highs = outputs >> log_low
        order = np.argsort(highs, kind="stable").astype(np.uint32)
        uppers, starts = np.unique(highs[order], return_index=True)
        return [
            (upper + high, indices)
            for high, indices in zip(uppers.tolist(), np.split(order, starts[1:]), strict=True)
        ]

    def _add_values(self, values: LayerValues, weights: tuple[int, int, int]) -> None:
        """Append the partial sums of a layer's sent values."""
        log_low, _, lower = weights
        # Wires are sorted, so that those with the same upper coordinates are consecutive.
        first = self.values.add(values.wires[None] & np.uint32((1 << log_low) - 1))
        for upper, indices in self._by_upper(values.wires, weights):
            begin = int(indices[0])
            for start, stop in tiles(len(indices), _VALUES_EACH):
                index = begin + start
                row = (
                    upper,
                    lower,
                    values.first + index,
                    0,
                    first + index,
                    stop - start,
                    self.parts,
                )
                self.values.rows.append(row)
                self.parts += 1

    def _add_gates(self, layer: LayerMessages, weights: tuple[int, int, int], kind: str) -> None:
        """Append the partial sums over the gates of a kind whose outputs are claimed."""
        gates, layer_index = self.circuit.layers[layer.number].gates[kind], layer.number
        element_indices = np.full(1 << self.circuit.log_below(layer_index), NONE, np.uint32)
        below = layer.below
        element_indices[below.wires] = np.arange(len(below.wires), dtype=np.uint32) + below.first
        codes = gates.coefficient
        columns = np.stack(
            [gates.output, *(element_indices[wires] for wires in gates.inputs), self._codes[codes]]
        )
        is_claimed = np.isin(gates.output, layer.above.wires)
        is_random = self._is_random[codes]
        varies = self._is_public[codes] & (kind == "constant") & bool(layer.instance_point)
        inputs, factors = KINDS[kind], POWERS.get(kind, KINDS[kind])
        is_common = ~is_random & ~varies
        for is_selected, flags in (
            (is_common, {}), (is_random, {"is_random": True}), (varies, {"by_instance": True}),
        ):  # fmt: skip
            gate_columns = columns[:, is_selected & is_claimed]
            if gate_columns.shape[1]:
                form = self._form(inputs, **flags)
                instances = (
                    self._instance_table(layer.instance_point) if flags.get("by_instance") else 0
                )
                self._add_sum(form, gate_columns, weights, factors, instances)

    def _add_sum(
        self, form: SumForm, columns: Words, weights: tuple[int, int, int], factors: int,
        instances: int,
    ) -> None:  # fmt: skip
        log_low, _, lower = weights
        for upper, indices in self._by_upper(columns[0], weights):
            gates = columns[:, indices]
            gates[0] &= np.uint32((1 << log_low) - 1)
            self._add_parts(form, (upper, lower, factors, instances), gates)

    def _instance_table(self, instance_point: tuple[int, ...]) -> int:
        """Return the first entry of the eq table of a point of the instances."""
        if instance_point not in self._instances:
            self._instances[instance_point] = self._table(instance_point)
        return self._instances[instance_point]
