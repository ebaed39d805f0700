"""The worker: one device, its key cache, and a pipeline that it fills from the queue.

A partition is one leased part of a job; `Work` is a claimed partition.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from quod.curve.named import CURVES
from quod.device.cache.compilations import compilations
from quod.device.runtime.busy_time import BusyMeter
from quod.errors import QuodError, TryAgainError
from quod.service.errors import LeaseLostError, UnavailableError
from quod.service.keys import CacheStatus, ResidentKeys, Tier
from quod.service.worker.budget import MemoryBudget
from quod.service.worker.buffers import WitnessBuffers
from quod.service.worker.concurrency_limit import UNITS_PER_PERMIT, Permits
from quod.service.worker.failures import Failure, Fault, failure_of
from quod.service.worker.jobs import Jobs
from quod.service.worker.lease_heartbeat import LeaseHeartbeat
from quod.service.worker.pipeline import Pipeline
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerState, WorkerStatus
from quod.service.worker.reports import call_with_retries
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.stages import Stages
from quod.service.worker.warm_up import warm_up
from quod.service.worker.witnesses import Calculate, witness_bytes
from quod.service.worker.work import Work

# The seconds for which a claim waits for work, and so the maximum delay of a drain.
_CLAIM_SECONDS = 0.25
# The delay before a restart of a worker whose device was lost.
_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.5, 60.0

_EMPTY_CACHE = CacheStatus(False, {}, {}, 0, ())

_log = logging.getLogger(__name__)


class Worker:
    """Claims and proves partitions from `start` to `close`. Thread-safe.

    jobs: the queue, as this worker calls it.
    open_keys: opens the device and its key cache; called again after the device is lost.
    calculate: computes the witness of a job's inputs.
    record: called with the record of each finished stage.
    hangs: called when a stage on the device exceeds the time limit of its settings.
    """

    def __init__(
        self, name: str, jobs: Jobs, open_keys: Callable[[], ResidentKeys],
        settings: WorkerSettings, calculate: Calculate,
        record: Callable[[StageRecord], None] = lambda _: None,
        hangs: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.name, self.settings = name, settings
        self._on_hang = hangs
        self._jobs, self._open_keys = jobs, open_keys
        self._calculate, self._record = calculate, record
        self._changed = threading.Condition()
        # The claimed partitions that have not ended, by `id`.
        self._claimed_by_id: dict[int, Work] = {}
        self._keys: ResidentKeys | None = None
        self._meter = BusyMeter()
        self._budget = MemoryBudget(settings.work_bytes)
        # Each concurrent proof may have a partition on the device and a prepared one.
        self._permits = Permits(2 * settings.max_lanes + settings.ahead)
        self._buffers: WitnessBuffers
        # By key: the number of witness values and the bytes of one.
        self._witness_shapes: dict[str, tuple[int, int]] = {}
        self._max_batch: dict[str, int] = {}
        self._started = time.time()
        self._restarts = self._proofs = self._failures = 0
        self._problem = ""
        self._serving = self._draining = self._quarantined = False
        self._closing = self._lost = self._claiming = False
        self._thread = threading.Thread(target=self._run, name=f"quod-worker {name}")

    # --- the interface to pools

    def start(self) -> None:
        """Start the worker's thread."""
        # Print no compilation progress: the server owns the terminal.
        compilations.set_notice(False)
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Report whether the warm keys are loaded and warmed up."""
        keys = self._keys
        return self._serving and keys is not None and keys.ready

    @property
    def in_hand(self) -> int:
        """The number of claimed partitions that have not ended."""
        return len(self._claimed_by_id)

    def status(self) -> WorkerStatus:
        """Return the current status."""
        with self._changed:
            claimed, keys = list(self._claimed_by_id.values()), self._keys
        cache = _EMPTY_CACHE if keys is None else keys.status()
        return WorkerStatus(
            self.name, self.settings.device, self._state(bool(claimed)), self._started,
            self._restarts, {work.lease.job: work.stage for work in claimed}, self._proofs,
            self._failures, self._meter.seconds, self._memory(cache), cache, self._problem,
            tuple({work.lease.key for work in claimed}),
        )  # fmt: skip

    def preload(self, key: str, timeout: float | None = None) -> None:
        """Load a key; returns when it is loaded.

        Raises UnavailableError if no device is open.
        """
        self._opened().preload(key, timeout=timeout)

    def evict(self, key: str) -> None:
        """Evict a key; raises UnavailableError if no device is open."""
        self._opened().evict(key)

    def resume(self) -> None:
        """End the quarantine."""
        with self._changed:
            self._quarantined, self._problem = False, ""
            self._changed.notify_all()

    def drain(self, timeout: float | None = None) -> bool:
        """Stop claiming and wait for claimed work; return whether all of it has ended."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()
            return self._changed.wait_for(
                lambda: not self._claimed_by_id and not self._claiming, timeout
            )

    def close(self) -> None:
        """Stop the worker; unfinished work is released to the queue."""
        with self._changed:
            self._closing = True
            claimed = list(self._claimed_by_id.values())
            self._changed.notify_all()
        for work in claimed:
            work.abandon()
        if self._thread.ident is not None:
            self._thread.join()

    # --- the lifecycle

    def _run(self) -> None:
        backoff = _BACKOFF_SECONDS
        while not self._closing:
            started_at = time.monotonic()
            try:
                self._serve()
            except Exception as error:
                _log.exception("the worker %s ended with an error", self.name)
                self._problem = str(error) if isinstance(error, QuodError) else type(error).__name__
            if time.monotonic() - started_at > _MAX_BACKOFF_SECONDS:
                backoff = _BACKOFF_SECONDS
            with self._changed:
                if not self._closing:
                    self._restarts += 1
                    self._changed.wait_for(lambda: self._closing, backoff)
            backoff = min(2 * backoff, _MAX_BACKOFF_SECONDS)

    def _serve(self) -> None:
        """Open the device and serve until it is lost or the worker is closed."""
        self._lost = False
        keys = self._open_keys()
        try:
            self._keys = keys
            keys.spare_first(self._jobs.elsewhere)
            keys.warm(self.settings.warm)
            self._buffers = self._allocate_buffers(keys)
            for name in self.settings.warm:
                if self._is_serving():
                    with keys.lease(name) as lease:
                        warm_up(lease.value)
                        self._max_batch[lease.key] = lease.value.max_batch
            stages = Stages(
                self.name, self._jobs, keys, self.settings, self._meter, self._calculate,
                self._record, self._release_permit, self._finish, self._fail, self._max_batch,
                self._call_queue, self._quarantine,
            )  # fmt: skip
            pipeline = Pipeline(stages.steps(), self._fail)
            heartbeat = LeaseHeartbeat(
                self._jobs, self._works, self.settings.patience_seconds, self._report_hang
            )  # fmt: skip
            self._serving, self._problem = True, "" if not self._quarantined else self._problem
            try:
                while self._is_serving():
                    self._claim(pipeline, keys)
            finally:
                self._serving = False
                pipeline.close()
                heartbeat.close()
        finally:
            self._keys = None
            keys.close()

    def _is_serving(self) -> bool:
        return not (self._closing or self._lost)

    def _may_claim(self) -> bool:
        return self._is_serving() and not (self._draining or self._quarantined)

    def _claim(self, pipeline: Pipeline, keys: ResidentKeys) -> None:
        """Claim as much work as permitted and put it into the pipeline."""
        keys_to_claim, max_partitions = self._claim_limits(keys)
        with self._changed:
            if not self._may_claim() or not max_partitions:
                self._changed.wait(_CLAIM_SECONDS)
                return
        count = self._permits.take(max_partitions, _CLAIM_SECONDS)
        if not count:
            return
        claimed = self._claim_partitions(keys, keys_to_claim, count)
        self._submit(pipeline, keys, claimed)
        if len(claimed) < count:
            # No other work waits.
            return
        # Fill batches: claim further waiting partitions of the keys whose proofs are batched. A
        # batch has UNITS_PER_PERMIT // units partitions, one of which is claimed already.
        for key, units in {work.lease.key: work.permit_units for work in claimed}.items():
            if count := self._permits.take_units(UNITS_PER_PERMIT // units - 1, units):
                self._submit(pipeline, keys, self._claim_partitions(keys, [key], count, units))

    def _submit(self, pipeline: Pipeline, keys: ResidentKeys, claimed: Sequence[Work]) -> None:
        for work in claimed:
            try:
                self._reserve(work, keys)
                pipeline.put(work)
            except BaseException as error:
                self._fail(work, error)

    def _permit_units(self, keys: ResidentKeys) -> dict[str, int]:
        """Return the units of a permit that one partition holds, for each loaded key.

        A permit has `UNITS_PER_PERMIT` units. In batches of n, a partition holds UNITS_PER_PERMIT
        // n of them.
        """
        loaded = [key.key for key in keys.status().keys if key.ready]
        return {key: max(1, UNITS_PER_PERMIT // self._max_batch.get(key, 1)) for key in loaded}

    def _claim_partitions(
        self,
        keys: ResidentKeys,
        keys_to_claim: list[str] | None,
        count: int,
        units: int = UNITS_PER_PERMIT,
    ) -> list[Work]:
        """Claim up to `count` partitions, for which `count * units` units are already taken.

        Unused units are released. Waits for the first partition only if `units` is a whole permit.
        """
        wait = _CLAIM_SECONDS if units == UNITS_PER_PERMIT else 0.0
        claimed: list[Work] = []
        with self._changed:
            self._claiming = self._may_claim()
        try:
            if self._claiming:
                leases = self._jobs.claim(keys=keys_to_claim, most=count, wait=wait)
                units_by_key = (
                    self._permit_units(keys) if leases and units == UNITS_PER_PERMIT else {}
                )
                limit = self._permits.limit
                claimed = [
                    Work(lease, units_by_key.get(lease.key, units), limit) for lease in leases
                ]
        except TryAgainError as error:
            _log.warning("nothing could be claimed: %s", error)
            time.sleep(_CLAIM_SECONDS)
        finally:
            self._permits.give_back(count * units - sum(work.permit_units for work in claimed))
            with self._changed:
                for work in claimed:
                    work.held_units = work.permit_units
                    self._claimed_by_id[id(work)] = work
                stopped = self._closing or self._quarantined
                self._claiming = False
                self._changed.notify_all()
        if stopped:
            for work in claimed:
                work.abandon()
        return claimed

    def _claim_limits(self, keys: ResidentKeys) -> tuple[list[str] | None, int]:
        """Return the keys to claim work for (None: any), and the maximum number of partitions.

        At most `ahead` partitions are claimed before their keys are loaded. Beyond that, only work
        with loaded keys is claimed, and only while a key is loading. While a load waits for memory
        nothing is claimed: new work would keep the loaded keys in use, so that none could be
        evicted.
        """
        max_ahead, cache = self.settings.ahead, keys.status()
        loaded = [key.key for key in cache.keys if key.ready]
        ahead = sum(work.key is None and work.lease.key not in loaded for work in self._works())
        if ahead < max_ahead:
            return None, max_ahead - ahead
        return loaded, max_ahead if any(key.loading for key in cache.keys) else 0

    def _reserve(self, work: Work, keys: ResidentKeys) -> None:
        """Wait for the memory of a witness and reserve it. Called in claim order."""
        lease = work.lease
        if lease.key not in self._witness_shapes:
            self._witness_shapes[lease.key] = _witness_shape(keys, lease.key)
        with work.payload(self._jobs) as file:
            reserve_bytes, payload_bytes = witness_bytes(
                file, lease, *self._witness_shapes[lease.key]
            )
        work.max_bytes = payload_bytes
        if payload_bytes:
            work.buffers = self._buffers
            # Partitions of a batch do not wait for a buffer: a batch copies its witnesses again.
            is_batched = work.permit_units < UNITS_PER_PERMIT
            work.buffer = self._buffers.take(
                payload_bytes, given_up=lambda: work.is_abandoned or is_batched
            )
        # A witness in a buffer needs no further memory.
        if work.buffer is None and self._budget.take(
            reserve_bytes, given_up=lambda: work.is_abandoned
        ):
            work.reserved = reserve_bytes
        work.check()

    def _allocate_buffers(self, keys: ResidentKeys) -> WitnessBuffers:
        """Allocate page-locked buffers of the size of the warm keys' largest witness."""
        shapes = [_witness_shape(keys, name) for name in self.settings.warm]
        max_bytes = max((count * nbytes for count, nbytes in shapes), default=0)
        return WitnessBuffers(
            keys.device, max_bytes, self.settings.buffers, self.settings.work_bytes // 2
        )

    # --- the end of work

    def _works(self) -> list[Work]:
        with self._changed:
            return list(self._claimed_by_id.values())

    def _release_permit(self, work: Work) -> None:
        """Release the permit of a partition, if it still holds one."""
        units, work.held_units = work.held_units, 0
        if units:
            self._permits.give_back(units)

    def _finish(self, work: Work) -> None:
        self._permits.grow()
        self._end(work, proofs=1)

    def _fail(self, work: Work, error: BaseException) -> None:
        """End a failed partition.

        An error of the report is logged, so that the other partitions of the batch are still
        reported.
        """
        keys = self._keys
        device_is_lost = keys is not None and keys.device.space.is_lost
        failure = failure_of(error, work.stage, device_is_lost=device_is_lost)
        if work.is_abandoned:
            failure = Failure(Fault.GONE, "", "")

        def report() -> None:
            try:
                self._report(work, failure)
            except LeaseLostError:
                self._jobs.forget(work.lease)

        try:
            self._call_queue(report)
        except Exception:
            # The lease expires.
            _log.exception("the end of a failed proof could not be told")
        finally:
            self._end(work, failures=failure.fault not in (Fault.GONE, Fault.BUSY))

    def _report(self, work: Work, failure: Failure) -> None:
        """Report the failure of a partition to the queue.

        `release` returns the partition without counting an attempt, `lose` reports that the device
        was lost, `fail` counts an attempt, and `forget` does nothing to the job.
        """
        jobs, lease, fault = self._jobs, work.lease, failure.fault
        if fault is Fault.GONE:
            if self._closing or self._quarantined or self._lost:
                jobs.release(lease)
            else:
                jobs.forget(lease)
        elif fault is Fault.BUSY:
            jobs.release(lease)
        elif fault is Fault.LOST:
            with self._changed:
                is_first, self._lost, self._problem = not self._lost, True, failure.message
            # Computing work may have caused the loss; waiting work cannot.
            if is_first and work.stage is Stage.PROVE:
                jobs.lose(lease, failure.code, failure.message)
            else:
                jobs.release(lease)
        else:
            if fault is Fault.MEMORY:
                self._permits.shrink(work.limit)
            # An error of the proving stage affects all partitions of a batch.
            affects_batch = fault is not Fault.REQUEST or work.stage is Stage.PROVE
            if work.is_batched and affects_batch:
                # Any partition of the batch may be the cause, so each is retried alone.
                _log.warning("a proof that was made with others is made again: %s", failure.message)
                jobs.release(lease)
            else:
                jobs.fail(lease, failure.code, failure.message, fault is not Fault.REQUEST)

    def _call_queue(self, report: Callable[[], None]) -> None:
        """Call `report` with retries while the queue is unavailable or cannot write."""
        call_with_retries(report, lambda: self._closing)

    def _end(self, work: Work, *, proofs: int = 0, failures: int = 0) -> None:
        """Release what a partition holds and count its result."""
        work.ended = True
        work.release()
        self._budget.give_back(work.reserved)
        self._release_permit(work)
        with self._changed:
            self._claimed_by_id.pop(id(work), None)
            self._proofs += proofs
            self._failures += failures
            self._changed.notify_all()

    def _quarantine(self, reason: str) -> None:
        """Quarantine the worker because its device computes wrongly; cancel unfinished work."""
        _log.error("the worker %s is quarantined: %s", self.name, reason)
        with self._changed:
            self._quarantined, self._problem = True, reason
        for work in self._works():
            # A proof that is being verified does not need the device.
            if work.stage is not Stage.CHECK:
                work.abandon()

    def _report_hang(self, work: Work) -> None:
        self._problem = (
            f"the stage {work.stage.value} of the job {work.lease.job} has taken more than "
            f"{self.settings.patience_seconds:g} seconds"
        )
        _log.error("%s: %s", self.name, self._problem)
        # Waiting for a key depends on other work, not on the device.
        if work.stage in (Stage.UPLOAD, Stage.PROVE):
            self._on_hang()

    # --- the status

    def _state(self, working: bool) -> WorkerState:
        if self._quarantined:
            return WorkerState.QUARANTINED
        if not self._serving:
            return WorkerState.DEAD if self._problem else WorkerState.STARTING
        if self._draining:
            return WorkerState.DRAINING
        return WorkerState.BUSY if working else WorkerState.READY

    def _memory(self, cache: CacheStatus) -> Mapping[str, int]:
        """Return the bytes in use on the device, or on the host if the device has no memory."""
        tier = Tier.DEVICE if cache.budgets.get(Tier.DEVICE) else Tier.HOST
        keys, budget = cache.used.get(tier, 0), cache.budgets.get(tier, 0)
        # On a GPU, the workspace of proofs is counted with the keys.
        witnesses = self._budget.used if tier is Tier.HOST else 0
        return {"keys": keys, "workspace": witnesses, "free": max(0, budget - keys)}

    def _opened(self) -> ResidentKeys:
        """Return the open keys; raises UnavailableError if no device is open."""
        keys = self._keys
        if keys is None:
            raise UnavailableError(
                f"the worker {self.name} has no device open; ask again", retry_seconds=1.0
            )
        return keys


def _witness_shape(keys: ResidentKeys, name: str) -> tuple[int, int]:
    """Return the number of values of a key's witness, and the bytes of one value."""
    record = keys.repository.record(keys.repository.resolve(name))
    return record.variables, CURVES[record.curve].fr.bytes
