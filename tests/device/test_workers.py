"""Workers that help, arrive late, fail, cannot start, or are closed."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest

from quod.device.cpu.workers import Job, WorkerPool
from quod.device.runtime import large_stack_thread
from quod.device.runtime.large_stack_thread import LargeStackThread
from tests.device.test_launch import _Entry, job_of, occupied, wait_until, workers


class _Watched(Job):
    """Notes whether its failure is known when those that wait for it are told."""

    def _close_if_idle(self) -> None:
        if self._active == 0 and not self._closed:
            self.known = [*getattr(self, "known", ()), self.failure is not None]
        super()._close_if_idle()


def _fails(*_: int) -> None:
    raise MemoryError


@pytest.mark.parametrize("fails", ["caller", "worker"])
def test_failed_share_is_reported_after_all_threads_stop(fails: str) -> None:
    """The job ends only after its failure is recorded, in any thread."""
    pool = WorkerPool(1)
    both, ended = threading.Barrier(2), threading.Event()

    def share(*_: int) -> None:
        both.wait(60)
        if (threading.current_thread().name == "quod-worker-0") == (fails == "worker"):
            raise MemoryError
        time.sleep(0.05)
        ended.set()

    with pytest.raises(MemoryError):
        pool.help(Job(share, (ctypes.c_uint64 * 1)(), (), 10, 2), 1)
    assert ended.is_set()
    job = _Watched(_fails, (ctypes.c_uint64 * 1)(), (), 10, 1)
    with pytest.raises(MemoryError):
        pool.run(job, 1)
    assert job.known == [True]
    # Who fails at what is over has not made it fail.
    done = job_of(_Entry(), 4, 1)
    pool.help(done, 0)
    done.fail(MemoryError())
    assert done.failure is None
    assert not done.cancelled
    pool.close()


def test_late_helpers_are_not_awaited() -> None:
    """The calling thread does all the work; a helper that has started is awaited."""
    pool = WorkerPool(1)
    with occupied(pool, 1):
        quick = _Entry()
        pool.help(job_of(quick, 4, 2), 1)
        assert quick.begun == 4
    came = threading.Barrier(2)
    both = _Entry(lambda: came.wait(60))
    pool.help(job_of(both, 2, 2), 1)
    assert both.begun == 2
    pool.close()


def test_helpers_that_fail_to_run_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, run_share = WorkerPool(2), Job.run_share

    def fails_on_workers(job: Job) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError
        assert wait_until(lambda: job.failure is not None)
        run_share(job)

    monkeypatch.setattr(Job, "run_share", fails_on_workers)
    with pytest.raises(MemoryError):
        pool.help(job_of(_Entry(), 10, 2), 1)
    pool.close()


def test_late_helpers_keep_no_memory_alive() -> None:
    pool = WorkerPool(2)
    with occupied(pool, 2):
        gone = []
        for _ in range(100):
            memory = np.zeros(8)
            gone.append(weakref.ref(memory))
            quick = _Entry()
            pool.help(Job(quick, (ctypes.c_uint64 * 1)(), (memory,), 4, 3), 2)
            assert quick.begun == 4
        del memory
        assert [each() for each in gone] == 100 * [None]
        # Nor do they have more before them than they would come in time for.
        assert pool._tasks is not None
        assert pool._tasks.qsize() <= 4 * 2
    pool.close()


def test_worker_start_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short launches need no worker; the workers that did start end."""
    before, start = workers(), LargeStackThread.start

    def limited(thread: LargeStackThread) -> None:
        if thread.name == "quod-worker-1":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(LargeStackThread, "start", limited)
    pool, entry = WorkerPool(2), _Entry()
    pool.help(job_of(entry, 10, 3), 2)
    assert entry.begun == 10
    with pytest.raises(RuntimeError, match="can't start"):
        pool.run(job_of(_Entry(), 10, 2), 2)
    assert wait_until(lambda: workers() <= before, 10)
    monkeypatch.undo()
    pool.run(job_of(entry, 10, 2), 2)
    assert entry.begun == 20
    pool.close()


def test_a_pool_that_is_closed_just_before_a_job_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, started = WorkerPool(1), WorkerPool._running_tasks
    asked: list[object] = []

    def closed_then(pool: WorkerPool) -> object:
        tasks = started(pool)
        asked.append(tasks)
        if len(asked) == 1:
            pool.close()
        return tasks

    monkeypatch.setattr(WorkerPool, "_running_tasks", closed_then)
    entry = _Entry()
    thread = threading.Thread(target=pool.run, args=(job_of(entry, 3, 1), 1), daemon=True)
    thread.start()
    thread.join(10)
    assert entry.begun == 3
    pool.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_while_a_thread_starts() -> None:
    """The child starts its own threads, whatever locks the parent's thread held."""
    with large_stack_thread._stack_size_lock:
        child = os.fork()
        if child == 0:
            # Ends whatever hangs, and no test of its own goes on.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10)
            thread = LargeStackThread(target=lambda: os._exit(7))
            thread.start()
            thread.join()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
