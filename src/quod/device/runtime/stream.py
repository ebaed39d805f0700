"""Streams typed by their state: a wrong order of calls is a type error, and an exception.

    stream = device.stream()                          # idle
    recording = stream.record()                       # recording
    recording.launch(kernel, groups, n, a, b)
    recorded = recording.finish()                     # recorded
    submitted = recorded.submit()                     # submitted: runs concurrently
    stream = submitted.wait()                         # idle again
    stream = stream.replay(recorded.recording).run()  # submit and wait

A call that changes the state returns an object for the new state; the old object cannot be used
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from quod.device.memory.buffer import HOST, Array, Buffer, base_array
from quod.device.runtime.arguments import Argument, LaunchArgument, Owner, adopt
from quod.device.runtime.event import Event
from quod.device.runtime.kernel_table import CompiledKernel
from quod.device.runtime.launch_checks import LOG2_GROUPS, LOG2_GROUPS_OF_PROCESSOR, check_groups
from quod.device.runtime.launch_trace import report_recording
from quod.device.runtime.recording import (
    Await,
    Copy,
    Dependencies,
    Fill,
    Launch,
    Mark,
    Memory,
    Recording,
    Step,
    Submission,
)
from quod.device.runtime.timeline import Stage, Timeline
from quod.errors import DeviceError
from quod.validation import instance, whole_number

if TYPE_CHECKING:
    from quod.device.memory.array_protocols import ForeignArray
    from quod.kernel.launcher import Groups

# The methods of streams, and the state in which each is allowed.
_STATES_OF = {
    "record": "idle", "replay": "idle", "launch": "recording", "copy": "recording",
    "fill": "recording", "upload": "recording", "download": "recording", "event": "recording",
    "wait_for": "recording", "part": "recording", "finish": "recording",
    "recording": "recorded", "submit": "recorded", "run": "recorded", "wait": "submitted",
    "cancel": "submitted", "is_done": "submitted",
}  # fmt: skip


class Submitter(Owner, Protocol):
    """The operations of a device that streams use; see `quod.device.protocol.Device`."""

    def submit(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> Submission: ...

    def run(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> None: ...


class _Stream:
    """The base class of stream states; each object represents one state."""

    state: ClassVar[str]

    def __init__(self, device: Submitter, name: str) -> None:
        self._device = device
        self.name = name
        self._consumed_by: str | None = None

    def __repr__(self) -> str:
        used = "" if self._consumed_by is None else f", used up by {self._consumed_by}()"
        return f"<{type(self).__name__} {self.name!r} on {self._device.name}{used}>"

    def is_of(self, device: object) -> bool:
        """Return whether the stream belongs to this device object."""
        return self._device is device

    def _check(self) -> None:
        if self._consumed_by is not None:
            raise DeviceError(
                f"this stream is no longer {self.state}: {self._consumed_by}() consumed it; "
                "use the object that it returned"
            )

    def _consume(self, method: str) -> None:
        self._check()
        self._consumed_by = method

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _STATES_OF:
                raise AttributeError(f"a stream has no attribute {name!r}")
            raise DeviceError(
                f"{name} is for a stream that is {_STATES_OF[name]}; this one is {self.state}"
            )


class IdleStream(_Stream):
    """An idle stream."""

    state = "idle"

    def record(self, *, urgent: bool = False) -> RecordingStream:
        """Begin a recording.

        urgent: a CUDA device runs the work before the waiting workgroups of other streams, so that
            small kernels do not wait for the end of a large one.
        """
        self._consume("record")
        return RecordingStream(self._device, self.name, urgent=urgent)

    def replay(self, recording: Recording) -> RecordedStream:
        """Take a recording that was made before on the same device."""
        self._check()
        if recording.device != self._device.name:
            raise DeviceError(
                f"the recording is for the device {recording.device}, "
                f"and the stream is on {self._device.name}"
            )
        if recording.space is not self._device.space:
            # If the recording's device was closed or lost, say that instead.
            recording.space.check()
            raise DeviceError(
                f"the recording is for another device than this {self._device.name}, "
                "whose memory it cannot access; record it on each device"
            )
        self._consumed_by = "replay"
        return RecordedStream(self._device, self.name, recording)


class RecordingStream(_Stream):
    """A stream that records work. Recorded memory is accessed at submission, and kept alive.

    Errors in arguments are raised here, not later.
    """

    state = "recording"

    def __init__(self, device: Submitter, name: str, *, urgent: bool = False) -> None:
        super().__init__(device, name)
        self._urgent = urgent
        self._steps: list[Step] = []
        self._dependencies = Dependencies()
        self._own_events: set[Event] = set()
        self._part = ""

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Prefix the labels of the steps that the body records with `name`."""
        self._check()
        outer_part, self._part = self._part, f"{self._part}{name}: "
        try:
            yield
        finally:
            self._part = outer_part

    def _dependencies_of(
        self, reads: Iterable[Memory] = (), writes: Iterable[Memory] = ()
    ) -> tuple[int, ...]:
        return self._dependencies.add(len(self._steps), reads, writes)

    def launch(
        self,
        kernel: CompiledKernel,
        groups: Groups,
        *arguments: LaunchArgument,
        label: str | None = None,
        bytes: int = 0,
        modmuls: int = 0,
        multiply_adds: int = 0,
    ) -> None:
        """Record a launch of `groups` workgroups. The counts and the label are for a timeline."""
        self._check()
        count, adopted = adopt(self._device, kernel, groups, arguments)
        on_host = self._device.space is HOST
        check_groups(kernel, count, LOG2_GROUPS_OF_PROCESSOR if on_host else LOG2_GROUPS)
        slots = tuple(map(_base, adopted))
        packed = kernel.pack(slots)
        memory = {
            index: argument
            for index, argument in enumerate(slots)
            if isinstance(argument, (Buffer, np.ndarray))
        }
        reads = [argument for index, argument in memory.items() if index not in kernel.stored]
        writes = [argument for index, argument in memory.items() if index in kernel.stored]
        # Memory that the kernel accesses before its wait must be ready when it starts.
        early = kernel.early
        early_writers = self._dependencies.writers(
            argument for index, argument in memory.items() if index in (early or ())
        )
        after = self._dependencies_of(reads, writes)
        step = Launch(
            f"{self._part}{label or kernel.name}", after, bytes, modmuls, multiply_adds,
            kernel=kernel, groups=count, arguments=slots, packed=packed,
            overlapped=self._overlapped(after, early_writers)
            if early is not None and count
            else (),
        )  # fmt: skip
        self._steps.append(step)

    def _overlapped(self, after: tuple[int, ...], early_writers: set[int]) -> tuple[int, ...]:
        """Return the steps of `after` that may still run when the kernel starts.

        Events and `early_writers` must have ended before.
        """
        return tuple(
            number
            for number in after
            if number not in early_writers and not isinstance(self._steps[number], (Mark, Await))
        )

    def copy(self, source: Buffer, target: Buffer, *, label: str = "copy") -> None:
        """Record a copy of a buffer to another of the same size."""
        self._copy("copy", source, target, label)

    def upload(
        self, source: Array | ForeignArray, target: Buffer, *, label: str = "upload"
    ) -> None:
        """Record a copy of host memory to a buffer; each run copies the contents at that time."""
        self._copy("upload", source, target, label)

    def download(
        self, source: Buffer, target: Array | ForeignArray, *, label: str = "download"
    ) -> None:
        """Record a copy of a buffer to host memory, valid after waiting for the stream."""
        self._copy("download", source, target, label)

    def _copy(self, direction: Any, source: Any, target: Any, label: str) -> None:
        self._check()
        source, target = base_array(source), base_array(target)
        self._check_space(source, host=direction == "upload")
        self._check_space(target, host=direction == "download")
        _check_writeable(target)
        if source.nbytes != target.nbytes:
            raise DeviceError(
                f"{label} has {source.nbytes} bytes to copy to memory of {target.nbytes}"
            )
        step = Copy(
            f"{self._part}{label}", self._dependencies_of([source], [target]), 2 * source.nbytes,
            direction=direction, source=source, target=target,
        )  # fmt: skip
        self._steps.append(step)

    def fill(self, target: Buffer, word: int = 0, *, label: str = "fill") -> None:
        """Set every 32-bit word of a buffer."""
        self._check()
        instance("what is filled", target, Buffer, "allocate or upload one", error=DeviceError)
        self._check_space(target, host=False)
        _check_writeable(target)
        word = whole_number(f"the word of {label}", word, 0, 0xFFFFFFFF, error=DeviceError)
        if target.nbytes % 4:
            raise DeviceError(
                f"{label} sets 32-bit words, and {target.nbytes} bytes are not "
                "a whole number of them"
            )
        after = self._dependencies_of((), [target])
        step = Fill(f"{self._part}{label}", after, target.nbytes, target=target, word=word)
        self._steps.append(step)

    def _check_space(self, memory: Memory, *, host: bool) -> None:
        """Raise DeviceError unless memory is the device's, or the host's if that is expected."""
        buffer = memory if isinstance(memory, Buffer) else Buffer.wrap(memory)
        required_space = HOST if host else self._device.space
        if buffer.space is not required_space:
            raise DeviceError(
                f"the memory belongs to {buffer.space.name}, but a stream of "
                f"{self._device.name} needs memory of {required_space.name} here"
            )
        buffer.space.check()

    def event(self, name: str) -> Event:
        """Record an event for other streams to wait for, complete once all earlier work is done."""
        self._check()
        event = Event(name)
        self._own_events.add(event)
        after = self._dependencies.add_barrier(len(self._steps))
        self._steps.append(Mark(name, after, event=event))
        return event

    def wait_for(self, event: Event) -> None:
        """Make later work wait for an event of another stream.

        That stream must have been submitted before this one.
        """
        self._check()
        if event in self._own_events:
            # `event` was a barrier: later work of this stream waits for it already.
            return
        after = self._dependencies.add_barrier(len(self._steps))
        self._steps.append(Await(f"wait for {event.name}", after, event=event))

    def finish(self) -> RecordedStream:
        """End the recording."""
        self._consume("finish")
        recording = Recording(
            self._device.name, tuple(self._steps), self._device.space, self._urgent
        )
        return RecordedStream(self._device, self.name, recording)


