"""Recorded work on a GPU: submitted, waited for, and timed."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from quod.device.cpu.workers import GRACE_SECONDS
from quod.device.cuda.driver import Driver
from quod.device.cuda.enqueue import issue, issue_concurrently
from quod.device.cuda.graph import Graph, Program, events_of, load_kernels
from quod.device.cuda.stream import Work, wait_until
from quod.device.runtime.cancellation import forwarding_cancellation
from quod.device.runtime.event import Completion
from quod.device.runtime.recording import Await, Launch, Mark, Recording
from quod.device.runtime.timeline import NullTimeline, Stage, Timeline
from quod.errors import DeviceError


class Session(Protocol):
    """The operations of a GPU that submissions use; see `quod.device.cuda.device.CudaDevice`."""

    @property
    def driver(self) -> Driver: ...
    @property
    def synchronous(self) -> bool: ...

    def using(self, doing: Callable[[], str] | None = None) -> AbstractContextManager[None]: ...

    def program(self, recording: Recording, doing: Callable[[], str]) -> Program: ...

    def begin(self, keep: object, *, urgent: bool = False) -> Work: ...

    def discard_events(self, handles: list[Any]) -> None: ...

    def event_is_passed(self, handle: Any) -> bool: ...


_NAMED_KERNELS = 6

# Streams of an urgent recording.
_URGENT_STREAMS = 16


class CudaCompletion(Completion):
    """The completion of an event on a GPU, which the driver is polled for."""

    def __init__(self, handle: Any, ask: Callable[[Any], bool]) -> None:
        super().__init__()
        self.handle = handle
        self._query = ask

    def is_done(self) -> bool:
        if not self._done.is_set() and self._query(self.handle):
            self.complete()
        return self._done.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        return wait_until(self.is_done, timeout)

    def call_when_done(self, callback: Callable[[], None]) -> None:
        super().call_when_done(callback)
        threading.Thread(target=self.wait, name="quod-event", daemon=True).start()


class _Clock:
    """The GPU's time on the scale of `time.perf_counter_ns`, aligned at one event."""

    def __init__(self, driver: Driver, origin: Any, stream: Any) -> None:
        self._driver = driver
        self._origin = origin
        driver.cuEventRecord(origin, stream)
        wait_until(lambda: driver.is_ready("cuEventQuery", self._origin))
        self._origin_ns = time.perf_counter_ns()

    def time_of(self, event: Any) -> int:
        """Return the time, in nanoseconds, at which an event was reached."""
        milliseconds = float(self._driver.cuEventElapsedTime(self._origin, event))
        return self._origin_ns + round(milliseconds * 1e6)


