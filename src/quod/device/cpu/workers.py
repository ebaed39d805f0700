"""Worker threads that run workgroups, and cancellable launches.

Native code takes workgroups from a counter in memory until none is left. A launch is cancelled by
moving the counter past the end: every worker then returns after its current workgroups. The
launching thread only waits, so that Ctrl-C can interrupt it at any time. A thread with a
large enough stack, which Ctrl-C cannot interrupt, computes short launches itself, helped by
workers.
"""

from __future__ import annotations

import ctypes
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress

from quod.device.runtime.cancellation import Cancellation
from quod.device.runtime.large_stack_thread import LargeStackThread

EntryPoint = Callable[[int, int, int, int], None]

# Seconds that an interrupted launch waits for workers to finish their current workgroups.
GRACE_SECONDS = 1.0
# Chunks of workgroups per worker: many for balance, few so that the shared counter is rarely
# accessed. A cancelled worker finishes its chunk, so none may take long.
_CHUNKS_PER_WORKER = 64
_CHUNK_SECONDS = 0.02
_CHUNK_GROUPS_AT_FIRST = 32
_PAST_THE_END = 1 << 62
# If more jobs than this are queued per worker, a worker would start late, and is not asked to help.
_JOBS_AHEAD = 4


class Job:
    """One launch, from its start until its last workgroup is done.

    expected_seconds: estimated time of all workers together, if known.
    arguments: kept alive, with the memory that workers write, only until the job is over: late
    workers may refer to the job long afterwards.
    """

    def __init__(
        self, entry: EntryPoint, slots: ctypes.Array[ctypes.c_uint64], arguments: object,
        groups: int, workers: int, expected_seconds: float | None = None,
    ) -> None:  # fmt: skip
        self._entry = entry
        self._slots = slots
        self._arguments: object | None = arguments
        self._groups = groups
        chunk = groups // (_CHUNKS_PER_WORKER * workers)
        if expected_seconds is None:
            chunk = min(chunk, _CHUNK_GROUPS_AT_FIRST)
        elif expected_seconds > 0:
            chunk = min(chunk, int(groups * _CHUNK_SECONDS / expected_seconds))
        self._chunk = max(1, chunk)
        self._counter = ctypes.c_int64(0)
        self._lock = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()
        self._active = 0
        self._closed = False
        self.cancelled = False
        self.failure: BaseException | None = None
        """The error that stopped a worker, such as too little memory."""
        self.seconds = 0.0
        """The sum of the times that workers spent on the job."""

    def run_share(self) -> None:
        """Run workgroups until none are left, as the body of each worker."""
        with self._lock:
            if self._closed or self.cancelled:
                return
            self._active += 1
        begin = time.perf_counter()
        try:
            self._entry(
                ctypes.addressof(self._slots), ctypes.addressof(self._counter), self._groups,
                self._chunk,
            )  # fmt: skip
        except BaseException as failure:  # set before any waiter learns that the job is over
            self.fail(failure)
            raise
        finally:
            with self._lock:
                self.seconds += time.perf_counter() - begin
                self._active -= 1
                self._close_if_idle()

    def cancel(self) -> None:
        """Start no further workgroup."""
        self._counter.value = _PAST_THE_END
        with self._lock:
            self.cancelled = True
            self._close_if_idle()

    def fail(self, failure: BaseException) -> None:
        """Cancel the job, unless it has ended, because a worker could not run its part."""
        with self._lock:
            if self._closed:
                return
            self.failure = failure
        self.cancel()

    def _close_if_idle(self) -> None:
        # A worker returns only when no workgroup is left to take. So if no other worker is running,
        # all workgroups are done, even if some workers have not started yet.
        if self._active == 0 and not self._closed:
            self._closed, self._arguments = True, None
            self._done.release()

    def wait(self, timeout: float = -1) -> bool:
        """Wait until no worker runs the job; return False after `timeout` seconds."""
        if not self._done.acquire(timeout=timeout):
            return False
        self._done.release()
        return True


def run_inline(entry: EntryPoint, slots: ctypes.Array[ctypes.c_uint64], groups: int) -> float:
    """Run a whole launch in this thread, without cancellation; return the seconds it took."""
    counter = ctypes.c_int64(0)
    begin = time.perf_counter()
    entry(ctypes.addressof(slots), ctypes.addressof(counter), groups, groups)
    return time.perf_counter() - begin


