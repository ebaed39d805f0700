"""The status of a server for operators, as one JSON document (`GET /status`).

    activity = Activity()
    pool.watch(activity.record)
    ...
    workers = pool.status()
    activity.sample(workers)                       # once a second
    document = status_document(server, workers, queue.status(), queue.jobs(most=200), activity)
    number = document["stages_after"]
    ...
    stages, number = activity.stages(number)       # the new stages for a stream of events

Times are in seconds since 1970, sizes in bytes, shares from 0 to 1. No field contains data of a
witness.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from quod.service.encoding import encode_answer
from quod.service.queue.records import Attempt, Event, Job, JobState, QueueStatus
from quod.service.records import ServerState
from quod.service.worker.pools.pool import StageRecord, WorkerStatus

FORMAT: Final = 1
WINDOW: Final = 60.0
"""The seconds for which stages are kept, and over which rates and busy shares are computed."""

SHOWN_JOBS: Final = 50
_MAX_STAGES: Final = 20_000
"""The maximum number of kept stages: with small proofs, thousands may end in a second."""

Document = dict[str, Any]


class Activity:
    """The finished stages of the last minute, and samples of the workers' counters. Thread-safe.

    clock: the wall clock of the server in seconds, by which the stages are timed too.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._stages: deque[StageRecord] = deque(maxlen=_MAX_STAGES)
        self._recorded = 0
        self._samples: deque[tuple[float, dict[str, tuple[float, int, float]]]] = deque()

    def record(self, stage: StageRecord) -> None:
        """Record a finished stage; this is the callback for `WorkerPool.watch`."""
        with self._lock:
            self._stages.append(stage)
            self._recorded += 1
            self._forget(self.clock() - WINDOW)

    def sample(self, workers: Iterable[WorkerStatus]) -> None:
        """Sample the workers' counters for `rates`; call it about once a second."""
        counts = {
            worker.name: (worker.started, worker.proofs, worker.busy_seconds) for worker in workers
        }
        with self._lock:
            now = self.clock()
            self._samples.append((now, counts))
            # The oldest sample kept covers the whole window.
            while len(self._samples) > 2 and self._samples[1][0] <= now - WINDOW:
                self._samples.popleft()

    def stages(self, after: int = 0) -> tuple[list[StageRecord], int]:
        """Return the kept stages with numbers above `after`, and the number of the last stage."""
        with self._lock:
            self._forget(self.clock() - WINDOW)
            count = min(max(self._recorded - after, 0), len(self._stages))
            stages = list(self._stages)
            return stages[len(stages) - count :], self._recorded

    def rates(self) -> tuple[float, dict[str, float]]:
        """Return proofs per second of all workers, and the busy share of each worker's device.

        Both cover the last minute, or the time since the first sample. A restarted worker counts
        from its restart.
        """
        with self._lock:
            if not self._samples:
                return 0.0, {}
            (begin, first_sample), (end, last_sample) = self._samples[0], self._samples[-1]
        seconds = end - begin
        proofs, shares = 0, {}
        for name, (started, proved, busy) in last_sample.items():
            old_started, old_proved, old_busy = first_sample.get(name, (started, 0, 0.0))
            if old_started != started:
                old_proved, old_busy = 0, 0.0
            proofs += proved - old_proved
            shares[name] = min(max((busy - old_busy) / seconds, 0.0), 1.0) if seconds > 0 else 0.0
        return (proofs / seconds if seconds > 0 else 0.0), shares

    def _forget(self, before: float) -> None:
        while self._stages and self._stages[0].end < before:
            self._stages.popleft()


def status_document(
    server: ServerState,
    workers: Sequence[WorkerStatus],
    queue: QueueStatus,
    jobs: Sequence[Job],
    activity: Activity,
    names: Mapping[str, Sequence[str]] | None = None,
) -> Document:
    """Build the document of `GET /status`, which the status page draws.

    jobs: jobs, newest first, from which the waiting times are computed. The document lists at most
        50 of them: running jobs first, then failed jobs, then the others.
    names: the names of each key, by identity.
    The field `stages_after` is the number after which a stream of stages continues. A stream from
    number 0 starts with the stages of the last minute.
    """
    now = activity.clock()
    rate, shares = activity.rates()
    waits = sorted(job.started - job.created for job in jobs if job.started is not None)
    return {
        "format": FORMAT,
        "server": encode_answer(server) | {"now": now},
        "rate": {
            "proofs_per_second": rate,
            "wait_p50": percentile(waits, 50),
            "wait_p95": percentile(waits, 95),
        },
        "workers": [_worker(worker, shares.get(worker.name, 0.0)) for worker in workers],
        "queue": encode_answer(queue)
        | {
            "waiting": sum(queue.waiting.values()),
            "clients": [
                {"client": client, "jobs": count, "bytes": queue.payload_bytes.get(client, 0)}
                for client, count in queue.jobs.items()
            ],
            "priorities": [
                {"priority": priority, "waiting": count}
                for priority, count in sorted(queue.priorities.items(), reverse=True)
            ],
            "keys": [{"key": key, "waiting": count} for key, count in queue.waiting.items()],
        },
        "keys": _keys(workers, names or {}),
        "jobs": [job_document(job) for job in sorted(jobs, key=_rank)[:SHOWN_JOBS]],
        "stages_after": activity.stages()[1],
    }


def _rank(job: Job) -> int:
    """Return the sort key of a job in the list for operators."""
    return {JobState.RUNNING: 0, JobState.FAILED: 1}.get(job.state, 2)


def job_document(
    job: Job, events: Sequence[Event] | None = None, attempts: Sequence[Attempt] | None = None
) -> Document:
    """Encode a job with its events and attempts, if given, for the status page."""
    document: Document = encode_answer(job)
    del document["idempotency_key"], document["last_event"]
    if events is not None:
        document["events"] = encode_answer(list(events))
    if attempts is not None:
        document["attempts"] = encode_answer(list(attempts))
    return document


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile of sorted numbers; None for an empty sequence.

    share: the percentage, from 0 to 100.
    """
    if not ordered:
        return None
    return ordered[max(math.ceil(len(ordered) * share / 100), 1) - 1]


def _worker(worker: WorkerStatus, busy: float) -> Document:
    document: Document = encode_answer(worker)
    return document | {
        "busy": busy,
        "jobs": [{"job": job, "stage": stage.value} for job, stage in worker.jobs.items()],
        "budgets": encode_answer(worker.keys.budgets),
        "used": encode_answer(worker.keys.used),
        "loading": worker.keys.waiting,
    }


def _keys(workers: Sequence[WorkerStatus], names: Mapping[str, Sequence[str]]) -> list[Document]:
    """Return each key with its state on every worker that has an entry for it."""
    rows: dict[str, Document] = {}
    for worker in workers:
        for usage in worker.keys.keys:
            row = rows.setdefault(
                usage.key,
                {
                    "key": usage.key,
                    "names": list(names.get(usage.key, ())),
                    "copies": 0,
                    "workers": [],
                },
            )
            row["copies"] += usage.ready
            row["workers"].append({"worker": worker.name} | encode_answer(usage))
    return [rows[key] for key in sorted(rows)]
