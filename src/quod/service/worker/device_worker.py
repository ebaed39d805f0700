"""A worker of one device in a thread of the server, which opens the device again after an error."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic, sleep, time
from typing import TypeVar

from quod.device.runtime.large_stack_thread import LargeStackThread
from quod.errors import InputError, QuodError, ServiceError, TryAgainError
from quod.service.errors import LeaseLostError, NotFoundError
from quod.service.payload import PayloadKind, read_body, read_header
from quod.service.queue import JobQueue, JobState, Lease
from quod.service.worker.failures import Failure, Fault, failure_of
from quod.service.worker.jobs import OwnJobs
from quod.service.worker.lease_heartbeat import LeaseHeartbeat
from quod.service.worker.pools.pool import StageRecord, WorkerState
from quod.service.worker.reports import call_with_retries
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.work import AbandonedError, Work

CLAIM_SECONDS = 0.25
"""The longest wait for a job, after which a worker looks whether it is closed."""
# The delay before the device is opened again, doubled after each attempt that fails.
_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 60.0
# A stage can take minutes, for which `close` does not wait.
_CLOSE_SECONDS = 2.0

_log = logging.getLogger(__name__)

T = TypeVar("T")


class DeviceWorker(ABC):
    """Claims and computes partitions from `start` to `close`. Thread-safe.

    record: called with the record of each finished stage.
    """

    _product = "proof"
    """The word for the result of a job, for the log."""

    def __init__(
        self, name: str, queue: JobQueue, settings: WorkerSettings,
        record: Callable[[StageRecord], None], thread: str,
    ) -> None:  # fmt: skip
        self.name, self.settings = name, settings
        self._queue, self._jobs = queue, OwnJobs(queue, name)
        self._record = record
        self._changed = threading.Condition()
        self._started, self._busy_seconds = time(), 0.0
        self._proofs = self._failures = self._restarts = 0
        self._problem = ""
        self._was_ready = self._serving = self._draining = self._closing = self._claiming = False
        self._thread = LargeStackThread(target=self._run, name=f"{thread} {name}", daemon=True)

    @abstractmethod
    def _serve(self) -> None:
        """Open the device, and compute until the worker is closed."""

    @abstractmethod
    def _works(self) -> Sequence[Work]:
        """Return the claimed partitions."""

    # --- the interface to the pool

    def start(self) -> None:
        """Start the worker's thread."""
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Report whether the device is open and loaded with what the worker needs."""
        return self._serving

    def drain(self, timeout: float | None = None) -> bool:
        """Stop claiming and wait for the claimed partitions; return whether they have ended."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._works() and not self._claiming, timeout)

    def close(self) -> None:
        """Stop the worker and release its partitions to the queue.

        The thread ends with the stage in progress; this waits for it for two seconds.
        """
        with self._changed:
            self._closing, works = True, list(self._works())
            self._changed.notify_all()
        for work in works:
            work.abandon()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            for work in works:
                # Otherwise the lease would be lost, as by a crash.
                with suppress(ServiceError):
                    self._queue.release(work.lease)
                _log.warning("the worker %s was left in the stage %s", self.name, work.stage.value)

    def _state(self) -> WorkerState:
        if not self._serving:
            return WorkerState.DEAD if self._problem else WorkerState.STARTING
        if self._draining:
            return WorkerState.DRAINING
        return WorkerState.BUSY if self._works() else WorkerState.READY

    # --- the lifecycle

    def _run(self) -> None:
        delay = _RETRY_SECONDS
        while not self._closing:
            try:
                self._serve()
            except Exception as error:
                if self._was_ready:
                    delay = _RETRY_SECONDS
                self._report_end(error, delay)
            self._pause(delay)
            delay = min(2 * delay, _MAX_RETRY_SECONDS)

    def _pause(self, seconds: float) -> None:
        """Wait before the device is opened again, unless the worker is closed."""
        with self._changed:
            self._restarts += not self._closing
            self._changed.wait_for(lambda: self._closing, seconds)

    def _report_end(self, error: Exception, delay: float) -> None:
        """Log the error that ended the worker, with a traceback only if it is a defect of Quod."""
        is_known = isinstance(error, QuodError)
        self._problem = str(error) if is_known else type(error).__name__
        _log.error(
            "the worker %s is not ready, and starts again in %g seconds: %s",
            self.name, delay, self._problem, exc_info=None if is_known else error,
        )  # fmt: skip

    @contextmanager
    def _ready_for_work(self, warm: Sequence[str]) -> Iterator[None]:
        """Renew leases, and report that the worker is ready, within a block.

        warm: the names of what is loaded, for the log.
        """
        heartbeat = LeaseHeartbeat(
            self._jobs, self._works, self.settings.patience_seconds, self._report_hang
        )
        try:
            self._serving, self._problem, self._was_ready = True, "", True
            _log.info(
                "the worker %s is ready", self.name,
                extra={"device": self.settings.device, "warm": warm},
            )  # fmt: skip
            yield
        finally:
            self._serving = False
            heartbeat.close()

    def _claim(
        self, keys: Sequence[str] | None, wait: float, hold: Callable[[Lease], None]
    ) -> None:
        """Claim a partition, if there is one within `wait` seconds, and pass it to `hold`."""
        with self._changed:
            if self._draining:
                self._changed.wait(wait)
                return
            self._claiming = True
        try:
            for lease in self._jobs.claim(keys=keys, most=1, wait=wait):
                hold(lease)
        except TryAgainError as error:
            _log.warning("nothing could be claimed: %s", error)
            sleep(wait)
        finally:
            with self._changed:
                self._claiming = False
                self._changed.notify_all()

    def _body(self, work: Work, kind: PayloadKind) -> bytes:
        """Read the first body of a job's payload.

        Raises AbandonedError if the job has ended, and InputError for a payload of another kind.
        """
        try:
            with work.payload(self._jobs) as payload:
                header = read_header(payload, work.lease.partitions)
                body = read_body(payload, header.sections[0])
        except NotFoundError:
            # A payload is deleted when its job ends.
            raise AbandonedError from None
        finally:
            work.payload_file = None
        if header.kind is not kind:
            raise InputError(
                f"this server has no workers for jobs of the kind {header.kind.name.lower()}"
            )
        return body

    # --- the end of a partition

    def _finish(self, work: Work, result: bytes) -> None:
        """Store the result of a partition."""
        work.check()
        self._count(self._call_queue(lambda: self._queue.finish(work.lease, result).state))

    def _failure(self, work: Work, error: BaseException) -> Failure:
        return failure_of(error, work.stage)

    def _fail(self, work: Work, error: BaseException) -> None:
        """Report a failed partition to the queue."""
        failure = self._failure(work, error)
        if work.is_abandoned:
            failure = Failure(Fault.GONE, "", "")
        if failure.fault not in (Fault.GONE, Fault.BUSY):
            lease = work.lease
            _log.warning(
                "a %s failed: %s", self._product, failure.message,
                exc_info=None if isinstance(error, QuodError) else error,
                extra={"job": lease.job, "partition": lease.partition, "key": lease.key},
            )  # fmt: skip
        try:
            with suppress(LeaseLostError):
                self._call_queue(lambda: self._report(work, failure))
        except Exception:
            # The lease expires.
            _log.exception("the end of a failed %s could not be reported", self._product)

    def _report(self, work: Work, failure: Failure) -> None:
        lease, fault = work.lease, failure.fault
        if fault is Fault.BUSY or (fault is Fault.GONE and self._closing):
            self._queue.release(lease)
        elif fault is not Fault.GONE:
            message, retry = failure.message, fault is not Fault.REQUEST
            self._count(self._queue.fail(lease, failure.code, message, retry=retry).state)

    def _call_queue(self, report: Callable[[], T]) -> T:
        return call_with_retries(report, lambda: self._closing)

    def _report_hang(self, work: Work) -> None:
        self._problem = (
            f"the stage {work.stage.value} of the job {work.lease.job} has taken more than "
            f"{self.settings.patience_seconds:g} seconds"
        )
        _log.error("%s: %s", self.name, self._problem)

    def _count(self, state: JobState) -> None:
        self._proofs += state is JobState.SUCCEEDED
        self._failures += state is JobState.FAILED

    def _ended(self, begin: float) -> None:
        """Add the time since `begin` to the busy time, and wake `drain`."""
        self._busy_seconds += monotonic() - begin
        with self._changed:
            self._changed.notify_all()
