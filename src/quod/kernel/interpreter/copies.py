"""Pending asynchronous copies to shared memory.

The bytes are written when the instance that started the copy waits for it; earlier reads of the
target are errors, as reads of unset memory.
"""

from __future__ import annotations

import numpy as np

from quod.frozen import frozen
from quod.kernel.interpreter.memory import AccessSite, Buffer, SharedBuffer
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ops.semantics import Array

_BYTE = {1: types.u8, 2: types.u16, 4: types.u32, 8: types.u64}


@frozen(eq=False)
class _Copy:
    """One copy per lane: `data` has a row of bytes per lane, `group` the group of each copy."""

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
    """The copies that instances have started and not yet waited for."""

    def __init__(self, lanes: int) -> None:
        self._committed = np.zeros(lanes, np.int64)
        self._pending: list[_Copy] = []

    def begin(
        self, source: Buffer, starts: Array, target: SharedBuffer, offsets: Array, lanes: Array,
        element: Type, count: int, place: AccessSite, where: Array | None = None,
    ) -> None:  # fmt: skip
        """Start a copy of `count` elements per lane between byte offsets.

        Lanes for which `where` is false write zeros and read nothing.
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
        """Commit the current group of each active instance."""
        self._committed += active

    def wait(self, pending: int, active: Array) -> None:
        """Complete all groups of the active instances but the last `pending`."""
        incomplete = []
        for copy in self._pending:
            done = active[copy.lanes] & (copy.group < self._committed[copy.lanes] - pending)
            if done.any():
                arrived = copy.only(done)
                arrived.target.end_copy(arrived.offsets, arrived.lanes, arrived.data)
            if not done.all():
                incomplete.append(copy.only(~done))
        self._pending = incomplete
