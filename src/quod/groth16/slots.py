"""A pool of slots for proofs in progress; slots are created on demand and reused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Slots(Generic[T]):
    """Up to `most` equal slots; each proof in progress uses one.

    make: creates a slot. The first slot is created in the constructor, so that too little device
        memory is an error there and not in the first proof.
    """

    def __init__(self, make: Callable[[], T], most: int) -> None:
        self._make, self.most = make, most
        self._free = [make()]
        self._created = 1
        self._changed = threading.Condition()

    def acquire(self) -> T:
        """Return a free slot; if there is none, create one, or wait once `most` slots exist."""
        with self._changed:
            if not self._free and self._created < self.most:
                slot = self._make()
                self._created += 1
                return slot
            while not self._free:
                self._changed.wait()
            return self._free.pop()

    @property
    def is_free(self) -> bool:
        """True if a slot is free, or another may be created."""
        return bool(self._free) or self._created < self.most

    def wait(self) -> None:
        """Wait until a slot is free; only for a single thread that acquires slots."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_free)
            # This thread acquires no slot here, so it passes the notification on.
            self._changed.notify()

    def fill(self) -> None:
        """Create all slots now, so that no proof waits for the creation of one."""
        while True:
            with self._changed:
                if self._created >= self.most:
                    return
                self._free.append(self._make())
                self._created += 1
                self._changed.notify()

    def release(self, slot: T) -> None:
        """Return a slot to the pool."""
        with self._changed:
            self._free.append(slot)
            self._changed.notify()
