"""The CPU kernel of one pass: transforms of 2**log_rows rows, over all columns of the data.

A transform of 2**m points is a few passes. Each computes log_rows of its m levels in place, and
reads and writes the data once. Each lane of a workgroup computes one column. Between steps the rows
are in the workgroup's scratch memory, as limbs that are reduced only before they could overflow. A
step computes up to three levels on eight rows at a time.

Column q of a pass whose rows are S = 2**s apart begins at element
``(q % S) + (q // S) * S * 2**log_rows``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel import U64, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.ntt.rows import (
    RowForm,
    canonical_form,
    common_form,
    entry_offset,
    load_limbs,
    reduced_rows,
    store_limbs,
)
from quod.ntt.steps import STEP_LEVELS, Direction, butterflies, steps_of, twiddles_of_step

if TYPE_CHECKING:
    from quod.field.element import Element
    from quod.kernel.builder.builder import Builder

Lanes = Literal["adjacent", "apart", "any"]
"""The columns of a workgroup's lanes. adjacent: neighbours in memory, as S is at least the number
of lanes. apart: each is a contiguous transform (S = 1). any: the number of lanes does not divide
the number of columns, and lanes without a column repeat the last one."""

MAX_LOG_ROWS = 12
"""The maximum number of levels of a pass."""

_LINE_BYTES = 64
"""Bytes of a cache line."""


@frozen
class PassShape:
    """The static parameters of a compiled pass.

    lanes: adjacent columns take twiddles from a column table, others from a row table.
    trivial: the twiddle of position 0 is 1 at every level, because there is no coset.
    scaled: multiply each element by factors[0] at the end.
    log_rows: levels of the pass, or None if the number is a launch argument.
    """

    direction: Direction
    lanes: Lanes
    trivial: bool
    scaled: bool
    log_rows: int | None = None


@kernel
def transform_pass(
    k: Builder,
    data: Pointer[U64],
    twiddles: Pointer[U64],
    factors: Pointer[U64],
    scratch: Pointer[U64],
    columns: U64,
    log_rows: U64,
    log_stride: U64,
    *,
    modulus: Modulus,
    shape: PassShape,
) -> None:
    """Compute one pass of number-theoretic transforms: log_rows levels over every column, in place.

    data: elements in Montgomery form; rows are 2**log_stride apart.
    twiddles: a table of `quod.ntt.twiddles`.
    factors: a scale, 1, then the powers of the roots of order 4 and 8 with exponents below half the
        order; see `Tables`.
    scratch: 2**log_rows rows of limbs per workgroup.

    Workgroups stride over the blocks of columns.
    """
    trace = _Pass(k, modulus, shape, log_rows)
    trace.data, trace.twiddles, trace.factors, trace.scratch = data, twiddles, factors, scratch
    trace.columns, trace.log_stride = columns, log_stride
    trace.run()


class _Pass:
    """Traces the body of `transform_pass`."""

    data: Value
    twiddles: Value
    factors: Value
    scratch: Value
    columns: Value
    log_stride: Value

    def __init__(self, k: Builder, modulus: Modulus, shape: PassShape, log_rows: Value) -> None:
        self.k = k
        self.f = prime_field(k, modulus)
        self.shape = shape
        self.has_adjacent_columns = shape.lanes == "adjacent"
        constant_rows = shape.log_rows
        self.log_rows = log_rows if constant_rows is None else self._constant(constant_rows)
        # Rows must be so small at the start of a step that sums before its first product fit the
        # limbs.
        spare_bits = 1 if shape.direction == "ascending" else STEP_LEVELS
        self.limit = max(self.f.p, (1 << self.f.native_exponent) >> spare_bits)
        self.form = canonical_form(self.f, self.f.memory_exponent)

    def _constant(self, value: int) -> Value:
        return self.k.constant(value, types.u64)

    # --- columns

    def run(self) -> None:
        k, lanes = self.k, self.k.workgroup_size
        lane = k.local_id().cast(types.u64)
        group = k.workgroup_id().cast(types.u64)
        rows_limbs = self._constant(self._record_limbs) << self.log_rows
        self.scratch_start = group * rows_limbs + lane
        if self.shape.scaled:
            self.scale = self.f.load(self.factors, 0)
        if self.has_adjacent_columns:
            # Power i > 0 of the root of order 2h is at index h + i; see `Tables`.
            self.roots = {index: self.f.load(self.factors, index) for index in (3, 5, 6, 7)}
        blocks = (self.columns + (lanes - 1)) // lanes
        with k.range(group, blocks, k.num_workgroups().cast(types.u64)) as loop:
            self._set_columns(loop.index * lanes, lane)
            if self.shape.log_rows is None:
                self._steps_of_any_size()
            else:
                self._steps(self.shape.log_rows)

    def _set_columns(self, first: Value, lane: Value) -> None:
        """Compute the starts of a block's columns; `first` is the column of lane 0."""
        if not self.has_adjacent_columns:
            column = first + lane
            if self.shape.lanes == "any":
                column = self.k.minimum(column, self.columns - 1)
            self.start = column << self.log_rows
            return
        column_in_transform = first & ((self._constant(1) << self.log_stride) - 1)
        transform_start = (first >> self.log_stride) << (self.log_stride + self.log_rows)
        self.first_element = transform_start + column_in_transform
        self.start = self.first_element + lane
        records = self._records_before(self.log_rows)
        block = column_in_transform // self.k.workgroup_size
        self.twiddle_start = block * records * self._record_limbs + lane

    # --- memory

    def _element(self, row: Value) -> Value:
        return self.start + (row << self.log_stride if self.has_adjacent_columns else row)

    def _read(self, row: Value) -> Element:
        return self.f.load(self.data, self._element(row), linear=True)

    def _write(self, row: Value, element: Element) -> None:
        if self.shape.scaled:
            element = element * self.scale
        if element.bound > 4 * self.f.p:
            element = self.f.reduce(element)
        self.f.store(self.data, self._element(row), element)

    def _prefetch(self, row: Value) -> None:
        """Prefetch a row of all lanes, if these are adjacent."""
        if not self.has_adjacent_columns:
            return
        row = self.k.minimum(row, (self._constant(1) << self.log_rows) - 1)
        row_start = self.first_element + (row << self.log_stride)
        data, step = self.data.cast(self.f.word_type), _LINE_BYTES // self.f.word_type.bytes
        for word in range(0, self.f.word_count * self.k.workgroup_size, step):
            self.k.prefetch(data, row_start * self.f.word_count + word)

    @property
    def _record_limbs(self) -> int:
        """The limbs of a record, which has one element per lane."""
        return self.k.workgroup_size * self.f.limb_count

    def _scratch_offset(self, row: Value) -> Value:
        return self.scratch_start + row * self._record_limbs

    def _read_scratch(self, row: Value) -> Element:
        return load_limbs(self.k, self.f, self.scratch, self._scratch_offset(row), self.form)

    def _write_scratch(self, row: Value, element: Element) -> None:
        store_limbs(self.k, self.scratch, self._scratch_offset(row), element)

    # --- twiddles

    def _records_before(self, level: Value) -> Value:
        """Compute `steps.records_before` of a level at run time, as a sum of powers of 8."""
        starts = (level + (STEP_LEVELS - 1)) // STEP_LEVELS * STEP_LEVELS
        return ((self._constant(1) << starts) - 1) // ((1 << STEP_LEVELS) - 1)

    def _twiddles_of_step(
        self, start: Value, levels: int, row: Value, *, trivial: bool
    ) -> dict[tuple[int, int], Element]:
        """Load a step's twiddles, by (level, position); omit twiddles that are 1."""
        if self.has_adjacent_columns:
            return self._column_twiddles(start, levels, row)
        half = self._constant(1) << start
        return {
            (level, position): self._row_twiddle((half << level) + half * position + row)
            for level, position in twiddles_of_step(levels)
            if position > 0 or not trivial
        }

    def _row_twiddle(self, entry: Value) -> Element:
        form = canonical_form(self.f, self.f.native_exponent)
        offset = entry_offset(self.k, self.f, entry)
        return load_limbs(self.k, self.f, self.twiddles, offset, form)

    def _column_twiddles(
        self, start: Value, levels: int, row: Value
    ) -> dict[tuple[int, int], Element]:
        """Compute all twiddles of a step from the first one of its highest level."""
        form = canonical_form(self.f, self.f.native_exponent)
        offset = self.twiddle_start + (self._records_before(start) + row) * self._record_limbs
        first_twiddle = load_limbs(self.k, self.f, self.twiddles, offset, form)
        result = {}
        for level in reversed(range(levels)):
            result[level, 0] = first_twiddle
            positions = range(1, 1 << level)
            products = self.f.multiply_many(
                [(first_twiddle, self.roots[1 << level | position]) for position in positions]
            )
            result |= {(level, position): product for position, product in zip(positions, products)}
            if level:
                first_twiddle = self.f.square(first_twiddle)
        return result

    # --- steps

    def _steps(self, log_rows: int) -> None:
        """Trace the steps of `log_rows` levels; the first reads `data` and the last writes it."""
        steps = steps_of(log_rows)
        if self.shape.direction == "descending":
            steps.reverse()
        for step_index, (start, levels) in enumerate(steps):
            self._step(
                self._constant(start), levels, lowest=start == 0, from_data=step_index == 0,
                to_data=step_index + 1 == len(steps),
            )  # fmt: skip

    def _steps_of_any_size(self) -> None:
        """Trace the steps of a number of levels known at run time, all in scratch memory."""
        k = self.k
        rows = self._constant(1) << self.log_rows
        with k.range(self._constant(0), rows) as loop:
            self._write_scratch(loop.index, self._read(loop.index))
        if self.shape.direction == "ascending":
            self._full_steps()
            self._short_step()
        else:
            self._short_step()
            self._full_steps()
        with k.range(self._constant(0), rows) as loop:
            self._write(loop.index, self._read_scratch(loop.index))

    def _full_steps(self) -> None:
        starts = list(range(0, MAX_LOG_ROWS - STEP_LEVELS + 1, STEP_LEVELS))
        if self.shape.direction == "descending":
            starts.reverse()
        for start in starts:
            with self.k.if_(self.log_rows >= start + STEP_LEVELS):
                self._step_in_scratch(self._constant(start), STEP_LEVELS, lowest=start == 0)

    def _short_step(self) -> None:
        """Trace the highest step, of fewer levels than a full one."""
        start = (self.log_rows // STEP_LEVELS) * STEP_LEVELS
        for levels in range(1, STEP_LEVELS):
            with self.k.if_(self.log_rows - start == levels):
                self._step_in_scratch(start, levels, lowest=False)

    def _step_in_scratch(self, start: Value, levels: int, *, lowest: bool) -> None:
        form_if_skipped = self.form
        self._step(start, levels, lowest=lowest, from_data=False, to_data=False)
        # The rows are unchanged if the step is skipped at run time.
        self.form = _joined_form(form_if_skipped, self.form)

    def _step(
        self, start: Value, levels: int, *, lowest: bool, from_data: bool, to_data: bool
    ) -> None:
        """Trace levels start to start + levels - 1 of all rows; with `lowest`, start is 0."""
        k, zero = self.k, self._constant(0)
        half = self._constant(1) << start
        span = self._constant(1) << (start + levels)
        last_block = (self._constant(1) << self.log_rows) - span
        trivial = lowest and self.shape.trivial
        with k.range(zero, half) as positions:
            row = positions.index
            twiddles = self._twiddles_of_step(start, levels, row, trivial=trivial)
            with k.range(zero, last_block + 1, span) as blocks:
                block = blocks.index
                indices = [block + row + half * i for i in range(1 << levels)]
                if from_data or to_data:
                    # The next rows are in other pages, which hardware does not prefetch.
                    next_rows = k.select(block < last_block, span, self._constant(1))
                    for index in indices:
                        self._prefetch(index + next_rows)
                read = self._read if from_data else self._read_scratch
                rows = butterflies(
                    self.f, self.shape.direction, [read(index) for index in indices],
                    lambda level, position: twiddles.get((level, position)), levels,
                )  # fmt: skip
                if not to_data:
                    rows = reduced_rows(self.f, rows, self.limit)
                write = self._write if to_data else self._write_scratch
                for index, element in zip(indices, rows, strict=True):
                    write(index, element)
        self.form = common_form(rows)


def _joined_form(a: RowForm, b: RowForm) -> RowForm:
    maxima = tuple(max(pair) for pair in zip(a.maxima, b.maxima, strict=True))
    return RowForm(max(a.bound, b.bound), maxima, a.exponent)
