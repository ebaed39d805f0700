"""Processes that are killed at random, and what must be true of the queue afterwards."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quod.service.errors import LeaseLostError
from quod.service.queue import JobState, Outcome, open_queue
from tests.service.queue.crash_child import LIMITS, payload_of

REPOSITORY = Path(__file__).parents[3]


@dataclass
class Known:
    """Acknowledgements to clients and workers: the id of each key, results by job and partition."""

    submitted: dict[str, str] = field(default_factory=dict)
    finished: dict[tuple[str, int], str] = field(default_factory=dict)
    kills: int = 0


def crash(
    arguments: dict[str, Any], log: Path, seconds: float, seed: int, *, processes: int = 1,
    between: Callable[[], None] = lambda: None,
    enough: Callable[[Known], bool] = lambda acknowledged: True,
) -> Known:  # fmt: skip
    """Start and kill processes, then finish the remaining jobs and check all of them.

    Goes on for so many seconds, and on a slow machine until `enough` holds for the jobs so far.
    """
    chance, limit = random.Random(seed), time.monotonic() + seconds
    kills = 0
    while time.monotonic() < limit or kills < 3 or not enough(read(log)):
        children = [_child(arguments, log, chance.random()) for _ in range(processes)]
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        time.sleep(chance.uniform(0.02, 0.5))
        for child in children:
            child.kill()
            child.wait()
            child.stdout.close()  # type: ignore[union-attr]
            kills += 1
        between()
    acknowledged = read(log)
    acknowledged.kills = kills
    check(arguments, acknowledged)
    return acknowledged


def _child(arguments: dict[str, Any], log: Path, seed: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.service.queue.crash_child"]
    return subprocess.Popen(
        [*command, json.dumps(arguments), str(log), str(seed)], cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    )  # fmt: skip


def read(log: Path) -> Known:
    """The log. No partition may be in it twice: two workers would have finished it."""
    acknowledged = Known()
    for line in log.read_text().splitlines():
        kind, *words = json.loads(line)
        if kind == "submitted":
            key, job = words
            assert acknowledged.submitted.setdefault(key, job) == job
        else:
            job, partition, result = words
            assert (job, partition) not in acknowledged.finished, "finished twice"
            acknowledged.finished[job, partition] = result
    return acknowledged


def check(arguments: dict[str, Any], acknowledged: Known) -> None:
    """Nothing that was acknowledged is lost, and nothing has two results."""
    with open_queue(**arguments, limits=LIMITS, sweep_seconds=0.1) as queue:
        deadline = time.monotonic() + 60
        while queue.status().jobs and time.monotonic() < deadline:
            for lease in queue.claim("last", most=10, wait=0.2):
                # Leases are short here, and the machine may be busy: it is claimed again.
                with suppress(LeaseLostError), queue.open_payload(lease) as file:
                    queue.finish(lease, file.read() + f" {lease.partition} last".encode())
        assert queue.status().jobs == {}
        results: dict[str, list[bytes]] = {}
        for key, job_id in acknowledged.submitted.items():
            job = queue.find("ann", key)
            assert (job.id, job.state) == (job_id, JobState.SUCCEEDED)
            results[job_id] = queue.results(job_id)
            for partition, result in enumerate(results[job_id]):
                assert result.startswith(payload_of(key) + f" {partition} ".encode())
            attempts = queue.attempts(job_id)
            done = [
                attempt.partition for attempt in attempts if attempt.outcome is Outcome.SUCCEEDED
            ]
            assert done == list(range(job.partitions))
        for (job_id, partition), wanted in acknowledged.finished.items():
            # A job may have been taken whose client was killed before it knew.
            job_results = results.get(job_id) or queue.results(job_id)
            assert job_results[partition] == wanted.encode()
        queue.blob_store.drain()
        if not queue._store.shared:
            assert list((Path(arguments["folder"]) / "spool").iterdir()) == []
