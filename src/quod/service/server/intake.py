"""Read and parse the bodies of requests, within the memory budget and a time limit.

No other module reads bodies. Bytes are reserved before the first one is read, and the time limit of
a body depends on its length. One thread parses large bodies, so that the event loop is not blocked
and at most one of them is parsed at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from starlette.requests import ClientDisconnect, Request

from quod.errors import InputError
from quod.service.server.budget import RequestBudget, Reservation
from quod.service.server.config import RequestLimits

T = TypeVar("T")
B = TypeVar("B", bytes, bytearray)

MAX_VALUES: Final = 1 << 16
"""The maximum number of fields of a message, or of values of JSON, except those within inputs."""

CHUNK_BYTES: Final = 256 << 10
"""The memory that an HTTP upload takes at a time, with the buffers of its connection."""

# A JSON body is in memory twice: as parsed requests and as payloads in the queue.
_COPIES: Final = 2

# Parsing fewer bytes takes less time than waking a thread.
_INLINE_BYTES: Final = 16 << 10


class Intake:
    """The reader and parser of bodies. Not thread-safe: use it in one event loop's thread."""

    def __init__(self, limits: RequestLimits) -> None:
        self.limits = limits
        self.budget = RequestBudget(limits)
        self._parser = ThreadPoolExecutor(1, thread_name_prefix="quod-parse")

    def close(self) -> None:
        """End the thread."""
        self._parser.shutdown()

    async def message(
        self, messages: AsyncIterator[bytes], reservation: Reservation,
        seconds: float | None = None,
    ) -> bytes | None:  # fmt: skip
        """Receive the next message of a gRPC call, or None after the last one.

        Its length is unknown in advance, so this reserves the maximum length, and uses the time
        limit of that length unless `seconds` is given.
        """
        reserved_bytes, max_bytes = reservation.held, self.limits.message_bytes
        await reservation.wait(max_bytes)
        seconds = self.limits.seconds_for(max_bytes) if seconds is None else seconds
        try:
            async with asyncio.timeout(seconds):
                message = await anext(messages, None)
        except TimeoutError:
            raise InputError(
                f"the message did not arrive within {seconds:g} s; send it faster"
            ) from None
        reservation.return_to(reserved_bytes + len(message or b""))
        return message

    async def body(self, request: Request, reservation: Reservation) -> bytearray:
        """Receive the body of an HTTP request in a buffer allocated at its announced length."""
        max_bytes = self.limits.message_bytes
        length = announced_length(request, max_bytes)
        await reservation.wait(_COPIES * (max_bytes if length is None else length))
        body, end = bytearray(length or 0), 0
        async for chunk in self._stream(
            request, max_bytes, max_bytes if length is None else length
        ):
            # Concatenated chunks of concurrent bodies would fragment the heap.
            body[end : end + len(chunk)] = chunk
            end += len(chunk)
        del body[end:]
        return body

    async def chunks(self, request: Request, reservation: Reservation) -> AsyncIterator[bytes]:
        """Receive the body of an HTTP upload in chunks as they arrive."""
        max_bytes = self.limits.witness_bytes
        length = announced_length(request, max_bytes)
        await reservation.wait(CHUNK_BYTES)
        async for chunk in self._stream(
            request, max_bytes, max_bytes if length is None else length
        ):
            yield chunk

    async def parse(self, data: B, read: Callable[[B], T]) -> T:
        """Parse a body with `read`; long ones in the parser thread, one at a time."""
        if len(data) <= _INLINE_BYTES:
            return read(data)
        return await asyncio.get_running_loop().run_in_executor(self._parser, read, data)

    async def _stream(self, request: Request, most: int, length: int) -> AsyncIterator[bytes]:
        received, stream, idle = 0, request.stream(), self.limits.idle_seconds
        loop = asyncio.get_running_loop()
        last_deadline = loop.time() + self.limits.seconds_for(length)
        while True:
            deadline = min(loop.time() + idle, last_deadline)
            try:
                async with asyncio.timeout_at(deadline):
                    chunk = await anext(stream, None)
            except TimeoutError:
                allowed = self.limits.seconds_for(length)
                raise InputError(
                    f"the body did not arrive within {allowed:g} s; send it faster"
                    if deadline == last_deadline
                    else f"no bytes arrived for {idle:g} s; send the request again"
                ) from None
            except ClientDisconnect:
                raise InputError(
                    "the client disconnected before its request was complete"
                ) from None
            if chunk is None:
                return
            received += len(chunk)
            if received > most:
                raise _too_long(most)
            if chunk:
                yield chunk


def announced_length(request: Request, most: int) -> int | None:
    """Return the Content-Length of a request, None for a chunked body.

    Raises InputError if it exceeds `most`.
    """
    announced = request.headers.get("content-length", "")
    if not (announced.isascii() and announced.isdigit()):
        return None
    if len(announced) > 18 or int(announced) > most:
        raise _too_long(most)
    return int(announced)


def _too_long(most: int) -> InputError:
    return InputError(f"the body is longer than {most} bytes; send less at a time")
