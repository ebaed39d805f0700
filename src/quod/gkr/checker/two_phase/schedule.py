"""The tables and sums that the check of a two-phase proof computes.

Memory holds the eq tables of a few layers at a time, so that they stay in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.gkr.checker.gates import SumForm
from quod.gkr.checker.messages import Point, Row
from quod.gkr.checker.schedule import Schedule, Words
from quod.gkr.checker.two_phase.messages import LayerMessages, TwoPhaseMessages
from quod.layered.circuit import KINDS


class Chunk:
    """Layers whose eq tables are in memory at the same time.

    entries: the number of entries of the tables.
    tables: the range of the tables' tiles.
    sums: the range of each form's rows of partial sums.
    """

    def __init__(self, first_tile: int = 0) -> None:
        self.entries = 0
        self.tables = range(first_tile, first_tile)
        self.sums: dict[SumForm, range] = {}


class TwoPhaseSchedule(Schedule):
    """A schedule whose tables take at most `table_entries` entries, unless a layer takes more."""

    def __init__(
        self, messages: TwoPhaseMessages, *, evaluates_inputs: bool, table_entries: int
    ) -> None:
        super().__init__(messages, evaluates_inputs=evaluates_inputs)
        self.messages, self._max_entries = messages, table_entries
        self.chunks = [Chunk()]
        for layer in messages.layers:
            self._layer(layer)
        self.table_entries = max(chunk.entries for chunk in self.chunks)
        self._claim_inputs([(value, 0, 0) for value in messages.values])

    def _layer(self, layer: LayerMessages) -> None:
        circuit, instance_point = self.circuit, layer.above.instance_point
        gate_layer, log_below = circuit.layers[layer.number], circuit.log_below(layer.number)
        varies = self._is_public[gate_layer.gates["constant"].coefficient] & bool(instance_point)
        has_varying = bool(varies.any())
        entries = (1 << gate_layer.log_size) + (len(layer.below.points) << log_below)
        chunk = self._chunk(entries + (has_varying << len(instance_point)))
        # Only the outputs that must be 0 are claimed; the others have weight 0.
        is_top = layer.number == len(circuit.layers) - 1
        nonzero_count = circuit.zeros if is_top else 1 << gate_layer.log_size
        weights = self._table(chunk, layer.above.points, nonzero_count)
        inputs = [self._table(chunk, (Point(p.coordinates),)) for p in layer.below.points]
        instances = self._table(chunk, (Point(instance_point),)) if has_varying else 0
        starts = []
        for kind, count in KINDS.items():
            starts.append(self.parts)
            gates = gate_layer.gates[kind]
            columns = np.stack([gates.output, *gates.inputs, self._codes[gates.coefficient]])
            is_random = self._is_random[gates.coefficient]
            is_separate = is_random | varies if kind == "constant" else is_random
            tables = (weights, *inputs[:count], *[0] * (2 - count))
            self._sum(chunk, self._form(count), tables, columns[:, ~is_separate])
            self._sum(chunk, self._form(count, is_random=True), tables, columns[:, is_random])
            if kind == "constant":
                form = self._form(0, by_instance=True)
                self._sum(chunk, form, (weights, instances, 0), columns[:, varies])
        self.layer_rows.append((*layer.row, *starts, self.parts))

    def _chunk(self, entries: int) -> Chunk:
        """Return the chunk to which a layer with `entries` table entries belongs."""
        chunk = self.chunks[-1]
        if chunk.entries and chunk.entries + entries > self._max_entries:
            chunk = Chunk(len(self.table_rows))
            self.chunks.append(chunk)
        return chunk

    def _table(self, chunk: Chunk, points: Sequence[Point], entries: int | None = None) -> int:
        """Append the eq table of a point, or of two of which the second is scaled.

        Returns its first entry.
        """
        first, size = chunk.entries, 1 << len(points[0].coordinates)
        chunk.entries += size
        self._write_table(first, points, size if entries is None else entries)
        chunk.tables = range(chunk.tables.start, len(self.table_rows))
        return first

    def _sum(self, chunk: Chunk, form: SumForm, tables: Row, columns: Words) -> None:
        """Append the partial sums over gates, whose columns are outputs, inputs, coefficients."""
        if not columns.shape[1]:
            return
        rows = self._add_parts(form, tables, columns)
        chunk.sums[form] = range(chunk.sums.get(form, rows).start, rows.stop)
