"""Launches on the CPU: threads, interrupts, stacks, overhead."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from quod.device import Cancellation, CpuDevice, open_device
from quod.device.cpu import workers as workers_module
from quod.device.cpu.workers import Job, WorkerPool
from quod.device.runtime.cancellation import current
from quod.device.runtime.large_stack_thread import LargeStackThread
from quod.errors import DeviceError
from tests.device import kernels
from tests.support.thorough import one_and_others


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 7, 64, 1000, 65_537])
def test_every_workgroup_runs_once(threads: int, count: int) -> None:
    device = CpuDevice(threads=threads)
    kernel = device.compile(kernels.increment)
    a = np.arange(count + 8, dtype=np.uint32)
    for _ in range(4):
        device.launch(kernel, -(-count // device.lanes), count, a)
    assert (a[:count] == np.arange(count) + 4).all()
    assert (a[count:] == np.arange(count, count + 8)).all()
    device.close()


def test_the_number_of_workgroups_is_checked(device: CpuDevice) -> None:
    kernel = device.compile(kernels.increment)
    a = np.zeros(8, np.uint32)
    for groups in (-1, 1 << 32):
        with pytest.raises(DeviceError, match=f"launched with {groups} workgroups"):
            device.launch(kernel, groups, 8, a)


@pytest.mark.parametrize("name", ["cpu", "cpu:checked", "emulated", "emulated:wgsl"])
def test_all_devices_validate_launches_alike(name: str) -> None:
    """Invalid grids, cancelled work and bad arguments raise before anything runs."""
    device = open_device(name)
    kernel = device.compile(kernels.increment)
    a = np.zeros(8, np.uint32)
    most = "2\\*\\*32 - 1" if device.host_memory else "2\\*\\*31 - 1"
    for groups in (-1, 1 << 32 if device.host_memory else 1 << 31):
        with pytest.raises(
            DeviceError, match=f"launched with {groups} .* must be from 0 to {most}$"
        ):
            device.launch(kernel, groups, 8, a)
    cancellation = Cancellation()
    cancellation.cancel()
    with cancellation, pytest.raises(DeviceError, match=r"launch of increment was stopped"):
        device.launch(kernel, 1, 8, a)
    with pytest.raises(DeviceError, match="takes 2 arguments"):
        device.launch(kernel, 1, 8)
    device.launch(kernel, 0, 8, a)
    assert not a.any()
    device.launch(kernel, -(-8 // device.lanes), 8, a)
    assert (a == 1).all()
    device.close()


def test_threads_launch_at_the_same_time() -> None:
    device = CpuDevice(threads=3)
    rounds, count = 60, 5000

    def work(seed: int) -> bool:
        choose = np.random.default_rng(seed)
        kernel = device.compile(kernels.raise_to, amount=seed % 5)
        for _ in range(rounds):
            size = int(choose.integers(1, count))
            a = choose.integers(0, 1 << 31, count, np.uint32)
            expected = a.copy()
            expected[:size] += seed % 5
            device.launch(kernel, -(-size // device.lanes), size, a)
            if not (a == expected).all():
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))
    device.close()


def test_thread_count_is_not_exceeded() -> None:
    device = CpuDevice(threads=2)
    kernel = device.compile(kernels.spin)
    before = workers()

    def launch() -> None:
        device.launch(kernel, 64, 200_000, np.zeros(64, np.uint32))

    callers = [threading.Thread(target=launch) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(workers() - before) == 2
    device.close()


def workers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("quod-worker")}


def wait_until(condition: object, seconds: float = 60) -> bool:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def started_by(device: CpuDevice, rounds: int) -> set[threading.Thread]:
    before = workers()
    device.launch(device.compile(kernels.spin), 8, rounds, np.zeros(8, np.uint32))
    return workers() - before


def test_workers_end_with_the_device() -> None:
    device = CpuDevice(threads=3)
    first = started_by(device, 1000)
    assert len(first) == 3
    device.close()
    assert wait_until(lambda: not any(thread.is_alive() for thread in first))
    second = started_by(device, 1_000_000)
    assert len(second) == 3
    del device
    gc.collect()
    assert wait_until(lambda: not any(thread.is_alive() for thread in second))


def test_memory_is_released_after_a_launch() -> None:
    device = CpuDevice(threads=2)
    a = np.zeros(1 << 16, np.uint32)
    gone = weakref.ref(a)
    device.launch(device.compile(kernels.increment), 1 << 13, 1 << 16, a)
    del a
    assert wait_until(lambda: gone() is None)
    device.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_starts_its_own_workers() -> None:
    script = """
