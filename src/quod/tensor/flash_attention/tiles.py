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
    """The mask of a tile: the unmasked pairs of the instance's rows and the tile's lines.

    edge: Whether the tile has masked pairs.
    inside: Whether a row, by its number, sees a line, by its index in the tile.
    """

    edge: Value
    inside: Callable[[int, Value], Value]


@frozen(eq=False)
class Lines:
    """A matrix of a head in memory, of `count` lines, at least one."""

    pointer: Value
    count: Value


class Tile:
    """The tile of a workgroup, and this instance's share of it."""

    def __init__(self, k: Builder, element: Type, plan: TilePlan, head: Value) -> None:
        self._k, self._plan, self._head = k, plan, head
        self._accesses = Accesses(k, element, plan.vector)
        self._word = u64 if k.machine.has(Capability.U64) else u32
        self._vectors = k.machine.has(Capability.VECTOR_LANES)
        self.rows, self.columns = plan.tile
        self._own, self._beside = k.local_id(), k.constant(0, u32)
        if plan.across > 1:
            self._own, self._beside = self._own // plan.across, self._own % plan.across
        self._pitch = plan.chunk + (0 if self._vectors else _PAD)
        self._room = k.shared(f32, self.columns * self._pitch)
        self._weights = k.shared(f32, self.columns * self.rows)
        self._parts = k.shared(f32, plan.across * self.rows) if plan.across > 1 else None

    # --- where an instance's rows, lines and elements are

    def row(self, number: int) -> Value:
        """Return the index of an own row in the tile."""
        if self._vectors:
            return self._own + number * self._plan.lanes
        return self._own * self._plan.rows + number

    def column(self, number: int) -> Value:
        """Return the index of an own line in the step."""
        return self._beside + number * self._plan.across

    def _of_rows(self, room: Value, line: Value) -> list[Value]:
        """Load the own rows' values of a transposed line in shared memory."""
        first = line * self.rows
        if self._vectors:
            return [room[first + self.row(number)] for number in range(self._plan.rows)]
        return list(self._k.load(room, first + self.row(0), self._plan.rows))

    def _put_rows(self, room: Value, line: Value, values: Sequence[Value]) -> None:
        first = line * self.rows
        if self._vectors:
            for number, value in enumerate(values):
                room[first + self.row(number)] = value
            return
        self._k.store(room, first + self.row(0), *values)

    # --- memory

    def _at(self, lines: Lines, first: Value) -> Value:
        """Return the pointer to a line, for `Accesses`."""
        width = self._head // self._plan.vector
        return self._accesses.of(
            self._k.pointer_add(
                self._accesses.of(lines.pointer),
                first.cast(self._word) * (width * self._accesses.words).cast(self._word),
            )
        )

    def turned(self, lines: Lines, first: Value, room: Value) -> Value:
        """Copy the tile's rows from `first` on, transposed, to shared memory of `turned_room`.

        The last row is repeated beyond the last row.
        """
        k, plan = self._k, self._plan
        width = self._head // plan.vector
        source = self._at(lines, first)
        per_line = plan.size // plan.vector
        with k.range(k.local_id(), self.rows * per_line, plan.lanes) as loop:
            # Adjacent instances load adjacent rows; the cache holds the lines.
            row, place = loop.index % self.rows, loop.index // self.rows
            at = k.minimum(row, lines.count - 1 - first) * width
            values = self._accesses.load(source, at + k.minimum(place, width - 1))
            for number, value in enumerate(values):
                there = k.select(place < width, value, 0.0)
                room[(place * plan.vector + number) * self.rows + row] = there
        return room

    def turned_room(self) -> Value:
        """Allocate shared memory for `turned`."""
        return self._k.shared(f32, self._plan.size * self.rows)

    def _fill(self, lines: Lines, first: Value, start: Value | int) -> None:
        """Copy a chunk of the lines from `first` on to shared memory."""
        k, plan = self._k, self._plan
        last_line = lines.count - 1 - first
        source = self._at(lines, first)
        if self._vectors:
            zero = k.constant(0.0, f32)
            with k.range(0, self.columns) as loop:
                line = k.pointer_add(source, k.minimum(loop.index, last_line) * self._head)
                # Zeros for lines beyond the last: a weight of 0 does not mask its infinities.
                there = loop.index <= last_line
                for begin in range(0, plan.size, plan.lanes):
                    at = loop.index * self._pitch + k.local_id() + begin
                    if begin + plan.lanes < plan.size:
                        self._room[at] = k.select(there, line[k.local_id() + begin], zero)
                        continue
                    inside = k.local_id() + begin < self._head
                    with k.if_(inside):
                        self._room[at] = k.select(there, line[k.local_id() + begin], zero)
                    with k.if_(~inside):
                        self._room[at] = k.constant(0.0, f32)
            return
        per_line = plan.chunk // plan.vector
        width = self._head // plan.vector
        for number in range(-(-self.columns * per_line // plan.lanes)):
            access = k.local_id() + number * plan.lanes
            below, place = access // per_line, access % per_line
            at = k.operand(start, u32) // plan.vector + place
            access_offset = k.minimum(below, last_line) * width + k.minimum(at, width - 1)
            inside = (below <= last_line) & (at < width)
            values = [k.select(inside, x, 0.0) for x in self._accesses.load(source, access_offset)]
            k.store(self._room, below * self._pitch + place * plan.vector, *values)

    # --- products and sums

    def products(self, row_room: Value, lines: Lines, first: Value) -> Grid:
        """Return the products of the own rows with the own lines of the step from line `first`."""
        k, plan = self._k, self._plan
        zeros = (k.constant(0.0, f32),) * (plan.rows * plan.columns)
        with k.range(k.constant(0, u32), plan.size, plan.chunk, carry=zeros) as chunks:
            k.barrier()
            self._fill(lines, first, chunks.index)
            k.barrier()
            step = 1 if self._vectors else _STEP
            with k.range(k.constant(0, u32), plan.chunk, step, carry=chunks.carried) as loop:
                sums = loop.carried
                at = [
                    k.load(self._room, self.column(each) * self._pitch + loop.index, step)
                    for each in range(plan.columns)
                ]
                for number in range(step):
                    rows = self._of_rows(row_room, chunks.index + loop.index + number)
                    lines_ = [values[number] for values in at]
                    sums = _added(k, rows, lines_, sums)
                loop.next(sums)
            chunks.next(loop.results)
        products = chunks.results
        return [list(products[i : i + plan.columns]) for i in range(0, len(products), plan.columns)]

    def visible(self, first: Value, seen: Sequence[Value]) -> Grid:
        """Return, for each own row and own line of a step, whether the row sees the line.

        seen: For each own row, the number of lines that it sees.
        """
        at = [first + self.column(each) for each in range(self._plan.columns)]
        return [[place < count for place in at] for count in seen]

    def weigh(self, weights: Grid) -> None:
        """Store the weights of own rows and own lines in shared memory, for `add`."""
        for number in range(self._plan.columns):
            self._put_rows(self._weights, self.column(number), [row[number] for row in weights])

    def add(
        self, sums: Sums, lines: Lines, first: Value, scales: Sequence[Value] | None = None, *,
        mask: Mask | None = None,
    ) -> Sums:  # fmt: skip
        """Return scaled sums plus the lines from `first` on, times the weights of `weigh`.

        It begins with a barrier, so none is needed after `weigh`. With a mask, a line changes
        nothing in rows that do not see it; a weight of 0 does not suffice, as 0 * NaN is NaN.
        """
        k, plan = self._k, self._plan
        if not plan.held:
            k.barrier()
            self._fill(lines, first, 0)
            k.barrier()
            with k.range(k.constant(0, u32), plan.size, plan.panel) as panels:
                panel_sums = sums.load(panels.index)
                sums.put(panels.index, self._summed(panel_sums, panels.index, scales, mask))
            return sums
        new_panels = []
        for number, start in enumerate(range(0, plan.size, plan.chunk)):
            k.barrier()
            self._fill(lines, first, start)
            k.barrier()
            new_panels.append(self._summed(sums.panels[number], k.constant(0, u32), scales, mask))
        return Sums(k, self, plan, None, new_panels)

    def _summed(
        self, sums: Values, start: Value, scales: Sequence[Value] | None, mask: Mask | None
    ) -> Values:
        width = self._plan.panel // self._plan.across
        if scales is not None:
            sums = tuple(value * scales[at // width] for at, value in enumerate(sums))
        if mask is None:
            return self._with_lines(sums, start, None)
        with self._k.if_(mask.edge) as branch:
            branch.give(self._with_lines(sums, start, mask))
        with branch.otherwise():
            branch.give(self._with_lines(sums, start, None))
        results: Values = branch.results
        return results

    def _with_lines(self, sums: Values, start: Value, mask: Mask | None) -> Values:
        """Return sums plus all weighted lines; masked lines change nothing."""
        k, plan = self._k, self._plan
        width = plan.panel // plan.across
        step = 1 if self._vectors else _STEP
        with k.range(k.constant(0, u32), self.columns, step, carry=sums) as loop:
            totals = loop.carried
            for number in range(step):
                line = loop.index + number
                row_weights = self._of_rows(self._weights, line)
                at = line * self._pitch + start + self._beside * width
                added = _added(k, row_weights, k.load(self._room, at, width), totals)
                if mask is not None:
                    seen = [mask.inside(row, line) for row in range(plan.rows)]
                    added = tuple(
                        k.select(seen[at // width], new, old)
                        for at, (new, old) in enumerate(zip(added, totals, strict=True))
                    )
                totals = added
            loop.next(totals)
        results: Values = loop.results
        return results

    def combined(
        self, values: Sequence[Value], combine: Callable[[Value, Value], Value]
    ) -> list[Value]:
        """Reduce a number of each own row over the instances that share it, in a fixed order.

        Callers need a barrier between two calls.
        """
        if self._parts is None:
            return list(values)
        self._put_rows(self._parts, self._beside, values)
        self._k.barrier()
        reduced = self._of_rows(self._parts, self._k.constant(0, u32))
        for number in range(1, self._plan.across):
            others = self._of_rows(self._parts, self._k.constant(number, u32))
            reduced = [combine(a, b) for a, b in zip(reduced, others, strict=True)]
        return reduced

    def sums(self) -> Sums:
        """Return initial sums over lines; call it before the first loop."""
        k, plan = self._k, self._plan
        zero = k.constant(0.0, f32)
        if plan.held:
            width = plan.rows * (plan.panel // plan.across)
            return Sums(k, self, plan, None, [(zero,) * width] * (plan.size // plan.panel))
        return Sums(k, self, plan, k.shared(f32, plan.size * self.rows), [])

    def store(self, lines: Lines, first: Value, sums: Sums, scales: Sequence[Value]) -> None:
        """Store the sums of the own rows, scaled, in the rows from `first` on."""
        k, plan = self._k, self._plan
        width = plan.panel // plan.across

        def put(start: Value, values: Values) -> None:
            for number in range(plan.rows):
                row = self.row(number)
                row_values = [value * scales[number] for value in values[number * width :][:width]]
                target = k.pointer_add(
                    self._at(lines, first),
                    row.cast(self._word)
                    * (self._head // plan.vector * self._accesses.words).cast(self._word),
                )
                for at in range(0, width, plan.vector):
                    place = start + self._beside * width + at
                    with k.if_((first + row < lines.count) & (place < self._head)):
                        self._accesses.store(
                            target, place // plan.vector, row_values[at:][: plan.vector]
                        )

        if not plan.held:
            with k.range(k.constant(0, u32), plan.size, plan.panel) as panels:
                put(panels.index, sums.load(panels.index))
            return
        for number, values in enumerate(sums.panels):
            put(k.constant(number * plan.panel, u32), values)

    def store_numbers(
        self, vector: Value, first: Value, count: Value, values: Sequence[Value]
    ) -> None:
        """Store a number of each own row below `count`."""
        for number, value in enumerate(values):
            row = first + self.row(number)
            with self._k.if_((self._beside == 0) & (row < count)):
                vector[row] = value


class Sums:
    """Sums of the own rows over lines: in registers, by panels, or in shared memory."""

    def __init__(
        self, k: Builder, tile: Tile, plan: TilePlan, room: Value | None, panels: list[Values]
    ) -> None:
        self._k, self._tile, self._plan, self._room = k, tile, plan, room
        self.panels = panels

    def flatten(self) -> tuple[list[Value], object, Callable[[Sequence[Value]], Sums]]:
        """Flatten the sums in registers for loops that carry them."""
        size = len(self.panels[0]) if self.panels else 1
        flat = [value for panel in self.panels for value in panel]

        def rebuilt(values: Sequence[Value]) -> Sums:
            panels = [tuple(values[i : i + size]) for i in range(0, len(values), size)]
            return Sums(self._k, self._tile, self._plan, self._room, panels)

        return flat, (id(self._room), size), rebuilt

    def clear(self) -> None:
        """Set sums in shared memory to zero."""
        if self._room is None:
            return
        zero = (self._k.constant(0.0, f32),) * (self._plan.rows * self._plan.panel)
        with self._k.range(self._k.constant(0, u32), self._plan.size, self._plan.panel) as panels:
            self.put(panels.index, zero)

    def load(self, start: Value) -> Values:
        """Load the sums of the panel that begins at element `start` from shared memory."""
        return tuple(self._place(start, at)[0][self._place(start, at)[1]] for at in self._all())

    def put(self, start: Value, values: Values) -> None:
        """Store the sums of a panel in shared memory."""
        for at, value in zip(self._all(), values, strict=True):
            room, place = self._place(start, at)
            room[place] = value

    def _all(self) -> range:
        return range(self._plan.rows * self._plan.panel)

    def _place(self, start: Value, at: int) -> tuple[Value, Value]:
        assert self._room is not None
        row, element = divmod(at, self._plan.panel)
        return self._room, (start + element) * self._tile.rows + self._tile.row(row)


def _added(k: Builder, rows: Sequence[Value], lines: Sequence[Value], sums: Values) -> Values:
    """Return sums plus the outer product of rows and lines."""
    return tuple(
        k.fma(row, line, sums[i * len(lines) + j])
        for i, row in enumerate(rows)
        for j, line in enumerate(lines)
    )
