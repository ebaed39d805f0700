"""The supervisor of a worker process: start, calls and restarts."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import IO, Any

from quod.errors import InputError, QuodError, ServiceError, TryAgainError
from quod.frozen import replace
from quod.service.encoding import decode_frame, encode_error
from quod.service.errors import LeaseLostError, UnavailableError
from quod.service.keys import CacheStatus, KeyRepository
from quod.service.logs import log_line
from quod.service.queue import JobQueue, Lease
from quod.service.worker.jobs import OwnJobs
from quod.service.worker.pools.placement import Placement
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerState, WorkerStatus
from quod.service.worker.process.channel import HUNG, Answer, Channel, parts_of
from quod.service.worker.settings import WorkerSettings

CHILD = (sys.executable, "-m", "quod.service.worker.process.child")

_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.2, 30.0
# The time limit of the first call: the process imports modules and opens a device before.
_BEGIN_SECONDS = 120.0
# A process that is silent for so many lease durations is killed.
_MAX_SILENT_LEASES = 2
_CLOSE_SECONDS = 30.0
# The time to read the last lines of a process that has ended.
_LOG_SECONDS = 1.0
_MAX_LINE = 1 << 16

_NO_KEYS = CacheStatus(False, {}, {}, 0, ())
# After these stages a partition is on the device, or next in line, until PROVE has ended; the most
# likely to have crashed the process comes first.
_AT_THE_DEVICE = (Stage.UPLOAD, Stage.KEY)

_log = logging.getLogger(__name__)

LeaseId = tuple[str, int, int]


class Supervisor:
    """A worker in a separate process; `command` starts it, followed by its socket's descriptor.

    If the process dies, the partition on the device is reported lost, which counts against its key,
    and waiting partitions are released. The process is restarted, with a growing delay if it dies
    early.
    """

    def __init__(
        self, name: str, queue: JobQueue, repository: KeyRepository, settings: WorkerSettings,
        record: Callable[[StageRecord], None], placement: Placement | None = None,
        command: Sequence[str] = CHILD,
    ) -> None:  # fmt: skip
        self.name, self._queue, self._repository = name, queue, repository
        self._settings, self._record, self._command = settings, record, tuple(command)
        self._jobs = OwnJobs(queue, name, placement)
        self._changed = threading.Condition()
        self._leases: dict[LeaseId, Lease] = {}
        self._at_device: dict[tuple[str, int], Stage] = {}
        self._channel: Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._status: WorkerStatus | None = None
        self._started = time.time()
        self._last_message = 0.0
        self._restarts, self._problem = 0, ""
        self._busy, self._proofs, self._failures = 0.0, 0, 0
        self._claiming = 0
        self._closing = self._draining = False
        self._thread = threading.Thread(target=self._run, name=f"quod-supervisor {name}")

    # --- the interface to pools

    def start(self) -> None:
        self._thread.start()

    @property
    def process_id(self) -> int | None:
        """The process id of the current process, or None."""
        process = self._process
        return None if process is None else process.pid

    @property
    def ready(self) -> bool:
        status = self._status
        return bool(status and status.ready)

    def status(self) -> WorkerStatus:
        """Return the last status, plus the counters of earlier processes."""
        with self._changed:
            status = self._status
            if status is None:
                state = WorkerState.DEAD if self._problem else WorkerState.STARTING
                status = WorkerStatus(
                    self.name, self._settings.device, state, self._started, 0, {}, 0, 0, 0.0, {},
                    _NO_KEYS, "",
                )  # fmt: skip
            return replace(
                status,
                started=self._started,
                restarts=self._restarts + status.restarts,
                proofs=self._proofs + status.proofs,
                failures=self._failures + status.failures,
                busy_seconds=self._busy + status.busy_seconds,
                problem=status.problem or self._problem,
            )

    def ask(self, name: str, **arguments: object) -> Any:
        """Call the worker; raises UnavailableError while there is no process."""
        channel = self._channel
        if channel is None:
            raise UnavailableError(
                f"the worker {self.name} is being started; ask again", retry_seconds=1.0
            )
        return channel.call(name, arguments)

    def drain(self, timeout: float | None = None) -> bool:
        """See `WorkerPool`; a restarted process drains as well."""
        with self._changed:
            self._draining = True
        with suppress(UnavailableError):
            self.ask("drain", timeout=0)
        with self._changed:
            return self._changed.wait_for(lambda: not self._leases and not self._claiming, timeout)

    def close(self) -> None:
        """Stop the process; unfinished work is released to the queue."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        channel, process = self._channel, self._process
        if channel is not None and process is not None:
            with suppress(QuodError):
                channel.call("close", {}, timeout=_CLOSE_SECONDS)
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._thread.ident is not None:
            self._thread.join()

    def _is_closing(self) -> bool:
        return self._closing

    # --- the lifecycle

    def _run(self) -> None:
        backoff = _BACKOFF_SECONDS
        while not self._is_closing():
            started_at = time.monotonic()
            reason = self._run_process()
            if time.monotonic() - started_at > _MAX_BACKOFF_SECONDS:
                backoff = _BACKOFF_SECONDS
            with self._changed:
                if self._closing:
                    break
                self._restarts += 1
                self._problem = reason
                _log.error("a worker has died: %s", reason, extra={"worker": self.name})
                self._changed.wait_for(lambda: self._closing, backoff)
            backoff = min(2 * backoff, _MAX_BACKOFF_SECONDS)

    def _run_process(self) -> str:
        """Run one process to its end and clean up; return why it ended."""
        parent_socket, child_socket = socket.socketpair()
        ended = threading.Event()
        with parent_socket, child_socket:
            try:
                process = subprocess.Popen(
                    [*self._command, str(child_socket.fileno())], pass_fds=(child_socket.fileno(),),
                    stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                )  # fmt: skip
            except OSError as error:
                return f"it could not be started ({error.strerror})"
            child_socket.close()
            assert process.stderr is not None
            log = threading.Thread(
                target=self._relay_log, args=(process.stderr,), name=f"quod-log {self.name}",
                daemon=True,
            )  # fmt: skip
            log.start()
            channel = Channel(parent_socket, self._handlers(), ended.set, prompt=("finish",))
            channel.start()
            self._last_message = time.monotonic()
            self._process = process
            if self._is_closing():
                process.kill()
            reason = ""
            try:
                self._begin(channel)
                reason = self._watch(ended)
            except QuodError as error:
                reason = str(error)
            # A pending claim may get leases that the process never sees.
            with self._changed:
                seen_ids = set(self._leases)
            process.kill()
            code = process.wait()
            self._channel = None
            channel.close()
            # Child processes of the process may hold its standard error open.
            log.join(_LOG_SECONDS)
        self._give_back(seen_ids)
        self._process = None
        if code == HUNG:
            return "its device hung"
        return reason or (f"killed by signal {-code}" if code < 0 else f"it ended with {code}")

    def _relay_log(self, stderr: IO[bytes]) -> None:
        """Copy the standard error of a worker process to the log of this process."""
        with stderr:
            while line := stderr.readline(_MAX_LINE):
                log_line(line, {"worker": self.name})

    def _begin(self, channel: Channel) -> None:
        arguments = {
            "name": self.name, "settings": self._settings, "repository": self._repository.path,
            "spool": self._queue.blob_store.path, "lease_seconds": self._queue.limits.lease_seconds,
            "log_level": logging.getLogger("quod").getEffectiveLevel(),
        }  # fmt: skip
        channel.call("begin", arguments, timeout=_BEGIN_SECONDS)
        self._channel = channel
        if self._restarts:
            _log.info("a worker was started again", extra={"worker": self.name})
        if self._draining:
            channel.call("drain", {"timeout": 0}, timeout=_BEGIN_SECONDS)

    def _watch(self, ended: threading.Event) -> str:
        """Wait until the process has ended; return a reason if it was silent for too long."""
        max_silence = _MAX_SILENT_LEASES * self._queue.limits.lease_seconds
        while not ended.wait(min(1.0, max_silence / 4)):
            silence = time.monotonic() - self._last_message
            if silence > max_silence:
                return f"it sent no message for {silence:.1f} s"
        return ""

    def _give_back(self, seen_ids: Collection[LeaseId]) -> None:
        """Return the leases of a dead process; report one that the process has seen as lost.

        That is a partition on the device, if any. A crashing partition ends all others of its
        process, so only one counts against its key.
        """
        with self._changed:
            held_leases = list(self._leases.values())
            seen_leases = [
                lease
                for lease in held_leases
                if (lease.job, lease.partition, lease.token) in seen_ids
            ]
            status, self._status = self._status, None
            if status is not None:
                self._busy += status.busy_seconds
                self._proofs += status.proofs
                self._failures += status.failures
                self._restarts += status.restarts
            last_stages = [
                self._at_device.get((lease.job, lease.partition)) for lease in seen_leases
            ]
        candidates = [
            seen_leases[last_stages.index(stage)]
            for stage in _AT_THE_DEVICE
            if stage in last_stages
        ]
        lost_lease = None if self._closing else next(iter(candidates or seen_leases), None)
        for lease in held_leases:
            try:
                if lease is lost_lease:
                    self._queue.lose(lease)
                else:
                    self._queue.release(lease)
            except (LeaseLostError, TryAgainError) as error:
                # Otherwise the lease expires.
                _log.info("a lease could not be released: %s", error)
            self._forget(lease)

    # --- calls of the process

    def _handlers(self) -> dict[str, Callable[[dict[str, Any], bytes], object]]:
        return {
            "claim": self._claim, "renew": self._renew, "finish": self._finish,
            "fail": self._fail, "lose": self._lose, "release": self._release,
            "payload": self._payload,
            "forget": self._void, "status": self._receive_status, "records": self._receive_records,
        }  # fmt: skip

    def _claim(self, arguments: dict[str, Any], _: bytes) -> Answer:
        with self._changed:
            if self._draining or self._closing:
                return Answer({"leases": [], "lengths": [], "elsewhere": []}, b"")
            self._claiming += 1
        leases: list[Lease] = []
        try:
            leases = self._jobs.claim(
                keys=arguments["keys"], most=arguments["most"], wait=arguments["wait"]
            )
        finally:
            with self._changed:
                self._claiming -= 1
                for lease in leases:
                    stored_lease = replace(lease, body=b"") if lease.body else lease
                    self._leases[lease.job, lease.partition, lease.token] = stored_lease
                self._changed.notify_all()
        fields = {
            "leases": leases,
            "lengths": [len(lease.body) for lease in leases],
            "elsewhere": list(self._jobs.elsewhere()),
        }
        return Answer(fields, b"".join(lease.body for lease in leases))

    def _renew(self, arguments: dict[str, Any], _: bytes) -> list[object]:
        self._last_message = time.monotonic()
        listed_leases = [self._leases.get(tuple(lease_id)) for lease_id in arguments["leases"]]
        held_leases = [lease for lease in listed_leases if lease is not None]
        errors = self._queue.renew(held_leases, stage=arguments["stage"]) if held_leases else []
        return [
            None if error is None else encode_error(error)
            for error in _outcomes(listed_leases, errors)
        ]

    def _finish(self, arguments: dict[str, Any], body: bytes) -> Callable[[], list[object]]:
        results = parts_of(body, arguments["lengths"])
        listed_leases = [self._leases.get(tuple(lease_id)) for lease_id in arguments["leases"]]
        held_results = [
            (lease, result)
            for lease, result in zip(listed_leases, results, strict=True)
            if lease is not None
        ]
        end_finish = self._queue.begin_finish(held_results)

        def end() -> list[object]:
            outcomes = _outcomes(listed_leases, end_finish())
            for lease, outcome in zip(listed_leases, outcomes, strict=True):
                if lease is not None and not isinstance(outcome, TryAgainError):
                    self._forget(lease)
            return [None if error is None else encode_error(error) for error in outcomes]

        return end

    def _fail(self, arguments: dict[str, Any], _: bytes) -> None:
        code, message, retry = arguments["code"], arguments["message"], arguments["retry"]
        self._settle(arguments, lambda lease: self._queue.fail(lease, code, message, retry=retry))

    def _lose(self, arguments: dict[str, Any], _: bytes) -> None:
        code, message = arguments["code"], arguments["message"]
        self._settle(arguments, lambda lease: self._queue.lose(lease, code, message))

    def _release(self, arguments: dict[str, Any], _: bytes) -> None:
        self._settle(arguments, self._queue.release)

    def _payload(self, arguments: dict[str, Any], _: bytes) -> Answer:
        with self._queue.open_payload(self._lease(arguments["lease"])) as file:
            return Answer(None, file.read())

    def _void(self, arguments: dict[str, Any], _: bytes) -> None:
        with suppress(LeaseLostError):
            self._forget(self._lease(arguments["lease"]))

    def _settle(self, arguments: dict[str, Any], settle: Callable[[Lease], object]) -> None:
        """End a lease, unless the queue is unavailable."""
        lease = self._lease(arguments["lease"])
        try:
            settle(lease)
        except TryAgainError:
            raise
        except ServiceError:
            self._forget(lease)
            raise
        self._forget(lease)

    def _lease(self, lease_id: object) -> Lease:
        """Look up a lease of the worker process."""
        match lease_id:
            case [str(job), int(partition), int(token)]:
                lease = self._leases.get((job, partition, token))
            case _:
                raise InputError("a message names no lease")
        if lease is None:
            raise _void()
        return lease

    def _forget(self, lease: Lease) -> None:
        with self._changed:
            self._leases.pop((lease.job, lease.partition, lease.token), None)
            self._at_device.pop((lease.job, lease.partition), None)
            self._changed.notify_all()

    def _receive_status(self, arguments: dict[str, Any], _: bytes) -> None:
        self._last_message = time.monotonic()
        self._status = decode_frame(WorkerStatus, arguments["status"])

    def _receive_records(self, arguments: dict[str, Any], _: bytes) -> None:
        for record in decode_frame(tuple[StageRecord, ...], arguments["records"]):
            if record.stage in _AT_THE_DEVICE:
                self._at_device[record.job, record.partition] = record.stage
            elif record.stage is Stage.PROVE:
                self._at_device.pop((record.job, record.partition), None)
            self._record(record)


def _void() -> LeaseLostError:
    return LeaseLostError("the lease is lost: it was released before")


def _outcomes(
    leases: Sequence[Lease | None], held_errors: Sequence[QuodError | None]
) -> list[QuodError | None]:
    """Merge the queue's outcomes of known leases with errors for unknown ones."""
    errors_of_held = iter(held_errors)
    return [_void() if lease is None else next(errors_of_held) for lease in leases]
