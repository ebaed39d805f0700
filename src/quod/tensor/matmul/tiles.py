"""Tiles of a matrix product's operands: from memory to shared memory, and from there to registers.

An operand has a long axis, of which a tile has `width`, and K. `along` means that elements are
contiguous in memory along the long axis; otherwise they are along K.
"""

from __future__ import annotations

from typing import TypeVar

from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32, u64
from quod.kernel.ir.types import Type, loaded_type
from quod.kernel.machine import Capability
from quod.tensor.accesses import Accesses

Staged = list[tuple[Value, ...]]

HALF = 2
"""Bytes of a 16-bit element."""


_Count = TypeVar("_Count", int, Value)


def in_halves(element: Type, count: _Count) -> _Count:
    """Convert a number of elements to 16-bit units, in which tensor cores and tile copies count."""
    if element.bytes > HALF:
        return count * (element.bytes // HALF)
    return count // (HALF // element.bytes) if element.bytes < HALF else count


def log2(number: int) -> int:
    """Return the logarithm of a power of two."""
    return number.bit_length() - 1


@frozen
class DepthOrder:
    """An order of K in which a step takes several separate chunks; all fields are powers of two.

    width: Elements of a chunk.
    apart: Elements from the start of one chunk to that of the next.
    pieces: Chunks of a step; the next step continues each chunk.
    """

    width: int
    apart: int
    pieces: int

    def first(self, step: Value) -> Value:
        """Return the element of K at which a step begins."""
        steps = self.apart // self.width
        # Shifts, because assemblers expand divisions.
        group, inside = step >> log2(steps), step & (steps - 1)
        return group * (self.apart * self.pieces) + inside * self.width

    def behind(self, at: Value) -> Value:
        """Return the distance in K from a step's first element to its element `at`."""
        return (at >> log2(self.width)) * self.apart + (at & (self.width - 1))


@frozen(eq=False)
class Edges:
    """An operand of a tile.

    pointer: The matrix.
    first: The tile's first index on the long axis.
    extent: The length of the long axis.
    depth: The length of K.
    along: Elements are contiguous along the long axis, else along K.
    order: The order of steps over K, whose length is then a whole number of steps; None for
        ascending.
    """

    pointer: Value
    first: Value
    extent: Value
    depth: Value
    along: bool
    order: DepthOrder | None = None

    def begin(self, step: Value, depth: int) -> Value:
        """Return the element of K at which a step of `depth` begins."""
        return step * depth if self.order is None else self.order.first(step)

    def behind(self, access: Value, vector: int) -> Value:
        """Return the distance in K, in accesses, from a step's first access to access `access`."""
        if self.order is None:
            return access
        return self.order.behind(access * vector) // vector


class _Tile:
    def __init__(
        self, k: Builder, element: Type, operand: Edges, width: int, depth: int, vector: int
    ) -> None:
        self._k, self._pointer, self._along = k, operand.pointer, operand.along
        self._first, self._extent, self._depth = operand.first, operand.extent, operand.depth
        self._width, self._at_once, self._vector = width, depth, vector
        self._accesses = Accesses(k, element, vector)
        self._index = u64 if k.machine.has(Capability.U64) else u32

    def _place(self, line: Value, at: Value) -> Value:
        """Return the index of access `at` of a line in the matrix."""
        pitch = (self._extent if self._along else self._depth) // self._vector
        return line.cast(self._index) * pitch.cast(self._index) + at.cast(self._index)


class SharedTileMemory:
    """Shared memory for tiles, K by the long axis, from which instances load fragments."""

    _PAD = 4
    """Padding after a line, so that a column's elements are stored to different banks."""

    def __init__(
        self, k: Builder, width: int, depth: int, stages: int, *, along: bool, held: Type = f32
    ) -> None:
        self._k = k
        self._pitch = width + (0 if along else self._PAD)
        self._size = self._pitch * depth
        self._room = k.shared(held, self._size * stages)

    def fragment(
        self, stage: Value, at: Value, instance_index: Value, count: int, apart: int, vector: int
    ) -> list[Value]:
        """Load an instance's `count` elements for one k.

        The first `vector` begin at `own * vector`, and each further vector `apart * vector` later.
        """
        first = stage * self._size + at * self._pitch + instance_index * vector
        elements: list[Value] = []
        for start in range(0, count, vector):
            elements += self._k.load(self._room, first + start * apart, vector)
        return elements


class SharedTile(_Tile, SharedTileMemory):
    """A tile that all instances fill through registers."""

    def __init__(
        self, k: Builder, element: Type, operand: Edges, width: int, depth: int, vector: int,
        stages: int,
    ) -> None:  # fmt: skip
        _Tile.__init__(self, k, element, operand, width, depth, vector)
        SharedTileMemory.__init__(
            self, k, width, depth, stages, along=operand.along, held=loaded_type(element)
        )
        accesses = self._width * self._at_once // self._vector
        per_line = (self._width if self._along else self._at_once) // self._vector
        access_indices = [k.local_id() + start for start in range(0, accesses, k.workgroup_size)]
        self._lines = [access // per_line for access in access_indices]
        self._places = [access % per_line for access in access_indices]
        self._sources = [operand.behind(place, vector) for place in self._places]
        self._source = self._accesses.of(self._pointer)

    def read(self, start: Value) -> Staged:
        """Load the instance's accesses of the tile that begins at k = `start`.

        Indices beyond the matrix are clamped; those elements belong to no result.
        """
        k, loaded = self._k, []
        for line, place in zip(self._lines, self._sources, strict=True):
            if self._along:
                most = self._extent // self._vector - 1
                at = k.minimum(self._first // self._vector + place, most)
                where = self._place(k.minimum(start + line, self._depth - 1), at)
            else:
                most = self._depth // self._vector - 1
                at = k.minimum(start // self._vector + place, most)
                where = self._place(k.minimum(self._first + line, self._extent - 1), at)
            loaded.append(self._accesses.load(self._source, where))
        return loaded

    def write(self, staged: Staged, stage: Value) -> None:
        """Store loaded accesses in shared memory."""
        k, first = self._k, stage * self._size
        for line, place, values in zip(self._lines, self._places, staged, strict=True):
            if self._along:
                k.store(self._room, first + line * self._pitch + place * self._vector, *values)
                continue
            for number, value in enumerate(values):
                at = place * self._vector + number
                self._room[first + at * self._pitch + line] = value


class CachedTile(_Tile):
    """An f32 tile that the lanes of a CPU vector fill, and its cache holds.

    For each k, `panel` elements of the long axis are adjacent. With `kept`, lines along K stay as
    they are in memory.
    """

    _PAD = 16
    """Padding after a kept line, to avoid cache conflicts."""

    def __init__(
        self, k: Builder, element: Type, operand: Edges, width: int, depth: int, panel: int, *,
        kept: bool,
    ) -> None:  # fmt: skip
        super().__init__(k, element, operand, width, depth, 1)
        self._panel, self._kept = panel, kept
        line = self._at_once + self._PAD if self._kept else self._at_once
        self._pitch = line
        self._room = self._k.shared(f32, line * self._width)

    def fill(self, start: Value, count: Value) -> None:
        """Fill the tile with `count` of K from `start` on."""
        k = self._k
        is_full = self._first + self._width <= self._extent
        if self._kept:
            is_full = count == self._at_once
        with k.if_(is_full):
            self._fill(start, count, unmasked=True)
        with k.if_(~is_full):
            self._fill(start, count, unmasked=False)

    def _fill(self, start: Value, count: Value, *, unmasked: bool) -> None:
        k, lane, lanes = self._k, self._k.local_id(), self._k.workgroup_size
        if self._kept:
            with k.range(0, self._width) as lines:
                line = k.minimum(self._first + lines.index, self._extent - 1)
                source = k.pointer_add(self._pointer, self._place(line, start))
                target = k.pointer_add(self._room, lines.index * self._pitch)
                for place in range(0, self._at_once, lanes):
                    if unmasked:
                        target[lane + place] = source[lane + place].cast(f32)
                        continue
                    with k.if_(lane + place < count):
                        target[lane + place] = source[lane + place].cast(f32)
            return
        for panel in range(0, self._width, self._panel):
            with k.range(0, count) as loop:
                at = loop.index
                for number in range(panel, panel + self._panel, lanes):
                    target = k.pointer_add(
                        self._room, at * self._panel + (panel * self._at_once + number - panel)
                    )
                    target[lane] = self._one(start + at, self._first + number, unmasked=unmasked)

    def _one(self, at: Value, first: Value, *, unmasked: bool) -> Value:
        """Load the lanes' elements from `first` on the long axis, for one k."""
        k, lane = self._k, self._k.local_id()
        if self._along and unmasked:
            return k.pointer_add(self._pointer, self._place(at, first))[lane].cast(f32)
        index = first + lane if unmasked else k.minimum(first + lane, self._extent - 1)
        where = self._place(at, index) if self._along else self._place(index, at)
        return self._pointer[where].cast(f32)

    def rows(self, number: Value, at: Value, count: int) -> list[Value]:
        """Load the `number`-th `count` elements of the panel for one k, the same in all lanes."""
        if self._kept:
            room = self._k.pointer_add(self._room, number * (count * self._pitch) + at)
            return [room[row * self._pitch] for row in range(count)]
        room = self._k.pointer_add(self._room, at * self._panel + number * count)
        return list(self._k.load(room, 0, count))

    def columns(self, number: Value, at: Value, count: int) -> list[Value]:
        """Load `count` vectors of a panel for one k."""
        room, lanes = self._from(number, at), self._k.workgroup_size
        return [room[self._k.local_id() + lanes * column] for column in range(count)]

    def _from(self, number: Value, at: Value) -> Value:
        where = number * (self._panel * self._at_once) + at * self._panel
        return self._k.pointer_add(self._room, where)
