"""Benchmarks of a worker under constant load against proving in a loop.

The figures are rate, busy share and latency. As in the service, jobs come from a queue on disk; all
are submitted before they are proved.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, perf_counter_ns, sleep, time, time_ns
from typing import Any

from quod.bench.chain import ChainCircuit
from quod.bench.measure.cupti import KernelRecorder
from quod.bench.measure.harness import Case, Parameter
from quod.device import open_device
from quod.device.protocol import in_host_memory
from quod.device.runtime.intervals import union
from quod.device.runtime.timeline import Timeline
from quod.errors import QuodError, ServiceError
from quod.formats import Witness, write_wtns
from quod.groth16 import ProvingKey
from quod.groth16.setup import make_key, write_key
from quod.service.keys import KeyRepository
from quod.service.payload import PayloadKind, path_body, payload_header
from quod.service.queue import Job, JobQueue, JobState, Limits, Quota, Submission, open_queue
from quod.service.worker import LocalPool, ProcessPool, Stage, StageRecord, WorkerSettings
from quod.service.worker.measures import device_use, phases_of

_SEED = 1
_UNLIMITED = 1 << 40
_LIMITS = Limits(quota=Quota(_UNLIMITED, _UNLIMITED), jobs=_UNLIMITED, kept_jobs=_UNLIMITED)
# The bounds of the number of proofs in a run.
_MIN_PROOFS, _MAX_PROOFS = 16, 1000
# The proofs not counted at each end, while the pipeline fills and drains.
_UNCOUNTED_PROOFS = 4
# The minimum number of batches in a run, if proofs are batched.
_MIN_BATCHES = 16
# Begins of proofs that differ by fewer seconds are equal: they are from two clocks.
_CLOCK_TOLERANCE = 1e-5
_MAX_SINGLE_JOBS = 100
_TIMEOUT_SECONDS = 600.0


def cases(
    device: str, curve: str, sizes: Sequence[int], lanes: Sequence[int | None], folder: Path,
    processes: bool, seconds: float, recorder: KernelRecorder | None = None, *, workers: int = 1,
) -> Iterator[Case]:  # fmt: skip
    """Yield for each size the loop, `prove_many`, and the workers for each number of lanes.

    seconds: the approximate duration of a run.
    recorder: also measures the busy share with CUPTI, for a worker in this process.
    """
    for constraints in sizes:
        with tempfile.TemporaryDirectory(prefix="quod-bench-serve-", dir=folder) as temporary:
            setup = _Setup(Path(temporary), device, curve, constraints)
            yield from setup.alone(seconds)
            for count in lanes:
                pool = ProcessPool if processes else LocalPool
                yield from setup.serving(count, pool, recorder, workers)


class _Setup:
    """A circuit, its key in a repository and its witness in a file."""

    def __init__(self, folder: Path, device: str, curve: str, constraints: int) -> None:
        self._folder, self._device = folder, device
        self._circuit: dict[str, Parameter] = {
            "circuit": "chain", "curve": curve, "constraints": constraints,
        }  # fmt: skip
        system = ChainCircuit(curve, constraints)
        device_of_setup = open_device(device)
        self._witness = system.witness(device=device_of_setup)
        write_wtns(folder / "w.wtns", curve, self._witness.values)
        write_key(make_key(system, _SEED, device=device_of_setup), folder / "c.zkey")
        self._repository = KeyRepository(folder / "keys", create=True)
        self._identity = self._repository.add(folder / "c.zkey", allow_insecure=True).identity
        (folder / "c.zkey").unlink()
        self._count = _MIN_PROOFS
        self._in_host_memory = in_host_memory(device_of_setup)
        device_of_setup.close()

    def _case(
        self, what: str, run: Callable[[], float], unit: str,
        labels: dict[str, Parameter] | None = None,
        traced: Callable[[Timeline], object] | None = None,
    ) -> Case:  # fmt: skip
        parameters = {"what": what, **self._circuit, **(labels or {})}
        return Case(parameters, run, unit, returns_figure=True, traced=traced)

    def alone(self, seconds: float) -> Iterator[Case]:
        """Yield the loop, `prove_many`, and the device time of a proof."""
        opened = open_device(self._device)
        zkey = self._folder / "keys" / "keys" / self._identity / "circuit.zkey"
        key = ProvingKey.from_zkey(zkey, opened, owned=True, allow_insecure=True)
        try:
            key.prove(self._witness)
            begin = perf_counter()
            key.prove(self._witness)
            seconds_per_proof = perf_counter() - begin
            self._count = max(_MIN_PROOFS, min(_MAX_PROOFS, round(seconds / seconds_per_proof)))
            # There must be more batches than are in progress at a time.
            if (max_batch := key.max_batch) > 1:
                self._count = max(self._count, min(_MAX_PROOFS, _MIN_BATCHES * max_batch))
            yield self._case("prove in a loop", partial(_loop, key, self._witnesses()), "ms/proof")
            yield self._case("prove many", partial(_prove_many, key, self._witnesses()), "ms/proof")
            for name in ("ntt_msm_h_ms", "batch_add_ms", "tail_msm_ms", "gpu_total_ms"):
                yield self._case(name, partial(_phase, key, self._witness, name), "ms")
        finally:
            key.close()
            opened.close()

    def _witnesses(self) -> list[Witness]:
        return [self._witness] * self._count

    def serving(
        self, lanes: int | None, pool: type[LocalPool | ProcessPool],
        recorder: KernelRecorder | None = None, workers: int = 1,
    ) -> Iterator[Case]:  # fmt: skip
        """Yield workers of the device under load, and with one job at a time."""
        labels: dict[str, Parameter] = {"lanes": lanes or "default", "process": pool is ProcessPool}
        if workers > 1:
            labels["workers"] = workers
        settings = WorkerSettings(
            self._device, warm=(self._identity,), lanes=lanes, ahead=4, checks=4
        )
        with ExitStack() as stack:
            queue = stack.enter_context(open_queue(self._folder / "queue", limits=_LIMITS))
            running_pool = pool(queue, self._repository, [settings] * workers)
            stack.callback(running_pool.close)
            load = _Load(queue, running_pool, self._identity, self._folder, recorder)
            figures = {
                "worker": "ms/proof", "busy": "%", "gap, median": "us", "together": "proofs",
            }  # fmt: skip
            if recorder is not None:
                figures["busy by CUPTI"] = "%"
            if not self._in_host_memory:
                figures["copies from pinned memory"] = "GB/s"
            for what, unit in figures.items():
                run = partial(load.figure, what, self._count)
                traced = partial(load.traced, self._count) if what == "worker" else None
                yield self._case(what, run, unit, labels, traced)
            count = min(_MAX_SINGLE_JOBS, self._count)
            for what in ("p50", "p99"):
                run = partial(load.latency, what, count)
                yield self._case(f"latency less stages, {what}", run, "ms", labels)


class _Load:
    """A load of jobs in rounds; all figures of a round come from one measurement."""

    def __init__(
        self, queue: JobQueue, pool: Any, key: str, folder: Path,
        recorder: KernelRecorder | None = None,
    ) -> None:  # fmt: skip
        self._recorder = recorder
        self._queue, self._pool, self._key, self._folder = queue, pool, key, folder
        self._records: list[StageRecord] = []
        self._round_figures: list[dict[str, float]] = []
        self._single_figures: list[dict[str, float]] = []
        self._calls: dict[str, int] = {}
        pool.watch(self._records.append)
        pool.start()
        limit = perf_counter() + _TIMEOUT_SECONDS
        while not pool.ready:
            problems = [worker.problem for worker in pool.status() if worker.problem]
            if problems or perf_counter() > limit:
                raise ServiceError(f"the worker did not start: {problems}")
            self._wait_for_jobs(self._submit(1))

    def figure(self, what: str, count: int) -> float:
        """Return a figure of a round of `count` jobs."""
        return self._figure_of_round(self._round_figures, what, partial(self._round, count))

    def traced(self, count: int, timeline: Timeline) -> None:
        """Record the stages of a round, one track for each kind."""
        self._round(count)
        to_counter = time_ns() - perf_counter_ns()
        for stage in list(self._records):
            timeline.record(
                f"{stage.stage} of job {stage.job.partition('-')[0]}",
                round(stage.begin * 1e9) - to_counter, round(stage.end * 1e9) - to_counter,
                track=f"{stage.worker} {stage.stage}", bytes=stage.copied_bytes,
                parent=timeline.current,
            )  # fmt: skip

    def latency(self, what: str, count: int) -> float:
        """Return the milliseconds from submission to result, without the stages."""
        return self._figure_of_round(
            self._single_figures, what, partial(self._one_at_a_time, count)
        )

    def _figure_of_round(
        self, rounds: list[dict[str, float]], what: str, measure: Callable[[], dict[str, float]]
    ) -> float:
        """Return a figure of the next round: the nth call for a figure reads the nth round."""
        call = self._calls[what] = self._calls.get(what, -1) + 1
        if call == len(rounds):
            rounds.append(measure())
        return rounds[call][what]

    def _submit(self, count: int) -> list[Job]:
        """Submit jobs with the witness in the file; raises the error of a refused job."""
        body = path_body(self._folder, "w.wtns")
        payload = [payload_header(PayloadKind.PATH, [len(body)]), body]
        digest = hashlib.sha256(b"quod bench serve-pipeline").digest()
        outcomes = self._queue.submit_many(
            [
                Submission("bench", self._key, digest, self._queue.blob_store.write(payload))
                for _ in range(count)
            ]
        )
        jobs = [outcome for outcome in outcomes if isinstance(outcome, Job)]
        for outcome_or_error in outcomes:
            if isinstance(outcome_or_error, QuodError):
                raise outcome_or_error
        return jobs

    def _wait_for_jobs(self, jobs: Sequence[Job]) -> list[Job]:
        """Wait for jobs, and return them; ServiceError if one does not succeed."""
        ended_jobs = [self._queue.wait(job.id, timeout=_TIMEOUT_SECONDS)[0] for job in jobs]
        for job in ended_jobs:
            if job.state is not JobState.SUCCEEDED:
                raise ServiceError(f"a job did not succeed: {job.state} {job.message}")
        return ended_jobs

    def _round(self, count: int) -> dict[str, float]:
        """Prove `count` jobs submitted at once; return the figures by name."""
        self._records.clear()
        if self._recorder is not None:
            self._recorder.begin()
        times = sorted(job.ended or 0.0 for job in self._wait_for_jobs(self._submit(count)))
        begin, end = times[_UNCOUNTED_PROOFS - 1], times[-_UNCOUNTED_PROOFS]
        kernels = [] if self._recorder is None else self._recorder.end().kernels
        busy_intervals = union((max(first, begin), min(last, end)) for first, last in kernels
                    if first < end and last > begin)  # fmt: skip
        use = device_use(list(self._records), begin, end)
        return {
            # Proofs of a batch end at the same time.
            "worker": 1e3
            * (end - begin)
            / max(1, sum(begin < ended_at <= end for ended_at in times)),
            "busy": 100 * use.busy,
            "busy by CUPTI": 100
            * sum(last - first for first, last in busy_intervals)
            / (end - begin),
            "gap, median": 1e6 * median(use.gaps) if use.gaps else 0.0,
            "together": _mean_batch_size(self._records),
            "copies from pinned memory": use.upload_rate / 1e9,
        }

    def _one_at_a_time(self, count: int) -> dict[str, float]:
        """Prove jobs one after the other; return percentiles of latency without the stages."""
        latencies = []
        for _ in range(count):
            self._records.clear()
            begin = time()
            [job] = self._submit(1)
            self._wait_for_jobs([job])
            self._queue.results(job.id)
            latency = time() - begin
            self._wait_for_records()
            latencies.append(
                1e3 * (latency - sum(record.end - record.begin for record in list(self._records)))
            )
        percentiles = quantiles(latencies, n=100)
        return {"p50": percentiles[49], "p99": percentiles[98]}

    def _wait_for_records(self) -> None:
        """Wait for the last job's records, which may arrive after its result."""
        limit = perf_counter() + _TIMEOUT_SECONDS
        while not any(record.stage is Stage.CHECK for record in list(self._records)):
            if perf_counter() > limit:
                raise ServiceError("the worker did not report the stages of a job")
            sleep(0.001)


def _mean_batch_size(records: Sequence[StageRecord]) -> float:
    """Return the mean batch size: proofs in a batch begin at the same time."""
    begins = sorted(
        (record.worker, record.begin) for record in records if record.stage is Stage.PROVE
    )
    batch_count = 1 + sum(
        other != worker or later - earlier > _CLOCK_TOLERANCE
        for (worker, earlier), (other, later) in pairwise(begins)
    )
    return len(begins) / batch_count


def _loop(key: ProvingKey, witnesses: Sequence[Witness]) -> float:
    """Return the milliseconds per proof in a loop."""
    begin = perf_counter()
    for witness in witnesses:
        key.prove(witness)
    return 1e3 * (perf_counter() - begin) / len(witnesses)


def _prove_many(key: ProvingKey, witnesses: Sequence[Witness]) -> float:
    """Return the milliseconds per proof with `prove_many`."""
    begin = perf_counter()
    count = sum(1 for _ in key.prove_many(witnesses))
    return 1e3 * (perf_counter() - begin) / count


def _phase(key: ProvingKey, witness: Witness, name: str) -> float:
    timeline = Timeline()
    key.prove(witness, timeline=timeline)
    return float(getattr(phases_of(timeline), name))
