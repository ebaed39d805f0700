"""The worker of Filecoin jobs: one device, which proves one partition at a time.

It claims a partition only when it has finished the one before, so that a job of a higher priority
waits for one partition at most. During a proof it computes the witnesses of the partitions that it
will probably claim next.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from quod.device.protocol import AnyDevice
from quod.device.runtime.large_stack_thread import LargeStackThread
from quod.errors import QuodError, ServiceError, TryAgainError, VerificationError
from quod.filecoin.circuits.private_inputs import CircuitInputs
from quod.filecoin.statements import Statement
from quod.service.errors import LeaseLostError, NotFoundError
from quod.service.filecoin.circuit_ids import parameters_of
from quod.service.filecoin.next_witnesses import NextWitnesses
from quod.service.filecoin.provers import Provers
from quod.service.filecoin.requests import circuit_inputs, parse_request
from quod.service.payload import read_body, read_header
from quod.service.protocol import cuzk_pb2 as pb
from quod.service.queue import JobQueue, JobState
from quod.service.worker.failures import Failure, Fault, failure_of
from quod.service.worker.jobs import OwnJobs
from quod.service.worker.lease_heartbeat import LeaseHeartbeat
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerState, WorkerStatus
from quod.service.worker.reports import call_with_retries
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.work import AbandonedError, Work

_CLAIM_SECONDS = 0.25
# The delay before the device is opened again, doubled after each attempt that fails.
_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 60.0
# A stage can take minutes, for which `close` does not wait.
_CLOSE_SECONDS = 2.0

# The job in progress, and one that a job of a higher priority has interrupted.
_MAX_JOBS = 2

_log = logging.getLogger(__name__)

T = TypeVar("T")

_Job = tuple[Statement, list[CircuitInputs]]


class FilecoinWorker:
    """Claims and proves partitions of Filecoin jobs from `start` to `close`. Thread-safe.

    open_provers: opens the device; called again after an error, such as for an absent device.
    record: called with the record of each finished stage.
    `status` counts jobs as proofs and failures, not partitions.
    """

    def __init__(
        self, name: str, queue: JobQueue, settings: WorkerSettings,
        open_provers: Callable[[], Provers], record: Callable[[StageRecord], None],
    ) -> None:  # fmt: skip
        self.name, self.settings = name, settings
        self._queue, self._jobs = queue, OwnJobs(queue, name)
        self._open_provers, self._record = open_provers, record
        self._changed = threading.Condition()
        self._provers: Provers | None = None
        self._work: Work | None = None
        self._parsed: OrderedDict[str, _Job] = OrderedDict()
        self._next_witnesses = NextWitnesses()
        self._started, self._busy_seconds = time.time(), 0.0
        self._proofs = self._failures = self._restarts = 0
        self._problem = ""
        self._was_ready = self._serving = self._draining = self._closing = self._claiming = False
        self._thread = LargeStackThread(target=self._run, name=f"quod-filecoin {name}", daemon=True)

    # --- the interface to the pool

    def start(self) -> None:
        """Start the worker's thread."""
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Report whether the device is open and the warm parameters are loaded."""
        return self._serving

    @property
    def provers(self) -> Provers | None:
        """The provers of the open device; None if no device is open."""
        return self._provers

    def status(self) -> WorkerStatus:
        """Return the current status."""
        work, provers = self._work, self._provers
        cache, memory = (
            (Provers.EMPTY, {}) if provers is None else provers.status(ready=self._serving)
        )
        return WorkerStatus(
            self.name, self.settings.device, self._state(), self._started, self._restarts,
            {} if work is None else {work.lease.job: work.stage}, self._proofs, self._failures,
            self._busy_seconds, memory, cache, self._problem,
            () if work is None else (work.lease.key,),
        )  # fmt: skip

    def drain(self, timeout: float | None = None) -> bool:
        """Stop claiming and wait for the claimed partition; return whether it has ended."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()
            return self._changed.wait_for(
                lambda: self._work is None and not self._claiming, timeout
            )

    def close(self) -> None:
        """Stop the worker and release its partition to the queue.

        The thread ends with the stage in progress; this waits for it for two seconds.
        """
        with self._changed:
            self._closing, work = True, self._work
            self._changed.notify_all()
        if work is not None:
            work.abandon()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive() and work is not None:
            # Otherwise the lease would be lost, as by a crash.
            with suppress(ServiceError):
                self._queue.release(work.lease)
            _log.warning("the worker %s was left in the stage %s", self.name, work.stage.value)

    def _state(self) -> WorkerState:
        if not self._serving:
            return WorkerState.DEAD if self._problem else WorkerState.STARTING
        if self._draining:
            return WorkerState.DRAINING
        return WorkerState.READY if self._work is None else WorkerState.BUSY

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
        """Log the error that ended the worker; the places in the code only if it is a defect."""
        is_known = isinstance(error, QuodError)
        self._problem = str(error) if is_known else type(error).__name__
        _log.error(
            "the worker %s is not ready, and starts again in %g seconds: %s",
            self.name, delay, self._problem, exc_info=None if is_known else error,
        )  # fmt: skip

    def _serve(self) -> None:
        """Open the device, and prove until the worker is closed."""
        self._was_ready = False
        provers = self._provers = self._open_provers()
        heartbeat = None
        try:
            for name in self.settings.warm:
                provers.open(parameters_of(name))
            heartbeat = LeaseHeartbeat(
                self._jobs, self._works, self.settings.patience_seconds, self._report_hang
            )
            self._serving, self._problem, self._was_ready = True, "", True
            _log.info(
                "the worker %s is ready", self.name,
                extra={"device": self.settings.device, "warm": self.settings.warm},
            )  # fmt: skip
            while not self._closing:
                self._claim_and_prove(provers)
        finally:
            self._serving, self._provers = False, None
            if heartbeat is not None:
                heartbeat.close()
            self._next_witnesses.close()
            self._next_witnesses = NextWitnesses()
            provers.close()

    def _claim_and_prove(self, provers: Provers) -> None:
        with self._changed:
            if self._draining:
                self._changed.wait(_CLAIM_SECONDS)
                return
            self._claiming = True
        try:
            leases = self._jobs.claim(keys=None, most=1, wait=_CLAIM_SECONDS)
            work = self._work = Work(leases[0]) if leases else None
        except TryAgainError as error:
            _log.warning("nothing could be claimed: %s", error)
            time.sleep(_CLAIM_SECONDS)
            work = None
        finally:
            with self._changed:
                self._claiming = False
                self._changed.notify_all()
        if work is not None:
            self._prove(work, provers)

    # --- one partition

    def _prove(self, work: Work, provers: Provers) -> None:
        begin = time.monotonic()
        try:
            if self._closing:
                work.abandon()
            result = self._result(work, provers)
            work.check()
            self._count(self._call_queue(lambda: self._queue.finish(work.lease, result).state))
        except BaseException as error:
            self._fail(work, error)
        finally:
            work.ended = True
            provers.release()
            self._busy_seconds += time.monotonic() - begin
            with self._changed:
                self._work = None
                self._changed.notify_all()

    def _result(self, work: Work, provers: Provers) -> bytes:
        """Prove a partition; return its result, in JSON: the proof in hex, and milliseconds.

        The names of the times are those of cuzk.proto; the time of synthesis includes the check of
        the vanilla proofs.
        """
        lease, times = work.lease, dict[str, int]()
        parameters = parameters_of(lease.key)
        with self._stage(work, Stage.WITNESS, times, "synthesis_ms"):
            statement, inputs = self._job(work, provers.device)
        with self._stage(work, Stage.KEY, times, "srs_load_ms"):
            prover = provers.open(parameters, use=True)
        with self._stage(work, Stage.WITNESS, times, "synthesis_ms"):
            witness = self._next_witnesses.take(lease)
            partition_inputs = inputs[lease.partition]
            if witness is None:
                witness = prover.witness(partition_inputs)
        with self._stage(work, Stage.PROVE, times, "gpu_compute_ms"):
            proof = prover.prove_partition(
                statement, lease.partition, partition_inputs, witness,
                meanwhile=lambda: self._next_witnesses.begin(lease, prover, inputs),
            )  # fmt: skip
        return json.dumps({"proof": proof.hex(), **times}).encode()

    def _job(self, work: Work, device: AnyDevice) -> _Job:
        """Return the statement of a job and its inputs by partition, parsed once."""
        lease = work.lease
        if (parsed := self._parsed.get(lease.job)) is None:
            try:
                with work.payload(self._jobs) as payload:
                    header = read_header(payload, lease.partitions)
                    body = read_body(payload, header.sections[0])
            except NotFoundError:
                # A payload is deleted when its job ends.
                raise AbandonedError from None
            finally:
                work.payload_file = None
            request = pb.SubmitProofRequest.FromString(body)
            file = parse_request(request)
            parsed = file.statement, circuit_inputs(request, file, device)
            self._parsed[lease.job] = parsed
            while len(self._parsed) > _MAX_JOBS:
                self._parsed.popitem(last=False)
        if lease.partition == lease.partitions - 1:
            self._parsed.pop(lease.job, None)
        return parsed

    @contextmanager
    def _stage(self, work: Work, stage: Stage, times: dict[str, int], name: str) -> Iterator[None]:
        """Enter a stage; at its end record it, and add its milliseconds under a name."""
        work.enter(stage)
        begin = time.time()
        yield
        end = time.time()
        times[name] = times.get(name, 0) + round(1000 * (end - begin))
        lease = work.lease
        self._record(
            StageRecord(self.name, lease.job, lease.partition, lease.key, stage, begin, end)
        )

    def _fail(self, work: Work, error: BaseException) -> None:
        """Report a failed partition to the queue."""
        failure = failure_of(error, work.stage)
        if isinstance(error, VerificationError):
            # The vanilla proofs were checked, so the device may have computed wrongly.
            failure = Failure(Fault.DEVICE, "INTERNAL", str(error))
        if work.is_abandoned:
            failure = Failure(Fault.GONE, "", "")
        if failure.fault not in (Fault.GONE, Fault.BUSY):
            lease = work.lease
            _log.warning(
                "a proof failed: %s", failure.message,
                exc_info=None if isinstance(error, QuodError) else error,
                extra={"job": lease.job, "partition": lease.partition, "key": lease.key},
            )  # fmt: skip
        try:
            with suppress(LeaseLostError):
                self._call_queue(lambda: self._report(work, failure))
        except Exception:
            # The lease expires.
            _log.exception("the end of a failed proof could not be reported")

    def _report(self, work: Work, failure: Failure) -> None:
        lease, fault = work.lease, failure.fault
        if fault is Fault.BUSY or (fault is Fault.GONE and self._closing):
            self._queue.release(lease)
        elif fault is not Fault.GONE:
            message, retry = failure.message, fault is not Fault.REQUEST
            self._count(self._queue.fail(lease, failure.code, message, retry=retry).state)

    def _call_queue(self, report: Callable[[], T]) -> T:
        return call_with_retries(report, lambda: self._closing)

    def _works(self) -> list[Work]:
        work = self._work
        return [] if work is None else [work]

    def _report_hang(self, work: Work) -> None:
        self._problem = (
            f"the stage {work.stage.value} of the job {work.lease.job} has taken more than "
            f"{self.settings.patience_seconds:g} seconds"
        )
        _log.error("%s: %s", self.name, self._problem)

    def _count(self, state: JobState) -> None:
        self._proofs += state is JobState.SUCCEEDED
        self._failures += state is JobState.FAILED
