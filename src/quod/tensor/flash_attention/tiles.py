"""Tiles of rows and streamed lines without tensor cores: products, and weighted sums over lines.

The rows of an operand are transposed in shared memory, so that all rows of one element are
adjacent. Lines are not transposed, and are padded with zeros. On a CPU the lanes of a vector are
rows, and all read the same element of a line; on a GPU some instances share a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32, u64
from quod.kernel.ir.types import Type
from quod.kernel.machine import Capability
from quod.tensor.accesses import Accesses
from quod.tensor.flash_attention.plan import TilePlan

Values = tuple[Value, ...]
Grid = list[list[Value]]
"""Indexed by the instance's rows, then by its lines or elements."""

_PAD = 4
"""Elements of padding after a line, to avoid bank conflicts."""
_STEP = 4
"""Elements of a line that a GPU multiplies at a time."""


@frozen(eq=False)
class Mask:
    """The mask of a tile of rows and lines.

    edge: Whether the tile may have masked pairs.
    inside: Given the number of an instance's row and the index of a line in the tile, returns
        whether the row sees the line.
    """

    edge: Value
    inside: Callable[[int, Value], Value]


@frozen(eq=False)
class Lines:
    """The matrix of one head in device memory, with `count` lines, at least one."""

    pointer: Value
    count: Value


