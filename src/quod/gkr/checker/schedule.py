"""The computations that check a proof, as rows that kernels read, for both reductions.

Sums over gates are split into partial sums; one workgroup computes each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quod.gkr.checker.factors import Factors, tiles
from quod.gkr.checker.gates import SumForm
from quod.gkr.checker.messages import NONE, Messages, Point, Row
from quod.layered.circuit import LayeredCircuit, Public, Random

Words = NDArray[np.uint32]

_TILE = 1 << 10
_ROWS = 1 << 12
_GATES_EACH = 1 << 10


class Sum:
    """Sums of one form over gates of all layers.

    rows: a row per partial sum.
    total: the number of gates.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._columns: list[Words] = []
        self.total = 0

    def add(self, columns: Words) -> int:
        """Append gates, given by their columns, and return the index of the first."""
        first, self.total = self.total, self.total + columns.shape[1]
        self._columns.append(columns)
        return first

    @property
    def gates(self) -> Words:
        """All columns, one after the other."""
        return np.ascontiguousarray(np.concatenate(self._columns, axis=1))


class Schedule:
    """All rows of a circuit's proofs.

    With `evaluates_inputs` the check compares claims about the inputs with a table of the inputs.
    """

    def __init__(self, messages: Messages, *, evaluates_inputs: bool) -> None:
        self.circuit: LayeredCircuit = messages.circuit
        self.evaluates_inputs = evaluates_inputs
        self._log_instances = messages.log_instances
        self._field, self._claims = messages.field, messages.claims
        self.factors = Factors()
        self.table_rows: list[Row] = []
        self.table_entries = 0
        """The number of entries of the eq tables that are in memory at the same time."""
        self.layer_rows: list[Row] = []
        self.sums: dict[SumForm, Sum] = {}
        """Sums over gates."""
        self.parts = 0
        """The number of partial sums of all sums."""
        self.claim_rows: list[Row] = []
        self.evaluation_rows: list[Row] = []
        codes = [_code(self.circuit, index) for index in range(len(self.circuit.coefficients))]
        self._codes = np.array(codes or [0], np.uint32)
        self._is_random, self._is_public = (
            np.array([isinstance(c, kind) for c in self.circuit.coefficients] or [False], bool)
            for kind in (Random, Public)
        )

    @property
    def tiles(self) -> int:
        """The number of tiles of factors and of tables together."""
        return len(self.factors.rows) + len(self.table_rows)

    @property
    def has_public(self) -> bool:
        """True if some coefficients are public inputs."""
        return bool(self._is_public.any())

    def _form(self, inputs: int, **kinds: bool) -> SumForm:
        has_public = self.has_public and not kinds.get("is_random", False)
        return SumForm(self._field, inputs, has_public=has_public, **kinds)

    def _add_parts(self, form: SumForm, tables: Row, columns: Words) -> range:
        """Append the rows of a sum over gates, and return their range.

        A row has the numbers of `tables`, the first gate, the number of gates (`by_instance`: of
        pairs of a gate and an instance), and the index of the partial sum. `columns` are outputs,
        inputs and coefficients.
        """
        form_sum = self.sums.setdefault(form, Sum())
        log_copies = self._log_instances if form.by_instance else 0
        first, begin = form_sum.add(columns) << log_copies, len(form_sum.rows)
        for start, stop in tiles(columns.shape[1] << log_copies, _GATES_EACH):
            form_sum.rows.append((*tables, first + start, stop - start, self.parts))
            self.parts += 1
        return range(begin, len(form_sum.rows))

    def _write_table(
        self, first: int, points: Sequence[Point], entries: int, min_log_low: int | None = None
    ) -> None:
        """Append the rows of the eq table of a point, or of two of which the second is scaled.

        Entries from `entries` on are 0.
        """
        factors = [self.factors.of(point, min_log_low) for point in points]
        log_low, *factor_starts = (
            (*factors[0], NONE, NONE) if len(factors) == 1 else (*factors[0], *factors[1][1:])
        )
        size = 1 << len(points[0].coordinates)
        for start, stop in tiles(size >> log_low, max(1, _TILE >> log_low)):
            self.table_rows.append((first, log_low, *factor_starts, entries, start, stop))

    def _claim_inputs(self, claimed: Sequence[Row]) -> None:
        """Set `claim_rows`: a row for each claim about the inputs.

        A row has an element of the proof or `NONE`, and the range of the partial sums to add to it.
        """
        sum_bounds = self._evaluated() if self.evaluates_inputs else [(0, 0)] * len(claimed)
        self.claim_rows = [(*row, *bounds) for row, bounds in zip(claimed, sum_bounds, strict=True)]

    def _evaluated(self) -> list[Row]:
        """Append the rows that evaluate the table of inputs; return each claim's partial sums."""
        claims, first = self._claims, self.parts
        points = [Point((*point.coordinates, *claims.instance_point)) for point in claims.points]
        factors = [self.factors.of(point) for point in points]
        log_low = factors[0][0]
        chunks = list(tiles(1 << (len(points[0].coordinates) - log_low), max(1, _ROWS >> log_low)))
        for chunk_index, (start, stop) in enumerate(chunks):
            # Rows have two partial sums; a kernel for one claim ignores the second.
            parts = [first + chunk_index + len(chunks) * claim for claim in range(2)]
            factor_starts = [*factors[0][1:], *factors[-1][1:]]
            self.evaluation_rows.append((log_low, *factor_starts, start, stop, *parts))
        self.parts += len(chunks) * len(points)
        return [
            (first + len(chunks) * claim, first + len(chunks) * (claim + 1))
            for claim in range(len(points))
        ]


def _code(circuit: LayeredCircuit, index: int) -> int:
    """Return the code of a coefficient in gates.

    It is the index of a fixed coefficient, the index of a public input counted after all
    coefficients, or the index of a challenge.
    """
    coefficient = circuit.coefficients[index]
    if isinstance(coefficient, Public):
        return len(circuit.coefficients) + coefficient.number
    return coefficient.number if isinstance(coefficient, Random) else index