import os, sys
import numpy as np
from quod.device import CpuDevice
from tests.device import kernels
device = CpuDevice(threads=2)
kernel = device.compile(kernels.spin)
out = np.zeros(64, np.uint32)
device.launch(kernel, 64, 10_000, out)
child = os.fork()
again = np.zeros(64, np.uint32)
device.launch(kernel, 64, 10_000, again)
assert (out == again).all()
if child == 0:
    os._exit(7)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], timeout=300)
    assert done.returncode == 7


def test_shared_memory_of_three_megabytes() -> None:
    words = 3 << 18
    expected = (sum(range(words)) * 5 + 5) % 2**32
    for threads in (1, 2):
        device = CpuDevice(threads=threads)
        kernel = device.compile(kernels.sum_in_shared, words=words)
        assert kernel.shared_bytes == 3 << 20
        results: list[np.ndarray] = []

        begin = threading.Event()

        def launch(
            device: CpuDevice = device,
            results: list[np.ndarray] = results,
            begin: threading.Event = begin,
        ) -> None:
            begin.wait()
            # Several times: a launch known to be short would run on this thread otherwise.
            for _ in range(3):
                out = np.zeros(4, np.uint32)
                device.launch(device.compile(kernels.sum_in_shared, words=words), 4, 5, out)
                results.append(out)

        before = threading.stack_size(256 << 10)
        caller = threading.Thread(target=launch)
        caller.start()
        threading.stack_size(before)
        begin.set()
        caller.join()
        assert [out.tolist() for out in results] == 3 * [4 * [expected]]
        device.close()


def test_shared_memory_kernels_run_on_workers_only() -> None:
    device = CpuDevice(threads=1)
    kernel = device.compile(kernels.sum_in_shared, words=3 << 18)
    kernel.observe(kernel.size_class(1, (1,)), 0.0)
    ran_on: list[str] = []
    entry = kernel.entry

    def noting(*arguments: int) -> None:
        ran_on.append(threading.current_thread().name)
        entry(*arguments)

    kernel.entry = noting
    device.launch(kernel, 1, 1, np.zeros(1, np.uint32))
    small = device.compile(kernels.increment)
    small.observe(small.size_class(1, (1,)), 0.0)
    entry, small.entry = small.entry, noting
    device.launch(small, 1, 1, np.zeros(1, np.uint32))
    assert ran_on == ["quod-worker-0", threading.current_thread().name]
    device.close()


def test_too_much_shared_memory_is_refused() -> None:
    from quod.errors import KernelError

    with pytest.raises(KernelError, match="shared"):
        CpuDevice().compile(kernels.sum_in_shared, words=(4 << 18) + 1)


# --- interrupts

INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
from quod.device import CpuDevice
from tests.device import kernels
mode, threads, rounds, groups = sys.argv[1], *map(int, sys.argv[2:])
device = CpuDevice(threads=threads)
kernel = device.compile(kernels.spin_for_hours if mode == "long" else kernels.spin)
out = np.zeros(groups, np.uint32)
begun, go, ended, native = threading.Event(), threading.Event(), [], kernel.entry

def held(*arguments):
    begun.set()
    go.wait()
    native(*arguments)
    ended.append(True)

def interrupting():
    begun.wait()
    # One that comes between the last look at signals and the wait would be seen after it.
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)

if mode == "again":
    kernel.entry = held
    threading.Thread(target=interrupting).start()
try:
    print("ready", flush=True)
    if mode in ("stream", "run"):
        recording = device.stream().record()
        recording.launch(kernel, groups, rounds, out)
        recording.launch(kernel, groups, rounds, out)
        recorded = recording.finish()
        recorded.run() if mode == "run" else recorded.submit().wait()
    else:
        device.launch(kernel, groups, rounds, out)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    if mode == "again":
        assert not ended
        kernel.entry = native
        threading.Timer(0.1, go.set).start()
        first = np.zeros(64, np.uint32)
        device.launch(kernel, 64, 1000, first)
        assert first.all() and ended
        print("launched", flush=True)
    sys.exit(130)
