"""A server in a process of its own, whose memory and answers are watched while it is attacked."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

SECONDS = 60.0
MEGABYTE = 1 << 20


class AttackedServer:
    """A server that listens on loopback; ends with a `with` block."""

    def __init__(self, fields: dict[str, Any]) -> None:
        words = [sys.executable, "-m", "tests.service.server.attacked_server", json.dumps(fields)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=Path(__file__).parents[3],
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server did not start"
        listeners = json.loads(line)
        self.grpc = _address(listeners["grpc"][0])
        self.http = _address(listeners["http"][0])
        self.pid = self._process.pid
        self.watch()

    def watch(self) -> None:
        """From here on the peak of memory is that of the next attack."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        self.idle = self.resident("VmRSS")

    def resident(self, name: str) -> int:
        """A field of the process's status, in bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"there is no {name}")

    @property
    def growth(self) -> int:
        """The most memory that the process has had since `watch`, above what it had then."""
        return self.resident("VmHWM") - self.idle

    def files(self) -> int:
        """Number of files that the process has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def connected(self) -> socket.socket:
        """A new connection of HTTP."""
        return socket.create_connection(self.http, timeout=SECONDS)

    def is_live(self, at: socket.socket | None = None) -> bool:
        """Return whether the server answers the liveness check, on a new or on this connection."""
        connection = self.connected() if at is None else at
        try:
            connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        finally:
            if at is None:
                connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(SECONDS)
        finally:
            self._process.kill()
            self._process.wait()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition("//")[2].rpartition(":")
    return host, int(port)


def _serve(fields: dict[str, Any]) -> None:
    from quod.service.queue import JobQueue
    from quod.service.server.config import Config
    from quod.service.server.listeners import Listeners
    from quod.service.server.running import run
    from tests.service.server.fake_pool import FakePool

    async def serve() -> None:
        loop, ending = asyncio.get_running_loop(), asyncio.Event()

        def end() -> None:
            sys.stdin.read()
            loop.call_soon_threadsafe(ending.set)

        def make(_config: Config, queue: JobQueue, _repository: object) -> FakePool:
            pool = FakePool(queue)
            pool.leave.set()
            return pool

        def started(listeners: Listeners) -> None:
            print(json.dumps({"grpc": listeners.grpc, "http": listeners.http}), flush=True)

        threading.Thread(target=end, daemon=True).start()
        await run(Config.model_validate(fields), make, started, ending, ending)

    asyncio.run(serve())


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
