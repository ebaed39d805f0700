"""Long-lived answers: server-sent events, and waits that a disconnect cancels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from quod.service.server.service import JobWithResults

COMMENT_SECONDS: Final = 15.0
"""The pause after which a stream without events sends something, to stay open."""


async def event_stream(items: AsyncGenerator[Any, None], text: Callable[[Any], str]) -> Response:
    """Build a response of server-sent events; errors before the first event are refusals."""
    first = await anext(items, None)

    async def lines() -> AsyncIterator[str]:
        async with aclosing(items):
            yield text(first)
            async for item in items:
                yield text(item)

    return StreamingResponse(lines(), media_type="text/event-stream")


async def while_connected(
    request: Request, work: asyncio.Future[JobWithResults], received: asyncio.Event | None = None
) -> JobWithResults:
    """Return the result of `work`, which is cancelled if the client disconnects.

    Until the request is `received`, its reader notices a disconnect.
    """

    async def wait_for_disconnect() -> None:
        if received is not None:
            await received.wait()
        while (await request.receive())["type"] != "http.disconnect":
            pass

    disconnected = asyncio.ensure_future(wait_for_disconnect())
    try:
        futures: list[asyncio.Future[Any]] = [work, disconnected]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
        return work.result()
    finally:
        disconnected.cancel()
        if not work.done():
            work.cancel()