"""


def interrupt(mode: str, threads: int, rounds: int, groups: int) -> list[str]:
    """Return the output of a process interrupted half a second into a launch, or less."""
    arguments = [mode, *map(str, (threads, rounds, groups))]
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        if mode != "again":
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 130
        return out.splitlines()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("mode", one_and_others(["launch", "stream", "run"]))
@pytest.mark.parametrize("threads", one_and_others([2, 1]))
def test_an_interrupt_ends_a_long_launch(mode: str, threads: int) -> None:
    # Some milliseconds a workgroup; hours for all of them.
    assert interrupt(mode, threads, 1_000_000, 3_000_000) == ["interrupted"]


def test_an_interrupt_does_not_wait_for_one_long_workgroup() -> None:
    assert interrupt("long", 2, 1 << 20, 2) == ["interrupted"]


def test_an_interrupt_without_a_handler_kills_the_process() -> None:
    script = INTERRUPTED.replace("except KeyboardInterrupt", "except ZeroDivisionError")
    process = subprocess.Popen(
        [sys.executable, "-c", script, "launch", "2", "1000000", "3000000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGINT


def test_next_launch_waits_for_interrupted_work() -> None:
    assert interrupt("again", 1, 1000, 1) == ["interrupted", "launched"]


class _Entry:
    """Stands for native code: takes workgroups from the counter, as long as there are any."""

    def __init__(self, work: Callable[[], object] = lambda: None) -> None:
        self.work = work
        self.begun = 0
        self._lock = threading.Lock()

    def __call__(self, slots: int, counter: int, groups: int, chunk: int) -> None:
        import ctypes

        shared = ctypes.c_int64.from_address(counter)
        while True:
            with self._lock:
                first, shared.value = shared.value, shared.value + chunk
                if first >= groups:
                    return
                self.begun += 1
            self.work()


def job_of(entry: _Entry, groups: int, workers: int) -> Job:
    import ctypes

    return Job(entry, (ctypes.c_uint64 * 1)(), (), groups, workers)


@pytest.mark.parametrize("way", [WorkerPool.run, WorkerPool.help])
def test_a_job_can_be_cancelled_before_during_and_after(
    way: Callable[[WorkerPool, Job, int, Cancellation], None],
) -> None:
    pool = WorkerPool(2)
    for when in ("before", "during", "after"):
        cancellation = Cancellation()
        entry = _Entry(cancellation.cancel if when == "during" else lambda: None)
        job = job_of(entry, 100, 2)
        if when == "before":
            cancellation.cancel()
        way(pool, job, 2, cancellation)
        if when == "after":
            cancellation.cancel()
        assert job.wait(0)
        assert job.cancelled == (when != "after")
        assert {"before": entry.begun == 0, "during": 0 < entry.begun < 100}.get(
            when, entry.begun == 100
        )
    pool.close()


def test_worker_failure_to_start_its_share_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker without memory is not awaited, and keeps working later."""
    pool, run_share = WorkerPool(1), Job.run_share

    def none(job: Job) -> None:
        raise MemoryError

    monkeypatch.setattr(Job, "run_share", none)
    with pytest.raises(MemoryError):
        pool.run(job_of(_Entry(), 10, 1), 1)
    monkeypatch.setattr(Job, "run_share", run_share)
    entry = _Entry()
    pool.run(job_of(entry, 10, 1), 1)
    assert entry.begun == 10
    pool.close()


def test_one_thread_stops_the_launches_of_others() -> None:
    device = CpuDevice(threads=2)
    kernel = device.compile(kernels.spin)
    cancellation, started, messages = Cancellation(), threading.Semaphore(0), []

    def work() -> None:
        with cancellation:
            started.release()
            try:
                while True:
                    device.launch(kernel, 100_000, 1_000_000, np.zeros(100_000, np.uint32))
            except DeviceError as error:
                messages.append(str(error))
        # Outside of it there is nothing that stops a launch.
        device.launch(kernel, 4, 1000, np.zeros(4, np.uint32))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
        started.acquire()
    time.sleep(0.1)
    cancellation.cancel()
    # Each of their launches takes minutes.
    for thread in threads:
        thread.join(60)
    assert messages == 3 * ["the launch of spin was stopped"]
    with cancellation, pytest.raises(DeviceError, match="the launch of spin was stopped"):
        device.launch(kernel, 1, 1, np.zeros(1, np.uint32))
    device.close()


