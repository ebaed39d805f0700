"""Connections of HTTP: so many at a time, and a request's head within a time.

Without either, whoever can connect takes all files that the process may have open, and nobody is
served, over the Unix sockets neither.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS: Final = 20.0
"""From the connection, or the first byte of a later request, to the end of its head."""

_SHARE: Final = 4


def connections_at_most(wanted: int) -> int:
    """How many connections a listener takes: as many as wanted, but of all files a quarter."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else max(1, min(wanted, files // _SHARE))


def limited_protocol(most: int, seconds: float = REQUEST_SECONDS) -> type[H11Protocol]:
    """A protocol for uvicorn that has `most` connections, and ends the others."""

    class Limited(H11Protocol):
        _due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.abort()
            else:
                self._look()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            super().connection_lost(exc)

        def _look(self) -> None:
            """Has the time run while the head of a request is to come."""
            if self.conn.their_state is not h11.IDLE:
                self._forget()
            elif self._due is None:
                self._due = self.loop.call_later(seconds, self._end)

        def _end(self) -> None:
            self._due = None
            if self.conn.their_state is h11.IDLE:
                self.transport.abort()

        def _forget(self) -> None:
            if self._due is not None:
                self._due.cancel()
                self._due = None

    return Limited
