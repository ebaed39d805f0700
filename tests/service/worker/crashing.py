"""Servers and workers that are killed at random, and what must be true of the queue afterwards."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from quod.groth16 import VerifyingKey
from quod.service.keys import KeyRepository
from quod.service.queue import JobState, Outcome, open_queue
from quod.service.worker import LocalPool, read_result
from tests.service.keys.conftest import BN254
from tests.service.queue.crashing import REPOSITORY
from tests.service.queue.places import Place
from tests.service.worker.crash_server import LIMITS, MAX_PARTITIONS

# Longer than what is left takes when nothing is killed any more.
_REST_SECONDS = 300.0


@dataclass
class Toll:
    """Counts of processes that died, and of acknowledgements before that."""

    servers: int = 0
    workers: int = 0
    stopped: int = 0
    jobs: int = 0
    attempts: int = 0

    @property
    def kills(self) -> int:
        return self.servers + self.workers + self.stopped


def crash(
    place: Place, folder: Path, *, jobs: int, seed: int, most: int = 1 << 30, workers: int = 2,
    pause: tuple[float, float] = (0.3, 1.5),
) -> Toll:  # fmt: skip
    """Kills so often, or until so many jobs were submitted; then all of them must be done.

    After each `pause` (least and most seconds) a worker or the server is killed, or a worker stands
    still for longer than its lease.
    """
    chance, toll = random.Random(seed), Toll()
    repository = KeyRepository(folder / "keys", create=True)
    identity = repository.add(BN254 / "circuit.zkey").identity
    log = folder / "log"
    command = [
        sys.executable, "-m", "tests.service.worker.crash_server", json.dumps(place.arguments),
        f"{repository.path}:{identity}", str(log), str(jobs), str(workers),
    ]  # fmt: skip
    stopped: list[int] = []
    server = _start(command)
    try:
        while toll.kills < most and len(_lines(log)) < jobs:
            time.sleep(chance.uniform(*pause))
            _send(stopped, signal.SIGCONT)
            stopped.clear()
            children = _children(server.pid)
            which = chance.random()
            if which < 0.25:
                _end(server)
                toll.servers += 1
                server = _start(command)
            elif which < 0.35 and children:
                stopped = [chance.choice(children)]
                _send(stopped, signal.SIGSTOP)
                toll.stopped += 1
                time.sleep(1.5 * LIMITS.lease_seconds if chance.random() < 0.5 else 0.1)
            elif children:
                _send([chance.choice(children)], signal.SIGKILL)
                toll.workers += 1
    finally:
        _send(stopped, signal.SIGCONT)
        _end(server)
    _check(place, repository, _lines(log), toll)
    return toll


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    server = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return server


def _end(server: subprocess.Popen[bytes]) -> None:
    """By kill -9: its workers hear of it by the end of their sockets."""
    children = _children(server.pid)
    server.kill()
    server.wait()
    assert server.stdout is not None
    server.stdout.close()
    _send(children, signal.SIGCONT)


def _children(process: int) -> list[int]:
    """Those that a process has started."""
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name, in brackets, may hold anything.
            parent = stat.read_text().rpartition(")")[2].split()[1]
            if int(parent) == process:
                children.append(int(stat.parent.name))
    return children


def _send(processes: list[int], number: int) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def _lines(log: Path) -> list[list[str]]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines]


def _check(
    place: Place, repository: KeyRepository, acknowledged: list[list[str]], toll: Toll
) -> None:
    """All that was acknowledged succeeds, once, with proofs that verify."""
    verifying = VerifyingKey.from_json(BN254 / "verification_key.json")
    with open_queue(**place.arguments, limits=LIMITS, sweep_seconds=0.1) as queue:
        pool = LocalPool(queue, repository)
        pool.start()
        try:
            limit = time.monotonic() + _REST_SECONDS
            for number, job_id in acknowledged:
                job, _ = queue.wait(job_id, timeout=max(0.0, limit - time.monotonic()))
                assert job.state is JobState.SUCCEEDED, (number, job.state, job.message)
                assert queue.find("ann", number).id == job_id
                assert job.partitions == 1 + int(number) % MAX_PARTITIONS
                results = queue.results(job_id)
                assert len(results) == job.partitions
                for result in results:
                    proof, public = read_result(result)
                    assert verifying.verify(public, proof)
                attempts = queue.attempts(job_id)
                done = [
                    attempt.partition
                    for attempt in attempts
                    if attempt.outcome is Outcome.SUCCEEDED
                ]
                assert sorted(done) == list(range(job.partitions))
                toll.attempts += len(attempts)
            assert len({job_id for _, job_id in acknowledged}) == len(acknowledged)
            toll.jobs = len(acknowledged)
            # A job may have been taken whose client was killed before it knew; it is done, too.
            while queue.status().jobs and time.monotonic() < limit:
                time.sleep(0.01)
            assert queue.status().jobs == {}
        finally:
            pool.drain(_REST_SECONDS)
            pool.close()
        queue.blob_store.drain()
        if place.database is None:
            assert os.listdir(queue.blob_store.path) == []