class Tile:
    """A workgroup's tile of rows and lines, and the rows and lines of it that one instance owns."""

    def __init__(self, k: Builder, element: Type, plan: TilePlan, head: Value) -> None:
        self._k, self._plan, self._head = k, plan, head
        self._accesses = Accesses(k, element, plan.vector)
        self._word = u64 if k.machine.has(Capability.U64) else u32
        self._vectors = k.machine.has(Capability.VECTOR_LANES)
        self.rows, self.columns = plan.tile
        # The instance's position among those that divide the rows, and those that divide the lines.
        self._row_slot, self._column_slot = k.local_id(), k.constant(0, u32)
        if plan.across > 1:
            self._row_slot, self._column_slot = (
                self._row_slot // plan.across,
                self._row_slot % plan.across,
            )
        self._pitch = plan.chunk + (0 if self._vectors else _PAD)
        self._buffer = k.shared(f32, self.columns * self._pitch)
        self._weights = k.shared(f32, self.columns * self.rows)
        self._reduction_buffer = k.shared(f32, plan.across * self.rows) if plan.across > 1 else None

    # --- indices of an instance's rows, lines and elements

    def row(self, number: int) -> Value:
        """Return the index in the tile of the instance's row `number`."""
        if self._vectors:
            return self._row_slot + number * self._plan.lanes
        return self._row_slot * self._plan.rows + number

    def column(self, number: int) -> Value:
        """Return the index in the step of the instance's line `number`."""
        return self._column_slot + number * self._plan.across

    def _load_rows(self, buffer: Value, line: Value) -> list[Value]:
        """Load, from a transposed line in shared memory, the values of the instance's rows."""
        start = line * self.rows
        if self._vectors:
            return [buffer[start + self.row(row_index)] for row_index in range(self._plan.rows)]
        return list(self._k.load(buffer, start + self.row(0), self._plan.rows))

    def _store_rows(self, buffer: Value, line: Value, values: Sequence[Value]) -> None:
        """Store one value per row of the instance in a line; inverse of `_load_rows`."""
        start = line * self.rows
        if self._vectors:
            for row_index, value in enumerate(values):
                buffer[start + self.row(row_index)] = value
            return
        self._k.store(buffer, start + self.row(0), *values)

    # --- memory

    def _line_pointer(self, lines: Lines, first_line: Value) -> Value:
        """Return the pointer to a line, as a pointer to the words of `Accesses`."""
        width = self._head // self._plan.vector
        return self._accesses.of(
            self._k.pointer_add(
                self._accesses.of(lines.pointer),
                first_line.cast(self._word) * (width * self._accesses.words).cast(self._word),
            )
        )

    def transposed_rows(self, lines: Lines, first_row: Value, buffer: Value) -> Value:
        """Copy the tile's rows, transposed, to shared memory; return `buffer`.

        first_row: The first row of the tile. Rows beyond the last are copies of the last.
        buffer: Shared memory that `transposed_buffer` allocated.
        """
        k, plan = self._k, self._plan
        width = self._head // plan.vector
        source = self._line_pointer(lines, first_row)
        per_line = plan.size // plan.vector
        with k.range(k.local_id(), self.rows * per_line, plan.lanes) as loop:
            # Adjacent instances load adjacent rows; the cache holds the lines.
            row, access = loop.index % self.rows, loop.index // self.rows
            row_offset = k.minimum(row, lines.count - 1 - first_row) * width
            values = self._accesses.load(source, row_offset + k.minimum(access, width - 1))
            for element, value in enumerate(values):
                padded = k.select(access < width, value, 0.0)
                buffer[(access * plan.vector + element) * self.rows + row] = padded
        return buffer

    def transposed_buffer(self) -> Value:
        """Allocate shared memory for `transposed_rows`."""
        return self._k.shared(f32, self._plan.size * self.rows)

    def _load_chunk(self, lines: Lines, first_line: Value, start: Value | int) -> None:
        """Copy a chunk of the tile's lines, from element `start`, to shared memory.

        On a CPU the chunk is the whole line. Elements and lines out of range are zeros.
        """
        k, plan = self._k, self._plan
        last_line = lines.count - 1 - first_line
        source = self._line_pointer(lines, first_line)
        if self._vectors:
            zero = k.constant(0.0, f32)
            with k.range(0, self.columns) as loop:
                line = k.pointer_add(source, k.minimum(loop.index, last_line) * self._head)
                # Zeros for lines beyond the last: a weight of 0 does not mask its infinities.
                is_line = loop.index <= last_line
                for first_element in range(0, plan.size, plan.lanes):
                    offset = loop.index * self._pitch + k.local_id() + first_element
                    if first_element + plan.lanes < plan.size:
                        self._buffer[offset] = k.select(
                            is_line, line[k.local_id() + first_element], zero
                        )
                        continue
                    inside = k.local_id() + first_element < self._head
                    with k.if_(inside):
                        self._buffer[offset] = k.select(
                            is_line, line[k.local_id() + first_element], zero
                        )
                    with k.if_(~inside):
                        self._buffer[offset] = k.constant(0.0, f32)
            return
        per_line = plan.chunk // plan.vector
        width = self._head // plan.vector
        for round_index in range(-(-self.columns * per_line // plan.lanes)):
            access = k.local_id() + round_index * plan.lanes
            line_index, line_access = access // per_line, access % per_line
            offset = k.operand(start, u32) // plan.vector + line_access
            access_offset = k.minimum(line_index, last_line) * width + k.minimum(offset, width - 1)
            inside = (line_index <= last_line) & (offset < width)
            values = [k.select(inside, x, 0.0) for x in self._accesses.load(source, access_offset)]
            k.store(self._buffer, line_index * self._pitch + line_access * plan.vector, *values)

    # --- products and sums

    def products(self, row_buffer: Value, lines: Lines, first_line: Value) -> Grid:
        """Return the products of the instance's rows with its lines of a step.

        row_buffer: The transposed rows, from `transposed_rows`.
        first_line: The first line of the step.
        """
        k, plan = self._k, self._plan
        zeros = (k.constant(0.0, f32),) * (plan.rows * plan.columns)
        with k.range(k.constant(0, u32), plan.size, plan.chunk, carry=zeros) as chunks:
            k.barrier()
            self._load_chunk(lines, first_line, chunks.index)
            k.barrier()
            step = 1 if self._vectors else _STEP
            with k.range(k.constant(0, u32), plan.chunk, step, carry=chunks.carried) as loop:
                sums = loop.carried
                line_chunks = [
                    k.load(self._buffer, self.column(column) * self._pitch + loop.index, step)
                    for column in range(plan.columns)
                ]
                for element in range(step):
                    rows = self._load_rows(row_buffer, chunks.index + loop.index + element)
                    line_elements = [values[element] for values in line_chunks]
                    sums = _add_outer_product(k, rows, line_elements, sums)
                loop.next(sums)
            chunks.next(loop.results)
        products = chunks.results
        return [list(products[i : i + plan.columns]) for i in range(0, len(products), plan.columns)]

    def visible(self, first_line: Value, seen: Sequence[Value]) -> Grid:
        """Return whether each of the instance's rows sees each of its lines of a step.

        seen: The number of lines that each of the instance's rows sees.
        """
        line_indices = [first_line + self.column(column) for column in range(self._plan.columns)]
        return [[line < count for line in line_indices] for count in seen]

    def weigh(self, weights: Grid) -> None:
        """Store the weights of the instance's rows and lines in shared memory, for `add`."""
        for number in range(self._plan.columns):
            self._store_rows(self._weights, self.column(number), [row[number] for row in weights])

    def add(
        self, sums: Sums, lines: Lines, first_line: Value, scales: Sequence[Value] | None = None, *,
        mask: Mask | None = None,
    ) -> Sums:  # fmt: skip
        """Return scaled sums plus the lines of a step times the weights that `weigh` stored.

        The call begins with a barrier, so none is needed after `weigh`. With a mask, a line does
        not change rows that do not see it; a weight of 0 does not suffice, since 0 * NaN is NaN.
        """
        k, plan = self._k, self._plan
        if not plan.held:
            k.barrier()
            self._load_chunk(lines, first_line, 0)
            k.barrier()
            with k.range(k.constant(0, u32), plan.size, plan.panel) as panels:
                panel_sums = sums.load(panels.index)
                sums.put(panels.index, self._add_chunk(panel_sums, panels.index, scales, mask))
            return sums
        new_panels = []
        for panel_index, start in enumerate(range(0, plan.size, plan.chunk)):
            k.barrier()
            self._load_chunk(lines, first_line, start)
            k.barrier()
            new_panels.append(
                self._add_chunk(sums.panels[panel_index], k.constant(0, u32), scales, mask)
            )
        return Sums(k, self, plan, None, new_panels)

    def _add_chunk(
        self, sums: Values, start: Value, scales: Sequence[Value] | None, mask: Mask | None
    ) -> Values:
        """Scale a panel of sums, and add the weighted lines; only tiles at an edge are masked."""
        width = self._plan.panel // self._plan.across
        if scales is not None:
            sums = tuple(value * scales[index // width] for index, value in enumerate(sums))
        if mask is None:
            return self._add_lines(sums, start, None)
        with self._k.if_(mask.edge) as branch:
            branch.yield_(self._add_lines(sums, start, mask))
        with branch.otherwise():
            branch.yield_(self._add_lines(sums, start, None))
        results: Values = branch.results
        return results

    def _add_lines(self, sums: Values, panel_start: Value, mask: Mask | None) -> Values:
        """Return sums plus all weighted lines; masked lines change nothing."""
        k, plan = self._k, self._plan
        width = plan.panel // plan.across
        step = 1 if self._vectors else _STEP
        with k.range(k.constant(0, u32), self.columns, step, carry=sums) as loop:
            totals = loop.carried
            for step_line in range(step):
                line = loop.index + step_line
                row_weights = self._load_rows(self._weights, line)
                offset = line * self._pitch + panel_start + self._column_slot * width
                new_totals = _add_outer_product(
                    k, row_weights, k.load(self._buffer, offset, width), totals
                )
                if mask is not None:
                    visible = [mask.inside(row, line) for row in range(plan.rows)]
                    new_totals = tuple(
                        k.select(visible[index // width], new, old)
                        for index, (new, old) in enumerate(zip(new_totals, totals, strict=True))
                    )
                totals = new_totals
            loop.next(totals)
        results: Values = loop.results
        return results

    def combined(
        self, values: Sequence[Value], combine: Callable[[Value, Value], Value]
    ) -> list[Value]:
        """Reduce one value per row over the instances that share the row, in a fixed order.

        The call has a barrier of its own; callers need another one between two calls.
        """
        if self._reduction_buffer is None:
            return list(values)
        self._store_rows(self._reduction_buffer, self._column_slot, values)
        self._k.barrier()
        reduced = self._load_rows(self._reduction_buffer, self._k.constant(0, u32))
        for position in range(1, self._plan.across):
            others = self._load_rows(self._reduction_buffer, self._k.constant(position, u32))
            reduced = [combine(a, b) for a, b in zip(reduced, others, strict=True)]
        return reduced

    def sums(self) -> Sums:
        """Return the initial sums over lines; on a CPU this allocates shared memory.

        Call it before the first loop.
        """
        k, plan = self._k, self._plan
        zero = k.constant(0.0, f32)
        if plan.held:
            width = plan.rows * (plan.panel // plan.across)
            return Sums(k, self, plan, None, [(zero,) * width] * (plan.size // plan.panel))
        return Sums(k, self, plan, k.shared(f32, plan.size * self.rows), [])

    def store(self, lines: Lines, first_row: Value, sums: Sums, scales: Sequence[Value]) -> None:
        """Store the scaled sums of the instance's rows; `first_row` is the tile's first row."""
        k, plan = self._k, self._plan
        width = plan.panel // plan.across

        def store_panel(start: Value, values: Values) -> None:
            for row_index in range(plan.rows):
                row = self.row(row_index)
                row_values = [
                    value * scales[row_index] for value in values[row_index * width :][:width]
                ]
                target = k.pointer_add(
                    self._line_pointer(lines, first_row),
                    row.cast(self._word)
                    * (self._head // plan.vector * self._accesses.words).cast(self._word),
                )
                for offset in range(0, width, plan.vector):
                    element = start + self._column_slot * width + offset
                    with k.if_((first_row + row < lines.count) & (element < self._head)):
                        self._accesses.store(
                            target, element // plan.vector, row_values[offset:][: plan.vector]
                        )

        if not plan.held:
            with k.range(k.constant(0, u32), plan.size, plan.panel) as panels:
                store_panel(panels.index, sums.load(panels.index))
            return
        for row_index, values in enumerate(sums.panels):
            store_panel(k.constant(row_index * plan.panel, u32), values)

    def store_numbers(
        self, vector: Value, first_row: Value, count: Value, values: Sequence[Value]
    ) -> None:
        """Store one value for each of the instance's rows that is below `count`."""
        for row_index, value in enumerate(values):
            row = first_row + self.row(row_index)
            with self._k.if_((self._column_slot == 0) & (row < count)):
                vector[row] = value


class Sums:
    """The sums over lines of the instance's rows: in registers as panels, or in shared memory."""

    def __init__(
        self, k: Builder, tile: Tile, plan: TilePlan, buffer: Value | None, panels: list[Values]
    ) -> None:
        self._k, self._tile, self._plan, self._buffer = k, tile, plan, buffer
        self.panels = panels

    def flatten(self) -> tuple[list[Value], object, Callable[[Sequence[Value]], Sums]]:
        """Flatten the sums in registers for loops that carry them.

        Returns the values, a key that is equal for sums of equal layout, and the inverse function.
        """
        size = len(self.panels[0]) if self.panels else 1
        flat = [value for panel in self.panels for value in panel]

        def rebuild(values: Sequence[Value]) -> Sums:
            panels = [tuple(values[i : i + size]) for i in range(0, len(values), size)]
            return Sums(self._k, self._tile, self._plan, self._buffer, panels)

        return flat, (id(self._buffer), size), rebuild

    def clear(self) -> None:
        """Set sums in shared memory to zero."""
        if self._buffer is None:
            return
        zero = (self._k.constant(0.0, f32),) * (self._plan.rows * self._plan.panel)
        with self._k.range(self._k.constant(0, u32), self._plan.size, self._plan.panel) as panels:
            self.put(panels.index, zero)

    def load(self, start: Value) -> Values:
        """Load the sums of the panel that begins at element `start` from shared memory."""
        return tuple(
            self._buffer_offset(start, index)[0][self._buffer_offset(start, index)[1]]
            for index in self._indices()
        )

    def put(self, start: Value, values: Values) -> None:
        """Store the sums of a panel in shared memory."""
        for index, value in zip(self._indices(), values, strict=True):
            buffer, offset = self._buffer_offset(start, index)
            buffer[offset] = value

    def _indices(self) -> range:
        return range(self._plan.rows * self._plan.panel)

    def _buffer_offset(self, start: Value, index: int) -> tuple[Value, Value]:
        assert self._buffer is not None
        row, element = divmod(index, self._plan.panel)
        return self._buffer, (start + element) * self._tile.rows + self._tile.row(row)


def _add_outer_product(
    k: Builder, rows: Sequence[Value], lines: Sequence[Value], sums: Values
) -> Values:
    """Return `sums` plus the outer product of `rows` and `lines`, in row-major order."""
    return tuple(
        k.fma(row, line, sums[i * len(lines) + j])
        for i, row in enumerate(rows)
        for j, line in enumerate(lines)
    )
