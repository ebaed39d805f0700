"""What is computed to check a proof of a layered circuit, as rows of tables that kernels read.

The tables of eq are those of a few layers at a time, so that they stay in a cache or in little
memory; the sums over gates are cut into parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from quod.circuit.layered import KINDS, LayeredCircuit, Public, Random
from quod.gkr.checker.kernels import SumForm
from quod.gkr.checker.messages import NONE, LayerMessages, Messages, Point, Row

Words = NDArray[np.uint32]

_LEAST_LOG_LOW = 7
_TILE = 1 << 10
_GATES_EACH = 1 << 10
_ROWS = 1 << 12


class Factors:
    """The factors of eq at points: those of the upper and of the lower half of the coordinates."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.coordinates: list[int] = []
        self.entries = 0
        self._known: dict[tuple[tuple[int, ...], int], int] = {}

    def of(self, point: Point) -> tuple[int, int, int]:
        """The logarithm of the lower ones, and where the upper and the lower ones begin."""
        size = len(point.coordinates)
        log_low = min(size, max(-(-size // 2), _LEAST_LOG_LOW))
        upper, lower = point.coordinates[: size - log_low], point.coordinates[size - log_low :]
        return log_low, self._begin(upper, point.scale), self._begin(lower, NONE)

    def _begin(self, coordinates: tuple[int, ...], scale: int) -> int:
        key = (coordinates, scale)
        if key not in self._known:
            self._known[key] = first = self.entries
            at, count = len(self.coordinates), len(coordinates)
            self.coordinates += coordinates
            self.entries += 1 << count
            for start, stop in _tiles(1 << count, _TILE):
                self.rows.append((first, at, count, scale, start, stop))
        return self._known[key]


class Sum:
    """Sums of one form over gates of all layers: `rows` of parts, and the gates."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._columns: list[Words] = []
        self.total = 0

    def add(self, columns: Words) -> int:
        """Where gates begin, given by outputs, inputs and coefficients."""
        first, self.total = self.total, self.total + columns.shape[1]
        self._columns.append(columns)
        return first

    @property
    def gates(self) -> Words:
        """All columns, one after the other."""
        return np.ascontiguousarray(np.concatenate(self._columns, axis=1))


class Chunk:
    """Layers whose tables are in memory at the same time: the tiles of tables from where to where,
    and those of each form's sums."""

    def __init__(self, first_tile: int = 0) -> None:
        self.entries = 0
        self.tables = range(first_tile, first_tile)
        self.sums: dict[SumForm, range] = {}


class Schedule:
    """All rows of a circuit's proofs.

    Tables take at most `table_entries` entries, unless a layer takes more. With `evaluates_inputs`
    claims about the inputs are compared with a table of them.
    """

    def __init__(self, messages: Messages, *, evaluates_inputs: bool, table_entries: int) -> None:
        self.messages, self._most_entries = messages, table_entries
        self.circuit: LayeredCircuit = messages.circuit
        self.factors = Factors()
        self.table_rows: list[Row] = []
        self.sums: dict[SumForm, Sum] = {}
        self.layer_rows: list[Row] = []
        self.parts = 0
        """Parts of all sums."""
        codes = [_code(self.circuit, at) for at in range(len(self.circuit.coefficients))]
        self._codes = np.array(codes or [0], np.uint32)
        self._is_random, self._is_public = (
            np.array([isinstance(c, kind) for c in self.circuit.coefficients] or [False], bool)
            for kind in (Random, Public)
        )
        self.chunks = [Chunk()]
        for layer in messages.layers:
            self._layer(layer)
        self.table_entries = max(chunk.entries for chunk in self.chunks)
        """Entries of the tables of eq that are in memory at the same time."""
        self.claim_rows: list[Row] = []
        self.evaluation_rows: list[Row] = []
        if evaluates_inputs:
            self._evaluate_inputs()

    def _layer(self, layer: LayerMessages) -> None:
        circuit, across = self.circuit, layer.above.across
        own, below = circuit.layers[layer.number], circuit.log_below(layer.number)
        is_spread = self._is_public[own.gates["constant"].coefficient] & bool(across)
        spreads = bool(is_spread.any())
        entries = (1 << own.log_size) + (len(layer.below.points) << below)
        chunk = self._chunk(entries + (spreads << len(across)))
        is_top = layer.number == len(circuit.layers) - 1
        zeros = circuit.zeros if is_top else 1 << own.log_size
        weights = self._table(chunk, layer.above.points, zeros)
        inputs = [self._table(chunk, (Point(p.coordinates),)) for p in layer.below.points]
        instances = self._table(chunk, (Point(across),)) if spreads else 0
        starts = []
        for kind, count in KINDS.items():
            starts.append(self.parts)
            gates = own.gates[kind]
            columns = np.stack([gates.output, *gates.inputs, self._codes[gates.coefficient]])
            is_random = self._is_random[gates.coefficient]
            apart = is_random | is_spread if kind == "constant" else is_random
            tables = (weights, *inputs[:count], *[0] * (2 - count))
            self._sum(chunk, self._form(count), tables, columns[:, ~apart])
            self._sum(chunk, self._form(count, is_random=True), tables, columns[:, is_random])
            if kind == "constant":
                form = self._form(0, by_instance=True)
                self._sum(chunk, form, (weights, instances, 0), columns[:, is_spread])
        self.layer_rows.append((*layer.row, *starts, self.parts))

    def _chunk(self, entries: int) -> Chunk:
        """The one for a layer with so many entries of tables."""
        chunk = self.chunks[-1]
        if chunk.entries and chunk.entries + entries > self._most_entries:
            chunk = Chunk(len(self.table_rows))
            self.chunks.append(chunk)
        return chunk

    def _table(self, chunk: Chunk, points: Sequence[Point], entries: int | None = None) -> int:
        """Where the table of eq of a point, or of two of which the last is scaled, begins."""
        first, size = chunk.entries, 1 << len(points[0].coordinates)
        chunk.entries += size
        factors = [self.factors.of(point) for point in points]
        log_low, *places = (
            (*factors[0], NONE, NONE) if len(factors) == 1 else (*factors[0], *factors[1][1:])
        )
        zeros = size if entries is None else entries
        for start, stop in _tiles(size >> log_low, max(1, _TILE >> log_low)):
            self.table_rows.append((first, log_low, *places, zeros, start, stop))
        chunk.tables = range(chunk.tables.start, len(self.table_rows))
        return first

    def _form(self, inputs: int, **kinds: bool) -> SumForm:
        has_public = bool(self._is_public.any()) and not kinds.get("is_random", False)
        return SumForm(self.messages.field, inputs, has_public=has_public, **kinds)

    def _sum(self, chunk: Chunk, form: SumForm, tables: Row, columns: Words) -> None:
        """Parts of a sum over gates, given by outputs, inputs and coefficients."""
        if not columns.shape[1]:
            return
        whole = self.sums.setdefault(form, Sum())
        first, count = whole.add(columns), columns.shape[1]
        if form.by_instance:
            first, count = (number << self.messages.log_instances for number in (first, count))
        begin = len(whole.rows)
        for start, stop in _tiles(count, _GATES_EACH):
            whole.rows.append((*tables, first + start, stop - start, self.parts))
            self.parts += 1
        known = chunk.sums.setdefault(form, range(begin, begin))
        chunk.sums[form] = range(known.start, len(whole.rows))

    def _evaluate_inputs(self) -> None:
        """Values of the table of inputs at the points of the claims about it."""
        claims = self.messages.claims
        points = [Point((*point.coordinates, *claims.across)) for point in claims.points]
        factors = [self.factors.of(point) for point in points]
        log_low = factors[0][0]
        each = list(_tiles(1 << (len(points[0].coordinates) - log_low), max(1, _ROWS >> log_low)))
        first = self.parts
        for number, (start, stop) in enumerate(each):
            parts = [first + number + len(each) * claim for claim in range(2)]
            places = [*factors[0][1:], *factors[-1][1:]]
            self.evaluation_rows.append((log_low, *places, start, stop, *parts))
        for value in claims.values:
            self.claim_rows.append((value, first, first + len(each)))
            first += len(each)
        self.parts = first


def _code(circuit: LayeredCircuit, place: int) -> int:
    """A coefficient as gates have it: its place, behind all numbers that of a public input, or the
    number of a challenge."""
    coefficient = circuit.coefficients[place]
    if isinstance(coefficient, Public):
        return len(circuit.coefficients) + coefficient.number
    return coefficient.number if isinstance(coefficient, Random) else place


def _tiles(count: int, each: int) -> Iterator[tuple[int, int]]:
    """From where to where parts of a range go."""
    for start in range(0, count, each):
        yield start, min(start + each, count)
