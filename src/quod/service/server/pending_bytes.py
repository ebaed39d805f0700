"""Bytes of uploads in progress, which count towards quotas before the queue has their jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from quod.service.errors import QueueFullError
from quod.service.queue import Limits

_RETRY_SECONDS = 1.0


class PendingBytes:
    """The announced bytes of each client's uploads. Use it in the thread of the event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pending: Counter[str] = Counter()

    @contextmanager
    def reserve(self, client: str, nbytes: int, usage: Mapping[str, int]) -> Iterator[None]:
        """Count an upload for the duration of a `with` block.

        usage: the payload bytes of jobs in the queue, by client.
        Raises `QueueFullError` if it would exceed a quota or a limit.
        """
        limits = self._limits
        client_bytes = usage.get(client, 0) + self._pending[client]
        total_bytes = sum(usage.values()) + sum(self._pending.values())
        for limit_name, used, limit in (
            ("the client's quota of bytes", client_bytes, limits.quota_of(client).payload_bytes),
            ("the queue's limit of bytes", total_bytes, limits.payload_bytes),
        ):
            if used + nbytes > limit:
                raise QueueFullError(
                    f"{limit_name} is {limit}, and {used} are in use, with uploads in progress",
                    retry_seconds=_RETRY_SECONDS,
                )
        free = limits.payload_bytes - total_bytes
        if client_bytes and client_bytes + nbytes > free:
            # Like the limit on jobs, this leaves room for the first upload of any other client.
            raise QueueFullError(
                f"the queue's limit of bytes is {limits.payload_bytes}, and {free} are "
                f"free: the client has {client_bytes}, with uploads under way, and may "
                "submit more once it has less than is free",
                retry_seconds=_RETRY_SECONDS,
            )
        self._pending[client] += nbytes
        try:
            yield
        finally:
            self._pending[client] -= nbytes
            if not self._pending[client]:
                del self._pending[client]
