"""A process that submits, claims and finishes until it is killed, and writes down what it was told.

    python -m tests.service.queue.crash_child ARGUMENTS LOG SEED

Each line of the log is on disk before the next call: it is what a client or a worker knows. Besides
the kill from outside it kills itself at random before, within and after transactions.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from quod.errors import TryAgainError
from quod.service.errors import LeaseLostError, NotFoundError
from quod.service.queue import JobQueue, Limits, Submission, open_queue
from quod.service.queue.stores.store import Store
from quod.service.queue.transaction import Changes, Transaction

T = TypeVar("T")

LIMITS = Limits(max_attempts=1000, suspend_after=1000, lease_seconds=0.5, ballast_bytes=4096)
KILLS = 1 / 250
"""Probability that a transaction is the last, at each of three points."""


def payload_of(key: str) -> bytes:
    return f"witness of {key}".encode()


def stored(queue: JobQueue, payload: bytes, *, as_row: bool) -> dict[str, Any]:
    """A payload for a submission: a row where the queue has such, else a file."""
    if as_row and len(payload) <= queue.max_body:
        return {"body": payload}
    return {"payload": queue.blob_store.write(payload)}


class Log:
    """Lines that survive."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def write(self, *words: object) -> None:
        os.write(self._descriptor, (json.dumps(words) + "\n").encode())
        os.fdatasync(self._descriptor)


def dies(store: Store, chance: random.Random) -> None:
    """Has the store end the process now and then."""
    commit: Callable[..., Any] = store.write

    def perhaps() -> None:
        if chance.random() < KILLS:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(work: Callable[[Transaction], T], *, durable: bool = True) -> tuple[T, Changes]:
        def inside(tx: Transaction) -> T:
            result = work(tx)
            perhaps()
            return result

        perhaps()
        outcome: tuple[T, Changes] = commit(inside, durable=durable)
        perhaps()
        return outcome

    store.write = write  # type: ignore[method-assign]


def submit(queue: JobQueue, log: Log, name: str) -> None:
    for count in range(1 << 30):
        keys = [f"{name}-{count}-{number}" for number in range(1 + count % 3)]
        submissions = [
            Submission(
                "ann", "k", hashlib.sha256(key.encode()).digest(), idempotency_key=key,
                partitions=1 + count % 2, **stored(queue, payload_of(key), as_row=bool(count % 3)),
            )
            for key in keys
        ]  # fmt: skip
        for key, job in zip(keys, queue.submit_many(submissions), strict=True):
            assert not isinstance(job, Exception), job
            log.write("submitted", key, job.id)


def work(queue: JobQueue, log: Log, name: str) -> None:
    while True:
        for lease in queue.claim(name, most=2, wait=0.2):
            try:
                with queue.open_payload(lease) as file:
                    result = file.read() + f" {lease.partition} {name} {lease.token}".encode()
                queue.renew([lease], stage="msm")
                queue.finish(lease, result)
            except (LeaseLostError, NotFoundError):
                continue
            log.write("finished", lease.job, lease.partition, result.decode())


def main() -> None:
    arguments, path, seed = sys.argv[1:]
    log = Log(path)
    queue = open_queue(**json.loads(arguments), limits=LIMITS, sweep_seconds=0.1)
    dies(queue._store, random.Random(seed))
    print("ready", flush=True)

    def until_killed(role: Callable[[JobQueue, Log, str], None], name: str) -> None:
        while True:
            try:
                role(queue, log, f"{name}-{os.getpid()}-{random.random()}")
            except TryAgainError:
                continue

    for number in range(2):
        for role in (submit, work):
            name = f"{role.__name__}-{number}"
            threading.Thread(target=until_killed, args=(role, name), daemon=True).start()
    signal.pause()


if __name__ == "__main__":
    main()
