"""Metrics for Prometheus, named by its conventions: base units, ``_total`` for counters.

Label values are few: key, device, stage, priority, outcome; never a job or a client.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from quod.device.backends import backend_of
from quod.errors import QuodError
from quod.service.queue import Job, JobQueue
from quod.service.worker.pools.pool import StageRecord, WorkerPool, WorkerState, WorkerStatus

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100)


class Metrics:
    """Counters of events, and gauges of queue and workers that are read at each scrape."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._submitted = Counter(
            "quod_jobs_submitted", "Jobs that were taken.", ["priority"], registry=self.registry
        )
        self._requests = Counter(
            "quod_requests", "Requests by call and outcome.", ["call", "outcome"],
            registry=self.registry,
        )  # fmt: skip
        self._request_seconds = Histogram(
            "quod_request_seconds", "How long requests took to answer.", ["call"],
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._stage_seconds = Histogram(
            "quod_stage_seconds", "Stages of proofs.", ["stage", "key", "worker"],
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._copied = Counter(
            "quod_copied_bytes", "Bytes copied to and from devices.", ["stage", "worker"],
            registry=self.registry,
        )  # fmt: skip

    def watch(self, queue: JobQueue, pool: WorkerPool) -> None:
        """Register the queue and the pool, which each scrape reads."""
        self.registry.register(_State(queue, pool))

    def submitted(self, job: Job) -> None:
        self._submitted.labels(str(job.priority)).inc()

    def stage(self, stage: StageRecord) -> None:
        self._stage_seconds.labels(str(stage.stage), stage.key, stage.worker).observe(
            max(stage.end - stage.begin, 0.0)
        )
        if stage.copied_bytes:
            self._copied.labels(str(stage.stage), stage.worker).inc(stage.copied_bytes)

    def answered(self, call: str, status: str, seconds: float) -> None:
        self._requests.labels(call, status).inc()
        self._request_seconds.labels(call).observe(seconds)

    def text(self) -> bytes:
        """Export all metrics in Prometheus's text format; reads the queue."""
        return generate_latest(self.registry)


class _State(Collector):
    """A collector of the state of queue and workers at a scrape."""

    def __init__(self, queue: JobQueue, pool: WorkerPool) -> None:
        self._queue, self._pool = queue, pool

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "quod_ready", "Whether the keys of the start are loaded.", value=self._pool.ready
        )
        yield from self._queue_metrics()
        yield from _worker_metrics(self._pool.status())

    def _queue_metrics(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("quod_queue_up", "Whether the queue answers.")
        try:
            status = self._queue.status()
        except QuodError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        waiting = GaugeMetricFamily("quod_queue_waiting", "Partitions that wait.", labels=["key"])
        for key, count in status.waiting.items():
            waiting.add_metric([key], count)
        yield waiting
        waiting_by_priority = GaugeMetricFamily(
            "quod_queue_waiting_by_priority", "Partitions that wait.", labels=["priority"]
        )
        for priority, count in status.priorities.items():
            waiting_by_priority.add_metric([str(priority)], count)
        yield waiting_by_priority
        now = time.time()
        for name, text, value in (
            ("running", "Partitions that are being proven.", status.running),
            ("held", "Partitions of suspended keys.", status.held),
            ("jobs", "Jobs that have not ended.", sum(status.jobs.values())),
            ("kept", "Jobs that are kept, with those that have ended.", status.kept),
            ("payload_bytes", "Payloads of jobs.", sum(status.payload_bytes.values())),
            ("storage_full", "Whether the disk is too full for new jobs.", status.storage_full),
            ("oldest_seconds", "Age of the oldest job that has not ended.",
             0.0 if status.oldest is None else max(now - status.oldest, 0.0)),
        ):  # fmt: skip
            yield GaugeMetricFamily(f"quod_queue_{name}", text, value=float(value))


def _worker_metrics(workers: list[WorkerStatus]) -> Iterator[Metric]:
    worker_labels = ["worker", "device"]
    states = GaugeMetricFamily(
        "quod_worker_state", "1 for what it does.", labels=[*worker_labels, "state"]
    )
    proofs = CounterMetricFamily("quod_proofs", "Attempts.", labels=[*worker_labels, "outcome"])
    restarts = CounterMetricFamily(
        "quod_worker_restarts", "Processes that died.", labels=worker_labels
    )
    busy = CounterMetricFamily(
        "quod_gpu_busy_seconds", "Time that GPUs computed.", labels=worker_labels
    )
    memory = GaugeMetricFamily(
        "quod_device_memory_bytes", "Memory of devices.", labels=[*worker_labels, "purpose"]
    )
    used_bytes = GaugeMetricFamily(
        "quod_keys_bytes", "Keys that are loaded.", labels=[*worker_labels, "tier"]
    )
    budget = GaugeMetricFamily(
        "quod_keys_budget_bytes", "Budgets.", labels=[*worker_labels, "tier"]
    )
    leases = CounterMetricFamily("quod_key_leases", "Uses of keys.", labels=["key", "outcome"])
    loads = CounterMetricFamily("quod_key_loads", "Loads of keys.", labels=["key", "outcome"])
    copies = GaugeMetricFamily("quod_key_copies", "Workers that have it ready.", labels=["key"])
    replications = CounterMetricFamily(
        "quod_key_replications",
        "Keys given to a worker though another had them.",
        labels=worker_labels,
    )
    evictions = CounterMetricFamily("quod_key_evictions", "Keys given up.", labels=["key"])
    counts: dict[str, list[int]] = {}
    ready: dict[str, int] = {}
    for worker in workers:
        labels = [worker.name, worker.device]
        for state in WorkerState:
            states.add_metric([*labels, str(state)], state is worker.state)
        proofs.add_metric([*labels, "success"], worker.proofs)
        proofs.add_metric([*labels, "failure"], worker.failures)
        restarts.add_metric(labels, worker.restarts)
        if _is_gpu(worker.device):
            busy.add_metric(labels, worker.busy_seconds)
        replications.add_metric(labels, worker.replications)
        for purpose, size in worker.memory.items():
            memory.add_metric([*labels, purpose], size)
        for tier, size in worker.keys.used.items():
            used_bytes.add_metric([*labels, str(tier.value)], size)
        for tier, size in worker.keys.budgets.items():
            budget.add_metric([*labels, str(tier.value)], size)
        for usage in worker.keys.keys:
            ready[usage.key] = ready.get(usage.key, 0) + usage.ready
            key_counts = counts.setdefault(usage.key, [0] * 5)
            for index, count in enumerate(
                (usage.hits, usage.misses, usage.loads, usage.failures, usage.evictions)
            ):
                key_counts[index] += count
    for key, (hits, misses, loaded, failed, evicted) in counts.items():
        leases.add_metric([key, "hit"], hits)
        leases.add_metric([key, "miss"], misses)
        loads.add_metric([key, "success"], loaded)
        loads.add_metric([key, "failure"], failed)
        evictions.add_metric([key], evicted)
        copies.add_metric([key], ready[key])
    yield from (states, proofs, restarts, busy, memory, used_bytes, budget)
    yield from (leases, loads, evictions, copies, replications)


def _is_gpu(device: str) -> bool:
    backend = backend_of(device)
    return backend is None or not backend.of_the_processor
