"""The end of a recorded MSM: bucket sums to lines on the host, and the results from those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.stream import RecordingStream
from quod.msm.digits import too_large
from quod.msm.gpu import accumulate, merge, reduce
from quod.msm.gpu.digits import NOT_TOO_LARGE, position_of_too_large
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.record import Scalars, record_units
from quod.msm.gpu.workspace import Arrays

Array = np.ndarray[Any, Any]


class PendingMsm:
    """An MSM in a recording. `finish` gives its results after each submission of that."""

    def __init__(
        self, plan: GpuMsmPlan, lines: Array, words: Sequence[Array], strides: Sequence[int]
    ) -> None:
        """`words` are those about scalars that are too large, one for each part of the MSM, and
        `strides` how many scalars the parts have, or how far apart their vectors are."""
        self._plan = plan
        self._lines = lines
        self._words = words
        self._strides = strides

    def finish(self) -> Array:
        """uint64 words of an affine point a vector, shape (batch, group.point_words).

        Zeros are infinity. Call it when the submission was waited for. InputError for a scalar
        that was not below the group's order or the promised 2**scalar_bits.
        """
        plan, start = self._plan, 0
        for words, stride in zip(self._words, self._strides, strict=True):
            word = int(words.view(np.uint32)[0])
            if word != NOT_TOO_LARGE:
                position = start + position_of_too_large(word) % stride
                raise too_large(plan.group, plan.maximum, position)
            start += stride
        return reduce.finish(plan, self._lines.view(np.uint64))


def record_buckets(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    scalars: Scalars,
    bases: Buffer,
    arrays: Arrays,
) -> None:
    """Records everything from the scalars to the sums of the buckets."""
    recording.fill(arrays.zeroed, label="digits")
    record_units(recording, device, plan, scalars, arrays)
    units, sums, scratch = arrays.units, arrays.sums, arrays.scratch
    accumulate.record(recording, device, plan, bases, arrays.entries, units, sums, scratch)
    merge.record(recording, device, plan, units, sums, scratch)


def record_result(
    recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan, arrays: Arrays, stride: int
) -> PendingMsm:
    """Records what follows `record_buckets`."""
    first_unit, sums = arrays.units.first_unit, arrays.sums
    reduce.record(recording, device, plan, first_unit, sums, arrays.lines, arrays.scratch)
    host = device.pinned(arrays.result.nbytes)
    recording.download(arrays.result, host, label="reduce")
    return PendingMsm(plan, host[: arrays.lines.nbytes], [host[-16:]], [stride])
