"""Load on a server: closed (clients send requests one after another) or open (random times)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from quod.errors import TryAgainError
from quod.service.client.records import ProofRequest, RemoteJob
from quod.service.records import ServerStatus
from quod.service.status import percentile

_SEED = 13
MAX_AT_A_TIME = 256
"""The limit of concurrent proofs under open load."""

_Busy = dict[tuple[str, float], float]
"""Busy seconds by the name and start time of a worker."""


class ProvingClient(Protocol):
    """The part of `quod.service.client.Client` that load uses."""

    def prove(self, request: ProofRequest, timeout: float | None = None) -> RemoteJob: ...
    def status(self) -> ServerStatus: ...


@dataclass
class Outcome:
    """The outcome of a load.

    latencies: seconds from the due time of each proof to its result.
    outside: the seconds of each latency in which no worker held the job.
    refused: the number of temporary refusals.
    seconds: the duration of the load.
    busy: the share of the duration in which devices computed; None if the server does not show it
        to the client, which is not an operator.
    """

    latencies: list[float] = field(default_factory=list)
    outside: list[float] = field(default_factory=list)
    refused: int = 0
    seconds: float = 0.0
    busy: float | None = None

    def latency(self, percent: float) -> float:
        """Return a percentile of the latencies in seconds."""
        return _percentile(self.latencies, percent)

    def overhead(self, percent: float) -> float:
        """Return a percentile of the latencies without the worker's time, in seconds."""
        return _percentile(self.outside, percent)


@dataclass(frozen=True)
class Load:
    """A load of `proofs` proofs by `clients` concurrent clients.

    rate: for open load, the proofs due per second, at times of a Poisson process.
    """

    clients: int
    proofs: int
    rate: float | None = None

    def due(self) -> list[float]:
        """Return the due time of each proof in seconds; all 0 for closed load."""
        if self.rate is None:
            return [0.0] * self.proofs
        draw, seconds, due_times = random.Random(_SEED), 0.0, []
        for _ in range(self.proofs):
            due_times.append(seconds)
            seconds += draw.expovariate(self.rate)
        return due_times


def run_load(load: Load, client: ProvingClient, request: Callable[[], ProofRequest]) -> Outcome:
    """Apply a load; return its outcome.

    Counts each temporary refusal (`TryAgainError`) and retries. Any other error stops the load and
    is raised.
    """
    outcome, lock = Outcome(), threading.Lock()
    due = iter(load.due())
    errors: list[BaseException] = []
    busy_before, begin = _busy_seconds(client), time.perf_counter()

    def work() -> None:
        while not errors:
            with lock:
                due_seconds = next(due, None)
            if due_seconds is None:
                return
            time.sleep(max(begin + due_seconds - time.perf_counter(), 0.0))
            # Under closed load a proof is due when its client is free.
            due_at = time.perf_counter() if load.rate is None else begin + due_seconds
            job = prove_once()
            now = time.perf_counter()
            assert job.started is not None
            assert job.ended is not None
            with lock:
                outcome.latencies.append(now - due_at)
                outcome.outside.append(max(now - due_at - (job.ended - job.started), 0.0))

    def prove_once() -> RemoteJob:
        while True:
            try:
                return client.prove(request())
            except TryAgainError as error:
                with lock:
                    outcome.refused += 1
                time.sleep(error.retry_seconds)

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(load.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcome.seconds = time.perf_counter() - begin
    if errors:
        raise errors[0]
    outcome.busy = _busy_share(busy_before, _busy_seconds(client), outcome.seconds)
    return outcome


def _busy_share(before: _Busy, after: _Busy, seconds: float) -> float | None:
    """Return the mean busy share of the workers; a restarted worker counts from its restart."""
    if not after:
        return None
    return sum(busy - before.get(name, 0.0) for name, busy in after.items()) / seconds / len(after)


def _busy_seconds(client: ProvingClient) -> _Busy:
    """Return the busy seconds of each worker by name and start time; only operators see them."""
    document = client.status().document
    if document is None:
        return {}
    return {
        (worker["name"], worker["started"]): worker["busy_seconds"]
        for worker in document["workers"]
    }


def _percentile(figures: list[float], percent: float) -> float:
    value = percentile(sorted(figures), percent)
    return 0.0 if value is None else value