class RecordedStream(_Stream):
    """A stream with recorded work that has not started. `recording` can be kept and replayed."""

    state = "recorded"

    def __init__(self, device: Submitter, name: str, recording: Recording) -> None:
        super().__init__(device, name)
        self.recording = recording

    def submit(
        self, timeline: Timeline | None = None, *, parent: Stage | None = None
    ) -> SubmittedStream:
        """Start the work concurrently with the caller. Each step is a stage of `timeline`.

        The stages are inside `parent`, or the caller's innermost stage.
        """
        parent = self._consume_for("submit", timeline, parent)
        submission = self._device.submit(
            self.recording, self.name, timeline=timeline, parent=parent
        )
        return SubmittedStream(self._device, self.name, submission)

    def run(self, timeline: Timeline | None = None, *, parent: Stage | None = None) -> IdleStream:
        """Submit and wait; on a CPU without switching to another thread."""
        parent = self._consume_for("run", timeline, parent)
        self._device.run(self.recording, self.name, timeline=timeline, parent=parent)
        return IdleStream(self._device, self.name)

    def _consume_for(
        self, method: str, timeline: Timeline | None, parent: Stage | None
    ) -> Stage | None:
        """Mark the stream as used by `method`; return the timeline stage that contains the work."""
        self._check()
        self._consumed_by = method
        report_recording(self.recording)
        return timeline.current if parent is None and timeline is not None else parent


class SubmittedStream(_Stream):
    """A stream whose work was submitted."""

    state = "submitted"

    def __init__(self, device: Submitter, name: str, submission: Submission) -> None:
        super().__init__(device, name)
        self._submission = submission

    @property
    def is_done(self) -> bool:
        """Return whether the work has ended, successfully or not."""
        self._check()
        return self._submission.is_done

    def cancel(self) -> None:
        """Stop the work as soon as possible; `wait` then raises DeviceError."""
        self._check()
        self._submission.cancel()

    def wait(self) -> IdleStream:
        """Wait for the work and raise its error, if any. Ctrl-C stops the work."""
        self._consume("wait")
        self._submission.wait()
        return IdleStream(self._device, self.name)


def _base(argument: Argument) -> Any:
    return base_array(argument) if isinstance(argument, np.ndarray) else argument


def _check_writeable(memory: Memory) -> None:
    writeable = memory.writeable if isinstance(memory, Buffer) else memory.flags.writeable
    if not writeable:
        raise DeviceError("the memory is read-only and cannot be copied to")
