"""Work that streams submit: threads, failures, cancellation and events."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from quod.device import Cancellation, CpuDevice
from quod.device.protocol import AnyDevice
from quod.device.runtime.event import Completion, Event
from quod.device.runtime.large_stack_thread import LargeStackThread
from quod.device.runtime.recording import Mark
from quod.device.runtime.thread_stream import run_in_thread
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError
from tests.device import kernels
from tests.device.streams import COUNT, groups_of, values, words


def test_cpu_work_runs_in_the_callers_thread(
    processor: CpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's stack has room for kernels; other threads may lack it."""
    threads, execute = [], processor.execute

    def watched(*arguments: Any) -> None:
        threads.append(threading.current_thread())
        execute(*arguments)

    monkeypatch.setattr(processor, "execute", watched)
    recording = processor.stream().record()
    recording.launch(processor.compile(kernels.increment), 1, 8, words(processor))
    recorded = recording.finish().recording
    run = processor.stream().replay(recorded).run
    run()
    assert threads == [threading.main_thread()]
    for kind, is_here in ((threading.Thread, False), (LargeStackThread, True)):
        threads.clear()
        caller = kind(target=processor.stream().replay(recorded).run)
        caller.start()
        caller.join(30)
        assert (threads == [caller]) is is_here
        assert len(threads) == 1


def test_submit_does_not_block_the_host() -> None:
    device = CpuDevice(threads=1)
    out = np.zeros(4, np.uint32)
    go = Event("go")
    completion = go.arm()
    recording = device.stream().record()
    recording.wait_for(go)
    recording.launch(device.compile(kernels.spin), 4, 1000, out)
    submitted = recording.finish().submit()
    assert not submitted.is_done
    completion.complete()
    submitted.wait()
    assert out.all()
    device.close()


def test_streams_run_concurrently(device: AnyDevice) -> None:
    kernel = device.compile(kernels.increment)
    memory = [words(device) for _ in range(6)]
    submitted = []
    for buffer in memory:
        recording = device.stream().record()
        for _ in range(20):
            recording.launch(kernel, groups_of(device), COUNT, buffer)
        submitted.append(recording.finish().submit())
    for stream in submitted:
        stream.wait()
    assert all(set(values(device, buffer)) == {20} for buffer in memory)


def test_cancelling(monkeypatch: pytest.MonkeyPatch) -> None:
    device = CpuDevice(threads=1)
    started, execute = threading.Event(), device.execute

    def watched(*arguments: Any) -> None:
        started.set()
        execute(*arguments)

    monkeypatch.setattr(device, "execute", watched)
    out = np.zeros(1_000_000, np.uint32)
    recording = device.stream().record()
    for label in ("first", "second"):
        recording.launch(device.compile(kernels.spin), 1_000_000, 1_000_000, out, label=label)
    event = recording.event("end")
    submitted = recording.finish().submit()
    assert started.wait(60)
    assert not event.wait(0.05)
    submitted.cancel()
    # They would take hours.
    with pytest.raises(DeviceError, match="the launch of spin was stopped"):
        submitted.wait()
    with pytest.raises(DeviceError, match="event end ended before it"):
        event.wait()
    device.close()


def test_an_error_in_the_work_is_raised_by_wait(faulty: CpuDevice) -> None:
    recording = faulty.stream().record()
    recording.launch(faulty.compile(kernels.increment), 1, 8, words(faulty))
    recording.event("never")
    with pytest.raises(DeviceError, match="it does not run"):
        recording.finish().submit().wait()


def test_an_error_in_the_work_is_raised_by_run(faulty: CpuDevice) -> None:
    recording = faulty.stream().record()
    recording.launch(faulty.compile(kernels.increment), 1, 8, words(faulty))
    never = recording.event("never")
    with pytest.raises(DeviceError, match="it does not run"):
        recording.finish().run()
    with pytest.raises(DeviceError, match="ended before it"):
        never.wait()


def test_submission_threads_are_reused() -> None:
    """Sequential tasks use few threads; concurrent tasks use one each."""
    threads: list[tuple[str, int]] = []
    for number in range(100):
        done = threading.Event()

        def task(done: threading.Event = done) -> None:
            threads.append((threading.current_thread().name, threading.get_ident()))
            done.set()

        run_in_thread(task, f"task {number}")
        assert done.wait(30)
    assert [name for name, _ in threads] == [f"task {number}" for number in range(100)]
    assert len({ident for _, ident in threads}) < 50
    together = threading.Barrier(13)
    for number in range(12):
        run_in_thread(lambda: (together.wait(30), None)[1], f"beside {number}")
    together.wait(30)


