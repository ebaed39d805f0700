"""The cache of transforms on a device: recently used tables, and scratch memory."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice

_MAX_TABLES = 32
"""The maximum number of tables cached per device; the least recently used is evicted."""

T = TypeVar("T")


class TableStore:
    """The tables and the scratch memory of one device.

    lock: held by a transform while it uses the shared scratch memory.

    A table stays valid for its users after it is evicted.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._tables: OrderedDict[Hashable, Any] = OrderedDict()
        self._scratch = Buffer.zeros(0)

    def find(self, key: Hashable, build: Callable[[], T]) -> T:
        """Return the table of a key, building it if it is not cached."""
        with self.lock:
            if key not in self._tables:
                self._tables[key] = build()
            self._tables.move_to_end(key)
            while len(self._tables) > _MAX_TABLES:
                self._tables.popitem(last=False)
            table: T = self._tables[key]
            return table

    def scratch(self, nbytes: int) -> Buffer:
        """Return host memory for the rows of a pass; the caller holds `lock` while it uses it."""
        if self._scratch.nbytes < nbytes:
            self._scratch = Buffer.zeros(nbytes)
        return self._scratch

    def release(self) -> None:
        """Free all tables and scratch memory."""
        with self.lock:
            self._tables.clear()
            self._scratch = Buffer.zeros(0)


_stores: weakref.WeakKeyDictionary[AnyDevice, TableStore] = weakref.WeakKeyDictionary()
_stores_lock = threading.Lock()


def store_of(device: AnyDevice) -> TableStore:
    """Return the table store of a device."""
    with _stores_lock:
        return _stores.setdefault(device, TableStore())
