"""What proofs in progress have to themselves: made at need, and handed from one to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Slots(Generic[T]):
    """Up to `most` equal slots, of which each proof in progress has one; `make` makes one.

    The first is made now, so that a device with too little memory says so at once.
    """

    def __init__(self, make: Callable[[], T], most: int) -> None:
        self._make, self.most = make, most
        self._free = [make()]
        self._made = 1
        self._changed = threading.Condition()

    def acquire(self) -> T:
        """A slot that no proof has, made if there may be one more, waited for otherwise."""
        with self._changed:
            if not self._free and self._made < self.most:
                made = self._make()
                self._made += 1
                return made
            while not self._free:
                self._changed.wait()
            return self._free.pop()

    @property
    def is_free(self) -> bool:
        """Whether there is one, or may be one more."""
        return bool(self._free) or self._made < self.most

    def wait(self) -> None:
        """Waits until one is free, for whoever alone takes them."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_free)
            # What was notified is another one's as well.
            self._changed.notify()

    def fill(self) -> None:
        """Makes all of them now, so that no proof waits for one to be made."""
        while True:
            with self._changed:
                if self._made >= self.most:
                    return
                self._free.append(self._make())
                self._made += 1
                self._changed.notify()

    def release(self, slot: T) -> None:
        """Lets another proof have a slot."""
        with self._changed:
            self._free.append(slot)
            self._changed.notify()
