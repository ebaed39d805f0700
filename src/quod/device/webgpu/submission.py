"""Recorded work on a WebGPU device: encoded in chunks, submitted, waited for, and timed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quod.device.memory.buffer import Array, Buffer, host_bytes
from quod.device.runtime.event import Completion
from quod.device.runtime.recording import Await, Copy, Launch, Mark, Recording, span
from quod.device.runtime.thread_stream import BackgroundSubmission
from quod.device.runtime.timeline import NullTimeline, Stage, Timeline
from quod.device.webgpu.encoding import Encoding, Times
from quod.device.webgpu.program import (
    Clear,
    Dispatch,
    Host,
    Operation,
    Transfer,
    first_word_and_offset,
    whole_words,
)
from quod.device.webgpu.queue import Receipt
from quod.device.webgpu.staging import CHUNK_BYTES, StagingBuffer

if TYPE_CHECKING:
    from quod.device.webgpu.program import Programs
    from quod.device.webgpu.session import Session

# The commands of a submission: few at first, so that the GPU begins early, then twice as many each
# time, up to a maximum, as drivers end submissions that take seconds.
_FIRST_COMMANDS = 8
_MAX_COMMANDS = 128
_MAX_IN_FLIGHT = 4
_NAMED_STEPS = 4


@dataclass
class _Download:
    """Bytes in a staging buffer, from `start` on, that go to host memory."""

    step: int
    staging: StagingBuffer
    start: int
    target: Array


@dataclass
class _PendingSubmission:
    """A submission whose work may not have ended."""

    receipt: Receipt
    downloads: list[_Download]
    times: Times | None
    marks: list[Completion] = field(default_factory=list)


class WebGpuSubmission(BackgroundSubmission):
    """One run of a recording.

    With a timeline each step is timed, by the GPU's clock if it has one. Without such a clock, and
    on a `synchronous` device, the steps are submitted one by one.
    """

    def __init__(
        self, session: Session, programs: Programs, recording: Recording, name: str,
        timeline: Timeline | None, parent: Stage | None,
    ) -> None:  # fmt: skip
        self._session = session
        self._programs = programs
        self._name = name
        timed = timeline is not None and not isinstance(timeline, NullTimeline)
        self._with_clock = timed and session.tick_nanoseconds > 0 and not session.synchronous
        self._one_by_one = session.synchronous or (timed and not self._with_clock)
        self._encoding = Encoding(session, timed=self._with_clock)
        self._download_lease = session.lease(session.downloads)
        self._upload_lease = session.lease(session.uploads)
        self._downloads: list[_Download] = []
        self._uploading: list[StagingBuffer] = []
        self._steps: list[int] = []
        self._pending: deque[_PendingSubmission] = deque()
        self._command_limit = 1 if self._one_by_one else _FIRST_COMMANDS
        # The begin and end of each step, by the host's clock and by the GPU's.
        self._host_times: dict[int, tuple[int, int]] = {}
        self._gpu_times: dict[int, tuple[float, float]] = {}
        self._clock_offset: float | None = None
        super().__init__(recording, name, timeline, parent)

    # --- running

    def _run_steps(self) -> None:
        with self._session.using(lambda: f"the work of {self._name}"):
            program = self._programs.of(self._recording)
            for kernel in program.kernels:
                kernel.wait_until_compiled()
            with self._download_lease, self._upload_lease:
                for operation in program.operations:
                    self._run_operation(operation)
                self._flush()
                self._drain()
        self._report_times()

    def _run_operation(self, operation: Operation) -> None:
        step = operation.step
        self._check(self._recording.steps[step].label)
        began = time.perf_counter_ns()
        match operation:
            case Dispatch():
                # A dispatch without packed arguments is a fill.
                pipeline = (
                    self._session.fill_pipeline
                    if operation.packed is None
                    else operation.packed.variant.pipeline()
                )
                self._encoding.dispatch(
                    pipeline, operation.bind_group, operation.offset, operation.grid, step
                )
            case Clear():
                self._encoding.clear(operation.target, operation.start, operation.nbytes, step)
            case Transfer():
                self._encoding.copy(
                    operation.source, operation.source_start, operation.target,
                    operation.target_start, operation.nbytes, step,
                )  # fmt: skip
            case Host():
                self._run_on_host(operation)
        self._steps.append(step)
        if self._encoding.count >= self._command_limit or self._encoding.is_full:
            self._flush()
        if self._one_by_one:
            self._drain()
            self._record_host_time(step, began, time.perf_counter_ns())

    def _run_on_host(self, operation: Host) -> None:
        recorded = operation.recorded
        match recorded:
            case Copy() if recorded.direction == "upload":
                self._upload(operation.step, recorded)
            case Copy():
                self._download(operation.step, recorded)
            case Mark():
                self._mark(self._marks[recorded])
            case Await():
                self._flush()
                # The awaited work may itself wait for a mark of this submission, so all work
                # submitted so far finishes first.
                self._drain()
                began = time.perf_counter_ns()
                self._await(self._awaited[recorded], recorded.label)
                self._record_host_time(operation.step, began, time.perf_counter_ns())

    def _mark(self, mark: Completion) -> None:
        self._flush()
        if self._pending:
            self._pending[-1].marks.append(mark)
        else:
            mark.complete()

    # --- copies

    def _upload(self, step: int, recorded: Copy) -> None:
        assert isinstance(recorded.target, Buffer)
        source = host_bytes(recorded.source)
        if not source.nbytes:
            return
        # Earlier downloads may still have to write the memory that this upload reads.
        begin, end = span(recorded.source)
        pending = [
            *self._downloads,
            *(download for submission in self._pending for download in submission.downloads),
        ]
        if any(_overlap(download.target, begin, end) for download in pending):
            self._flush()
            self._drain()
        allocation, start, size = whole_words(recorded.target)
        for offset in range(0, size, CHUNK_BYTES):
            chunk_bytes = min(CHUNK_BYTES, size - offset)
            began = time.perf_counter_ns()
            staging = self._upload_lease.acquire(chunk_bytes, self._free_staging, self._stopped)
            data = source[offset : offset + chunk_bytes]
            self._session.uploads.write(staging, data)
            self._record_host_time(step, began, time.perf_counter_ns())
            self._encoding.copy(
                staging.handle, 0, allocation.handle, start + offset, chunk_bytes, step
            )
            self._uploading.append(staging)

    def _download(self, step: int, recorded: Copy) -> None:
        assert isinstance(recorded.source, Buffer)
        target = host_bytes(recorded.target)
        if not target.nbytes:
            return
        source, begin, lead_bytes = first_word_and_offset(recorded.source)
        for offset in range(0, target.nbytes, CHUNK_BYTES):
            chunk_bytes = min(CHUNK_BYTES, target.nbytes - offset)
            size = chunk_bytes + lead_bytes
            size += -size % 4
            staging = self._download_lease.acquire(size, self._free_staging, self._stopped)
            self._encoding.copy(source.handle, begin + offset, staging.handle, 0, size, step)
            self._downloads.append(
                _Download(step, staging, lead_bytes, target[offset : offset + chunk_bytes])
            )

    def _free_staging(self) -> bool:
        """Submit and wait for all work, which frees its staging buffers.

        Returns False if there was no work.
        """
        if not self._encoding.count and not self._pending:
            return False
        self._flush()
        self._drain()
        return True

    def _stopped(self) -> bool:
        return self._cancellation.requested

    # --- submitting

    def _flush(self) -> None:
        """Submit the encoded commands."""
        if not self._encoding.count:
            return
        encoding, downloads, uploading = self._encoding, self._downloads, self._uploading
        doing = self._doing(tuple(dict.fromkeys(self._steps)))
        times = encoding.finish_times(self._download_lease)
        receipt = self._session.queue.submit(encoding.encoder, doing, self._recording)
        self._encoding = Encoding(self._session, timed=self._with_clock)
        self._downloads, self._uploading, self._steps = [], [], []
        for staging in uploading:
            self._upload_lease.release(staging)
        for download in downloads:
            self._session.downloads.begin_reading(download.staging)
        if times is not None:
            self._session.downloads.begin_reading(times.staging)
        self._pending.append(_PendingSubmission(receipt, downloads, times))
        self._command_limit = 1 if self._one_by_one else min(_MAX_COMMANDS, 2 * self._command_limit)
        while len(self._pending) > _MAX_IN_FLIGHT:
            self._wait_for_first()

    def _doing(self, steps: tuple[int, ...]) -> Callable[[], str]:
        """Return a function that describes a submission for messages."""

        def describe() -> str:
            recorded = [self._recording.steps[step] for step in steps]
            names = [
                f"{step.label} (kernel {step.kernel})" if isinstance(step, Launch) else step.label
                for step in recorded
            ]
            omitted = len(names) - _NAMED_STEPS
            hint = "" if len(names) < 2 else "; set QUOD_WEBGPU_SYNCHRONOUS=1 to find out which"
            suffix = f" and {omitted} more steps" if omitted > 0 else ""
            return f"{', '.join(names[:_NAMED_STEPS])}{suffix} of {self._name}{hint}"

        return describe

    def _drain(self) -> None:
        """Wait for all that was submitted."""
        while self._pending:
            self._wait_for_first()

    def _wait_for_first(self) -> None:
        submission, queue = self._pending[0], self._session.queue
        receipt = submission.receipt
        if not queue.wait(lambda: receipt.is_done, self._stopped):
            # Raises, as the wait ends early only after a cancellation.
            self._check(receipt.doing())
        if receipt.error is not None:
            raise receipt.error
        for download in submission.downloads:
            self._session.read_download(download.staging, download.start, download.target)
            self._download_lease.release(download.staging)
            self._record_host_time(download.step, 0, time.perf_counter_ns())
        if submission.times is not None:
            self._record_gpu_times(submission.times, receipt)
            self._download_lease.release(submission.times.staging)
        self._pending.popleft()
        for mark in submission.marks:
            mark.complete()
            mark.time_ns = receipt.done_ns

    # --- times

    def _record_host_time(self, step: int, begin: int, end: int) -> None:
        """Extend a step's time on the host's clock; a `begin` of 0 is unknown."""
        earlier = self._host_times.get(step)
        if earlier is not None:
            begin = min(begin or earlier[0], earlier[0]) if earlier[0] else begin
            end = max(end, earlier[1])
        self._host_times[step] = begin, end

    def _record_gpu_times(self, times: Times, receipt: Receipt) -> None:
        rows = times.read(self._session)
        for step, (begin, end) in zip(times.steps, rows, strict=True):
            earlier = self._gpu_times.get(step, (begin, end))
            self._gpu_times[step] = min(begin, earlier[0]), max(end, earlier[1])
        # A receipt arrives after the work has ended, so the smallest offset between the clocks is
        # the best estimate.
        offset = receipt.done_ns - float(rows.max())
        if self._clock_offset is None or offset < self._clock_offset:
            self._clock_offset = offset

    def _report_times(self) -> None:
        """Report the steps as stages; host copies include their time on the host."""
        if isinstance(self._timeline, NullTimeline):
            return
        last_end = time.perf_counter_ns()
        for number, step in enumerate(self._recording.steps):
            moments: list[int] = []
            if number in self._gpu_times and self._clock_offset is not None:
                moments += [
                    round(self._clock_offset + gpu_ns) for gpu_ns in self._gpu_times[number]
                ]
            moments += [moment for moment in self._host_times.get(number, ()) if moment]
            if isinstance(step, Mark):
                moments = [self._marks[step].time_ns]
            begin, end = (min(moments), max(moments)) if moments else (last_end, last_end)
            last_end = end
            self._timeline.record(
                step.label, begin, end, track=self._name, bytes=step.bytes, modmuls=step.modmuls,
                multiply_adds=step.multiply_adds, parent=self._parent,
            )  # fmt: skip


def _overlap(array: Array, begin: int, end: int) -> bool:
    start = int(array.ctypes.data)
    return start < end and begin < start + array.nbytes
