"""A server for tests: its loop in a thread, its clients, and the pool that it has."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import httpx
import uvicorn.server

from quod.service.client import Client
from quod.service.keys import KeyRepository
from quod.service.queue import JobQueue
from quod.service.server.config import Config
from quod.service.server.listeners import Listeners
from quod.service.server.pools import make_pool
from quod.service.server.running import run
from quod.service.worker import WorkerPool
from tests.service.server.fake_pool import FakePool

SECONDS = 300


class _ShortSleeps:
    """The module asyncio, with sleeps of a tenth of their length."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


# uvicorn takes up to two tenths of a second to end, which add up over the servers of all tests.
uvicorn.server.asyncio = _ShortSleeps()  # type: ignore[attr-defined]


class RunningServer:
    """Started when it is made; `end` has it drained, `stop` waits for that."""

    pool: FakePool
    queue: JobQueue
    listeners: Listeners

    def __init__(self, fields: Mapping[str, Any], *, go: bool = True) -> None:
        self.config = Config.model_validate(fields)
        self._go, self._told = go, False
        self._started = threading.Event()
        self.finished: bool | BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if not self._started.wait(SECONDS) or isinstance(self.finished, BaseException):
            raise AssertionError("the server did not start") from (
                self.finished if isinstance(self.finished, BaseException) else None
            )

    def client(self, address: str | None = None, token: str | None = None) -> Client:
        return Client(address or self.listeners.grpc[0], token=token)

    def http(self, at: int = 0, **options: Any) -> httpx.Client:
        """A client of the listener of that number."""
        address = self.listeners.http[at]
        if address.startswith("unix:"):
            transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"))
            return httpx.Client(
                transport=transport, base_url="http://localhost", timeout=SECONDS, **options
            )
        return httpx.Client(base_url=address, timeout=SECONDS, **options)

    def is_loop(self, thread: threading.Thread) -> bool:
        """Return whether a thread is that of the server's loop."""
        return thread is self._thread

    def end(self) -> None:
        """Act as SIGTERM does; a second call is a second signal."""
        self._loop.call_soon_threadsafe((self._hurried if self._told else self._ending).set)
        self._told = True

    def stop(self) -> None:
        if self._thread.is_alive():
            self.pool.leave.set()
            self._loop.call_soon_threadsafe(self._ending.set)
        self.join()

    def join(self) -> bool | BaseException | None:
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "the server does not end"
        return self.finished

    def _run(self) -> None:
        try:
            self.finished = asyncio.run(self._serve())
        except BaseException as error:
            self.finished = error
            self._started.set()

    async def _serve(self) -> bool:
        self._loop = asyncio.get_running_loop()
        self._ending, self._hurried = asyncio.Event(), asyncio.Event()

        def make(_config: Config, queue: JobQueue, _repository: object) -> FakePool:
            self.queue, self.pool = queue, FakePool(queue, go=self._go)
            return self.pool

        def started(listeners: Listeners) -> None:
            self.listeners = listeners
            self._started.set()

        return await run(self.config, make, started, self._ending, self._hurried)


class ConfiguredServer(RunningServer):
    """`RunningServer` with the pool of its configuration in place of the fake one."""

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
        self.join()

    async def _serve(self) -> bool:
        self._loop = asyncio.get_running_loop()
        self._ending, self._hurried = asyncio.Event(), asyncio.Event()

        def make(config: Config, queue: JobQueue, repository: KeyRepository) -> WorkerPool:
            self.queue = queue
            return make_pool(config, queue, repository)

        def started(listeners: Listeners) -> None:
            self.listeners = listeners
            self._started.set()

        return await run(self.config, make, started, self._ending, self._hurried)
