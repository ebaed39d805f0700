"""Recorded work on the CPU: a thread of its own runs the steps in their order.

The thread only hands launches to the device's workers and copies memory, so the host's own work
goes on beside it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from quod.device.buffer import Buffer
from quod.device.cancellation import Cancellation
from quod.device.cpu_compiler import CpuKernel
from quod.device.event import Completion
from quod.device.recording import Await, Copy, Fill, Launch, Mark, Memory, Recording, Step
from quod.device.timeline import Stage, Timeline, or_null
from quod.device.workers import GRACE_SECONDS
from quod.errors import DeviceError

if TYPE_CHECKING:
    from quod.device.cpu import CpuDevice


class CpuSubmission:
    """One run of a recording."""

    def __init__(
        self, device: CpuDevice, recording: Recording, name: str,
        timeline: Timeline | None, parent: Stage | None,
    ) -> None:  # fmt: skip
        self._device = device
        self._recording = recording
        self._timeline = or_null(timeline)
        self._parent = parent
        self._cancellation = Cancellation()
        self._finished = threading.Event()
        self._error: BaseException | None = None
        steps = recording.steps
        awaited = [step.event.completion() for step in steps if isinstance(step, Await)]
        self._awaited = iter(awaited)
        self._marks = [step.event.arm() for step in steps if isinstance(step, Mark)]
        self._next_mark = iter(self._marks)
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def is_done(self) -> bool:
        return self._finished.is_set()

    def cancel(self) -> None:
        self._cancellation.cancel()

    def wait(self) -> None:
        try:
            self._finished.wait()
        except BaseException:
            self.cancel()
            self._finished.wait(GRACE_SECONDS)
            raise
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with self._cancellation:
                for step in self._recording.steps:
                    with self._timeline.stage(
                        step.label, bytes=step.bytes, modmuls=step.modmuls, parent=self._parent
                    ):
                        self._cancellation.check(f"the work of the stream, at {step.label},")
                        self._run_step(step)
        except BaseException as error:
            self._error = error
        finally:
            for mark in self._marks:
                mark.complete(failed=True)
            self._finished.set()

    def _run_step(self, step: Step) -> None:
        match step:
            case Launch():
                assert isinstance(step.kernel, CpuKernel)
                self._device.execute(step.kernel, step.groups, step.packed, step.arguments)
            case Copy():
                _bytes_of(step.target)[:] = _bytes_of(step.source)
            case Fill():
                _bytes_of(step.target).view(np.uint32)[:] = step.word
            case Mark():
                next(self._next_mark).complete()
            case Await():
                self._await(next(self._awaited), step.label)

    def _await(self, completion: Completion, label: str) -> None:
        wake = _Wake()
        completion.call_when_done(wake.cancel)
        self._cancellation.begin(wake)
        wake.wait()
        self._cancellation.end(wake)
        self._cancellation.check(f"the work of the stream, at {label},")
        if completion.failed:
            raise DeviceError(f"could not {label}: the work that it belongs to ended before it")


class _Wake:
    """Ends a wait for an event, when it is passed or when the work is cancelled."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()

    def wait(self) -> None:
        self._event.wait()


def _bytes_of(memory: Memory) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    buffer = memory if isinstance(memory, Buffer) else Buffer.wrap(memory)
    return buffer.view(np.uint8)
