"""The proving service independent of its protocols, which gRPC and HTTP translate."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from quod import __version__
from quod.errors import QuodError
from quod.frozen import frozen
from quod.service.errors import NotFoundError, UnavailableError
from quod.service.keys import KeyRepository
from quod.service.keys.record import WASM
from quod.service.keys.repository import ListedKey
from quod.service.queue import Event, Job, JobQueue, JobState
from quod.service.queue.job_queue import LOOK_AGAIN_SECONDS
from quod.service.records import RemoteKey, ServerState
from quod.service.server.changes import Changes
from quod.service.server.clients import Client, Role
from quod.service.server.config import RequestLimits
from quod.service.server.intake import Intake
from quod.service.server.observing import Observer
from quod.service.server.requests import CompleteRequest, ProofRequest
from quod.service.server.slots import Slots
from quod.service.server.submission import Submitter
from quod.service.status import (
    SHOWN_JOBS,
    Activity,
    Document,
    job_document,
    status_document,
)
from quod.service.worker.pools.pool import WorkerPool

T = TypeVar("T")

Submit = Callable[[Callable[[Job], None]], Coroutine[Any, Any, Job]]
"""A function that submits a job; calls its argument as `begin_submit` calls `taken`."""

_READERS = 8
_KEY_THREADS = 4
_NEWEST_JOBS = 200
_CHECK_TIMEOUT_SECONDS = 5.0
# At the end of the server, for submissions in progress, and then for their cancellation.
_STOP_SECONDS = 5.0

_log = logging.getLogger(__name__)


@frozen
class JobWithResults:
    """A job, with the results of its partitions as JSON if it has succeeded."""

    job: Job
    results: tuple[str, ...] = ()


class ProvingService:
    """The calls of the service, for one event loop's thread; blocking work runs in threads."""

    def __init__(
        self, queue: JobQueue, repository: KeyRepository, pool: WorkerPool, limits: RequestLimits,
        observer: Observer, *, in_file: bool,
    ) -> None:  # fmt: skip
        self.queue, self.repository, self.pool, self.limits = queue, repository, pool, limits
        self.observer, self._in_file = observer, in_file
        self.activity = Activity()
        self.started = time.time()
        self._draining = False
        self._queue_answers = True
        self._queue_check: asyncio.Future[None] | None = None
        self.hurried = False
        """True if the server stops without waiting for requests in progress."""

        self.intake = Intake(limits)
        self._submitter = Submitter(queue, repository, limits)
        self._threads = ThreadPoolExecutor(_READERS, thread_name_prefix="quod-service")
        # Loading a key can take minutes, in which clients need the other threads.
        self._key_threads = ThreadPoolExecutor(_KEY_THREADS, thread_name_prefix="quod-keys")
        self.parsing = asyncio.Lock()
        """Held while a large request is parsed: several at a time would take all threads."""
        self.streams = Slots("streams", limits.streams)
        self.waits = Slots("calls that wait", limits.waits)
        self._read_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._background_tasks: set[asyncio.Task[Any]] = set()
        self._unkept_submissions: set[asyncio.Future[Job]] = set()
        self._cancelled_at_stop: set[str] = set()
        self._closed = False
        pool.watch(self.activity.record)
        pool.watch(observer.stage)

    # --- calls of clients

    async def submit(
        self, client: Client, request: CompleteRequest, taken: Callable[[Job], None] | None = None
    ) -> Job:
        """Submit a job with its payload; it is on disk when this returns.

        taken: see `JobQueue.begin_submit`.
        """
        self._check_accepts_work()
        job = await self._submitter.submit(client, request, taken)
        return self.observer.submitted(client, job)

    async def submit_many(
        self, client: Client, requests: Sequence[CompleteRequest | QuodError]
    ) -> list[Job | QuodError]:
        """Submit jobs; return for each the job or its error."""
        self._check_accepts_work()
        outcomes = await self._submitter.submit_many(client, requests)
        for outcome in outcomes:
            if isinstance(outcome, Job):
                self.observer.submitted(client, outcome)
        return outcomes

    async def upload(
        self, client: Client, request: ProofRequest, chunks: AsyncIterator[bytes]
    ) -> Job:
        """Submit a job whose payload arrives in chunks."""
        self._check_accepts_work()
        job = await self._submitter.upload(client, request, chunks)
        return self.observer.submitted(client, job)

    async def prove(
        self, client: Client, submit: Submit, timeout: float | None, *, keep: bool,
        submitted: Callable[[], None] = lambda: None,
    ) -> JobWithResults:  # fmt: skip
        """Submit a job and wait for its end.

        keep: if False, the job is cancelled if the call fails or its client disconnects.
        submitted: called once the job is on disk and its request is no longer needed.
        Raises UnavailableError if the server ends before the job (`cancel_unkept_jobs`).
        """
        with self.waits.hold(client.name), Changes(self.queue, end=True) as changes:
            submitting = partial(submit, lambda job: changes.watch(job.id))
            # `submit` refers to the request, whose memory can then be freed.
            del submit
            with self.abandoning(submitting, keep=keep) as submission:
                del submitting
                job = await asyncio.shield(submission)
                submitted()
                outcome = await self._wait_for_end(client, job, changes, timeout)
        if outcome.job.state is JobState.CANCELLED and job.id in self._cancelled_at_stop:
            raise UnavailableError(
                "the server ends and has cancelled this job; send the request again later, or to "
                "another server",
                retry_seconds=self.limits.drain_seconds,
            )
        return outcome

    @contextmanager
    def abandoning(
        self, submit: Callable[[], Coroutine[Any, Any, Job]], *, keep: bool
    ) -> Iterator[asyncio.Future[Job]]:
        """Submit a job, which is cancelled if the block fails, or if the server ends before it.

        keep: if True, the job is never cancelled.
        """
        submission = asyncio.ensure_future(submit())
        del submit
        if not keep:
            self._unkept_submissions.add(submission)
        try:
            yield submission
        except BaseException:
            if not keep and not (submission.done() and submission.exception()):
                self._run_in_background(self._abandon(submission))
            raise
        finally:
            self._unkept_submissions.discard(submission)

    async def cancel_unkept_jobs(self) -> None:
        """Cancel the unfinished jobs of waiting calls of `prove`, as no client can find them again.

        For the end of the server, after the workers have stopped claiming.
        """
        submissions = list(self._unkept_submissions)
        if not submissions:
            return
        await asyncio.wait(submissions, timeout=_STOP_SECONDS)
        jobs = [
            submission.result().id for submission in submissions
            if submission.done() and not submission.cancelled() and submission.exception() is None
        ]  # fmt: skip
        self._cancelled_at_stop.update(jobs)
        cancellations = [
            asyncio.ensure_future(self.read(partial(self.queue.cancel, job))) for job in jobs
        ]
        if not cancellations:
            return
        done, late = await asyncio.wait(cancellations, timeout=_STOP_SECONDS)
        cancelled = sum(
            task.exception() is None and task.result().state is JobState.CANCELLED for task in done
        )
        if cancelled:
            _log.info("cancelled, because the server ends", extra={"jobs": cancelled})
        if failures := len(late) + sum(task.exception() is not None for task in done):
            _log.error("jobs of calls that end could not be cancelled", extra={"jobs": failures})

    async def unfinished_jobs(self) -> int | None:
        """Return the number of unfinished jobs in the queue; None if it does not answer."""
        try:
            return sum((await self.read(self.queue.unfinished)).values())
        except QuodError:
            return None

    async def wait(self, client: Client, job: str, timeout: float | None) -> JobWithResults:
        """Wait up to `timeout` seconds for the end of a job; return its current state."""
        client.require(Role.CLIENT)
        with self.waits.hold(client.name), Changes(self.queue, end=True) as changes:
            return await self._wait_for_end(client, job, changes, timeout)

    async def _wait_for_end(
        self, client: Client, job: Job | str, changes: Changes, timeout: float | None
    ) -> JobWithResults:
        """Wait for the end of a job.

        A `Job` watched since its submission needs no first read if the queue is in a file. Any
        other job is read first, which checks that it is the client's.
        """
        max_seconds = self.limits.wait_seconds
        deadline = time.monotonic() + (
            max_seconds if timeout is None else min(max(timeout, 0.0), max_seconds)
        )
        outcome: tuple[Job, list[bytes]] | None = None
        remaining = deadline - time.monotonic()
        if isinstance(job, Job):
            if changes.watching and self._in_file and not job.state.ended and remaining > 0:
                await changes.next(min(remaining, LOOK_AGAIN_SECONDS))
                outcome = changes.outcome
            job = job.id
        if not changes.watching:
            changes.watch(job)
        while True:
            if outcome is None:
                outcome = await self.look(partial(self._read_job, client, job))
            remaining = deadline - time.monotonic()
            if outcome[0].state.ended or remaining <= 0:
                return JobWithResults(outcome[0], tuple(result.decode() for result in outcome[1]))
            await changes.next(min(remaining, LOOK_AGAIN_SECONDS))
            outcome = changes.outcome

    def _read_job(self, client: Client, job: str) -> tuple[Job, list[bytes]]:
        """Read a job of the client, with its results if there are any."""
        return self.queue.outcome(job, client=client.name)

    async def watch(
        self, client: Client, job: str, after: int, tick: float | None = None
    ) -> AsyncGenerator[Event | None, None]:
        """Yield events of a job from number `after` + 1 on, until its end.

        With `tick`, yields None at once and after each `tick` seconds without an event.
        """
        client.require(Role.CLIENT)
        pause = LOOK_AGAIN_SECONDS if tick is None else min(tick, LOOK_AGAIN_SECONDS)
        last_yield = 0.0
        with self.streams.hold(client.name), Changes(self.queue) as changes:
            changes.watch(job)
            while True:
                current_job, events = await self.look(
                    partial(self.queue.wait, job, client=client.name, after=after, timeout=0)
                )
                for event in events:
                    after, last_yield = event.number, time.monotonic()
                    yield event
                if after < current_job.last_event:
                    continue
                if current_job.state.ended:
                    return
                if tick is not None and time.monotonic() - last_yield >= tick:
                    last_yield = time.monotonic()
                    yield None
                await changes.next(pause)

    async def cancel(self, client: Client, job: str) -> Job:
        """Cancel a job; operators may cancel that of any client."""
        owner = None if Role.OPERATOR in client.roles else client.name
        if owner is not None:
            client.require(Role.CLIENT)
        cancelled_job = await self.read(lambda: self.queue.cancel(job, client=owner))
        self.observer.log_action("asked to cancel", client, cancelled_job)
        return cancelled_job

    async def jobs(
        self, client: Client, most: int, before: str | None, write: Callable[[list[Job]], T]
    ) -> T:
        """Encode the newest jobs of a client with `write`, in a thread."""
        client.require(Role.CLIENT)

        def read_in_turn() -> T:
            return write(self.queue.jobs(client=client.name, most=most, before=before))

        return await self._in_turn(client, read_in_turn)

    async def keys(self, client: Client) -> list[RemoteKey]:
        """Return the keys that a client may use."""
        listed_keys = await self._in_turn(client, self.repository.listing)
        allowed = client.keys
        if Role.OPERATOR in client.roles:
            allowed = None
        else:
            client.require(Role.CLIENT)
        return [
            _remote_key(key) for key in listed_keys
            if allowed is None or key.identity in allowed or not allowed.isdisjoint(key.names)
        ]  # fmt: skip

    # --- calls of operators

    async def preload(self, client: Client, key: str, worker: str, timeout: float | None) -> None:
        """Load a key on all workers or one."""
        client.require(Role.OPERATOR)
        max_seconds = self.limits.wait_seconds
        timeout_seconds = max_seconds if timeout is None else min(timeout, max_seconds)
        identity = await self.read(lambda: self.repository.resolve(key))
        await self.change_keys(
            lambda: self.pool.preload(
                identity, worker=self._worker(worker), timeout=timeout_seconds
            )
        )

    async def evict(self, client: Client, key: str, worker: str) -> None:
        """Evict a key, also one removed from the repository."""
        client.require(Role.OPERATOR)

        def evict() -> None:
            loaded_keys = {usage.key for status in self.pool.status() for usage in status.keys.keys}
            identity = key if key in loaded_keys else self.repository.resolve(key)
            self.pool.evict(identity, worker=self._worker(worker))

        await self.change_keys(evict)

    async def resume_key(self, client: Client, key: str) -> None:
        """Resume a suspended key, also one removed from the repository."""
        client.require(Role.OPERATOR)

        def resume() -> None:
            # The circuits of Filecoin are keys without a repository.
            names = {status.key for status in self.queue.key_status()}
            self.queue.resume(key if key in names else self.repository.resolve(key))

        await self.read(resume)

    async def resume_worker(self, client: Client, worker: str) -> None:
        """Resume a quarantined worker."""
        client.require(Role.OPERATOR)
        await self.read(lambda: self.pool.resume(self._worker(worker) or ""))

    async def status(self, client: Client) -> Document:
        """Return the status document for operators."""
        client.require(Role.OPERATOR)

        def read() -> Document:
            names: dict[str, list[str]] = {}
            for name, identity in self.repository.names().items():
                names.setdefault(identity, []).append(name)
            listed_jobs = [
                *self.queue.running(most=SHOWN_JOBS),
                *self.queue.jobs(most=_NEWEST_JOBS),
            ]
            jobs = list({job.id: job for job in listed_jobs}.values())
            return status_document(
                self.state(), self.pool.status(), self.queue.status(), jobs, self.activity, names
            )

        return await self.read(read)

    async def job_page(self, client: Client, job: str) -> Document:
        """Return a job of any client with its events and attempts, without results."""
        client.require(Role.OPERATOR)

        def read() -> Document:
            current_job, events = self.queue.wait(job, after=0, timeout=0)
            return job_document(current_job, events, self.queue.attempts(job))

        return await self.read(read)

    # --- the server's state

    @property
    def ready(self) -> bool:
        """Report readiness: keys are loaded, the queue answers and the server does not drain."""
        return not self._draining and self.pool.ready and self._queue_answers

    @property
    def draining(self) -> bool:
        return self._draining

    def state(self) -> ServerState:
        if self._draining:
            state = "draining"
        elif not self._queue_answers:
            state = "unavailable"
        else:
            state = "ready" if self.pool.ready else "starting"
        return ServerState(__version__, state, self.started)

    async def check_queue(self) -> None:
        """Check for `ready` that the queue answers; a check that hangs is not repeated."""
        if self._queue_check is None:
            self._queue_check = asyncio.ensure_future(self.read(self.queue.check))
        await asyncio.wait([self._queue_check], timeout=_CHECK_TIMEOUT_SECONDS)
        is_answering = False
        if self._queue_check.done():
            queue_check, self._queue_check = self._queue_check, None
            is_answering = not queue_check.cancelled() and queue_check.exception() is None
        if is_answering is not self._queue_answers:
            self._queue_answers = is_answering
            if is_answering:
                _log.info("the queue responds again")
            else:
                _log.error("the queue does not respond: the server is not ready")

    async def usage(self, client: Client) -> tuple[int, int]:
        """Return the number of a client's unfinished jobs, and the bytes of their payloads."""
        status = await self.read(self.queue.status)
        return status.jobs.get(client.name, 0), status.payload_bytes.get(client.name, 0)

    def refuse_work(self) -> None:
        """Refuse all further jobs."""
        self._draining = True

    async def close(self) -> None:
        """Wait for background tasks and stop the threads, but those that load keys."""
        if self._background_tasks:
            await asyncio.wait(self._background_tasks)
        self._closed = True
        self.intake.close()
        self._submitter.close()
        # A hurried server does not wait for the end of draining, and none for a key to be loaded.
        self._threads.shutdown(wait=not self.hurried)
        self._key_threads.shutdown(wait=False)

    async def read(self, work: Callable[[], T]) -> T:
        """Run a blocking call in a thread; return its value."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, work)

    async def change_keys(self, work: Callable[[], None]) -> None:
        """Run a call that loads or evicts keys, which may take minutes, in a thread of its own."""
        await asyncio.get_running_loop().run_in_executor(self._key_threads, work)

    async def _in_turn(self, client: Client, work: Callable[[], T]) -> T:
        """Run a long read in a thread, one per client at a time, so that others find threads."""
        async with self._read_locks[client.name]:
            return await self.read(work)

    async def look(self, work: Callable[[], T]) -> T:
        """Run a short read of the queue; inline if it is a file, where no writer delays a read."""
        return work() if self._in_file else await self.read(work)

    # --- helpers

    def _check_accepts_work(self) -> None:
        if self._draining:
            raise UnavailableError(
                "the server is draining and accepts no jobs; retry later, or use another server",
                retry_seconds=self.limits.drain_seconds,
            )

    def _worker(self, name: str) -> str | None:
        names = [worker.name for worker in self.pool.status()]
        if name and name not in names:
            raise NotFoundError("there is no worker with this name")
        return name or None

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def _abandon(self, submission: asyncio.Future[Job]) -> None:
        """Cancel a job whose client disconnected and which no client can find again."""
        if self._closed:
            # The listeners end calls without waiting for them; `cancel_unkept_jobs` came before.
            return
        try:
            job = await submission
            await self.read(lambda: self.queue.cancel(job.id))
            _log.info("cancelled, because its client disconnected", extra={"job": job.id})
        except QuodError:
            pass


def _remote_key(key: ListedKey) -> RemoteKey:
    record = key.record
    if record is None:
        return RemoteKey(key.identity, key.names, "", 0, 0, 0, False, key.problem)
    size = sum(file.bytes for file in record.files.values())
    return RemoteKey(
        key.identity, key.names, record.curve, record.constraints, record.public, size,
        WASM in record.files, key.problem,
    )  # fmt: skip