class WorkerPool:
    """A pool of `threads` threads, started on demand, that run jobs in order."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._lock = threading.Lock()
        self._abandoned: list[Job] = []
        self._tasks: queue.SimpleQueue[Job | None] | None = None
        self._process = 0
        self._finalizer: weakref.finalize[[queue.SimpleQueue[Job | None], int], WorkerPool] | None
        self._finalizer = None

    def run(self, job: Job, workers: int, cancellation: Cancellation | None = None) -> None:
        """Let `workers` threads run a job, and wait for it.

        If the wait is interrupted the job is cancelled. If a long workgroup still runs a second
        later, the job is abandoned, and the next job waits for it.
        """
        self._wait_for_abandoned()
        try:
            if cancellation is not None:
                cancellation.begin(job)
            self._enqueue(job, workers)
            job.wait()
            if job.failure is not None:
                raise job.failure
        except BaseException:
            job.cancel()
            with self._lock:
                self._abandoned.append(job)
            job.wait(GRACE_SECONDS)
            raise
        finally:
            if cancellation is not None:
                cancellation.end(job)

    def help(self, job: Job, helpers: int, cancellation: Cancellation | None = None) -> None:
        """Run a job in this thread, with up to `helpers` threads of the pool.

        Another thread may cancel the job. If the helpers are late or cannot be started, this thread
        runs all of it.
        """
        self._wait_for_abandoned()
        if cancellation is not None:
            cancellation.begin(job)
        try:
            if helpers:
                with suppress(RuntimeError, MemoryError):
                    self._enqueue(job, helpers, _JOBS_AHEAD * self.threads)
            job.run_share()
        finally:
            # After an error too, because workers may still be running.
            job.wait()
            if cancellation is not None:
                cancellation.end(job)
        if job.failure is not None:
            raise job.failure

    def _wait_for_abandoned(self) -> None:
        if self._abandoned and self._process == os.getpid():
            for job in tuple(self._abandoned):
                job.wait()
            with self._lock:
                self._abandoned = [job for job in self._abandoned if not job.wait(0)]

    def _enqueue(self, job: Job, workers: int, max_waiting: int | None = None) -> None:
        """Queue a job for `workers` threads, or for fewer to keep `max_waiting` queued jobs."""
        tasks: queue.SimpleQueue[Job | None] | None = None
        # If the pool was closed meanwhile, its threads may end before they reach this job.
        while tasks is None or tasks is not self._tasks:
            tasks = self._running_tasks()
            if max_waiting is not None:
                workers = min(workers, max_waiting - tasks.qsize())
            for _ in range(workers):
                tasks.put(job)

    def _running_tasks(self) -> queue.SimpleQueue[Job | None]:
        tasks = self._tasks
        # Threads do not survive a fork.
        if tasks is None or self._process != os.getpid():
            with self._lock:
                if self._tasks is None or self._process != os.getpid():
                    self._start()
                assert self._tasks is not None
                tasks = self._tasks
        return tasks

    def _start(self) -> None:
        tasks: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        try:
            for index in range(self.threads):
                name = f"quod-worker-{index}"
                # Daemons: a process that ends does not wait for them.
                LargeStackThread(target=_work, args=(tasks,), name=name, daemon=True).start()
        except BaseException:
            _stop(tasks, self.threads)
            raise
        if self._process != os.getpid():
            # Jobs that were queued for the parent's threads are not run here either.
            self._abandoned = []
        self._tasks, self._process = tasks, os.getpid()
        self._finalizer = weakref.finalize(self, _stop, tasks, self.threads)
        self._finalizer.atexit = False

    def close(self) -> None:
        """End the threads; they are started again when there is more to do."""
        with self._lock:
            finalizer, self._tasks, self._finalizer = self._finalizer, None, None
            if finalizer is not None:
                finalizer()


def _work(tasks: queue.SimpleQueue[Job | None]) -> None:
    while True:
        job = tasks.get()
        if job is None:
            return
        try:
            job.run_share()
        except (
            BaseException
        ) as failure:  # it would end the thread, while the pool still counted on it
            job.fail(failure)
        # The memory of a finished job must not live on until the next one comes.
        del job


def _stop(tasks: queue.SimpleQueue[Job | None], threads: int) -> None:
    for _ in range(threads):
        tasks.put(None)
