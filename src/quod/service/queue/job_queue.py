"""The queue's interface for clients, workers and operators of the service.

Calls block and are thread-safe. `begin_submit` returns a future instead, for `asyncio.wrap_future`,
and `watch` registers a callback, so a server needs no thread for each waiting client.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from io import BytesIO
from types import TracebackType
from typing import Any, BinaryIO, Self, TypeVar, cast

from quod.errors import InputError, QuodError, ServiceError
from quod.service.errors import StorageFullError
from quod.service.queue.blob_store import BlobStore
from quod.service.queue.clock import Clock
from quod.service.queue.limits import Limits
from quod.service.queue.operations import query
from quod.service.queue.operations.claim import Claimed, KeyChooser, Request
from quod.service.queue.operations.payloads import MAX_ROW_BYTES, read_payload, row_of
from quod.service.queue.operations.rows import number_of
from quod.service.queue.operations.rules import Rules
from quod.service.queue.operations.settle import Renewal, Report
from quod.service.queue.operations.submit import SizedSubmission
from quod.service.queue.operations.table import OPERATIONS
from quod.service.queue.reaper import OPERATIONS as REAPER_OPERATIONS
from quod.service.queue.reaper import Reaper
from quod.service.queue.records import (
    Attempt,
    Event,
    Job,
    JobState,
    KeyStatus,
    Lease,
    Outcome,
    QueueStatus,
    Submission,
)
from quod.service.queue.signals import WORK, Callback, end_of
from quod.service.queue.stores.store import Store
from quod.service.queue.validation import (
    checked_line,
    checked_list,
    checked_name,
    checked_pair,
    checked_seconds,
)
from quod.service.queue.writer import Call, Operation, Writer
from quod.validation import check_function, exact_bytes, flag, instance, whole_number

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 5.0
"""Seconds between polls, which bound the delay after a lost notification."""

_MAX_LISTED = 1000
_MAX_LEASES = 1000
_MAX_EVENT_NUMBER = (1 << 62) - 1


class JobQueue:
    """An open queue, created by `open_queue` and closed by `close` or a `with` block."""

    def __init__(
        self, store: Store, blob_store: BlobStore, rules: Rules, sweep_seconds: float | None
    ) -> None:
        self._store, self._blob_store, self._rules = store, blob_store, rules
        self._closing, self._closed = threading.Lock(), False
        operations: dict[str, Operation] = {
            kind: lambda tx, arguments, work=work: work(tx, rules, arguments)  # type: ignore[misc]
            for kind, work in {**OPERATIONS, **REAPER_OPERATIONS}.items()
        }
        self._writer = Writer(store, blob_store, operations)
        if store.shared:
            store.signals.subscribe(WORK, lambda _: self._writer.look())
        self._reaper = Reaper(store, blob_store, rules, self._writer)
        try:
            self._reaper.begin(sweep_seconds)
        except BaseException:
            self.close()
            raise

    @property
    def blob_store(self) -> BlobStore:
        """The blob store for payloads, which are written before their jobs are submitted."""
        return self._blob_store

    @property
    def limits(self) -> Limits:
        return self._rules.limits

    @property
    def clock(self) -> Clock:
        return self._rules.clock

    @property
    def max_body(self) -> int:
        """The maximum size of `Submission.body` in bytes, for now.

        0 with Postgres, and while the database holds too many bytes of such payloads.
        """
        return self._store.max_row_payload if self._reaper.row_bytes < MAX_ROW_BYTES else 0

    # --- clients

    def submit(self, submission: Submission) -> Job:
        """Submit a job; return it once it is on disk.

        If the idempotency key and digest match an earlier job, returns that job in its current
        state. The queue owns the payload from here on and deletes it if the job is refused.
        Raises AlreadyExistsError, DeadlinePassedError, KeySuspendedError, QueueFullError and
        StorageFullError. After UnavailableError repeat the call with the same idempotency key.
        """
        [outcome] = self.submit_many([submission])
        if isinstance(outcome, ServiceError):
            raise outcome
        return outcome

    def submit_many(self, submissions: Sequence[Submission]) -> list[Job | ServiceError]:
        """Submit jobs with one commit; return for each the job or its own error."""
        return self.begin_submit(submissions).result()

    def begin_submit(
        self, submissions: Sequence[Submission], taken: Callable[[Job], None] | None = None
    ) -> Future[list[Job | ServiceError]]:
        """Submit jobs without waiting; the future ends once they are on disk.

        taken: called with each job by the writer thread before this process changes the job, so
            that a watcher subscribed there misses no event.
        """
        batch = self._offer_payloads(submissions)
        call = Call("submit", batch, partial(self._settle_payloads, batch))
        if taken is not None:
            call.future.add_done_callback(partial(_notify, taken))
        return self._writer.put(call)

    def cancel(self, job: str, *, client: str | None = None) -> Job:
        """Cancel a job at once, running or not; an ended job is returned unchanged.

        Workers learn of it when they renew or finish. If `client` is given, raises NotFoundError
        for a job of another client; this holds for all calls below.
        """
        [outcome] = [self._writer.do("cancel", (job, _client(client)))]
        return _or_raise(outcome)

    def job(self, job: str, *, client: str | None = None) -> Job:
        """Return the current state of a job; raises NotFoundError if there is none."""
        return self._events(job, client, 0, 0)[0]

    def find(self, client: str, idempotency_key: str) -> Job:
        """Return the job that a client submitted with an idempotency key; raises NotFoundError."""
        checked_name("the client", client)
        checked_name("the idempotency key", idempotency_key)
        return self._store.read(lambda tx: query.find(tx, client, idempotency_key))

    def jobs(
        self, *, client: str | None = None, most: int = 50, before: str | None = None
    ) -> list[Job]:
        """Return the `most` newest jobs (at most 1,000), or the newest older than job `before`."""
        _client(client)
        most = whole_number("most", most, 1, _MAX_LISTED)
        job_number = None if before is None else number_of(before)[0]
        return self._store.read(lambda tx: query.jobs(tx, client, most, job_number))

    def running(self, *, most: int = 50) -> list[Job]:
        """Return the newest jobs with a running partition, at most 1,000."""
        most = whole_number("most", most, 1, _MAX_LISTED)
        return self._store.read(lambda tx: query.running(tx, most))

    def results(self, job: str, *, client: str | None = None) -> list[bytes]:
        """Return the results of a job's partitions, in order.

        Raises ServiceError with the reason unless the job succeeded.
        """
        _client(client)
        return self._store.read(lambda tx: query.results(tx, job, client))

    def outcome(self, job: str, *, client: str | None = None) -> tuple[Job, list[bytes]]:
        """Return a job, and the results of its partitions if it has succeeded."""
        _client(client)
        return self._store.read(lambda tx: query.outcome(tx, job, client))

    def events(
        self, job: str, *, client: str | None = None, after: int = 0, most: int = 1000
    ) -> list[Event]:
        """Return events of a job with numbers above `after`, so a broken stream can resume."""
        after, most = whole_number("after", after, 0), whole_number("most", most, 1, _MAX_LISTED)
        return self._events(job, client, min(after, _MAX_EVENT_NUMBER), most)[1]

    def wait(
        self, job: str, *, client: str | None = None, after: int | None = None,
        timeout: float = 60.0,
    ) -> tuple[Job, list[Event]]:  # fmt: skip
        """Wait for events with numbers above `after`, or for the job's end if `after` is None.

        Returns the job and its events above `after`. A timeout is no error: the call returns the
        current state.
        """
        timeout = checked_seconds("the timeout", timeout, zero=True)
        since = 0 if after is None else min(whole_number("after", after, 0), _MAX_EVENT_NUMBER)
        job_number, _ = number_of(job)
        deadline = self._rules.clock.steady() + timeout
        event = threading.Event()
        topic = end_of(job_number) if after is None else job_number
        unsubscribe = self._store.signals.subscribe(topic, lambda _: event.set())
        try:
            while True:
                job_state, events = self._events(job, client, since, _MAX_LISTED)
                remaining = deadline - self._rules.clock.steady()
                if job_state.state.ended or remaining <= 0 or (after is not None and events):
                    return job_state, events
                event.wait(min(remaining, LOOK_AGAIN_SECONDS))
                event.clear()
        finally:
            unsubscribe()

    def watch(
        self, job: str, callback: Callable[[], None], *, end: bool = False
    ) -> Callable[[], None]:
        """Call `callback` after each event of a job, or only at its `end`.

        Returns a function that unsubscribes. The callback runs in any thread and must return
        quickly. Poll every `LOOK_AGAIN_SECONDS` as well: with Postgres a notification can be lost.
        """
        check_function("the callback", callback)
        number, _ = number_of(job)
        topic = end_of(number) if end else number
        return self._store.signals.subscribe(topic, lambda _: callback())

    def watch_end(
        self, job: str, callback: Callable[[tuple[Job, list[bytes]] | None], None]
    ) -> Callable[[], None]:
        """Call `callback` when a job ends; return a function that stops it.

        The callback receives the value of `outcome`, or None if it must be read.
        """
        number, _ = number_of(job)
        return self._store.signals.subscribe(end_of(number), cast(Callback, callback))

    # --- workers

    def claim(
        self, worker: str, *, keys: Sequence[str] | None = None, most: int = 1, wait: float = 0.0,
        chooser: KeyChooser | None = None,
    ) -> list[Lease]:  # fmt: skip
        """Lease up to `most` partitions for a worker.

        keys: lease only partitions of these keys.
        chooser: without `keys`, chooses the keys at each attempt.
        Order: priority (highest first), age of the job (oldest first), index of the partition.
        Waits up to `wait` seconds for the first partition; the list may be empty after that.
        """
        checked_name("the worker", worker)
        allowed = None
        if keys is not None:
            allowed = tuple({checked_name("a key", key) for key in checked_list("the keys", keys)})
        request = Request(worker, allowed, whole_number("most", most, 1, _MAX_LEASES), chooser)
        remaining = wait = checked_seconds("the time to wait", wait, zero=True)
        deadline = self._rules.clock.steady() + wait
        while True:
            call = Call("claim", request, waits=remaining > 0)
            claimed: Claimed = self._claim_outcome(call, min(remaining, LOOK_AGAIN_SECONDS))
            remaining = deadline - self._rules.clock.steady()
            if claimed.leases or remaining <= 0:
                return claimed.leases

    def open_payload(self, lease: Lease) -> BinaryIO:
        """Open the payload of a leased job; raises NotFoundError once the job has ended."""
        row = row_of(_lease(lease).payload)
        if row is None:
            return self._blob_store.open(lease.payload)
        return BytesIO(self._store.read(lambda tx: read_payload(tx, row)))

    def renew(
        self, leases: Sequence[Lease], *, stage: str = "",
        progress: Mapping[str, str | int] | None = None,
    ) -> list[ServiceError | None]:  # fmt: skip
        """Renew leases; a `stage` that differs from the last one becomes an event for clients.

        Call it on progress, several times within `Limits.lease_seconds`, after which a lease is
        lost. `progress` is the data of an event of this kind; workers bound their number. Returns
        for each lease None or the LeaseLostError that ends it, for example after a cancellation.
        """
        checked_name("the stage", stage, empty=True)
        renewed = tuple(_lease(lease) for lease in checked_list("the leases", leases))
        return list(self._writer.do("renew", Renewal(renewed, stage, progress or {})))

    def finish(self, lease: Lease, result: bytes) -> Job:
        """Store the result of a partition; the job succeeds with its last partition.

        Raises LeaseLostError if the partition is no longer this worker's.
        """
        return _or_raise(self._writer.put(self._finish_call(lease, result)).result())

    def finish_many(self, results: Sequence[tuple[Lease, bytes]]) -> list[QuodError | None]:
        """Finish several partitions; return for each None or the error."""
        return self.begin_finish(results)()

    def begin_finish(
        self, results: Sequence[tuple[Lease, bytes]]
    ) -> Callable[[], list[QuodError | None]]:
        """Begin to finish several partitions; the returned function waits for the outcome."""
        futures_or_errors: list[Future[Job | ServiceError] | QuodError] = []
        for pair in checked_list("the results", results):
            try:
                futures_or_errors.append(self._writer.put(self._finish_call(*checked_pair(pair))))
            except QuodError as error:
                futures_or_errors.append(error)
        return lambda: [
            item if isinstance(item, QuodError) else _error_of(item) for item in futures_or_errors
        ]

    def _finish_call(self, lease: object, result: object) -> Call:
        data, limit = exact_bytes("the result", result), self.limits.result_bytes
        if len(data) > limit:
            raise InputError(f"the result has {len(data)} bytes, more than the limit of {limit}")
        return Call("settle", Report(_lease(lease), Outcome.SUCCEEDED, data))

    def fail(self, lease: Lease, code: str, message: str, *, retry: bool) -> Job:
        """Report a failed attempt; with `retry` the partition is retried.

        After `Limits.max_attempts` attempts, or without `retry`, the job fails with this code and
        message. Clients see the first 500 characters of the message, which must not contain
        anything of the witness.
        """
        reason = checked_name("the code", code), checked_line("the message", message)
        flag("retry", retry)
        return self._settle(Report(_lease(lease), Outcome.FAILED, b"", *reason, retry))

    def lose(
        self, lease: Lease, code: str = "WORKER_LOST", message: str = "the worker died"
    ) -> Job:
        """Report a dead worker: the partition is retried, and the loss counts against the key.

        With this call a supervisor ends the lease before it expires.
        """
        reason = checked_name("the code", code), checked_line("the message", message)
        return self._settle(Report(_lease(lease), Outcome.LOST, b"", *reason))

    def release(self, lease: Lease) -> Job:
        """Release a partition without counting an attempt, as a worker that stops does."""
        return self._settle(Report(_lease(lease), Outcome.RELEASED))

    # --- operators

    def attempts(self, job: str) -> list[Attempt]:
        """Return all attempts at a job: workers, times and outcomes."""
        return self._store.read(lambda tx: query.attempts(tx, job))

    def check(self) -> None:
        """Run a query; raises UnavailableError if the database does not answer."""
        self._store.read(lambda tx: tx.rows("SELECT 1"))

    def status(self) -> QueueStatus:
        """Return the counts of the queue."""
        full = self._rules.storage_full()
        return self._store.read(lambda tx: query.status(tx, full))

    def unfinished(self) -> Mapping[tuple[str, JobState], int]:
        """Return the number of unfinished jobs by key and state."""
        return self._store.read(query.unfinished)

    def jobs_before(self, job: str) -> int:
        """Return the number of unfinished jobs ahead of a job: by priority, then by age."""
        return self._store.read(lambda tx: query.jobs_before(tx, job))

    def key_status(self) -> list[KeyStatus]:
        """Return keys that are suspended, or with which workers died."""
        return self._store.read(query.keys)

    def suspend(self, key: str, reason: str) -> None:
        """Suspend a key: refuse its new jobs and hold its waiting ones until `resume`."""
        checked_name("the key", key)
        self._writer.do("suspend", (key, checked_name("the reason", reason)))

    def resume(self, key: str) -> None:
        """Accept and lease jobs of a key again."""
        self._writer.do("resume", (checked_name("the key", key),))

    def sweep(self) -> None:
        """End expired leases and jobs past their deadline, forget old jobs, delete orphaned files.

        Runs automatically every `sweep_seconds` of `open_queue`.
        """
        self._reaper.sweep()

    def close(self) -> None:
        """Finish pending writes and close the database. Leases remain until they expire."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._reaper.close()
        self._writer.close()
        self._store.signals.notify_all()
        self._store.close()
        self._blob_store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def _offer_payloads(self, submissions: Sequence[Submission]) -> list[SizedSubmission]:
        """Validate submissions and claim the payloads of all of them, or of none."""
        remedy = "write Submission(client, key, digest)"
        checked_submissions = [
            instance("a submission", submission, Submission, remedy)
            for submission in checked_list("the submissions", submissions)
        ]
        sized_submissions: list[SizedSubmission] = []
        try:
            for submission in checked_submissions:
                if len(submission.body) > self._store.max_row_payload:
                    raise InputError(
                        f"the body has {len(submission.body)} bytes, more than this "
                        f"queue's limit of {self._store.max_row_payload}; write it to the "
                        "spool"
                    )
                size = (
                    self._blob_store.reserve(submission.payload)
                    if submission.payload
                    else len(submission.body)
                )
                sized_submissions.append(SizedSubmission(submission, size))
        except QuodError:
            self._blob_store.release(sized.submission.payload for sized in sized_submissions)
            raise
        self._reaper.row_bytes += sum(len(submission.body) for submission in checked_submissions)
        return sized_submissions

    def _settle_payloads(self, batch: Sequence[SizedSubmission], error: BaseException) -> None:
        """Delete payloads of a failed call, or leave them to a sweep if it may be committed."""
        payloads = [sized.submission.payload for sized in batch if sized.submission.payload]
        blobs = self._blob_store
        (blobs.discard if isinstance(error, StorageFullError) else blobs.forget)(payloads)

    def _events(
        self, job: str, client: str | None, after: int, most: int
    ) -> tuple[Job, list[Event]]:
        _client(client)
        return self._store.read(lambda tx: query.events(tx, job, client, after, most))

    def _claim_outcome(self, call: Call, seconds: float) -> Any:
        """Return the outcome of a claim, which waits at most `seconds`."""
        future = self._writer.put(call)
        if not call.waits:
            return future.result()
        try:
            return future.result(seconds)
        except TimeoutError:
            return self._writer.withdraw(call)
        except BaseException:
            # After an interrupt nobody would receive leases that were granted meanwhile.
            with suppress(Exception):
                for lease in self._writer.withdraw(call).leases:
                    self.release(lease)
            raise

    def _settle(self, report: Report) -> Job:
        return _or_raise(self._writer.do("settle", report))


def _notify(taken: Callable[[Job], None], future: Future[list[Job | ServiceError]]) -> None:
    if future.exception() is None:
        for outcome in future.result():
            if isinstance(outcome, Job):
                taken(outcome)


def _or_raise(outcome: Job | ServiceError) -> Job:
    if isinstance(outcome, ServiceError):
        raise outcome
    return outcome


def _error_of(settled: Future[Job | ServiceError]) -> QuodError | None:
    """Wait for a settled call; return its error or None."""
    try:
        outcome = settled.result()
    except QuodError as error:
        return error
    return outcome if isinstance(outcome, ServiceError) else None


def _lease(value: object) -> Lease:
    return instance("the lease", value, Lease, "claim one")


def _client(value: object) -> str | None:
    return None if value is None else checked_name("the client", value)
