"""HTTP connections, with a limit from when they are accepted and a timeout for each step.

Without these, anyone who can connect could use up the open files of the process and block all
clients, even on Unix sockets. At the limit, a connection that waits for its client is closed to
make room for a new one.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
from asyncio import sslproto
from contextlib import suppress
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

REQUEST_SECONDS: Final = 20.0
"""The time limit of a request's head, from the accept or the first byte of a later request."""

ANSWER_SECONDS: Final = 60.0
"""The time after which a client that reads nothing of an answer is disconnected."""

_READ_BYTES: Final = 64 << 10
_HEAD_BYTES: Final = 16 << 10
_MAX_TINY_CHUNKS: Final = 1000
_MIN_CHUNK_BYTES: Final = 32
"""The minimum average chunk size of a body of more than `_MAX_TINY_CHUNKS` chunks."""

_TLS_BYTES: Final = 32 << 10
_FILES_DIVISOR: Final = 4
# The number of failed connections after which the garbage collector runs: a failed handshake leaves
# 60 kB in a reference cycle of few objects, which would not start a collection.
_FAILURES_PER_COLLECTION: Final = 500


def connections_at_most(wanted: int) -> int:
    """Return the connection limit of a listener: `wanted`, but at most a quarter of all files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        wanted if files == resource.RLIM_INFINITY else max(1, min(wanted, files // _FILES_DIVISOR))
    )


def shrink_tls_buffers() -> None:
    """Have asyncio use 32 KiB per TLS connection, not 256; a TLS record has at most 16."""
    sslproto.SSLProtocol.max_size = _TLS_BYTES


class Connections:
    """The connections of a listener, from the accept until they are closed.

    At the limit of `most`, a new connection replaces the one that has waited longest for its
    client: in its TLS handshake, in a request's head, or between two requests. If all have a
    request in progress, the new one is refused.
    """

    def __init__(self, most: int, seconds: float = REQUEST_SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._open: dict[int, _Accepted] = {}
        self._waiting: dict[int, _Accepted] = {}
        self._timeout: dict[int, asyncio.TimerHandle] = {}
        self._failures = 0

    def __len__(self) -> int:
        return len(self._open)

    def listener(self, bound: socket.socket) -> socket.socket:
        """Return a socket that accepts within the limit; it takes over the file of `bound`."""
        return _Listener(self, bound)

    def admit(self, accepted: socket.socket) -> socket.socket | None:
        """Count a connection; at the limit close it and return None."""
        if len(self._open) >= self._most and not self._end_oldest():
            accepted.close()
            return None
        connection = _Accepted(self, accepted)
        number = connection.fileno()
        self._open[number] = self._waiting[number] = connection
        loop = asyncio.get_running_loop()
        self._timeout[number] = loop.call_later(self._seconds, connection.end)
        return connection

    def waits(self, number: int) -> None:
        """Note that the connection with this descriptor waits for a request of its client."""
        if number in self._open:
            self._waiting[number] = self._open[number]

    def works(self, number: int) -> None:
        """Note that the connection with this descriptor has a request in progress."""
        self._waiting.pop(number, None)

    def established(self, number: int) -> None:
        """Cancel the timer of a connection, whose protocol has its own from now on."""
        timer = self._timeout.pop(number, None)
        if timer is not None:
            timer.cancel()

    def forget(self, number: int) -> None:
        """Note that a connection is closed."""
        self._open.pop(number, None)
        self._waiting.pop(number, None)
        if number in self._timeout:
            self._failures += 1
            if self._failures >= _FAILURES_PER_COLLECTION:
                self._failures = 0
                gc.collect()
        self.established(number)

    def _end_oldest(self) -> bool:
        for number, connection in self._waiting.items():
            del self._waiting[number]
            connection.end()
            return True
        return False


class _Accepted(socket.socket):
    """A connection that is counted until it is closed."""

    def __init__(self, connections: Connections, accepted: socket.socket) -> None:
        super().__init__(fileno=accepted.detach())
        self._connections = connections
        self.setblocking(False)

    def end(self) -> None:
        """Shut the connection down, so that its transport closes it."""
        with suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connections.forget(self.fileno())
        super().close()


class _Listener(socket.socket):
    def __init__(self, connections: Connections, bound: socket.socket) -> None:
        super().__init__(fileno=bound.detach())
        self._connections = connections

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, address = super().accept()
        connection = self._connections.admit(accepted)
        if connection is None:
            # asyncio continues with the next connection after this error.
            raise ConnectionAbortedError
        return connection, address


class _ChunkLimitedParser(h11.Connection):
    """The parser of a connection, which refuses bodies with tiny chunks.

    A chunk of one byte takes as long to parse as one of thousands, and parsing blocks the event
    loop.
    """

    _chunk_count = _bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunk_count = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._chunk_count += 1
            self._bytes += len(event.data)
            if (
                self._chunk_count > _MAX_TINY_CHUNKS
                and self._bytes < self._chunk_count * _MIN_CHUNK_BYTES
            ):
                raise h11.RemoteProtocolError("the body's chunks are too small; send larger ones")
        return event


def limited_protocol(
    connections: Connections, seconds: float = REQUEST_SECONDS, answer: float = ANSWER_SECONDS
) -> type[H11Protocol]:
    """Return a protocol for uvicorn with timeouts.

    seconds: the timeout of a request's head.
    answer: the seconds after which a client that reads nothing of an answer is disconnected.
    """

    class Limited(H11Protocol):
        _timeout: asyncio.TimerHandle | None = None
        _write_timer: asyncio.TimerHandle | None = None
        _number = -1

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.conn = _ChunkLimitedParser(h11.SERVER, _HEAD_BYTES)

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._number = transport.get_extra_info("socket").fileno()
            connections.established(self._number)
            # Bytes that a client sends ahead of its turn stay in memory.
            transport.max_size = _READ_BYTES
            self._update_timer()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._update_timer()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._update_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            self._cancel_write_timer()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._write_timer is None:
                self._write_timer = self.loop.call_later(answer, self.transport.abort)

        def resume_writing(self) -> None:
            self._cancel_write_timer()
            super().resume_writing()

        def _update_timer(self) -> None:
            """Run the timer while the head of a request is incomplete."""
            # The cycle is None before the first request.
            cycle: RequestResponseCycle | None = self.cycle
            is_waiting = cycle is None or cycle.response_complete
            (connections.waits if is_waiting else connections.works)(self._number)
            if self.conn.their_state is not h11.IDLE:
                self._forget()
            elif self._timeout is None:
                self._timeout = self.loop.call_later(seconds, self._end)

        def _end(self) -> None:
            self._timeout = None
            if self.conn.their_state is h11.IDLE:
                self.transport.abort()

        def _forget(self) -> None:
            if self._timeout is not None:
                self._timeout.cancel()
                self._timeout = None

        def _cancel_write_timer(self) -> None:
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = None

    return Limited
