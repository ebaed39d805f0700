"""The stages of a recorded MSM from scalars to lines, and the MSM's results.

Lines are the few weighted sums to which a GPU reduces the bucket sums (see `weighted_sums`); the
host adds them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from quod.curve.group import Group
from quod.curve.sums.forms import Form
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import UNWRITTEN, check_written, mark
from quod.device.runtime.stream import RecordingStream
from quod.frozen import frozen
from quod.msm.gpu.buckets import accumulate, merge
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.reduce import rounds, serial, weighted_sums
from quod.msm.gpu.reduce.finish import Finisher
from quod.msm.gpu.run.record_sort import Scalars, record_chunks
from quod.msm.gpu.run.workspace import MsmBuffers
from quod.msm.gpu.sort.digits import NOT_TOO_LARGE, position_of_too_large
from quod.msm.scalars import too_large


@frozen
class Span:
    """A range of an MSM's scalars, and the result of its range check.

    word: host memory of the u32 that `Digits.check` writes: `NOT_TOO_LARGE`, or a value for
        `position_of_too_large`.
    start: the position of the first scalar.
    stride: the number of scalars from the start of one vector of the batch to the next.
    """

    word: Array
    start: int
    stride: int


class RecordedMsm:
    """An MSM in a recording; `finish` returns its results after each submission.

    Call `reset_results` before each submission except the first, so that results of an earlier
    submission are not mistaken for those of the new one.
    """

    def __init__(
        self, device: AnyDevice, plan: GpuMsmPlan, lines: Array, spans: Sequence[Span]
    ) -> None:
        """Refer to host memory that the recording writes.

        lines: `weighted_sums.line_bytes` bytes.
        spans: one for each block of scalars that the MSM processes separately."""
        self.plan = plan
        self._device = device
        self._lines = lines.view(np.uint64).reshape(-1, plan.sum_words)
        self._spans = spans
        self.reset_results()

    @property
    def kind(self) -> tuple[Group, Form]:
        """Group and form; MSMs of one kind can be finished in a batch."""
        return self.plan.group, self.plan.form

    def reset_results(self) -> None:
        """Overwrite the host's lines with the sentinel, to detect a submission that writes none."""
        mark(self._lines)

    def finish(self) -> Array:
        """Return the results of a submission that has finished.

        Returns affine points in Montgomery form, uint64 of shape (batch, group.point_words); zeros
        are infinity. Raises InputError if a scalar was not below the group's order, or not below
        2**scalar_bits if the options declare that.
        """
        return self._single.finish()[0]

    @cached_property
    def _single(self) -> RecordedMsmBatch:
        return RecordedMsmBatch([self])

    def checked_window_sums(self) -> Array:
        """Return the lines that the device wrote, as flat uint64.

        Raises DeviceError if it wrote none, and InputError as `finish` does. If no lines were
        written, the range check of scalars did not run either, so the lines are checked first.
        """
        plan = self.plan
        check_written(self._device, "the sums of an MSM", self._lines)
        for span in self._spans:
            word = int(span.word.view(np.uint32)[0])
            if word != NOT_TOO_LARGE:
                position = span.start + position_of_too_large(word) % span.stride
                raise too_large(plan.group, plan.maximum, position)
        return self._lines.reshape(-1)


class RecordedMsmBatch:
    """A batch of MSMs of one kind; finishing it takes little longer than finishing one."""

    def __init__(self, msms: Sequence[RecordedMsm]) -> None:
        self.group = msms[0].plan.group
        self._msms = msms
        self._finisher = Finisher([msm.plan for msm in msms])

    def reset_results(self) -> None:
        """See `RecordedMsm.reset_results`."""
        for msm in self._msms:
            msm.reset_results()

    def finish(self) -> list[Array]:
        """Return the result of `RecordedMsm.finish` for each MSM."""
        return self._finisher.finish([msm.checked_window_sums() for msm in self._msms])


def record_buckets(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    scalars: Scalars,
    bases: Buffer,
    arrays: MsmBuffers,
) -> None:
    """Record digits, sort, accumulation and merging; `arrays.sums` then has the bucket sums."""
    recording.fill(arrays.zeroed, label="digits")
    record_chunks(recording, device, plan, scalars, arrays)
    chunks, sums, scratch = arrays.chunks, arrays.sums, arrays.scratch
    accumulate.record(recording, device, plan, bases, arrays.entries, chunks, sums, scratch)
    if plan.limits.compact:
        serial.record_merge(recording, device, plan, chunks, sums, scratch)
    else:
        merge.record(recording, device, plan, chunks, sums, scratch)


def record_result(
    recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan, arrays: MsmBuffers, stride: int
) -> RecordedMsm:
    """Record the reduction and the download that follow `record_buckets`.

    stride: the number of scalars from the start of one vector of the batch to the next."""
    first_chunk, sums = arrays.chunks.first_chunk, arrays.sums
    record_sentinel(recording, arrays.window_sums)
    record_window_sums(
        recording, device, plan, first_chunk, sums, arrays.window_sums, arrays.scratch
    )
    # The result has the lines, then 16 bytes for the word of the range check.
    host = device.pinned(arrays.result.nbytes)
    recording.download(arrays.result, host, label="reduce")
    return RecordedMsm(
        device, plan, host[: arrays.window_sums.nbytes], [Span(host[-16:], 0, stride)]
    )


def record_sentinel(recording: RecordingStream, lines: Buffer) -> None:
    """Record a fill with the sentinel that `RecordedMsm.checked_window_sums` checks for."""
    recording.fill(lines, UNWRITTEN, label="reduce")


def record_window_sums(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    first_chunk: Buffer | None,
    sums: Buffer,
    lines: Buffer,
    scratch: Buffer,
) -> None:
    """Record the reduction of bucket sums to lines.

    The sum of bucket b is sums[first_chunk[b]], or sums[b] if `first_chunk` is None."""
    if plan.limits.compact or plan.limits.shuffles:
        record_cut = serial.record_cut if plan.limits.compact else None
        weighted_sums.record(
            recording, device, plan, first_chunk, sums, lines, scratch, record_cut
        )  # fmt: skip
    else:
        rounds.record(recording, device, plan, first_chunk, sums, lines, scratch)
