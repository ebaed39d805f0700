"""Tiles of a matrix product's operands, in shared memory or in a CPU's cache.

An operand has two axes: K, and the *long axis*, which is m for A and n for B. A tile has `width`
indices of the long axis. `along` is true if elements are contiguous in memory along the long axis,
and false if they are contiguous along K.
"""

from __future__ import annotations

from typing import TypeVar

from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32, u64
from quod.kernel.ir.types import Type, loaded_type
from quod.kernel.machine import Capability
from quod.tensor.accesses import Accesses

Staged = list[tuple[Value, ...]]
"""Elements on their way to shared memory in registers, one tuple per access."""

HALF = 2
"""Bytes of a 16-bit element."""


_Count = TypeVar("_Count", int, Value)


def in_halves(element: Type, count: _Count) -> _Count:
    """Convert a number of elements to 16-bit units, the unit of tensor cores and tile copies."""
    if element.bytes > HALF:
        return count * (element.bytes // HALF)
    return count // (HALF // element.bytes) if element.bytes < HALF else count


def log2(number: int) -> int:
    """Return the logarithm of a power of two."""
    return number.bit_length() - 1


@frozen
class DepthOrder:
    """An order of K in which a step consists of several chunks; all fields are powers of two.

    width: The elements of a chunk.
    chunk_stride: The distance between the starts of two chunks of a step, in elements.
    chunks: The chunks of a step. The chunks of the next step follow those of this step.
    """

    width: int
    chunk_stride: int
    chunks: int

    def first(self, step: Value) -> Value:
        """Return the element of K at which a step begins."""
        steps = self.chunk_stride // self.width
        # Shifts, because assemblers expand divisions.
        group, index_in_group = step >> log2(steps), step & (steps - 1)
        return group * (self.chunk_stride * self.chunks) + index_in_group * self.width

    def behind(self, element: Value) -> Value:
        """Return the distance in K from a step's first element to the given element."""
        return (element >> log2(self.width)) * self.chunk_stride + (element & (self.width - 1))


@frozen(eq=False)
class Edges:
    """An operand of a tile.

    pointer: The matrix.
    first: The tile's first index on the long axis.
    extent: The length of the long axis.
    depth: The length of K.
    along: Elements are contiguous along the long axis, else along K.
    order: The order of K, whose length is then a multiple of a step; None for ascending order.
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
    """An operand's tile: the matrix, its axes, and accesses to it."""

    def __init__(
        self, k: Builder, element: Type, operand: Edges, width: int, depth: int, vector: int
    ) -> None:
        self._k, self._pointer, self._along = k, operand.pointer, operand.along
        self._first, self._extent, self._depth = operand.first, operand.extent, operand.depth
        self._width, self._step_depth, self._vector = width, depth, vector
        self._accesses = Accesses(k, element, vector)
        self._index = u64 if k.machine.has(Capability.U64) else u32

    def _access_index(self, line: Value, access: Value) -> Value:
        """Return the index in the matrix of an access to a line."""
        pitch = (self._extent if self._along else self._depth) // self._vector
        return line.cast(self._index) * pitch.cast(self._index) + access.cast(self._index)


class SharedTileMemory:
    """Shared memory for tiles, stored as K by the long axis."""

    _PAD = 4
    """Padding after a line, so that a column's elements are stored to different banks."""

    def __init__(
        self, k: Builder, width: int, depth: int, stages: int, *, along: bool, held: Type = f32
    ) -> None:
        self._k = k
        self._pitch = width + (0 if along else self._PAD)
        self._size = self._pitch * depth
        self._buffer = k.shared(held, self._size * stages)

    def fragment(
        self,
        stage: Value,
        depth_index: Value,
        instance_index: Value,
        count: int,
        stride: int,
        vector: int,
    ) -> list[Value]:
        """Load an instance's `count` elements for one k, in vectors of `vector` elements.

        The first vector has the index `instance_index`; the others follow at distances of `stride`
        vectors.
        """
        offset = stage * self._size + depth_index * self._pitch + instance_index * vector
        elements: list[Value] = []
        for start in range(0, count, vector):
            elements += self._k.load(self._buffer, offset + start * stride, vector)
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
        accesses = self._width * self._step_depth // self._vector
        per_line = (self._width if self._along else self._step_depth) // self._vector
        access_indices = [k.local_id() + start for start in range(0, accesses, k.workgroup_size)]
        self._lines = [access // per_line for access in access_indices]
        self._places = [access % per_line for access in access_indices]
        self._sources = [operand.behind(place, vector) for place in self._places]
        self._source = self._accesses.of(self._pointer)

    def read(self, start: Value) -> Staged:
        """Load the instance's accesses of the tile that begins at k = `start`.

        Indices beyond the matrix are clamped; no stored result depends on those elements.
        """
        k, loaded = self._k, []
        for line, line_access in zip(self._lines, self._sources, strict=True):
            if self._along:
                last_access = self._extent // self._vector - 1
                access = k.minimum(self._first // self._vector + line_access, last_access)
                index = self._access_index(k.minimum(start + line, self._depth - 1), access)
            else:
                last_access = self._depth // self._vector - 1
                access = k.minimum(start // self._vector + line_access, last_access)
                index = self._access_index(k.minimum(self._first + line, self._extent - 1), access)
            loaded.append(self._accesses.load(self._source, index))
        return loaded

    def write(self, staged: Staged, stage: Value) -> None:
        """Store the accesses that `read` returned in shared memory."""
        k, stage_offset = self._k, stage * self._size
        for line, access, values in zip(self._lines, self._places, staged, strict=True):
            if self._along:
                k.store(
                    self._buffer, stage_offset + line * self._pitch + access * self._vector, *values
                )
                continue
            for position, value in enumerate(values):
                element = access * self._vector + position
                self._buffer[stage_offset + element * self._pitch + line] = value


class CachedTile(_Tile):
    """An f32 tile for a CPU's cache.

    For each k, `panel` elements of the long axis are adjacent. With `kept`, lines along K are
    copied as they are in memory.
    """

    _PAD = 16
    """Padding after a kept line, to avoid cache conflicts."""

    def __init__(
        self, k: Builder, element: Type, operand: Edges, width: int, depth: int, panel: int, *,
        kept: bool,
    ) -> None:  # fmt: skip
        super().__init__(k, element, operand, width, depth, 1)
        self._panel, self._is_kept = panel, kept
        pitch = self._step_depth + self._PAD if self._is_kept else self._step_depth
        self._pitch = pitch
        self._buffer = self._k.shared(f32, pitch * self._width)

    def fill(self, start: Value, count: Value) -> None:
        """Fill the tile with the elements of k = `start` to `start + count - 1`.

        Panels beyond the matrix stay as they are.
        """
        k = self._k
        if self._is_kept:
            is_full = count == self._step_depth
            with k.if_(is_full):
                self._keep_lines(start, count, unmasked=True)
            with k.if_(~is_full):
                self._keep_lines(start, count, unmasked=False)
            return
        for panel in range(0, self._width, self._panel):
            is_full = self._first + (panel + self._panel) <= self._extent
            with k.if_(is_full):
                self._fill_panel(panel, start, count, unmasked=True)
            with k.if_(~is_full & (self._first + panel < self._extent)):
                self._fill_panel(panel, start, count, unmasked=False)

    def _keep_lines(self, start: Value, count: Value, *, unmasked: bool) -> None:
        """Copy lines along K; unless `unmasked`, leave out elements beyond the matrix."""
        k, lane, lanes = self._k, self._k.local_id(), self._k.workgroup_size
        with k.range(0, self._width) as lines:
            line = k.minimum(self._first + lines.index, self._extent - 1)
            source = k.pointer_add(self._pointer, self._access_index(line, start))
            target = k.pointer_add(self._buffer, lines.index * self._pitch)
            for chunk_start in range(0, self._step_depth, lanes):
                if unmasked:
                    target[lane + chunk_start] = source[lane + chunk_start].cast(f32)
                    continue
                with k.if_(lane + chunk_start < count):
                    target[lane + chunk_start] = source[lane + chunk_start].cast(f32)

    def _fill_panel(self, panel: int, start: Value, count: Value, *, unmasked: bool) -> None:
        """Fill a panel; unless `unmasked`, clamp indices beyond the matrix."""
        k, lane, lanes = self._k, self._k.local_id(), self._k.workgroup_size
        long_starts = range(panel, panel + self._panel, lanes)
        # Lanes that read different lines find them in the cache again at the next k.
        for starts in [long_starts] if self._along else [[each] for each in long_starts]:
            with k.range(0, count) as loop:
                depth_index = loop.index
                for long_start in starts:
                    offset = panel * self._step_depth + long_start - panel
                    target = k.pointer_add(self._buffer, depth_index * self._panel + offset)
                    target[lane] = self._load_lanes(
                        start + depth_index, self._first + long_start, unmasked=unmasked
                    )

    def _load_lanes(self, depth_index: Value, long_start: Value, *, unmasked: bool) -> Value:
        """Load one element per lane, from `long_start` on the long axis, for one k."""
        k, lane = self._k, self._k.local_id()
        if self._along and unmasked:
            return k.pointer_add(self._pointer, self._access_index(depth_index, long_start))[
                lane
            ].cast(f32)
        index = long_start + lane if unmasked else k.minimum(long_start + lane, self._extent - 1)
        element_index = (
            self._access_index(depth_index, index)
            if self._along
            else self._access_index(index, depth_index)
        )
        return self._pointer[element_index].cast(f32)

    def rows(self, group: Value, depth_index: Value, count: int) -> list[Value]:
        """Load group `group` of `count` elements for one k, the same elements in all lanes."""
        if self._is_kept:
            group_data = self._k.pointer_add(
                self._buffer, group * (count * self._pitch) + depth_index
            )
            return [group_data[row * self._pitch] for row in range(count)]
        group_data = self._k.pointer_add(self._buffer, depth_index * self._panel + group * count)
        return list(self._k.load(group_data, 0, count))

    def columns(self, panel: Value, depth_index: Value, count: int) -> list[Value]:
        """Load `count` vectors of panel `panel` for one k, one element per lane."""
        panel_data, lanes = self._panel_row(panel, depth_index), self._k.workgroup_size
        return [panel_data[self._k.local_id() + lanes * column] for column in range(count)]

    def _panel_row(self, panel: Value, depth_index: Value) -> Value:
        offset = panel * (self._panel * self._step_depth) + depth_index * self._panel
        return self._k.pointer_add(self._buffer, offset)
