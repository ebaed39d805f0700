"""How much of a kind each client does at a time: uploads, streams, calls that wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from quod.service.errors import QueueFullError

_RETRY_SECONDS = 1.0


class Slots:
    """Places of one kind, as many for each client. For the thread of the server's loop alone."""

    def __init__(self, what: str, most: int) -> None:
        self._what, self._most = what, most
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """Of all clients."""
        return sum(self._taken.values())

    @contextmanager
    def one(self, client: str) -> Iterator[None]:
        """A place for the length of a block; `QueueFullError` if the client has none left."""
        if self._taken[client] >= self._most:
            raise QueueFullError(
                f"the client has {self._most} {self._what} at a time, and no more",
                retry_seconds=_RETRY_SECONDS,
            )
        self._taken[client] += 1
        try:
            yield
        finally:
            self._taken[client] -= 1
            if not self._taken[client]:
                del self._taken[client]
