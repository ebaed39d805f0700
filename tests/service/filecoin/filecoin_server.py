"""A server of Filecoin proofs in a thread."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from quod.service.keys import KeyRepository
from quod.service.queue import JobQueue
from quod.service.server.config import Config
from quod.service.server.listeners import Listeners
from quod.service.server.pools import make_pool
from quod.service.server.running import run
from quod.service.worker import WorkerPool
from tests.service.server.running_server import RunningServer


class FilecoinServer(RunningServer):
    """`RunningServer` with the pool of its configuration in place of the fake one."""

    def __init__(self, folder: Path, params: Path, **fields: Any) -> None:
        KeyRepository(folder / "keys", create=True)
        config = {
            "data": folder, "filecoin": {"params": params, "insecure_test_key": True},
            "queue": {"ballast_bytes": 4096}, "requests": {"message_bytes": 4 << 20},
        }  # fmt: skip
        super().__init__(config | fields)

    def stop(self) -> None:
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
