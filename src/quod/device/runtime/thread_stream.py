"""Recorded work on a separate thread, which runs the steps one after the other."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from quod.device.cpu.workers import GRACE_SECONDS
from quod.device.runtime.cancellation import Cancellation, forwarding_cancellation
from quod.device.runtime.event import Completion
from quod.device.runtime.large_stack_thread import LargeStackThread
from quod.device.runtime.recording import Await, Copy, Fill, Launch, Mark, Recording, Step
from quod.device.runtime.timeline import Stage, Timeline, or_null
from quod.errors import DeviceError

# Idle threads are kept for the next submission: starting one takes as long as a small kernel.
_MAX_IDLE = 8
_idle: list[_Runner] = []
_process_id = os.getpid()
_lock = threading.Lock()


def run_in_thread(task: Callable[[], None], name: str) -> None:
    """Run a task on an idle or a new daemon thread, which is called `name` meanwhile."""
    global _process_id
    with _lock:
        if _process_id != os.getpid():
            # Threads do not survive a fork.
            _idle.clear()
            _process_id = os.getpid()
        runner = _idle.pop() if _idle else None
    if runner is None:
        runner = _Runner()
        runner.begin(task, name)
        runner.start()
    else:
        runner.begin(task, name)


class _Runner(LargeStackThread):
    """A thread that runs one task after the other."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._has_task = threading.Lock()
        self._has_task.acquire()
        self._task: Callable[[], None] | None = None

    def begin(self, task: Callable[[], None], name: str) -> None:
        """Give an idle runner a task."""
        self.name, self._task = name, task
        self._has_task.release()

    def run(self) -> None:
        while True:
            self._has_task.acquire()
            task, self._task = self._task, None
            assert task is not None
            task()
            # Release the finished task's objects before waiting for the next task.
            del task
            with _lock:
                if len(_idle) >= _MAX_IDLE or _process_id != os.getpid():
                    return
                _idle.append(self)


class BackgroundSubmission(ABC):
    """One run of a recording on a separate thread; the device's subclass runs the steps.

    `_run_steps` completes the marks that it passes; all other marks fail. With `here`, the caller's
    thread runs the steps, and the work is done when the constructor returns.
    """

    def __init__(
        self, recording: Recording, name: str, timeline: Timeline | None, parent: Stage | None,
        *, here: bool = False,
    ) -> None:  # fmt: skip
        self._recording = recording
        self._timeline = or_null(timeline)
        self._parent = parent
        self._cancellation = Cancellation()
        self._finished = threading.Event()
        self._error: BaseException | None = None
        steps = recording.steps
        self._awaited = {step: step.event.completion() for step in steps if isinstance(step, Await)}
        self._marks = {step: step.event.arm() for step in steps if isinstance(step, Mark)}
        if here:
            with forwarding_cancellation(self):
                self._run()
        else:
            run_in_thread(self._run, name)

    @property
    def is_done(self) -> bool:
        return self._finished.is_set()

    def cancel(self) -> None:
        self._cancellation.cancel()

    def wait(self) -> None:
        try:
            with forwarding_cancellation(self):
                self._finished.wait()
        except BaseException:
            self.cancel()
            self._finished.wait(GRACE_SECONDS)
            raise
        if self._error is not None:
            raise self._error

    @abstractmethod
    def _run_steps(self) -> None: ...

    def _run(self) -> None:
        try:
            with self._cancellation:
                self._run_steps()
        except BaseException as error:
            self._error = error
        finally:
            for mark in self._marks.values():
                mark.complete(failed=True)
            self._finished.set()

    def _check(self, label: str) -> None:
        """Raise DeviceError if the work was cancelled."""
        self._cancellation.check(f"the work of the stream, at {label},")

    def _await(self, completion: Completion, label: str) -> None:
        wake = _Wake()
        completion.call_when_done(wake.wake)
        self._cancellation.begin(wake)
        wake.wait()
        self._cancellation.end(wake)
        self._check(label)
        if completion.failed:
            raise DeviceError(f"could not {label}: the event's work ended without passing it")


class ThreadSubmission(BackgroundSubmission):
    """Runs the steps one by one; subclasses define launches, copies and fills."""

    def _order(self) -> Iterable[Step]:
        """Return the steps in the order of execution; each comes after its dependencies."""
        return self._recording.steps

    @abstractmethod
    def _launch(self, step: Launch) -> None: ...

    @abstractmethod
    def _copy(self, step: Copy) -> None: ...

    @abstractmethod
    def _fill(self, step: Fill) -> None: ...

    def _run_steps(self) -> None:
        for step in self._order():
            with self._timeline.stage(
                step.label, bytes=step.bytes, modmuls=step.modmuls,
                multiply_adds=step.multiply_adds, parent=self._parent,
            ):  # fmt: skip
                self._check(step.label)
                self._run_step(step)

    def _run_step(self, step: Step) -> None:
        match step:
            case Launch():
                self._launch(step)
            case Copy():
                self._copy(step)
            case Fill():
                self._fill(step)
            case Mark():
                self._marks[step].complete()
            case Await():
                self._await(self._awaited[step], step.label)


class _Wake:
    """Ends a wait for an event, when it is passed or when the work is cancelled."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def wake(self) -> None:
        self._event.set()

    def cancel(self) -> None:
        """Wake up; called by a `Cancellation`."""
        self.wake()

    def wait(self) -> None:
        self._event.wait()