# --- events


def test_events_order_streams() -> None:
    device = CpuDevice(threads=2)
    scale = device.compile(kernels.scale)
    spin = device.compile(kernels.spin)
    waste, a, b = words(device, 64), words(device), words(device)
    a.view()[:] = 1
    for _ in range(5):
        b.view()[:] = 0
        producer = device.stream().record()
        producer.launch(spin, 8, 100_000, waste)
        producer.launch(scale, groups_of(device), COUNT, 3, a, b)
        event = producer.event("b is set")
        consumer = device.stream().record()
        consumer.wait_for(event)
        out = np.zeros(COUNT, np.uint32)
        consumer.download(b, out)
        produced = producer.finish().submit()
        consumed = consumer.finish().submit()
        consumed.wait()
        assert set(out.tolist()) == {3}
        produced.wait()
    device.close()


def test_events_are_timed_and_reset_by_each_replay(device: AnyDevice) -> None:
    recording = device.stream().record()
    first = recording.event("first")
    recording.launch(device.compile(kernels.spin), 1, 100_000, words(device, 8))
    second = recording.event("second")
    recording.wait_for(first)  # of its own: in order anyway
    assert not first.is_done
    for event in (first, second):
        with pytest.raises(DeviceError, match="is not submitted yet"):
            event.wait()
    recorded = recording.finish()
    marks = [step for step in recorded.recording.steps if isinstance(step, Mark)]
    assert [mark.event for mark in marks] == [first, second]
    stream = recorded.submit().wait()
    before = first.time_ns, second.time_ns
    assert before[0] < before[1] < time.perf_counter_ns()
    assert first.wait(0)
    stream.replay(recorded.recording).submit().wait()
    assert first.time_ns > before[1]


def test_waiting_for_an_unsubmitted_event_is_an_error(device: AnyDevice) -> None:
    other = device.stream().record()
    event = other.event("early")
    recording = device.stream().record()
    recording.wait_for(event)
    recorded = recording.finish()
    with pytest.raises(DeviceError, match="event early belongs to a recording that is not"):
        recorded.submit()


def test_failures_propagate_to_waiting_streams(faulty: CpuDevice) -> None:
    failing = faulty.stream().record()
    failing.launch(faulty.compile(kernels.increment), 1, 8, words(faulty))
    event = failing.event("never")
    waiting = faulty.stream().record()
    waiting.wait_for(event)
    failed = failing.finish().submit()
    with pytest.raises(DeviceError, match="could not wait for never: the event's work"):
        waiting.finish().submit().wait()
    with pytest.raises(DeviceError, match="it does not run"):
        failed.wait()
    with pytest.raises(DeviceError, match="event never has not completed"):
        _ = event.time_ns


def test_a_wait_for_an_event_can_be_cancelled(processor: CpuDevice) -> None:
    event = Event("far")
    event.arm()
    recording = processor.stream().record()
    recording.wait_for(event)
    submitted = recording.finish().submit()
    time.sleep(0.02)
    assert not submitted.is_done
    submitted.cancel()
    with pytest.raises(DeviceError, match="the work of the stream, at wait for far, was stopped"):
        submitted.wait()


@pytest.mark.parametrize("how", ["run", "run with a timeline", "submit and wait"])
def test_cancellation_interrupts_waiting_for_work(processor: CpuDevice, how: str) -> None:
    """Work that has not begun is cancelled too. The event never occurs."""
    event, stop, messages = Event("far"), Cancellation(), list[str]()
    event.arm()
    recording = processor.stream().record()
    recording.wait_for(event)
    recorded = recording.finish().recording
    started = threading.Event()

    def work() -> None:
        stream = processor.stream().replay(recorded)
        with stop:
            started.set()
            try:
                if how == "submit and wait":
                    stream.submit().wait()
                else:
                    stream.run(Timeline() if "timeline" in how else None)
            except DeviceError as error:
                messages.append(str(error))

    for _ in range(2):
        started.clear()
        # Its stack has room for kernels, so that it runs what it may run itself.
        thread = LargeStackThread(target=work, daemon=True)
        thread.start()
        assert started.wait(30)
        time.sleep(0.02)
        stop.cancel()
        thread.join(30)
    assert messages == 2 * ["the work of the stream, at wait for far, was stopped"]


def test_a_completion_counts_once() -> None:
    completion, called = Completion(), []
    completion.call_when_done(lambda: called.append(1))
    completion.complete()
    time_ns = completion.time_ns
    completion.complete(failed=True)
    completion.call_when_done(lambda: called.append(2))
    assert (completion.time_ns, completion.failed, called) == (time_ns, False, [1, 2])
