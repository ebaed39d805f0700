"""Concurrency limits of clients: uploads, streams and waiting calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from quod.service.errors import QueueFullError

_RETRY_SECONDS = 1.0


class Slots:
    """A concurrency limit that applies to each client; for the event loop's thread only."""

    def __init__(self, what: str, most: int) -> None:
        self._what, self._limit = what, most
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """The number of slots in use by all clients."""
        return sum(self._taken.values())

    @contextmanager
    def hold(self, client: str) -> Iterator[None]:
        """Hold a slot within a block; raises QueueFullError if the client has none left."""
        if self._taken[client] >= self._limit:
            raise QueueFullError(
                f"the client may have at most {self._limit} {self._what} at a time; retry later",
                retry_seconds=_RETRY_SECONDS,
            )
        self._taken[client] += 1
        try:
            yield
        finally:
            self._taken[client] -= 1
            if not self._taken[client]:
                del self._taken[client]
