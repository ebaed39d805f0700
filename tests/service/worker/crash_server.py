"""A server without a network, until it is killed: submits jobs, and has workers in processes.

    python -m tests.service.worker.crash_server ARGUMENTS KEYS LOG JOBS WORKERS

Each job that was acknowledged is a line of the log, on disk before the next one is submitted; a
server that is started again goes on behind the last of them.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from typing import Any

from quod.errors import TryAgainError
from quod.service.keys import KeyRepository
from quod.service.payload import PayloadKind, payload_header
from quod.service.queue import Limits, Submission, open_queue
from quod.service.worker import ProcessPool, WorkerSettings
from tests.service.queue.crash_child import Log, stored
from tests.service.worker.conftest import WITNESS

LIMITS = Limits(max_attempts=1000, suspend_after=1000, lease_seconds=2.0, ballast_bytes=4096)
# Jobs that have not ended, at most.
_AT_ONCE = 100
MAX_PARTITIONS = 3


def submission(number: int, **payload: Any) -> Submission:
    """Job `number`, whenever it is submitted."""
    digest = hashlib.sha256(str(number).encode()).digest()
    return Submission(
        "ann", sys.argv[2].rpartition(":")[2], digest, idempotency_key=str(number),
        partitions=1 + number % MAX_PARTITIONS, **payload,
    )  # fmt: skip


def main() -> None:
    arguments, keys, path, jobs, workers = sys.argv[1:]
    folder, _, _ = keys.rpartition(":")
    with open(path, "a+") as file:
        file.seek(0)
        first = len(file.readlines())
    log = Log(path)
    queue = open_queue(**json.loads(arguments), limits=LIMITS, sweep_seconds=0.1)
    pool = ProcessPool(queue, KeyRepository(folder), [WorkerSettings()] * int(workers))
    pool.start()
    print("ready", flush=True)
    pause = threading.Event()
    for number in range(first, int(jobs)):
        while sum(queue.status().jobs.values()) >= _AT_ONCE:
            pause.wait(0.02)
        parts = [WITNESS] * (1 + number % MAX_PARTITIONS)
        header = payload_header(PayloadKind.WTNS, [len(part) for part in parts])
        while True:
            try:
                body = b"".join([header, *parts])
                job_request = submission(number, **stored(queue, body, as_row=bool(number % 4)))
                log.write(str(number), queue.submit(job_request).id)
                break
            except TryAgainError:
                pause.wait(0.05)
    pause.wait()


if __name__ == "__main__":
    main()
