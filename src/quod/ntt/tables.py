"""What transforms keep on a device: tables of the passes done last, and scratch memory."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice

_MOST_TABLES = 32
"""Tables that a device keeps: those used last."""

T = TypeVar("T")


class TableStore:
    """The tables and the scratch memory of one device.

    `lock` is held by a transform that needs what it has found to stay alone with it: scratch memory
    is shared. Who is given a table keeps it, whether or not the store still has it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._scratch = Buffer.zeros(0)

    def find(self, key: Hashable, build: Callable[[], T]) -> T:
        """What `build` gave for a key, once as long as it is kept."""
        with self.lock:
            if key not in self._kept:
                self._kept[key] = build()
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST_TABLES:
                self._kept.popitem(last=False)
            found: T = self._kept[key]
            return found

    def scratch(self, nbytes: int) -> Buffer:
        """Host memory for the rows of a pass; `lock` is held as long as it is used."""
        if self._scratch.nbytes < nbytes:
            self._scratch = Buffer.zeros(nbytes)
        return self._scratch

    def release(self) -> None:
        """Gives up everything; what comes next builds it again."""
        with self.lock:
            self._kept.clear()
            self._scratch = Buffer.zeros(0)


_stores: weakref.WeakKeyDictionary[AnyDevice, TableStore] = weakref.WeakKeyDictionary()
_stores_lock = threading.Lock()


def store_of(device: AnyDevice) -> TableStore:
    """What transforms keep on a device."""
    with _stores_lock:
        return _stores.setdefault(device, TableStore())
