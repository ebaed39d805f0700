"""The interface of a store: database transactions and their notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from quod.errors import QuodError
from quod.service.queue.signals import Signals
from quod.service.queue.transaction import Changes, Transaction

T = TypeVar("T")


class UndoneError(QuodError):
    """A transaction was rolled back; a retry may succeed, or retries of each grouped call."""


class Store(Protocol):
    """A database with the tables of `quod.service.queue.schema`.

    One thread writes; any thread may read. Both raise UnavailableError if the database cannot be
    reached; a write may have been committed all the same.
    """

    @property
    def name(self) -> str: ...

    @property
    def signals(self) -> Signals: ...

    @property
    def max_row_payload(self) -> int:
        """The maximum bytes of a payload stored as a row; 0 if all payloads are files."""
        ...

    @property
    def shared(self) -> bool:
        """Report whether other processes may use this queue at the same time."""
        ...

    def write(self, work: Callable[[Transaction], T], *, durable: bool = True) -> tuple[T, Changes]:
        """Run `work` in a transaction and commit it, or roll it back and raise.

        durable: if False, a machine crash may undo the commit; a process crash never does. A commit
            that ends a job is always durable.
        Raises UndoneError if a retry may succeed, StorageFullError if the disk is full.
        """
        ...

    def notify(self, changes: Changes) -> None:
        """Notify subscribers of the changes of a committed transaction."""
        ...

    def shred(self) -> bool:
        """Erase deleted data from the write-ahead log too; return False if a reader prevents it."""
        ...

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one snapshot; return its result."""
        ...

    def close(self) -> None: ...