def test_cancellations_nest() -> None:
    outer, inner = Cancellation(), Cancellation()
    assert current() is None
    with outer:
        with inner, outer:
            assert current() is outer
        with pytest.raises(ZeroDivisionError), inner:
            assert current() is inner
            _ = 1 / 0
        assert current() is outer
        seen: list[Cancellation | None] = []
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
        assert seen == [None]
    assert current() is None


def test_work_chunks_are_short() -> None:
    """A worker takes about 20 ms of workgroups at a time, if their duration is known."""
    import ctypes

    slots = (ctypes.c_uint64 * 1)()
    taken: list[int] = []

    def entry(slots: int, counter: int, groups: int, chunk: int) -> None:
        taken.append(chunk)

    for expected in (None, 1e-9, 0.0, 1.0, 1000.0, 1e9):
        Job(entry, slots, (), 1_000_000, 2, expected).run_share()
    Job(entry, slots, (), 100, 2, None).run_share()
    assert taken == [32, 7812, 7812, 7812, 20, 1, 1]


@contextmanager
def occupied(pool: WorkerPool, count: int) -> Iterator[None]:
    """So many workers of a pool are at work in the body, all of it."""
    go = threading.Event()
    blocked = _Entry(go.wait)
    thread = threading.Thread(target=pool.run, args=(job_of(blocked, count, count), count))
    thread.start()
    try:
        assert wait_until(lambda: blocked.begun == count)
        yield
        assert thread.is_alive()
    finally:
        go.set()
        thread.join()


def test_a_job_does_not_wait_for_workers_that_are_not_needed() -> None:
    pool = WorkerPool(2)
    with occupied(pool, 1):
        quick = _Entry()
        pool.run(job_of(quick, 4, 2), 2)
        assert quick.begun == 4
    pool.close()


@pytest.mark.parametrize("kind", [threading.Thread, LargeStackThread])
def test_short_launches_run_on_a_suitable_thread(
    kind: type[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads with a large enough stack run them; others leave them to workers."""
    device = CpuDevice(threads=2)
    kernel = device.compile(kernels.spin)
    values, shares = np.zeros(8, np.uint32), list[threading.Thread]()
    run_share = Job.run_share

    def noted(job: Job) -> None:
        shares.append(threading.current_thread())
        run_share(job)

    def launch() -> None:
        for _ in range(3):
            device.launch(kernel, 8, 20_000, values)

    monkeypatch.setattr(Job, "run_share", noted)
    # What is not known to be short is left to workers.
    monkeypatch.setattr(type(kernel), "expected_seconds", lambda *_: 1e-3)
    thread = kind(target=launch)
    thread.start()
    thread.join(60)
    assert shares.count(thread) == (3 if kind is LargeStackThread else 0)
    shares.clear()
    monkeypatch.setattr(type(kernel), "expected_seconds", lambda *_: None)
    thread = kind(target=launch)
    thread.start()
    thread.join(60)
    assert thread not in shares
    device.close()


def test_launch_durations_are_learned(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    if not isinstance(device, CpuDevice):
        pytest.skip("only the CPU chooses the thread of a launch")
    # Whoever else computes makes neither longer.
    monkeypatch.setattr(workers_module, "time", SimpleNamespace(perf_counter=time.thread_time))
    kernel = device.compile(kernels.spin)
    out = np.zeros(8, np.uint32)
    short, long = kernel.size_class(1, (1000, out)), kernel.size_class(8, (1_000_000, out))
    assert short != long
    assert kernel.size_class(1, (1023, out)) == short
    device.launch(kernel, 1, 1000, out)
    device.launch(kernel, 8, 1_000_000, out)
    expected = kernel.expected_seconds(short), kernel.expected_seconds(long)
    assert expected[0] is not None
    assert expected[1] is not None
    assert 0 < 10 * expected[0] < expected[1] < 10
    kernel.observe(short, 1.0)
    assert kernel.expected_seconds(short) == 1.0
    kernel.observe(short, 0.5)
    assert kernel.expected_seconds(short) == 0.75
    for number in range(1000):
        kernel.observe((number,), 1.0)
    assert kernel.expected_seconds((999,)) == 1.0


def test_a_short_launch_costs_little() -> None:
    device = CpuDevice()
    kernel = device.compile(kernels.increment)
    a = np.zeros(64, np.uint32)
    times = []
    for _ in range(3000):
        begin = time.perf_counter()
        device.launch(kernel, 1, 1, a)
        times.append(time.perf_counter() - begin)
    # Some 8 us where nothing else runs.
    assert min(times) < 200e-6
    device.close()
