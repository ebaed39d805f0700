"""An MSM in parts: the sums of its buckets are carried from one part to the next.

So the scalars, or the bases, of a part can be uploaded while the part before is worked on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.stream import RecordingStream
from quod.msm.gpu import merge, reduce
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.pending import PendingMsm, record_buckets
from quod.msm.gpu.plan import with_batch
from quod.msm.gpu.record import Scalars
from quod.msm.gpu.workspace import Arrays, Carver, Workspace, workspace_bytes

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Part:
    """Some scalars of an MSM and the bases that their entries count."""

    count: int
    scalars: Scalars
    bases: Buffer


class PartMemory:
    """What an MSM in parts needs beside bases and scalars.

    `plan` is for the largest part. The carried sums are a point a bucket.
    """

    def __init__(self, device: AnyDevice, plan: GpuMsmPlan) -> None:
        self.workspace = Workspace(device, workspace_bytes(device, plan))
        self.carried = device.allocate(8 * plan.sum_words * plan.all_buckets, zero=False)
        # Every bucket has one sum, at its own number.
        self.numbers = device.upload(np.arange(plan.all_buckets + 1, dtype=np.uint32))

    @staticmethod
    def bytes(device: AnyDevice, plan: GpuMsmPlan) -> int:
        """The device memory that it takes."""
        carried = (8 * plan.sum_words + 4) * plan.all_buckets + 4
        return workspace_bytes(device, plan) + carried


def record_parts(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    parts: Iterable[Part],
    memory: PartMemory,
) -> PendingMsm:
    """Records an MSM; `parts` record what brings their data as they are asked for.

    `plan` is for the largest part, and for one vector of scalars.
    """
    words: list[Array] = []
    sizes: list[int] = []
    for part in parts:
        own = with_batch(plan, part.count, 1, device.resident_lanes)
        arrays = Arrays.of(device, own, Carver(memory.workspace.buffer))
        record_buckets(recording, device, own, part.scalars, part.bases, arrays)
        merge.record_carry(
            recording, device, own, arrays.units, arrays.sums, memory.carried, begins=not sizes
        )  # fmt: skip
        word = device.pinned(16)
        recording.download(arrays.too_large, word, label="digits")
        words.append(word)
        sizes.append(part.count)
    whole = replace(plan, count=sum(sizes))
    arrays = Arrays.of(device, plan, Carver(memory.workspace.buffer))
    reduce.record(
        recording, device, whole, memory.numbers, memory.carried, arrays.lines, arrays.scratch
    )  # fmt: skip
    lines = device.pinned(arrays.lines.nbytes)
    recording.download(arrays.lines, lines, label="reduce")
    return PendingMsm(whole, lines, words, sizes)
