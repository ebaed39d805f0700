"""The worker of Filecoin jobs: one device, which proves one partition at a time.

It claims a partition only when it has finished the one before, so that a job of a higher priority
waits for one partition at most. During a proof it computes the witnesses of the partitions that it
will probably claim next.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quod.device.protocol import AnyDevice
from quod.errors import VerificationError
from quod.filecoin.circuits.private_inputs import CircuitInputs
from quod.filecoin.statements import Statement
from quod.service.filecoin.circuit_ids import parameters_of
from quod.service.filecoin.next_witnesses import NextWitnesses
from quod.service.filecoin.provers import Provers
from quod.service.filecoin.requests import circuit_inputs, parse_request
from quod.service.payload import PayloadKind
from quod.service.protocol import cuzk_pb2 as pb
from quod.service.queue import JobQueue, Lease
from quod.service.worker.device_worker import CLAIM_SECONDS, DeviceWorker
from quod.service.worker.failures import Failure, Fault
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerStatus
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.work import Work

# The job in progress, and one that a job of a higher priority has interrupted.
_MAX_JOBS = 2

_Job = tuple[Statement, list[CircuitInputs]]


class FilecoinWorker(DeviceWorker):
    """Claims and proves partitions of Filecoin jobs from `start` to `close`. Thread-safe.

    open_provers: opens the device; called again after an error, such as for an absent device.
    record: called with the record of each finished stage.
    `status` counts jobs as proofs and failures, not partitions.
    """

    def __init__(
        self, name: str, queue: JobQueue, settings: WorkerSettings,
        open_provers: Callable[[], Provers], record: Callable[[StageRecord], None],
    ) -> None:  # fmt: skip
        super().__init__(name, queue, settings, record, "quod-filecoin")
        self._open_provers = open_provers
        self._provers: Provers | None = None
        self._work: Work | None = None
        self._parsed: OrderedDict[str, _Job] = OrderedDict()
        self._next_witnesses = NextWitnesses()

    # --- the interface to the pool

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

    # --- the lifecycle

    def _serve(self) -> None:
        self._was_ready = False
        provers = self._provers = self._open_provers()
        try:
            for name in self.settings.warm:
                provers.open(parameters_of(name))
            with self._ready_for_work(self.settings.warm):
                while not self._closing:
                    self._claim(None, CLAIM_SECONDS, self._hold)
                    if self._work is not None:
                        self._prove(self._work, provers)
                    else:
                        # Their job was cancelled, or other workers have its partitions.
                        self._next_witnesses.clear()
        finally:
            self._provers = None
            self._next_witnesses.clear()
            provers.close()

    def _hold(self, lease: Lease) -> None:
        self._work = Work(lease)

    # --- one partition

    def _prove(self, work: Work, provers: Provers) -> None:
        begin = time.monotonic()
        try:
            if self._closing:
                work.abandon()
            self._finish(work, self._result(work, provers))
        except BaseException as error:
            self._fail(work, error)
        finally:
            work.ended = True
            provers.release()
            self._work = None
            self._ended(begin)

    def _result(self, work: Work, provers: Provers) -> bytes:
        """Prove a partition; return its result, in JSON: the proof in hex, and milliseconds.

        The names of the times are those of cuzk.proto; the time of synthesis includes the check of
        the vanilla proofs.
        """
        lease, times = work.lease, dict[str, int]()
        parameters = parameters_of(lease.key)
        with self._stage(work, Stage.WITNESS, times, "synthesis_ms"):
            witness = self._next_witnesses.take(lease)
            statement, inputs = self._job(work, provers.device)
        with self._stage(work, Stage.KEY, times, "srs_load_ms"):
            prover = provers.open(parameters, use=True)
        with self._stage(work, Stage.WITNESS, times, "synthesis_ms"):
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
            body = self._body(work, PayloadKind.VANILLA_PROOFS)
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

    def _failure(self, work: Work, error: BaseException) -> Failure:
        if isinstance(error, VerificationError):
            # The vanilla proofs were checked, so the device may have computed wrongly.
            return Failure(Fault.DEVICE, "INTERNAL", str(error))
        return super()._failure(work, error)

    def _works(self) -> list[Work]:
        work = self._work
        return [] if work is None else [work]
