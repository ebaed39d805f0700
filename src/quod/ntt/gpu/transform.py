"""The kernel of one pass of a transform.

The data is a matrix; a pass transforms every column of 2**log_rows rows. Each workgroup has one
tile: all rows of a few columns. Elements go from memory to registers, through the steps of the
pass, between which instances exchange them through shared memory, and back to memory. Within a pass
the twiddles are roots of order 2**log_rows, few enough for the L1 cache. The other twiddle of an
element, its *inner* factor, depends on the column too (Bailey, "FFTs in external or hierarchical
memory", 1990). A descending pass (decimation in frequency) multiplies by it at the end, an
ascending pass (in time) at the start. The *outer* factor depends only on the row; cosets use it,
before a descending pass and after an ascending one. See `quod.ntt.gpu.factors`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Literal

from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel import U32, U64, Builder, Pointer, Struct, kernel
from quod.kernel.errors import TraceError
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.ntt.gpu.butterflies import Butterflies
from quod.ntt.gpu.exchange import exchange
from quod.ntt.gpu.layout import (
    RolledStep,
    Step,
    Tile,
    arrange,
    gathered,
    padded,
    spread,
)
from quod.ntt.ordering import reversed_bits, reversed_value
from quod.ntt.rows import RowForm, common_form
from quod.ntt.steps import Direction, steps_of

Position = Literal["only", "lowest", "upper"]
"""Position of a pass: the only one of its transform; the lowest, with rows adjacent in memory; or
one above it, with rows 2**log_stride elements apart."""

BitReversedSide = Literal["none", "reads", "writes"]
"""The transfer of a pass, if any, in the bit-reversed order of the whole transform."""

Inner = Literal["none", "rows", "full", "split"]
"""The table of the inner factors: none, one factor per row, one per row and column, or two tables,
for the low and the high bits of the column."""


@frozen
class PassParameters:
    """The static parameters of a compiled pass over tiles.

    root: a root of unity of order 2**min(log_elements, log_rows), a power of the transform's.
    inner: the kind of table of the inner factors.
    outer: whether there are outer factors.
    reversed: the transfer in bit-reversed order.
    fills_tiles: the number of columns is a multiple of a tile's, so no bounds are checked.
    rolled: compile the steps, which must have equal numbers of levels, as a loop: less code, but
        two more exchanges.
    resident: workgroups that a multiprocessor should hold at a time; 0: the assembler chooses.
    """

    direction: Direction
    tile: Tile
    position: Position
    root: int
    inner: Inner = "none"
    outer: bool = False
    reversed: BitReversedSide = "none"
    fills_tiles: bool = True
    rolled: bool = False
    resident: int = 0

    @property
    def twiddle_products(self) -> float:
        """Average number of field multiplications by twiddles per element."""
        tile, total = self.tile, 0.0
        for first_level, levels in steps_of(tile.log_rows, tile.log_elements):
            total += levels / 2 - 1 + 2.0**-levels
            total += 1 - 2.0**-levels if first_level else 0
        return total

    @property
    def factor_products(self) -> int:
        """The number of field multiplications by inner and outer factors per element."""
        return {"none": 0, "split": 2}.get(self.inner, 1) + self.outer


class FactorTables(Struct):
    """The factor tables of a pass, in Montgomery form; a kernel reads those its `PassParameters`
    names.

    twiddles: powers of the root of order 2**log_rows; as prepared factors, if the field has them.
    outer: one factor per row.
    inner: one factor per row; or inner[row << log_stride | c] for column c of a transform; or, if
        split, inner[row << log_split | c % 2**log_split].
    inner_high: if `inner` is split, inner_high[row << (log_stride - log_split) | c >> log_split].
    """

    twiddles: Pointer[U64]
    outer: Pointer[U64]
    inner: Pointer[U64]
    inner_high: Pointer[U64]


class PassExtents(Struct):
    """The extents of a pass.

    columns: the number of columns of all transforms.
    log_size: log2 of the points of a transform.
    log_stride: log2 of the elements from one row to the next.
    log_split: low bits of the column that index `FactorTables.inner` if it is split.
    """

    columns: U32
    log_size: U32
    log_stride: U32
    log_split: U32


@kernel
def transform_tiles(
    k: Builder,
    source: Pointer[U64],
    target: Pointer[U64],
    factors: FactorTables,
    extents: PassExtents,
    *,
    modulus: Modulus,
    shape: PassParameters,
) -> None:
    """Compute one pass of number-theoretic transforms, one tile per workgroup.

    Takes workgroups of ``shape.tile.lanes`` instances. `source` and `target` hold elements in
    Montgomery form; they may be the same memory if reads and writes have the same layout.
    """
    _Pass(k, modulus, shape, source, target, factors, extents).run()


@frozen
class _TileLayout:
    """The layout of a tile in `source` or in `target`.

    Row r, column c of the tile is element ``start + (r << row_shift) + (c << column_shift)``, where
    the bits of r or c may be reversed.
    """

    start: Value
    row_shift: Value
    column_shift: Value
    reversed_rows: bool = False
    reversed_columns: bool = False


class _Pass:
    """Traces the body of `transform_tiles`."""

    def __init__(
        self, k: Builder, modulus: Modulus, shape: PassParameters, source: Value, target: Value,
        factors: FactorTables, extents: PassExtents,
    ) -> None:  # fmt: skip
        self.source, self.target, self.factors, self.extents = source, target, factors, extents
        self.k = k
        self.f = prime_field(k, modulus)
        self.shape = shape
        self.tile = shape.tile
        log_order = min(self.tile.log_elements, self.tile.log_rows)
        self.butterflies = Butterflies(self.f, shape.direction, shape.root, log_order)
        if k.workgroup_size != self.tile.lanes:
            tile = self.tile
            raise TraceError(
                f"tiles of 2^{tile.log_size} elements, 2^{tile.log_elements} an instance, "
                f"take workgroups of {tile.lanes}, not {k.workgroup_size}"
            )

    def run(self) -> None:
        if self.shape.resident:
            self.k.resident_workgroups(self.shape.resident)
        self.descending = self.shape.direction == "descending"
        self.local = self.k.local_id()
        self.group = self.k.workgroup_id()
        self.first_column = self.group << self.tile.log_columns
        self.shared = exchange(self.k, self.f, self.tile)
        if self.shared.bound is not None:
            self.butterflies.restrict(self.shared.bound)
        read, write = self._layouts()
        if self.shape.rolled:
            self._run_rolled(read, write)
            return
        steps = self._ordered_steps()
        elements = self._read(steps[0], read)
        elements = self._apply_factors(steps[0], elements, outer=self.descending)
        elements = self._step(steps[0], elements)
        for previous, step in itertools.pairwise(steps):
            elements = self.butterflies.unify(elements)
            # No barrier before the store: an instance stores to the indices that it loaded from.
            self._store_shared(previous, elements)
            self.k.barrier()
            elements = self._step(step, self._load_shared(step, common_form(elements)))
        elements = self._apply_factors(steps[-1], elements, outer=not self.descending)
        self._write(steps[-1], write, elements)

    def _run_rolled(self, read: _TileLayout, write: _TileLayout) -> None:
        """Trace the steps as a loop, from shared memory to shared memory."""
        k, tile = self.k, self.tile
        steps, remainder = divmod(tile.log_rows, tile.log_elements)
        if remainder or not steps:
            raise TraceError(
                f"{tile.log_rows} levels are no loop of steps of {tile.log_elements} levels"
            )
        read_order, write_order = self._address_orders()
        top_level = tile.log_rows - tile.log_elements
        load_step = arrange(tile, top_level, tile.log_elements, read_order)
        store_step = arrange(tile, top_level, tile.log_elements, write_order)
        elements = self._apply_factors(
            load_step, self._read(load_step, read), outer=self.descending
        )
        elements = self.butterflies.bounded(elements)
        form = common_form(elements)
        self._store_shared(load_step, elements)
        k.barrier()
        with k.range(0, steps) as loop:
            step_index = self._u32(steps - 1) - loop.index if self.descending else loop.index
            self._rolled_step(RolledStep(tile, k, self.local, step_index * tile.log_elements), form)
            k.barrier()
        elements = self._load_shared(store_step, form)
        elements = self._apply_factors(store_step, elements, outer=not self.descending)
        self._write(store_step, write, elements)

    def _rolled_step(self, step: RolledStep, form: RowForm) -> None:
        registers = range(1 << self.tile.log_elements)
        indices = [step.place(register) for register in registers]
        elements = [self.shared.load(index, form) for index in indices]
        if self.descending:
            elements = self.butterflies.transform(elements, self.tile.log_elements)
        with self.k.if_(step.first != 0) as branch:
            products = [
                self._times_twiddle(
                    elements[register], step.power(reversed_bits(register, self.tile.log_elements))
                )
                for register in registers[1:]
            ]
            branch.yield_(*self.butterflies.bounded([elements[0], *products]))
        with branch.otherwise():
            branch.yield_(*self.butterflies.bounded(elements))
        elements = list(branch.results)
        if not self.descending:
            elements = self.butterflies.transform(elements, self.tile.log_elements)
            elements = self.butterflies.bounded(elements)
        for index, element in zip(indices, elements, strict=True):
            self.shared.store(index, element)

    # --- steps

    def _address_orders(self) -> tuple[list[int], list[int]]:
        """Return, for reads and for writes, the index bits from the lowest address bit upwards."""
        columns, rows = list(self.tile.column_bits), list(self.tile.row_bits)
        columns_first, rows_first = columns + rows, rows + columns
        natural = columns_first if self.shape.position == "upper" else rows_first
        # In bit-reversed order, adjacent addresses differ in the column in the lowest pass, else in
        # the top bit of the row.
        lowest = self.shape.position == "lowest"
        bit_reversed = columns_first if lowest else rows[::-1] + columns[::-1]
        read_order = bit_reversed if self.shape.reversed == "reads" else natural
        write_order = bit_reversed if self.shape.reversed == "writes" else natural
        return read_order, write_order

    def _ordered_steps(self) -> list[Step]:
        """Return the steps in order of execution."""
        tile = self.tile
        ranges = steps_of(tile.log_rows, tile.log_elements)
        if self.descending:
            ranges.reverse()
        read_order, write_order = self._address_orders()
        exchange_order = [*tile.column_bits, *tile.row_bits]
        return [
            arrange(
                tile, start, levels,
                read_order if i == 0 else write_order if i + 1 == len(ranges) else exchange_order,
            )
            for i, (start, levels) in enumerate(ranges)
        ]  # fmt: skip

    def _step(self, step: Step, elements: Sequence[Element]) -> list[Element]:
        """Transform an instance's elements, 2**step.levels at a time."""
        result: list[Element] = []
        size = 1 << step.levels
        for start in range(0, len(elements), size):
            rows = list(elements[start : start + size])
            if not self.descending:
                rows = self._twiddle(step, rows, start)
            rows = self.butterflies.transform(rows, step.levels)
            if self.descending:
                rows = self._twiddle(step, rows, start)
            result += rows
        return result

    def _twiddle(self, step: Step, elements: list[Element], start: int) -> list[Element]:
        """Multiply the elements of a step by its twiddles, which are 1 in the lowest step.

        Element d has the exponent (row % 2**step.first << shift) * d', where d' is d bit-reversed.
        """
        if step.first == 0:
            return elements
        shift = self.tile.log_rows - step.first - step.levels
        end = self.tile.log_columns + step.first

        def weight(bit: int) -> int:
            return (1 << (bit - self.tile.log_columns)) if self._is_row(bit) and bit < end else 0

        register_weight = spread(start, step.registers, weight)
        position = (gathered(self.k, self.local, step.threads, weight) + register_weight) << shift
        result = elements[:1]
        for digit in range(1, len(elements)):
            power = position * reversed_bits(digit, step.levels)
            result.append(self._times_twiddle(elements[digit], power))
        return result

    def _is_row(self, bit: int) -> bool:
        return bit >= self.tile.log_columns

    # --- factors

    def _times_twiddle(self, element: Element, power: Value) -> Element:
        table, f, size = self.factors.twiddles, self.f, 2 * self.f.word_count
        if f.prepares_factors:
            return f.multiply_prepared(element, self.k.load(table, power * size, size))
        return element * self._factor(table, power)

    def _factor(self, table: Value, entry: Value) -> Element:
        return self.f.from_words(self.f.load_words_at(table, entry * self.f.word_count))

    def _apply_factors(self, step: Step, elements: list[Element], *, outer: bool) -> list[Element]:
        """Multiply the elements by the inner or the outer factors."""
        kind = self.shape.inner if not outer else "rows" if self.shape.outer else "none"
        if kind == "none":
            return elements
        result = []
        for register, element in enumerate(elements):
            row = self._row(step, register)
            if kind == "rows":
                factors = [self._factor(self.factors.outer if outer else self.factors.inner, row)]
            else:
                factors = self._inner_factors(row, self._column(step, register))
            for factor in factors:
                element = element * factor
            result.append(element)
        return result

    def _inner_factors(self, row: Value, column: Value) -> list[Element]:
        """Return the factors of an element in a column of the tile."""
        stride = self.k.constant(1, types.u32) << self.extents.log_stride
        column = (self.first_column & (stride - 1)) + column
        if self.shape.inner == "full":
            entry = (row << self.extents.log_stride) + column
            return [self._factor(self.factors.inner, entry.cast(types.u64))]
        mask = (self.k.constant(1, types.u32) << self.extents.log_split) - 1
        low = (row << self.extents.log_split) + (column & mask)
        high_bits = self.extents.log_stride - self.extents.log_split
        high = (row << high_bits) + (column >> self.extents.log_split)
        return [self._factor(self.factors.inner, low), self._factor(self.factors.inner_high, high)]

    # --- indices

    def _row(self, step: Step, register: int, *, bit_reversed: bool = False) -> Value:
        """Return the row of an instance's element, optionally bit-reversed."""

        def weight(bit: int) -> int:
            row_bit = bit - self.tile.log_columns
            if row_bit < 0:
                return 0
            return 1 << (self.tile.log_rows - 1 - row_bit if bit_reversed else row_bit)

        return self._index_sum(step, register, weight)

    def _column(self, step: Step, register: int, *, bit_reversed: bool = False) -> Value:
        def weight(bit: int) -> int:
            if self._is_row(bit):
                return 0
            return 1 << (self.tile.log_columns - 1 - bit if bit_reversed else bit)

        return self._index_sum(step, register, weight)

    def _index_sum(self, step: Step, register: int, weight: Callable[[int], int]) -> Value:
        """Sum the weights of the set index bits of an instance's element."""
        base = gathered(self.k, self.local, step.threads, weight)
        return base + spread(register, step.registers, weight)

    # --- global memory

    def _u32(self, value: int) -> Value:
        return self.k.constant(value, types.u32)

    def _layouts(self) -> tuple[_TileLayout, _TileLayout]:
        """Return the layouts of the tile in `source` and in `target`."""
        shape = self.shape
        if shape.reversed == "none":
            layout = self._natural_layout()
            return layout, layout
        layouts = self._natural_layout(), self._reversed_layout()
        return layouts if shape.reversed == "writes" else layouts[::-1]

    def _natural_layout(self) -> _TileLayout:
        """Return the layout of the transfer that is not in bit-reversed order."""
        k, shape, zero = self.k, self.shape, self._u32(0)
        log_rows = self._u32(self.tile.log_rows)
        if shape.position == "upper":
            column = self.first_column & ((self._u32(1) << self.extents.log_stride) - 1)
            block = (self.first_column >> self.extents.log_stride).cast(types.u64)
            block_shift = (self.extents.log_stride + log_rows).cast(types.u64)
            start = (block << block_shift) + column.cast(types.u64)
            return _TileLayout(start, self.extents.log_stride, zero)
        if shape.position == "lowest" and shape.reversed == "writes":
            # A tile's columns are far apart here, so that its bit-reversed writes are adjacent.
            transform_start, _, tile_index = self._tile_index()
            start = transform_start + (tile_index << self.tile.log_rows).cast(types.u64)
            column_shift = self.extents.log_size - self.tile.log_columns
            return _TileLayout(start, zero, column_shift, reversed_columns=True)
        start = self.first_column.cast(types.u64) << k.constant(self.tile.log_rows, types.u64)
        return _TileLayout(start, zero, log_rows)

    def _reversed_layout(self) -> _TileLayout:
        shape, tile, zero = self.shape, self.tile, self._u32(0)
        if shape.position == "only":
            start = self.first_column.cast(types.u64) << self.k.constant(tile.log_rows, types.u64)
            return _TileLayout(start, zero, self._u32(tile.log_rows), reversed_rows=True)
        transform_start, reversed_index, _ = self._tile_index()
        if shape.position == "lowest":
            start = transform_start + (reversed_index << tile.log_columns).cast(types.u64)
            return _TileLayout(
                start, self.extents.log_size - tile.log_rows, zero, reversed_rows=True
            )
        start = transform_start + (reversed_index << tile.log_rows).cast(types.u64)
        column_shift = self.extents.log_size - tile.log_columns
        return _TileLayout(start, zero, column_shift, reversed_rows=True, reversed_columns=True)

    def _tile_index(self) -> tuple[Value, Value, Value]:
        """Return the transform's first element and the tile's index in it, bit-reversed and not."""
        bits = self.extents.log_size - self.tile.log_size
        tile_index = self.group & ((self._u32(1) << bits) - 1)
        start = (self.group >> bits).cast(types.u64) << self.extents.log_size.cast(types.u64)
        return start, reversed_value(tile_index, bits), tile_index

    def _offset(self, step: Step, layout: _TileLayout, register: int) -> Value:
        """Return the offset in words of an element from the start of the layout."""
        row = self._row(step, register, bit_reversed=layout.reversed_rows)
        column = self._column(step, register, bit_reversed=layout.reversed_columns)
        if not self.shape.fills_tiles:
            column = self.k.select(self._is_in_data(step, register), column, 0)
        element = (row << layout.row_shift) + (column << layout.column_shift)
        return element.cast(types.u64) * self.f.word_count

    def _is_in_data(self, step: Step, register: int) -> Value:
        """Return whether an element's column is within the data."""
        return self.first_column + self._column(step, register) < self.extents.columns

    def _read(self, step: Step, layout: _TileLayout) -> list[Element]:
        source = self.source.cast(self.f.word_type)
        start = self.k.pointer_add(source, layout.start * self.f.word_count)
        return [
            self.f.from_words(self.f.load_words_at(start, self._offset(step, layout, register)))
            for register in range(1 << self.tile.log_elements)
        ]

    def _write(self, step: Step, layout: _TileLayout, elements: Sequence[Element]) -> None:
        target = self.target.cast(self.f.word_type)
        start = self.k.pointer_add(target, layout.start * self.f.word_count)
        for register, element in enumerate(elements):
            words = self.f.to_words(element)
            offset = self._offset(step, layout, register)
            if self.shape.fills_tiles:
                self.f.store_words_at(start, offset, words)
            else:
                with self.k.if_(self._is_in_data(step, register)):
                    self.f.store_words_at(start, offset, words)

    # --- shared memory

    def _shared_index(self, step: Step, register: int) -> Value:
        """Return the index in the exchange's memory of an instance's element."""

        def weight(bit: int) -> int:
            return padded(1 << bit, self.tile.log_banks)

        return self._index_sum(step, register, weight)

    def _store_shared(self, step: Step, elements: Sequence[Element]) -> None:
        for register, element in enumerate(elements):
            self.shared.store(self._shared_index(step, register), element)

    def _load_shared(self, step: Step, form: RowForm) -> list[Element]:
        registers = range(1 << self.tile.log_elements)
        return [
            self.shared.load(self._shared_index(step, register), form) for register in registers
        ]