class CudaSubmission:
    """One run of a recording.

    With a timeline, the steps run one after the other, each between two events that time it.
    Otherwise the graphs run, and steps may overlap. So they may in an urgent recording, whose steps
    are enqueued on several streams: a new graph would wait until graphs that run have ended.
    """

    def __init__(
        self, device: Session, recording: Recording, name: str,
        timeline: Timeline | None, parent: Stage | None,
    ) -> None:  # fmt: skip
        self._device = device
        self._driver = device.driver
        self._recording = recording
        self._name = name
        self._timeline = None if isinstance(timeline, NullTimeline) else timeline
        self._parent = parent
        self._cancelled = False
        self._error: BaseException | None = None
        self._finish_lock = threading.Lock()
        self._finished = False
        self._marks: list[CudaCompletion] = []
        self._step_events: list[Any] = []
        self._events: list[Any] = []
        self._clock: _Clock | None = None
        self._further_work: list[Work] = []
        one_by_one = self._timeline is not None or device.synchronous
        has_events = any(isinstance(step, (Mark, Await)) for step in recording.steps)
        on_streams = recording.urgent and not one_by_one and not has_events
        with device.using(self._describe):
            if one_by_one or on_streams:
                load_kernels(recording)
                events = events_of(recording.steps)
            else:
                program = device.program(recording, self._describe)
                events = program.events
            self._awaited_completions = iter(
                [self._awaited(event) for event in events if isinstance(event, Await)]
            )
            self._work = device.begin(recording, urgent=recording.urgent)
            try:
                if self._timeline is not None or any(isinstance(event, Mark) for event in events):
                    self._start_clock()
                if one_by_one:
                    self._start_steps()
                elif on_streams:
                    self._start_on_streams()
                else:
                    self._start_graphs(program)
            except BaseException:
                self._end_marks()
                raise
            finally:
                for work in (self._work, *self._further_work):
                    work.mark_enqueued()

    def _start_clock(self) -> None:
        finalizer = weakref.finalize(self, self._device.discard_events, self._events)
        finalizer.atexit = False
        self._clock = _Clock(self._driver, self._event(), self._work.stream)

    def _awaited(self, step: Await) -> CudaCompletion:
        completion = step.event.completion()
        if not isinstance(completion, CudaCompletion):
            raise DeviceError(
                f"event {step.event.name} belongs to a stream of another device; wait for it "
                "before this work is submitted"
            )
        return completion

    def _describe(self) -> str:
        kernels = dict.fromkeys(
            str(step.kernel) for step in self._recording.steps if isinstance(step, Launch)
        )
        names_text = ", ".join(list(kernels)[:_NAMED_KERNELS])
        omitted = (
            f" and {len(kernels) - _NAMED_KERNELS} more" if len(kernels) > _NAMED_KERNELS else ""
        )
        is_identified = len(kernels) < 2 or self._device.synchronous
        hint = "" if is_identified else "; set QUOD_CUDA_SYNCHRONOUS=1 to find out which"
        return f"the work of {self._name}" + (
            f", kernels {names_text}{omitted}{hint}" if kernels else ""
        )

    # --- beginning

    def _start_graphs(self, program: Program) -> None:
        for section in program.sections:
            match section:
                case Graph():
                    self._driver.cuGraphLaunch(section.handle, self._work.stream)
                case Mark() | Await():
                    self._mark_or_await(section)

    def _start_on_streams(self) -> None:
        device, recording = self._device, self._recording
        for _ in range(1, min(_URGENT_STREAMS, len(recording.steps))):
            self._further_work.append(device.begin(recording, urgent=True))
        streams = [work.stream for work in (self._work, *self._further_work)]
        finalizer = weakref.finalize(self, device.discard_events, self._events)
        finalizer.atexit = False
        self._events += issue_concurrently(self._driver, recording.steps, streams)

    def _start_steps(self) -> None:
        self._record_event()
        for step in self._recording.steps:
            if isinstance(step, (Mark, Await)):
                self._mark_or_await(step)
            else:
                issue(self._driver, step, self._work.stream)
                if isinstance(step, Launch) and self._device.synchronous:
                    self._wait_for_step(step)
            self._record_event()

    def _wait_for_step(self, step: Launch) -> None:
        with self._device.using(lambda: f"kernel {step.kernel}"):
            stream = self._work.stream
            wait_until(lambda: self._driver.is_ready("cuStreamQuery", stream))

    def _mark_or_await(self, step: Mark | Await) -> None:
        stream = self._work.stream
        if isinstance(step, Await):
            self._driver.cuStreamWaitEvent(stream, next(self._awaited_completions).handle, 0)
            return
        handle = self._driver.cuEventCreate(0)
        completion = CudaCompletion(handle, self._device.event_is_passed)
        finalizer = weakref.finalize(completion, self._device.discard_events, [handle])
        finalizer.atexit = False
        self._driver.cuEventRecord(handle, stream)
        self._marks.append(completion)
        step.event.arm(completion)

    def _record_event(self) -> None:
        """Record a driver event between two steps if there is a timeline."""
        if self._timeline is not None:
            self._step_events.append(self._event())
            self._driver.cuEventRecord(self._step_events[-1], self._work.stream)

    def _event(self) -> Any:
        """Create a driver event that lives as long as this submission."""
        self._events.append(self._driver.cuEventCreate(0))
        return self._events[-1]

    # --- ending

    @property
    def is_done(self) -> bool:
        self._poll(0)
        return self._finished

    def _poll(self, timeout: float | None = None) -> None:
        """Wait up to `timeout` seconds; finish the submission if its work has ended."""
        if self._finished:
            return
        try:
            with self._device.using(self._describe):
                if not wait_until(self._work.is_ready, timeout):
                    return
        except DeviceError as error:
            self._finish(error)
        else:
            self._finish(None)

    def cancel(self) -> None:
        """Make `wait` raise once the work is done; a GPU does not stop work that has started."""
        self._cancelled = True

    def wait(self) -> None:
        try:
            with forwarding_cancellation(self):
                self._poll()
        except BaseException:
            self.cancel()
            self._poll(GRACE_SECONDS)
            raise
        if self._error is not None:
            raise self._error
        if self._cancelled:
            raise DeviceError(f"the work of {self._name} was stopped")

    def _finish(self, error: BaseException | None) -> None:
        with self._finish_lock:
            if self._finished:
                return
            self._error = error
            if error is None and self._clock is not None:
                try:
                    with self._device.using(self._describe):
                        self._report_times(self._clock)
                except DeviceError as timing_error:
                    self._error = timing_error
            self._end_marks()
            for work in (self._work, *self._further_work):
                work.finish()
            self._finished = True

    def _report_times(self, clock: _Clock) -> None:
        for mark in self._marks:
            mark.complete()
            mark.time_ns = clock.time_of(mark.handle)
        if self._timeline is not None:
            times = [clock.time_of(event) for event in self._step_events]
            for step, begin, end in zip(self._recording.steps, times[:-1], times[1:], strict=True):
                self._timeline.record(
                    step.label, begin, max(begin, end), track=self._name, bytes=step.bytes,
                    modmuls=step.modmuls, multiply_adds=step.multiply_adds, parent=self._parent,
                )  # fmt: skip

    def _end_marks(self) -> None:
        for mark in self._marks:
            mark.complete(failed=True)
