"""Homes of queues in tests: a folder, and for Postgres a schema of its own."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from quod.service.queue import Clock, Job, JobQueue, Limits, Submission, open_queue
from quod.service.queue.clock import MICROSECONDS

_NUMBERS = itertools.count()

DIGESTS = [hashlib.sha256(bytes([number])).digest() for number in range(4)]

# Memory, where there is such: most tests are not about the disk.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class TestClock(Clock):
    """A clock that tests set."""

    __test__ = False

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.jump = 0.0

    def wall(self) -> int:
        return int((self.now + self.jump) * MICROSECONDS)

    def steady(self) -> float:
        return self.now

    def stamp(self) -> int:
        return int(self.now * MICROSECONDS)


class Place:
    """One queue, opened and opened again."""

    def __init__(self, database: str | None, folder: Path | None = None) -> None:
        self.database = database
        self.schema = f"test_{os.getpid()}_{next(_NUMBERS)}"
        self.folder = folder or Path(tempfile.mkdtemp(prefix="quod-queue-", dir=MEMORY))
        self.clock = TestClock()
        self._opened: list[JobQueue] = []

    @property
    def shared(self) -> bool:
        """Return whether several processes may have the queue open."""
        return self.database is not None

    @property
    def arguments(self) -> dict[str, Any]:
        return {"folder": str(self.folder), "database": self.database, "schema": self.schema}

    def open(self, **limits: Any) -> JobQueue:
        """The queue with a clock of the test's, swept only when the test does."""
        queue_limits = Limits(**({"ballast_bytes": 4096} | limits))
        queue = open_queue(
            **self.arguments, limits=queue_limits, clock=self.clock, sweep_seconds=None
        )
        self._opened.append(queue)
        return queue

    def close(self) -> None:
        for queue in self._opened:
            queue.close()
        self._opened.clear()

    def remove(self) -> None:
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.database is not None and self.database.startswith("postgres"):
            import psycopg

            with psycopg.connect(self.database, autocommit=True) as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")

    def files(self) -> list[str]:
        """Names in the spool, after it has deleted discarded payloads."""
        for queue in self._opened:
            if not queue._closed:
                queue.blob_store.drain()
        return sorted(os.listdir(self.folder / "spool"))


def request(key: str = "k", **fields: Any) -> Submission:
    """A submission of Ann's."""
    return Submission(**({"client": "ann", "key": key, "digest": DIGESTS[0]} | fields))


def submitted(queue: JobQueue, payload: bytes | None = None, **fields: Any) -> Job:
    """A job, with a payload if one is given."""
    if payload is not None:
        fields["payload"] = queue.blob_store.write(payload)
    return queue.submit(request(**fields))
