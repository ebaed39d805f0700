"""The kernel of one pass: 2**log_rows rows of every column of the data, one tile a workgroup.

An element goes from memory to registers, through the steps of the pass (exchanged through shared
memory in between), and back to memory. Within a pass the twiddles are roots of order 2**log_rows,
few enough for the L1 cache. The rest of the twiddles, which depends on the column, is one *inner*
factor an element (Bailey, "FFTs in external or hierarchical memory", 1990), after a descending pass
and before an ascending one. The *outer* factor, at the other end, depends only on the row; cosets
use it. See `quod.ntt.gpu.factors`.
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
from quod.ntt.ordering import reversed_bits
from quod.ntt.rows import RowForm, common_form
from quod.ntt.steps import Direction, steps_of

Position = Literal["only", "lowest", "upper"]
"""Position of a pass: the transform's only one, the one of neighbouring rows, or a higher one."""

Reversed = Literal["none", "reads", "writes"]
"""The side of a pass, if any, that is in bit-reversed order of the whole transform."""

Inner = Literal["none", "rows", "full", "split"]
"""The table of the inner factors: none, one factor a row, one for each row and column, or two
tables, for the low and the high bits of the column."""


@frozen
class TileShape:
    """The static parameters of a compiled pass over tiles.

    root: the transform's root of unity of order 2**min(log_elements, log_rows).
    inner: the table of inner factors.
    outer: there are outer factors.
    reversed: the side in bit-reversed order.
    fills_tiles: the columns fill all tiles.
    rolled: compile the steps, of equal levels, as a loop: less code, but two more exchanges.
    resident: workgroups that a multiprocessor should hold at a time; 0: the assembler chooses.
    """

    direction: Direction
    tile: Tile
    position: Position
    root: int
    inner: Inner = "none"
    outer: bool = False
    reversed: Reversed = "none"
    fills_tiles: bool = True
    rolled: bool = False
    resident: int = 0

    @property
    def products(self) -> float:
        """Average number of products for an element."""
        tile, total = self.tile, 0.0
        for first, levels in steps_of(tile.log_rows, tile.log_elements):
            total += levels / 2 - 1 + 2.0**-levels
            total += 1 - 2.0**-levels if first else 0
        return total + {"none": 0, "split": 2}.get(self.inner, 1) + self.outer


class FactorTables(Struct):
    """The factor tables of a pass, in Montgomery form; `TileShape` tells which are in use.

    twiddles: powers of the root of order 2**log_rows.
    outer: one factor a row.
    inner: one factor a row, or factors of each row and column; see `Inner`.
    inner_high: factors of each row and column ``c >> log_split``; `inner` then has the low bits.
    """

    twiddles: Pointer[U64]
    outer: Pointer[U64]
    inner: Pointer[U64]
    inner_high: Pointer[U64]


