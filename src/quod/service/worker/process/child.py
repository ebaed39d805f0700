"""The worker process, started by the server with one end of a socket pair; ends with it.

python -m quod.service.worker.process.child DESCRIPTOR
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any, BinaryIO

from quod.ceremony.core_dumps import forbid_core_dumps
from quod.errors import QuodError, ServiceError
from quod.frozen import replace
from quod.service.encoding import decode_error, decode_frame
from quod.service.errors import UnavailableError
from quod.service.keys import KeyRepository, RegisteredCalculators, ResidentKeys
from quod.service.logs import write_log
from quod.service.queue import BlobStore, Lease
from quod.service.queue.operations.payloads import row_of
from quod.service.worker.opening import opener
from quod.service.worker.pools.pool import Stage, StageRecord
from quod.service.worker.process.channel import HUNG, Answer, Channel, parts_of
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.worker import Worker

# The interval of status messages; a silent process is considered dead.
STATUS_SECONDS = 0.2
# The stages that show which work is on the device, or about to be.
_AT_THE_DEVICE = (Stage.KEY, Stage.UPLOAD, Stage.PROVE)
Opener = Callable[[KeyRepository, WorkerSettings], Callable[[], ResidentKeys]]


class Records:
    """Finished stages that were not yet sent to the server.

    If several partitions are held, a stage in `_AT_THE_DEVICE` is sent at once: should this process
    die, the server must know which partition was on the device. Other stages are sent after
    results, before a lease is released, or with the status, so that they delay nothing.
    """

    def __init__(self, channel: Channel, in_hand: Callable[[], int]) -> None:
        self._channel, self._in_hand = channel, in_hand
        self._send_lock = threading.Lock()
        self._unsent: deque[StageRecord] = deque()

    def add(self, record: StageRecord) -> None:
        self._unsent.append(record)
        if record.stage in _AT_THE_DEVICE and self._in_hand() > 1:
            self.flush()

    def flush(self) -> None:
        """Send all pending records in order; ignores a server that is gone."""
        with self._send_lock:
            records = [self._unsent.popleft() for _ in range(len(self._unsent))]
            if records:
                with suppress(UnavailableError):
                    self._channel.send("records", {"records": records})


class RemoteJobs:
    """`Jobs` on the queue of the server, over the channel."""

    def __init__(
        self, channel: Channel, blob_store: BlobStore, lease_seconds: float, records: Records
    ) -> None:
        self._channel, self._blob_store, self._lease_seconds = channel, blob_store, lease_seconds
        self._records = records
        # As of the last claim.
        self._elsewhere: frozenset[str] = frozenset()

    @property
    def lease_seconds(self) -> float:
        return self._lease_seconds

    def claim(self, *, keys: Sequence[str] | None, most: int, wait: float) -> list[Lease]:
        arguments = {"keys": None if keys is None else list(keys), "most": most, "wait": wait}
        fields, body = self._channel.call("claim", arguments)
        self._elsewhere = frozenset(fields["elsewhere"])
        bodies = parts_of(body, fields["lengths"])
        leases = decode_frame(tuple[Lease, ...], fields["leases"])
        return [replace(lease, body=part) for lease, part in zip(leases, bodies, strict=True)]

    def elsewhere(self) -> Collection[str]:
        return self._elsewhere

    def renew(self, leases: Sequence[Lease], stage: str) -> list[ServiceError | None]:
        arguments = {"leases": [_lease_id(lease) for lease in leases], "stage": stage}
        errors: list[QuodError | None] = [
            None if encoded is None else decode_error(encoded)
            for encoded in self._channel.call("renew", arguments)
        ]
        return [error if isinstance(error, ServiceError) else None for error in errors]

    def finish(self, results: Sequence[tuple[Lease, bytes]]) -> list[QuodError | None]:
        arguments = {
            "leases": [_lease_id(lease) for lease, _ in results],
            "lengths": [len(result) for _, result in results],
        }
        encoded_errors = self._channel.call(
            "finish", arguments, b"".join(result for _, result in results)
        )
        self._records.flush()
        return [None if encoded is None else decode_error(encoded) for encoded in encoded_errors]

    def fail(self, lease: Lease, code: str, message: str, retry: bool) -> None:
        arguments = {"lease": _lease_id(lease), "code": code, "message": message, "retry": retry}
        self._give_back("fail", arguments)

    def lose(self, lease: Lease, code: str, message: str) -> None:
        self._give_back("lose", {"lease": _lease_id(lease), "code": code, "message": message})

    def release(self, lease: Lease) -> None:
        self._give_back("release", {"lease": _lease_id(lease)})

    def _give_back(self, name: str, arguments: Mapping[str, object]) -> None:
        # Records sent after the release would count for the partition's next lease.
        self._records.flush()
        self._channel.call(name, arguments)

    def forget(self, lease: Lease) -> None:
        self._records.flush()
        self._channel.send("forget", {"lease": _lease_id(lease)})

    def open(self, lease: Lease) -> BinaryIO:
        if row_of(lease.payload) is None:
            return self._blob_store.open(lease.payload)
        answer: Answer = self._channel.call("payload", {"lease": _lease_id(lease)})
        return BytesIO(answer.body)


def _lease_id(lease: Lease) -> tuple[str, int, int]:
    return lease.job, lease.partition, lease.token


class Child:
    """The calls of the server on a worker process.

    open_keys: returns a function that opens the keys of a repository.
    """

    def __init__(self, descriptor: int, open_keys: Opener = opener) -> None:
        self._open_keys = open_keys
        self._worker: Worker | None = None
        self._records: Records
        self._closed = threading.Event()
        self._channel = Channel(
            socket.socket(fileno=descriptor),
            {
                "begin": self._begin, "preload": self._preload, "evict": self._evict,
                "resume": self._resume, "drain": self._drain, "close": self._close,
            },
            # The server is gone, and native code may run for long.
            lambda: os._exit(1),
        )  # fmt: skip

    def run(self) -> None:
        """Send status messages until the server closes this process."""
        self._channel.start()
        while not self._closed.wait(STATUS_SECONDS):
            if self._worker is not None:
                self._records.flush()
                with suppress(UnavailableError):
                    self._channel.send("status", {"status": self._worker.status()})

    def _begin(self, arguments: dict[str, Any], _: bytes) -> None:
        logging.getLogger("quod").setLevel(arguments["log_level"])
        settings = decode_frame(WorkerSettings, arguments["settings"])
        repository = KeyRepository(arguments["repository"])
        self._records = Records(self._channel, lambda: self._running_worker().in_hand)
        jobs = RemoteJobs(
            self._channel, BlobStore(arguments["spool"]), arguments["lease_seconds"], self._records
        )  # fmt: skip
        self._worker = Worker(
            arguments["name"], jobs, self._open_keys(repository, settings), settings,
            RegisteredCalculators(repository, warm=settings.warm), self._records.add,
            # A new process can open the device again; threads cannot be taken out of a driver.
            lambda: os._exit(HUNG),
        )  # fmt: skip
        self._worker.start()

    def _running_worker(self) -> Worker:
        if self._worker is None:
            raise UnavailableError("the worker has not begun", retry_seconds=1.0)
        return self._worker

    def _preload(self, arguments: dict[str, Any], _: bytes) -> None:
        self._running_worker().preload(arguments["key"], arguments["timeout"])

    def _evict(self, arguments: dict[str, Any], _: bytes) -> None:
        self._running_worker().evict(arguments["key"])

    def _resume(self, _given: dict[str, Any], _: bytes) -> None:
        self._running_worker().resume()

    def _drain(self, arguments: dict[str, Any], _: bytes) -> bool:
        return self._running_worker().drain(arguments["timeout"])

    def _close(self, _given: dict[str, Any], _: bytes) -> None:
        if self._worker is not None:
            self._worker.close()
        self._closed.set()


def main(open_keys: Opener = opener) -> None:
    """Run the worker process."""
    forbid_core_dumps()
    # The server reads these lines and writes them to its own log.
    write_log("info", as_json=True)
    # The server handles these signals and drains; Ctrl-C and systemd send them here, too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Child(int(sys.argv[1]), open_keys).run()
    sys.stdout.flush()
    # Hanging driver threads must not keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
