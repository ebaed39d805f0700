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
"""The unsigned type of each size in bytes."""


@frozen(eq=False)
class _Copy:
    """One copy per lane: `data` has a row of bytes per lane, `group` the group of each copy."""

    target: SharedBuffer
    offsets: Array
    lanes: Array
    data: Array
    group: Array

    def only(self, selection: Array) -> _Copy:
        return _Copy(
            self.target, self.offsets[selection], self.lanes[selection], self.data[selection],
            self.group[selection],
        )  # fmt: skip


class PendingCopies:
    """The copies that instances have started and not yet waited for."""

    def __init__(self, lanes: int) -> None:
        self._committed = np.zeros(lanes, np.int64)
        self._pending: list[_Copy] = []

    def begin(
        self, source: Buffer, starts: Array, target: SharedBuffer, offsets: Array, lanes: Array,
        element: Type, count: int, site: AccessSite, where: Array | None = None,
    ) -> None:  # fmt: skip
        """Start a copy of `count` elements per lane between byte offsets.

        Lanes for which `where` is false write zeros and read nothing.
        """
        size = element.bytes * count
        for buffer, byte_offsets in ((source, starts), (target, offsets)):
            unaligned = byte_offsets % size != 0
            if unaligned.any():
                index = int(np.argmax(unaligned))
                raise site.error(
                    int(lanes[index]),
                    f"copies {size} bytes at byte {byte_offsets[index]} of {buffer.name}, which is "
                    f"not a multiple of {size}",
                )
        word_type = _BYTE[element.bytes]
        reading = np.ones(len(lanes), np.bool_) if where is None else where
        elements = source.load(starts[reading], lanes[reading], word_type, count, site)
        target.locate(offsets, lanes, word_type, count, "copies to", site)
        target.begin_copy(offsets, lanes, size, site)
        data = np.zeros((len(lanes), size), np.uint8)
        data[reading] = np.ascontiguousarray(np.stack(elements, axis=1)).view(np.uint8)
        self._pending.append(_Copy(target, offsets, lanes, data, self._committed[lanes]))

    def commit(self, active: Array) -> None:
        """Commit the current group of each active instance."""
        self._committed += active

    def wait(self, pending: int, active: Array) -> None:
        """Complete all groups of the active instances but the last `pending`."""
        incomplete = []
        for copy in self._pending:
            is_complete = active[copy.lanes] & (copy.group < self._committed[copy.lanes] - pending)
            if is_complete.any():
                arrived = copy.only(is_complete)
                arrived.target.end_copy(arrived.offsets, arrived.lanes, arrived.data)
            if not is_complete.all():
                incomplete.append(copy.only(~is_complete))
        self._pending = incomplete