class PassExtents(Struct):
    """The extents of a pass.

    columns: columns of all transforms.
    log_size: log2 of the points of a transform.
    log_stride: log2 of the distance of rows.
    log_split: column bits of the table `inner`.
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
    shape: TileShape,
) -> None:
    """Compute one pass of number-theoretic transforms, one tile a workgroup.

    `source` and `target` hold elements in Montgomery form, and may be the same memory.
    """
    _Pass(k, modulus, shape, source, target, factors, extents).run()


@frozen
class _Side:
    """The layout of a tile in memory on one side of a pass.

    Row r, column c of the tile is element ``start + (r << row_shift) + (c << column_shift)``, where
    the bits of r or c may be reversed.
    """

    start: Value
    row_shift: Value
    column_shift: Value
    reversed_rows: bool = False
    reversed_columns: bool = False


class _Pass:
    """The trace of one kernel."""

    def __init__(
        self, k: Builder, modulus: Modulus, shape: TileShape, source: Value, target: Value,
        factors: FactorTables, extents: PassExtents,
    ) -> None:  # fmt: skip
        self.source, self.target, self.factors, self.extents = source, target, factors, extents
        self.k = k
        self.f = prime_field(k, modulus)
        self.shape = shape
        self.tile = shape.tile
        order = min(self.tile.log_elements, self.tile.log_rows)
        self.butterflies = Butterflies(self.f, shape.direction, shape.root, order)
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
        if self.shared.most is not None:
            self.butterflies.restrict(self.shared.most)
        read, write = self._sides()
        if self.shape.rolled:
            self._run_rolled(read, write)
            return
        steps = self._arranged()
        elements = self._read(steps[0], read)
        elements = self._multiply(steps[0], elements, outer=self.descending)
        elements = self._step(steps[0], elements)
        for before, step in itertools.pairwise(steps):
            elements = self.butterflies.unify(elements)
            # No barrier is needed before: the instance stores to the places that it loaded from.
            self._store_shared(before, elements)
            self.k.barrier()
            elements = self._step(step, self._load_shared(step, common_form(elements)))
        elements = self._multiply(steps[-1], elements, outer=not self.descending)
        self._write(steps[-1], write, elements)

    def _run_rolled(self, read: _Side, write: _Side) -> None:
        """Trace the steps as a loop, from shared memory to shared memory."""
        k, tile = self.k, self.tile
        steps, remainder = divmod(tile.log_rows, tile.log_elements)
        if remainder or not steps:
            raise TraceError(
                f"{tile.log_rows} levels are no loop of steps of {tile.log_elements} levels"
            )
        first_order, last_order = self._preferred()
        top = tile.log_rows - tile.log_elements
        begin = arrange(tile, top, tile.log_elements, first_order)
        end = arrange(tile, top, tile.log_elements, last_order)
        elements = self._multiply(begin, self._read(begin, read), outer=self.descending)
        elements = self.butterflies.bounded(elements)
        form = common_form(elements)
        self._store_shared(begin, elements)
        k.barrier()
        with k.range(0, steps) as loop:
            number = self._number(steps - 1) - loop.index if self.descending else loop.index
            self._rolled_step(RolledStep(tile, k, self.local, number * tile.log_elements), form)
            k.barrier()
        elements = self._load_shared(end, form)
        elements = self._multiply(end, elements, outer=not self.descending)
        self._write(end, write, elements)

    def _rolled_step(self, step: RolledStep, form: RowForm) -> None:
        numbers = range(1 << self.tile.log_elements)
        places = [step.place(number) for number in numbers]
        elements = [self.shared.load(place, form) for place in places]
        if self.descending:
            elements = self.butterflies.transform(elements, self.tile.log_elements)
        with self.k.if_(step.first != 0) as branch:
            factors = [
                self._factor(
                    self.factors.twiddles, step.power(reversed_bits(number, self.tile.log_elements))
                )
                for number in numbers[1:]
            ]
            products = [x * factor for x, factor in zip(elements[1:], factors, strict=True)]
            branch.give(*self.butterflies.bounded([elements[0], *products]))
        with branch.otherwise():
            branch.give(*self.butterflies.bounded(elements))
        elements = list(branch.results)
        if not self.descending:
            elements = self.butterflies.transform(elements, self.tile.log_elements)
            elements = self.butterflies.bounded(elements)
        for place, element in zip(places, elements, strict=True):
            self.shared.store(place, element)

    # --- steps

    def _preferred(self) -> tuple[list[int], list[int]]:
        """Return the index bits in order of addresses, lowest first, of reads and of writes."""
        columns, rows = list(self.tile.column_bits), list(self.tile.row_bits)
        by_column, by_row = columns + rows, rows + columns
        natural = by_column if self.shape.position == "upper" else by_row
        # In bit-reversed order neighbours are columns or, within a transform, the highest rows.
        lowest = self.shape.position == "lowest"
        backwards = by_column if lowest else rows[::-1] + columns[::-1]
        first = backwards if self.shape.reversed == "reads" else natural
        last = backwards if self.shape.reversed == "writes" else natural
        return first, last

    def _arranged(self) -> list[Step]:
        """Return the steps in order of execution."""
        tile = self.tile
        spans = steps_of(tile.log_rows, tile.log_elements)
        if self.descending:
            spans.reverse()
        first, last = self._preferred()
        between = [*tile.column_bits, *tile.row_bits]
        return [
            arrange(
                tile, start, levels,
                first if number == 0 else last if number + 1 == len(spans) else between,
            )
            for number, (start, levels) in enumerate(spans)
        ]  # fmt: skip

    def _step(self, step: Step, elements: Sequence[Element]) -> list[Element]:
        result: list[Element] = []
        span = 1 << step.levels
        for start in range(0, len(elements), span):
            part = list(elements[start : start + span])
            if not self.descending:
                part = self._twiddle(step, part, start)
            part = self.butterflies.transform(part, step.levels)
            if self.descending:
                part = self._twiddle(step, part, start)
            result += part
        return result

    def _twiddle(self, step: Step, elements: list[Element], start: int) -> list[Element]:
        """Multiply the elements of a step by its twiddles, which are 1 in the lowest step."""
        if step.first == 0:
            return elements
        unit = self.tile.log_rows - step.first - step.levels
        limit = self.tile.log_columns + step.first

        def weigh(bit: int) -> int:
            return (1 << (bit - self.tile.log_columns)) if self._is_row(bit) and bit < limit else 0

        register_position = spread(start, step.registers, weigh)
        position = (gathered(self.k, self.local, step.threads, weigh) + register_position) << unit
        result = elements[:1]
        for digit in range(1, len(elements)):
            power = position * reversed_bits(digit, step.levels)
            result.append(elements[digit] * self._factor(self.factors.twiddles, power))
        return result

    def _is_row(self, bit: int) -> bool:
        return bit >= self.tile.log_columns

    # --- factors

    def _factor(self, table: Value, entry: Value) -> Element:
        return self.f.from_words(self.f.load_words_at(table, entry * self.f.word_count))

    def _multiply(self, step: Step, elements: list[Element], *, outer: bool) -> list[Element]:
        """Multiply the elements by the inner or the outer factors."""
        kind = self.shape.inner if not outer else "rows" if self.shape.outer else "none"
        if kind == "none":
            return elements
        result = []
        for number, element in enumerate(elements):
            row = self._row(step, number)
            if kind == "rows":
                factors = [self._factor(self.factors.outer if outer else self.factors.inner, row)]
            else:
                factors = self._column_factors(row, self._column(step, number))
            for factor in factors:
                element = element * factor
            result.append(element)
        return result

    def _column_factors(self, row: Value, column: Value) -> list[Element]:
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

    # --- places

    def _row(self, step: Step, number: int, *, backwards: bool = False) -> Value:
        """Return the row of an instance's element, optionally bit-reversed."""

        def weigh(bit: int) -> int:
            place = bit - self.tile.log_columns
            if place < 0:
                return 0
            return 1 << (self.tile.log_rows - 1 - place if backwards else place)

        return self._place(step, number, weigh)

    def _column(self, step: Step, number: int, *, backwards: bool = False) -> Value:
        def weigh(bit: int) -> int:
            if self._is_row(bit):
                return 0
            return 1 << (self.tile.log_columns - 1 - bit if backwards else bit)

        return self._place(step, number, weigh)

    def _place(self, step: Step, number: int, weigh: Callable[[int], int]) -> Value:
        base = gathered(self.k, self.local, step.threads, weigh)
        return base + spread(number, step.registers, weigh)

    # --- global memory

    def _number(self, value: int) -> Value:
        return self.k.constant(value, types.u32)

    def _sides(self) -> tuple[_Side, _Side]:
        """Return the layouts of the tile in `source` and in `target`."""
        shape = self.shape
        if shape.reversed == "none":
            side = self._natural()
            return side, side
        sides = self._natural(), self._reversed()
        return sides if shape.reversed == "writes" else sides[::-1]

    def _natural(self) -> _Side:
        k, shape, zero = self.k, self.shape, self._number(0)
        log_rows = self._number(self.tile.log_rows)
        if shape.position == "upper":
            within = self.first_column & ((self._number(1) << self.extents.log_stride) - 1)
            above = (self.first_column >> self.extents.log_stride).cast(types.u64)
            shift = (self.extents.log_stride + log_rows).cast(types.u64)
            start = (above << shift) + within.cast(types.u64)
            return _Side(start, self.extents.log_stride, zero)
        if shape.position == "lowest" and shape.reversed == "writes":
            transform, _, middle = self._middle()
            start = transform + (middle << self.tile.log_rows).cast(types.u64)
            apart = self.extents.log_size - self.tile.log_columns
            return _Side(start, zero, apart, reversed_columns=True)
        start = self.first_column.cast(types.u64) << k.constant(self.tile.log_rows, types.u64)
        return _Side(start, zero, log_rows)

    def _reversed(self) -> _Side:
        shape, tile, zero = self.shape, self.tile, self._number(0)
        if shape.position == "only":
            start = self.first_column.cast(types.u64) << self.k.constant(tile.log_rows, types.u64)
            return _Side(start, zero, self._number(tile.log_rows), reversed_rows=True)
        transform, backwards, _ = self._middle()
        if shape.position == "lowest":
            start = transform + (backwards << tile.log_columns).cast(types.u64)
            return _Side(start, self.extents.log_size - tile.log_rows, zero, reversed_rows=True)
        start = transform + (backwards << tile.log_rows).cast(types.u64)
        apart = self.extents.log_size - tile.log_columns
        return _Side(start, zero, apart, reversed_rows=True, reversed_columns=True)

    def _middle(self) -> tuple[Value, Value, Value]:
        """Return the transform's first element, and the tile's number in it, reversed and plain.

        The number has the log_size - log_tile index bits that all elements of the tile share.
        """
        bits = self.extents.log_size - self.tile.log_size
        middle = self.group & ((self._number(1) << bits) - 1)
        transform = (self.group >> bits).cast(types.u64) << self.extents.log_size.cast(types.u64)
        return transform, _reversed_value(middle, bits), middle

    def _offset(self, step: Step, side: _Side, number: int) -> Value:
        """Return the first word of an element, relative to the start of the side."""
        row = self._row(step, number, backwards=side.reversed_rows)
        column = self._column(step, number, backwards=side.reversed_columns)
        if not self.shape.fills_tiles:
            column = self.k.select(self._is_there(step, number), column, 0)
        element = (row << side.row_shift) + (column << side.column_shift)
        return element.cast(types.u64) * self.f.word_count

    def _is_there(self, step: Step, number: int) -> Value:
        """Return whether an element's column exists."""
        return self.first_column + self._column(step, number) < self.extents.columns

    def _read(self, step: Step, side: _Side) -> list[Element]:
        source = self.source.cast(self.f.word_type)
        start = self.k.pointer_add(source, side.start * self.f.word_count)
        return [
            self.f.from_words(self.f.load_words_at(start, self._offset(step, side, number)))
            for number in range(1 << self.tile.log_elements)
        ]

    def _write(self, step: Step, side: _Side, elements: Sequence[Element]) -> None:
        target = self.target.cast(self.f.word_type)
        start = self.k.pointer_add(target, side.start * self.f.word_count)
        for number, element in enumerate(elements):
            words = self.f.to_words(element)
            offset = self._offset(step, side, number)
            if self.shape.fills_tiles:
                self.f.store_words_at(start, offset, words)
            else:
                with self.k.if_(self._is_there(step, number)):
                    self.f.store_words_at(start, offset, words)

    # --- shared memory

    def _place_of(self, step: Step, number: int) -> Value:
        """Return the place in shared memory of an instance's element."""

        def weigh(bit: int) -> int:
            return padded(1 << bit, self.tile.log_banks)

        return self._place(step, number, weigh)

    def _store_shared(self, step: Step, elements: Sequence[Element]) -> None:
        for number, element in enumerate(elements):
            self.shared.store(self._place_of(step, number), element)

    def _load_shared(self, step: Step, form: RowForm) -> list[Element]:
        numbers = range(1 << self.tile.log_elements)
        return [self.shared.load(self._place_of(step, number), form) for number in numbers]


def _reversed_value(value: Value, bits: Value) -> Value:
    """Reverse the `bits` bits of a u32 below 2**bits."""
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        value = ((value >> shift) & mask) | ((value & mask) << shift)
    value = (value >> 16) | (value << 16)
    # For 0 bits the shift by 32 counts as a shift by 0, and the value is 0 anyway.
    return value >> (32 - bits)
