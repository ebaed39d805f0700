"""Asynchronous copies to shared memory while they are under way.

The bytes arrive when the instance that began the copy waits for it: what reads the place before is
refused as reading what was not set.
"""

from __future__ import annotations

import numpy as np

from quod.frozen import frozen
from quod.kernel.interpreter.memory import Buffer, Place, SharedBuffer
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ops.semantics import Array

_BYTE = {1: types.u8, 2: types.u16, 4: types.u32, 8: types.u64}


@frozen(eq=False)
class _Copy:
    """One copy a lane: `data` is its bytes, `group` the number of the group that it belongs to."""

    target: SharedBuffer
    offsets: Array
    lanes: Array
    data: Array
    group: Array

    def only(self, chosen: Array) -> _Copy:
        return _Copy(
            self.target, self.offsets[chosen], self.lanes[chosen], self.data[chosen],
            self.group[chosen],
        )  # fmt: skip


class PendingCopies:
    """The copies that the instances of one workgroup began and have not waited for."""

    def __init__(self, lanes: int) -> None:
        self._committed = np.zeros(lanes, np.int64)
        self._pending: list[_Copy] = []

    def begin(
        self, source: Buffer, starts: Array, target: SharedBuffer, offsets: Array, lanes: Array,
        element: Type, count: int, place: Place, where: Array | None = None,
    ) -> None:  # fmt: skip
        """A copy of `count` elements for each of the lanes, between byte offsets.

        `where` says which lanes read; the others get zeros.
        """
        size = element.bytes * count
        for buffer, places in ((source, starts), (target, offsets)):
            unaligned = places % size != 0
            if unaligned.any():
                at = int(np.argmax(unaligned))
                raise place.error(
                    int(lanes[at]),
                    f"copies {size} bytes at byte {places[at]} of {buffer.name}, which is not a "
                    f"multiple of {size}",
                )
        word = _BYTE[element.bytes]
        reading = np.ones(len(lanes), np.bool_) if where is None else where
        parts = source.load(starts[reading], lanes[reading], word, count, place)
        target.locate(offsets, lanes, word, count, "copies to", place)
        target.begin_copy(offsets, lanes, size, place)
        data = np.zeros((len(lanes), size), np.uint8)
        data[reading] = np.ascontiguousarray(np.stack(parts, axis=1)).view(np.uint8)
        self._pending.append(_Copy(target, offsets, lanes, data, self._committed[lanes]))

    def commit(self, active: Array) -> None:
        """Ends the group of each active instance."""
        self._committed += active

    def wait(self, pending: int, active: Array) -> None:
        """Completes, for the active instances, all groups but the last `pending`."""
        left = []
        for copy in self._pending:
            done = active[copy.lanes] & (copy.group < self._committed[copy.lanes] - pending)
            if done.any():
                arrived = copy.only(done)
                arrived.target.end_copy(arrived.offsets, arrived.lanes, arrived.data)
            if not done.all():
                left.append(copy.only(~done))
        self._pending = left
