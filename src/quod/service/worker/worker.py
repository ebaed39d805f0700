"""A worker: one device, its keys, and a pipeline that it keeps full from the queue."""

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
from quod.service.worker.concurrency_limit import WHOLE, Permits
from quod.service.worker.failures import Failure, Fault, failure_of
from quod.service.worker.jobs import Jobs
from quod.service.worker.lease_heartbeat import LeaseHeartbeat
from quod.service.worker.pipeline import Pipeline
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerState, WorkerStatus
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.stages import Stages
from quod.service.worker.warm_up import warm_up
from quod.service.worker.witnesses import Calculate, witness_bytes
from quod.service.worker.work import Work

# The duration of a claim, which also bounds the delay of a drain.
_CLAIM_SECONDS = 0.25
# The delay before a restart of a worker whose device was lost.
_BACKOFF_SECONDS, _MOST_BACKOFF_SECONDS = 0.5, 60.0
# The time limit of retried reports to the queue.
_TELL_SECONDS = 60.0

_EMPTY = CacheStatus(False, {}, {}, 0, ())

_log = logging.getLogger(__name__)


class Worker:
    """A worker, which claims and proves partitions from `start` to `close`. Thread-safe.

    open_keys: opens the keys on the device, again after the device was lost.
    record: called for each finished stage.
    hangs: called when the device has exceeded the time limit of a stage.
    """

    def __init__(
        self, name: str, jobs: Jobs, open_keys: Callable[[], ResidentKeys],
        settings: WorkerSettings, calculate: Calculate,
        record: Callable[[StageRecord], None] = lambda _: None,
        hangs: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.name, self.settings = name, settings
        self._device_hangs = hangs
        self._jobs, self._open_keys = jobs, open_keys
        self._calculate, self._record = calculate, record
        self._changed = threading.Condition()
        self._in_hand: dict[int, Work] = {}
        self._keys: ResidentKeys | None = None
        self._meter = BusyMeter()
        self._budget = MemoryBudget(settings.work_bytes)
        self._permits = Permits(2 * settings.most_lanes + settings.ahead)
        self._buffers: WitnessBuffers
        self._sizes: dict[str, tuple[int, int]] = {}
        self._together: dict[str, int] = {}
        self._started = time.time()
        self._restarts = self._proofs = self._failures = 0
        self._problem = ""
        self._serving = self._draining = self._quarantined = False
        self._closing = self._lost = self._claiming = False
        self._thread = threading.Thread(target=self._run, name=f"quod-worker {name}")

    # --- the interface to pools

    def start(self) -> None:
        """Start the worker's thread."""
        # The terminal, if any, belongs to the server.
        compilations.notify(False)
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Report whether the warm keys are loaded and warmed up."""
        keys = self._keys
        return self._serving and keys is not None and keys.ready

    @property
    def in_hand(self) -> int:
        """The number of claimed partitions that have not ended."""
        return len(self._in_hand)

    def status(self) -> WorkerStatus:
        """Return the current status."""
        with self._changed:
            works, keys = list(self._in_hand.values()), self._keys
        cache = _EMPTY if keys is None else keys.status()
        return WorkerStatus(
            self.name, self.settings.device, self._state(bool(works)), self._started,
            self._restarts, {work.lease.job: work.stage for work in works}, self._proofs,
            self._failures, self._meter.seconds, self._memory(cache), cache, self._problem,
            tuple({work.lease.key for work in works}),
        )  # fmt: skip

    def preload(self, key: str, timeout: float | None = None) -> None:
        """Load a key."""
        self._opened().preload(key, timeout=timeout)

    def evict(self, key: str) -> None:
        """Evict a key."""
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
            return self._changed.wait_for(lambda: not self._in_hand and not self._claiming, timeout)

    def close(self) -> None:
        """Stop the worker; unfinished work is released to the queue."""
        with self._changed:
            self._closing = True
            works = list(self._in_hand.values())
            self._changed.notify_all()
        for work in works:
            work.give_up()
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
            if time.monotonic() - started_at > _MOST_BACKOFF_SECONDS:
                backoff = _BACKOFF_SECONDS
            with self._changed:
                if not self._closing:
                    self._restarts += 1
                    self._changed.wait_for(lambda: self._closing, backoff)
            backoff = min(2 * backoff, _MOST_BACKOFF_SECONDS)

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
                if self._goes_on():
                    with keys.lease(name) as lease:
                        warm_up(lease.value)
                        self._together[lease.key] = lease.value.most_together
            stages = Stages(
                self.name, self._jobs, keys, self.settings, self._meter, self._calculate,
                self._record, self._computed, self._done, self._failed, self._together,
                self._call_queue, self._quarantine,
            )  # fmt: skip
            line = Pipeline(stages.steps(), self._failed)
            keeper = LeaseHeartbeat(
                self._jobs, self._works, self.settings.patience_seconds, self._hangs
            )  # fmt: skip
            self._serving, self._problem = True, "" if not self._quarantined else self._problem
            try:
                while self._goes_on():
                    self._claim(line, keys)
            finally:
                self._serving = False
                line.close()
                keeper.close()
        finally:
            self._keys = None
            keys.close()

    def _goes_on(self) -> bool:
        return not (self._closing or self._lost)

    def _takes_work(self) -> bool:
        return self._goes_on() and not (self._draining or self._quarantined)

    def _claim(self, line: Pipeline, keys: ResidentKeys) -> None:
        """Claim as much work as permitted and put it into the pipeline."""
        only, most = self._wanted(keys)
        with self._changed:
            if not self._takes_work() or not most:
                self._changed.wait(_CLAIM_SECONDS)
                return
        count = self._permits.take(most, _CLAIM_SECONDS)
        if not count:
            return
        works = self._claimed(keys, only, count)
        self._put(line, keys, works)
        if len(works) < count:
            # No other work waits.
            return
        # Waiting work with keys whose proofs are batched joins these partitions.
        for key, part in {work.lease.key: work.part for work in works}.items():
            if permits := self._permits.take_parts(WHOLE // part - 1, part):
                self._put(line, keys, self._claimed(keys, [key], permits, part))

    def _put(self, line: Pipeline, keys: ResidentKeys, works: Sequence[Work]) -> None:
        for work in works:
            try:
                self._reserve(work, keys)
                line.put(work)
            except BaseException as error:
                self._failed(work, error)

    def _parts(self, keys: ResidentKeys) -> dict[str, int]:
        """The parts of a permit that a partition takes, for each loaded key."""
        there = [key.key for key in keys.status().keys if key.ready]
        return {key: max(1, WHOLE // self._together.get(key, 1)) for key in there}

    def _claimed(
        self, keys: ResidentKeys, only: list[str] | None, count: int, part: int = WHOLE
    ) -> list[Work]:
        """Claim partitions for `count` permits, or for `count` times `part` parts.

        Waits for the first partition only if permits are whole.
        """
        wait = _CLAIM_SECONDS if part == WHOLE else 0.0
        works: list[Work] = []
        with self._changed:
            self._claiming = self._takes_work()
        try:
            if self._claiming:
                leases = self._jobs.claim(keys=only, most=count, wait=wait)
                parts = self._parts(keys) if leases and part == WHOLE else {}
                limit = self._permits.limit
                works = [Work(lease, parts.get(lease.key, part), limit) for lease in leases]
        except TryAgainError as error:
            _log.warning("nothing could be claimed: %s", error)
            time.sleep(_CLAIM_SECONDS)
        finally:
            self._permits.give_back(count * part - sum(work.part for work in works))
            with self._changed:
                for work in works:
                    work.permitted = work.part
                    self._in_hand[id(work)] = work
                stopped = self._closing or self._quarantined
                self._claiming = False
                self._changed.notify_all()
        if stopped:
            for work in works:
                work.give_up()
        return works

    def _wanted(self, keys: ResidentKeys) -> tuple[list[str] | None, int]:
        """The keys to claim work for (None: any), and the maximum number of partitions.

        Work whose key is not loaded waits for it. Once `ahead` such partitions wait, only work with
        loaded keys is claimed, and only while a key is loading. While a load waits for room nothing
        is claimed, as keys in use would never make room.
        """
        ahead, cache = self.settings.ahead, keys.status()
        there = [key.key for key in cache.keys if key.ready]
        waiting = sum(work.key is None and work.lease.key not in there for work in self._works())
        if waiting < ahead:
            return None, ahead - waiting
        return there, ahead if any(key.loading for key in cache.keys) else 0

    def _reserve(self, work: Work, keys: ResidentKeys) -> None:
        """Reserve the memory of a witness in the order of the claims, waiting for it."""
        lease = work.lease
        if lease.key not in self._sizes:
            self._sizes[lease.key] = _size_of(keys, lease.key)
        with work.payload(self._jobs) as file:
            nbytes, read = witness_bytes(file, lease, *self._sizes[lease.key])
        work.most_bytes = read
        if read:
            work.buffers = self._buffers
            # Partitions of a batch do not wait for buffers: batches copy them once more anyway.
            grouped = work.part < WHOLE
            work.buffer = self._buffers.take(read, given_up=lambda: work.gone or grouped)
        # A witness in a buffer needs no further memory.
        if work.buffer is None and self._budget.take(nbytes, given_up=lambda: work.gone):
            work.reserved = nbytes
        work.check()

    def _allocate_buffers(self, keys: ResidentKeys) -> WitnessBuffers:
        """Allocate page-locked buffers for the largest witness of the warm keys."""
        sizes = [_size_of(keys, name) for name in self.settings.warm]
        most = max((count * nbytes for count, nbytes in sizes), default=0)
        return WitnessBuffers(
            keys.device, most, self.settings.buffers, self.settings.work_bytes // 2
        )

    # --- the end of work

    def _works(self) -> list[Work]:
        with self._changed:
            return list(self._in_hand.values())

    def _computed(self, work: Work) -> None:
        """Release the permit of a computed partition."""
        permitted, work.permitted = work.permitted, 0
        if permitted:
            self._permits.give_back(permitted)

    def _done(self, work: Work) -> None:
        self._permits.grow()
        self._end(work, proofs=1)

    def _failed(self, work: Work, error: BaseException) -> None:
        """End a failed partition; an error of the report does not affect others of its batch."""
        keys = self._keys
        lost = keys is not None and keys.device.space.is_lost
        failure = failure_of(error, work.stage, device_is_lost=lost)
        if work.gone:
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
        """Report the failure of a partition to the queue."""
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
                first, self._lost, self._problem = not self._lost, True, failure.message
            # Computing work may have caused the loss; waiting work cannot.
            if first and work.stage is Stage.PROVE:
                jobs.lose(lease, failure.code, failure.message)
            else:
                jobs.release(lease)
        else:
            if fault is Fault.MEMORY:
                self._permits.shrink(work.limit)
            # A batch is computed as one, and its error concerns all of its partitions.
            of_all = fault is not Fault.REQUEST or work.stage is Stage.PROVE
            if work.together and of_all:
                # Any of them may be the cause, so each is retried alone.
                _log.warning("a proof that was made with others is made again: %s", failure.message)
                jobs.release(lease)
            else:
                jobs.fail(lease, failure.code, failure.message, fault is not Fault.REQUEST)

    def _call_queue(self, report: Callable[[], None]) -> None:
        """Call `report` with retries while the queue is unavailable or cannot write."""
        limit, pause = time.monotonic() + _TELL_SECONDS, 0.05
        while True:
            try:
                report()
                return
            except TryAgainError:
                if time.monotonic() > limit or self._closing:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 2.0)

    def _end(self, work: Work, *, proofs: int = 0, failures: int = 0) -> None:
        work.ended = True
        work.let_go()
        self._budget.give_back(work.reserved)
        self._computed(work)
        with self._changed:
            self._in_hand.pop(id(work), None)
            self._proofs += proofs
            self._failures += failures
            self._changed.notify_all()

    def _quarantine(self, reason: str) -> None:
        """Quarantine the worker, as its device computes wrongly; release unfinished work."""
        _log.error("the worker %s is quarantined: %s", self.name, reason)
        with self._changed:
            self._quarantined, self._problem = True, reason
        for work in self._works():
            if work.stage is not Stage.CHECK:
                work.give_up()

    def _hangs(self, work: Work) -> None:
        self._problem = (
            f"the stage {work.stage.value} of the job {work.lease.job} has taken more than "
            f"{self.settings.patience_seconds:g} seconds"
        )
        _log.error("%s: %s", self.name, self._problem)
        # Waiting for a key depends on other work, not on the device.
        if work.stage in (Stage.UPLOAD, Stage.PROVE):
            self._device_hangs()

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
        """Memory use of the device, or of the host if the device has no memory of its own."""
        tier = Tier.DEVICE if cache.budgets.get(Tier.DEVICE) else Tier.HOST
        keys, budget = cache.used.get(tier, 0), cache.budgets.get(tier, 0)
        # A GPU's workspace is counted with its keys.
        witnesses = self._budget.used if tier is Tier.HOST else 0
        return {"keys": keys, "workspace": witnesses, "free": max(0, budget - keys)}

    def _opened(self) -> ResidentKeys:
        keys = self._keys
        if keys is None:
            raise UnavailableError(
                f"the worker {self.name} has no device open; ask again", retry_seconds=1.0
            )
        return keys


def _size_of(keys: ResidentKeys, name: str) -> tuple[int, int]:
    """The number of values of a key's witness, and the bytes of one value."""
    record = keys.repository.record(keys.repository.resolve(name))
    return record.variables, CURVES[record.curve].fr.bytes
