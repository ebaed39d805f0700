"""The end of a recorded MSM: bucket sums to lines on the host, and the results from those."""

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
from quod.msm.gpu.reduce import rounds, weighted_sums
from quod.msm.gpu.reduce.finish import Finisher
from quod.msm.gpu.run.record_sort import Scalars, record_chunks
from quod.msm.gpu.run.workspace import MsmBuffers
from quod.msm.gpu.sort.digits import NOT_TOO_LARGE, position_of_too_large
from quod.msm.scalars import too_large


@frozen
class Span:
    """The scalars of an MSM from number `start` on, with the word about those too large.

    Their vectors begin `stride` apart.
    """

    word: Array
    start: int
    stride: int


class RecordedMsm:
    """An MSM in a recording. `finish` gives its results after each submission of that.

    `expect` before each submission but the first, so that what an earlier one brought to the host
    is not taken for its results.
    """

    def __init__(
        self, device: AnyDevice, plan: GpuMsmPlan, lines: Array, spans: Sequence[Span]
    ) -> None:
        """`spans` are one for each part of the MSM, one after the other."""
        self.plan = plan
        self._device = device
        self._lines = lines.view(np.uint64).reshape(-1, plan.sum_words)
        self._spans = spans
        self.expect()

    @property
    def kind(self) -> tuple[Group, Form]:
        """MSMs of one kind can be finished together."""
        return self.plan.group, self.plan.form

    def expect(self) -> None:
        """Marks the lines on the host, which a submission that is to come has to bring anew."""
        mark(self._lines)

    def finish(self) -> Array:
        """uint64 words of an affine point a vector, shape (batch, group.point_words).

        Zeros are infinity. Call it when the submission was waited for. InputError for a scalar
        that was not below the group's order or the promised 2**scalar_bits.
        """
        return self._alone.finish()[0]

    @cached_property
    def _alone(self) -> RecordedMsms:
        return RecordedMsms([self])

    def checked_lines(self) -> Array:
        """What the device left for the host; InputError as for `finish`.

        DeviceError if nothing was left there: no scalar was looked at then either.
        """
        plan = self.plan
        check_written(self._device, "the sums of an MSM", self._lines)
        for span in self._spans:
            word = int(span.word.view(np.uint32)[0])
            if word != NOT_TOO_LARGE:
                position = span.start + position_of_too_large(word) % span.stride
                raise too_large(plan.group, plan.maximum, position)
        return self._lines.reshape(-1)


class RecordedMsms:
    """MSMs of one kind that are finished together, which takes little longer than one of them."""

    def __init__(self, msms: Sequence[RecordedMsm]) -> None:
        self.group = msms[0].plan.group
        self._msms = msms
        self._finisher = Finisher([own.plan for own in msms])

    def expect(self) -> None:
        """See `RecordedMsm.expect`."""
        for own in self._msms:
            own.expect()

    def finish(self) -> list[Array]:
        """What `RecordedMsm.finish` gives, of each."""
        return self._finisher.finish([own.checked_lines() for own in self._msms])


def record_buckets(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    scalars: Scalars,
    bases: Buffer,
    arrays: MsmBuffers,
) -> None:
    """Records everything from the scalars to the sums of the buckets."""
    recording.fill(arrays.zeroed, label="digits")
    record_chunks(recording, device, plan, scalars, arrays)
    chunks, sums, scratch = arrays.chunks, arrays.sums, arrays.scratch
    accumulate.record(recording, device, plan, bases, arrays.entries, chunks, sums, scratch)
    merge.record(recording, device, plan, chunks, sums, scratch)


def record_result(
    recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan, arrays: MsmBuffers, stride: int
) -> RecordedMsm:
    """Records what follows `record_buckets`."""
    first_chunk, sums = arrays.chunks.first_chunk, arrays.sums
    record_unwritten(recording, arrays.lines)
    record_lines(recording, device, plan, first_chunk, sums, arrays.lines, arrays.scratch)
    host = device.pinned(arrays.result.nbytes)
    recording.download(arrays.result, host, label="reduce")
    return RecordedMsm(device, plan, host[: arrays.lines.nbytes], [Span(host[-16:], 0, stride)])


def record_unwritten(recording: RecordingStream, lines: Buffer) -> None:
    """Records what tells lines that were not written: see `RecordedMsm.checked_lines`."""
    recording.fill(lines, UNWRITTEN, label="reduce")


def record_lines(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    first_chunk: Buffer | None,
    sums: Buffer,
    lines: Buffer,
    scratch: Buffer,
) -> None:
    """Records the reduction of bucket sums, sums[first_chunk[b]] or sums[b], as suits the plan."""
    if plan.processor.shuffles:
        weighted_sums.record(recording, device, plan, first_chunk, sums, lines, scratch)
    else:
        rounds.record(recording, device, plan, first_chunk, sums, lines, scratch)
