"""What a store is: transactions of a database, and the news of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from quod.errors import QuodError
from quod.service.queue.signals import Signals
from quod.service.queue.transaction import Changes, Transaction

T = TypeVar("T")


class UndoneError(QuodError):
    """A transaction was undone and changed nothing; done again, perhaps alone, it may succeed."""


class Store(Protocol):
    """A database with the tables of `schema`.

    One thread writes; any may read. Both raise `UnavailableError` when the database cannot be
    reached, and then a write may have been committed all the same.
    """

    @property
    def name(self) -> str: ...

    @property
    def signals(self) -> Signals: ...

    @property
    def most_body(self) -> int:
        """The bytes of the largest payload that is kept as a row; 0 if none is."""
        ...

    @property
    def shared(self) -> bool:
        """Whether other processes have the same queue."""
        ...

    def write(self, work: Callable[[Transaction], T], *, durable: bool = True) -> tuple[T, Changes]:
        """Commits what `work` does, durably; or raises, and nothing is done.

        What need not be `durable` may be lost with the machine, unless it ends a job, and never
        with the process. `UndoneError` says that it can be tried again, `StorageFullError` that the
        disk is full.
        """
        ...

    def tell(self, changes: Changes) -> None:
        """Tells who waits of what the thread that writes has committed."""
        ...

    def shred(self) -> bool:
        """Takes what was deleted out of the log as well; False if somebody is reading it."""
        ...

    def read(self, work: Callable[[Transaction], T]) -> T:
        """What `work` reads in one snapshot."""
        ...

    def close(self) -> None: ...
