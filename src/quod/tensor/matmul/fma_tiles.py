"""Rings of operand tiles in shared memory, for products on FMA units."""

from __future__ import annotations

from collections.abc import Callable

from quod.kernel import Builder, Value, u64
from quod.tensor.matmul.plan import FmaPlan
from quod.tensor.matmul.tiles import Edges, log2

VECTOR = 4
"""Elements of an access to shared memory."""
_TURNED = 8
"""Elements of a line along K that adjacent instances copy: 32 bytes, the smallest memory access."""
_PAD = 4
"""Padding of a transposed line, in elements.

The 32 instances that store eight k of four indices on the long axis then use all banks.
"""

_Place = tuple[Value, int]
"""An index as a sum: a part that depends on the instance, and a constant."""
_Copy = Callable[[Value, Value, Value], None]
"""A function that starts one copy; see `FmaRing._copy`."""


def pitch_of(width: int, *, along: bool) -> int:
    """Return the distance in shared memory, in elements, from one k to the next."""
    return width if along else width + _PAD


class FmaRing:
    """A ring of tiles of one operand, stored as K by the long axis.

    If the operand is contiguous `along` its long axis, a copy has `vector` elements. Otherwise a
    copy has one element, and the copies transpose the operand.

    offset: The element offset of the operand's tile in each stage.
    """

    def __init__(
        self, k: Builder, operand: Edges, plan: FmaPlan, width: int, vector: int, buffer: Value,
        offset: int,
    ) -> None:  # fmt: skip
        self._k, self._operand, self._room, self._first = k, operand, buffer, offset
        self._vector = vector if operand.along else 1
        self._pitch = (operand.extent if operand.along else operand.depth).cast(u64)
        self.pitch = pitch_of(width, along=operand.along)
        copy_indices = self._lines if operand.along else self._transposed_lines
        self._copies = [
            self._copy(*indices) for indices in copy_indices(plan.lanes, width, plan.depth)
        ]

    def _lines(self, lanes: int, width: int, depth: int) -> list[tuple[_Place, _Place]]:
        """Return the indices (k, long axis) of the instance's copies, if lines are not along K."""
        lane, per_line = self._k.local_id(), width // self._vector
        access = lane & (per_line - 1) if per_line < lanes else lane
        return [
            (
                (lane >> log2(per_line), start // per_line),
                (access * self._vector, start % per_line * self._vector),
            )
            for start in range(0, depth * per_line, lanes)
        ]

    def _transposed_lines(self, lanes: int, width: int, depth: int) -> list[tuple[_Place, _Place]]:
        """Return the indices (k, long axis) of the instance's copies, if lines are along K.

        Eight adjacent instances copy eight k of one line, the next eight those of the next line.
        """
        lane = self._k.local_id()
        depth_offset, line = lane & (_TURNED - 1), lane >> log2(_TURNED)
        depth_index = (line >> log2(width)) * _TURNED + depth_offset
        return [
            ((depth_index, start // width * _TURNED), (line & (width - 1), start % width))
            for start in range(0, depth // _TURNED * width, lanes // _TURNED)
        ]

    def _copy(self, depth_place: _Place, width_place: _Place) -> _Copy:
        """Return a function that starts one copy of a step.

        Its arguments are the step's first k, the source offset of that k, and the offset of the
        stage. Addresses that do not depend on the step are computed here, once.
        """
        k, operand = self._k, self._operand
        target = k.pointer_add(self._room, depth_place[0] * self.pitch + width_place[0])
        fixed_offset = self._first + depth_place[1] * self.pitch + width_place[1]
        # Clamped to the matrix; elements beyond it belong to no result.
        last_index = operand.extent - self._vector
        long_index = k.minimum(operand.first + (width_place[0] + width_place[1]), last_index).cast(
            u64
        )
        # Narrow copies are many, and a pointer for each would take too many registers.
        is_narrow = operand.along and self._vector < VECTOR
        if operand.along:
            depth_index = depth_place[0] + (0 if is_narrow else depth_place[1])
            source = k.pointer_add(
                operand.pointer, depth_index.cast(u64) * self._pitch + long_index
            )
        else:
            line = long_index * self._pitch
            source = k.pointer_add(operand.pointer, line + depth_place[0].cast(u64))

        def copy(start: Value, source_start: Value, stage: Value) -> None:
            source_offset = source_start if operand.along else source_start + depth_place[1]
            if is_narrow:
                source_offset = (start + depth_place[1]).cast(u64) * self._pitch
            in_range = start + depth_place[0] + depth_place[1] < operand.depth
            k.copy_async(
                target, stage + fixed_offset, source, source_offset, self._vector, where=in_range
            )

        return copy

    def copy(self, start: Value, stage: Value) -> None:
        """Start the copies of the tile that begins at k = `start`, with zeros beyond K."""
        source_start = start.cast(u64)
        if self._operand.along:
            source_start = source_start * self._pitch
        for copy in self._copies:
            copy(start, source_start, stage)

    def fragment(
        self, base: Value, stage: Value, depth_index: int, count: int, stride: int
    ) -> list[Value]:
        """Load `count` elements for one k, in vectors that are `stride` elements apart."""
        elements: list[Value] = []
        for index in range(count // VECTOR):
            offset = self._first + depth_index * self.pitch + index * stride
            elements += self._k.load(base, stage + offset, VECTOR)
        return elements
