"""The server for `quod bench submit`, whose workers do nothing or finish at once.

python -m quod.bench.service.submit_server FOLDER idle|instant
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from quod.service.keys import KeyRepository
from quod.service.queue import JobQueue
from quod.service.server.config import Config
from quod.service.server.listeners import Listeners
from quod.service.server.running import serve
from quod.service.worker.pools.pool import StageRecord, WorkerStatus

_RESULT = b'{"proof": %b, "publicSignals": []}' % (b"[" + b"1," * 350 + b"1]")
"""A result as long as a Groth16 proof in JSON."""

_UNLIMITED = 1 << 40
_WAIT_SECONDS = 0.1


class InstantPool:
    """A pool with one thread that stores a dummy result for each partition."""

    def __init__(self, queue: JobQueue, *, idle: bool) -> None:
        self._queue, self._idle = queue, idle
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def close(self) -> None:
        self.drain()

    def evict(self, key: str, *, worker: str | None = None) -> None:
        """Do nothing: there are no keys."""

    def start(self) -> None:
        self._thread.start()

    @property
    def ready(self) -> bool:
        return True

    def preload(self, key: str, *, worker: str | None = None, timeout: float | None = None) -> None:
        """Do nothing: there are no keys."""

    def status(self) -> list[WorkerStatus]:
        return []

    def drain(self, timeout: float | None = None) -> bool:
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def watch(self, callback: Callable[[StageRecord], None]) -> None:
        """Do nothing: there are no stages."""

    def resume(self, worker: str) -> None:
        """Do nothing: there are no workers."""

    def _run(self) -> None:
        while not self._ending.is_set():
            if self._idle:
                self._ending.wait()
                return
            for lease in self._queue.claim("instant", wait=_WAIT_SECONDS):
                self._queue.finish(lease, _RESULT)


def main(folder: str, kind: str) -> None:
    """Serve a folder with `keys`; print the gRPC and HTTP addresses."""

    def make_pool(_config: Config, queue: JobQueue, _repository: KeyRepository) -> InstantPool:
        return InstantPool(queue, idle=kind == "idle")

    def print_addresses(listeners: Listeners) -> None:
        print(listeners.grpc[0], listeners.http[0], flush=True)

    folder_path = Path(folder)
    unlimited = {"jobs": _UNLIMITED, "payload_bytes": _UNLIMITED}
    # Outside the data folder, as a socket path has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="quod-") as temporary:
        settings = {
            "data": folder_path / kind, "keys": folder_path / "keys",
            "queue": unlimited | {"kept_jobs": _UNLIMITED},
            "listen": {name: [f"unix:{temporary}/{name}.sock"] for name in ("grpc", "http")},
            "clients": {"local": unlimited},
        }  # fmt: skip
        asyncio.run(serve(Config.model_validate(settings), make_pool, print_addresses))


if __name__ == "__main__":
    main(*sys.argv[1:])
