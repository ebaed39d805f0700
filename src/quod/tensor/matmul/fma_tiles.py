"""Tiles of the operands of FMA units: from memory to a ring in shared memory."""

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
"""Padding after a transposed line: eight of K by four of the long axis then use all banks."""

_Place = tuple[Value, int]
"""The index of a copy: the part that depends on the instance, and the part that is constant."""
_Copy = Callable[[Value, Value, Value], None]


def pitch_of(width: int, *, along: bool) -> int:
    """Return the distance in shared memory, in elements, from one k to the next."""
    return width if along else width + _PAD


class FmaRing:
    """Tiles of an operand in a ring, K by the long axis, at offset `first` of each stage.

    If the operand is contiguous `along` its long axis, copies are as wide as its rows allow.
    Otherwise each copy has one element, and transposes the operand.
    """

    def __init__(
        self, k: Builder, operand: Edges, plan: FmaPlan, width: int, vector: int, room: Value,
        first: int,
    ) -> None:  # fmt: skip
        self._k, self._operand, self._room, self._first = k, operand, room, first
        self._vector = vector if operand.along else 1
        self._pitch = (operand.extent if operand.along else operand.depth).cast(u64)
        self.pitch = pitch_of(width, along=operand.along)
        places = self._lines if operand.along else self._turned
        self._copies = [self._copy(*each) for each in places(plan.lanes, width, plan.depth)]

    def _lines(self, lanes: int, width: int, depth: int) -> list[tuple[_Place, _Place]]:
        """Return the indices of the instance's copies in K and on the contiguous long axis."""
        lane, per_line = self._k.local_id(), width // self._vector
        inside = lane & (per_line - 1) if per_line < lanes else lane
        return [
            (
                (lane >> log2(per_line), start // per_line),
                (inside * self._vector, start % per_line * self._vector),
            )
            for start in range(0, depth * per_line, lanes)
        ]

    def _turned(self, lanes: int, width: int, depth: int) -> list[tuple[_Place, _Place]]:
        """Return the indices of the instance's copies if K is contiguous in memory.

        Adjacent instances copy eight of K, then the next of the long axis.
        """
        lane = self._k.local_id()
        at, line = lane & (_TURNED - 1), lane >> log2(_TURNED)
        of_depth = (line >> log2(width)) * _TURNED + at
        return [
            ((of_depth, start // width * _TURNED), (line & (width - 1), start % width))
            for start in range(0, depth // _TURNED * width, lanes // _TURNED)
        ]

    def _copy(self, of_depth: _Place, of_width: _Place) -> _Copy:
        """Return a function that starts one copy of a step, with fixed addresses computed once."""
        k, operand = self._k, self._operand
        target = k.pointer_add(self._room, of_depth[0] * self.pitch + of_width[0])
        behind = self._first + of_depth[1] * self.pitch + of_width[1]
        # Clamped to the matrix; elements beyond it belong to no result.
        most = operand.extent - self._vector
        beside = k.minimum(operand.first + (of_width[0] + of_width[1]), most).cast(u64)
        # With many copies, pointers would take registers, so lines are computed in each step.
        many = operand.along and self._vector < VECTOR
        if operand.along:
            first = of_depth[0] + (0 if many else of_depth[1])
            source = k.pointer_add(operand.pointer, first.cast(u64) * self._pitch + beside)
        else:
            line = beside * self._pitch
            source = k.pointer_add(operand.pointer, line + of_depth[0].cast(u64))

        def copy(start: Value, before: Value, stage: Value) -> None:
            from_ = before if operand.along else before + of_depth[1]
            if many:
                from_ = (start + of_depth[1]).cast(u64) * self._pitch
            inside = start + of_depth[0] + of_depth[1] < operand.depth
            k.copy_async(target, stage + behind, source, from_, self._vector, where=inside)

        return copy

    def copy(self, start: Value, stage: Value) -> None:
        """Start the copies of the tile that begins at k = `start`, with zeros beyond K."""
        before = start.cast(u64)
        if self._operand.along:
            before = before * self._pitch
        for copy in self._copies:
            copy(start, before, stage)

    def fragment(self, base: Value, stage: Value, at: int, count: int, apart: int) -> list[Value]:
        """Load `count` elements for one k, in vectors that are `apart` elements from each other."""
        elements: list[Value] = []
        for index in range(count // VECTOR):
            place = self._first + at * self.pitch + index * apart
            elements += self._k.load(base, stage + place, VECTOR)
        return elements
