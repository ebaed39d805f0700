"""MSMs over bases in host memory that are streamed through device memory in blocks.

The device has memory for two blocks: one is uploaded while the other is computed. Dependencies
follow from the memory that recorded steps use. So no block is overwritten before it has been read,
and the host waits only for the end of the MSM.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quod.curve.group import Group
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.errors import InputError
from quod.frozen import frozen, replace
from quod.msm.gpu.device_limits import DeviceLimits
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.run.blocks import BaseBlock, record_blocks
from quod.msm.gpu.run.device_plan import additions, fits, plan_gpu_msm, with_batch
from quod.msm.gpu.run.record_buckets import RecordedMsm
from quod.msm.gpu.run.record_sort import Scalars
from quod.msm.gpu.run.workspace import Workspace, blocks_bytes
from quod.msm.gpu.sort.infinity_mask import infinity_mask_bytes, record_infinity_mask
from quod.msm.options import MAX_GPU_WINDOW_BITS, MsmOptions
from quod.msm.scalars import SCALAR_BYTES

# Bounds of a block, in bases. The largest block's fixed cost is negligible, so more gain nothing.
_LARGEST_BLOCK = 1 << 23
_SMALLEST_BLOCK = 1 << 10


@frozen
class StreamPlan:
    """The streaming of `count` bases.

    block: the plan of a full block, with the windows and buckets of the whole MSM.
    """

    count: int
    block: GpuMsmPlan

    @property
    def block_count(self) -> int:
        return -(-self.count // self.block.count)

    @property
    def block_counts(self) -> tuple[int, ...]:
        """The bases of each block."""
        return replace(self.block, count=self.count, base_block=self.block.count).block_counts

    @property
    def plans(self) -> list[GpuMsmPlan]:
        """The plan of each block."""
        return [with_batch(self.block, count, 1) for count in self.block_counts]

    @property
    def base_bytes(self) -> int:
        """Bytes of a full block's bases."""
        return 8 * self.block.base_words * self.block.count

    def peak_bytes(self, device: AnyDevice) -> int:
        """Return the bytes of device memory of the whole MSM."""
        slot_bytes = self.base_bytes + infinity_mask_bytes(self.block.count) + 16
        return SCALAR_BYTES * self.count + 2 * slot_bytes + self.workspace_bytes(device)

    def workspace_bytes(self, device: AnyDevice) -> int:
        """Return the bytes of the workspace that the blocks share."""
        counts = {*self.block_counts}
        return blocks_bytes(device, [with_batch(self.block, count, 1) for count in counts])

    @property
    def additions(self) -> float:
        """Estimated cost of all blocks; carrying buckets costs about as much as reducing them."""
        return self.block_count * additions(self.block)


def plan_streamed(
    device: AnyDevice, group: Group, count: int, options: MsmOptions, budget: int
) -> StreamPlan:
    """Return the plan with the largest blocks whose `peak_bytes` are within `budget`.

    If no blocks are small enough, returns the plan with the smallest blocks; the caller checks its
    `peak_bytes`.
    Raises InputError for a precompute factor above 1, or if no block fits the options.
    """
    if (options.precompute_factor or 1) > 1:
        raise InputError(
            f"{count} bases of {group.name} are streamed, because they do not fit the memory of "
            f"{device.name} or the options say so, and so have no precomputed multiples; leave out "
            "precompute_factor, or give the device a larger memory_budget"
        )
    max_buffer_bases = device.largest_buffer // (8 * group.point_words)
    size = min(_LARGEST_BLOCK, max_buffer_bases, max(_SMALLEST_BLOCK, -(-count // 2)))
    while True:
        plan = _plan_with_block_size(device, group, count, size, options)
        fits_budget = plan is not None and plan.peak_bytes(device) <= budget
        if plan is not None and (fits_budget or size <= _SMALLEST_BLOCK):
            return plan
        if size <= _SMALLEST_BLOCK:
            raise InputError(
                f"with these options blocks of {size} bases of {group.name} do not fit the device"
            )
        size = max(_SMALLEST_BLOCK, size // 2)


def _plan_with_block_size(
    device: AnyDevice, group: Group, count: int, size: int, options: MsmOptions
) -> StreamPlan | None:
    """Return the fastest plan with blocks of `size` bases, or None if none fits."""
    limits = DeviceLimits.of(device)

    def plan(window_bits: int) -> StreamPlan:
        block = plan_gpu_msm(
            group, min(size, count), replace(options, window_bits=window_bits, precompute_factor=1),
            limits=limits, base_budget=1 << 62,
        )  # fmt: skip
        return StreamPlan(count, block)

    widths = range(3, MAX_GPU_WINDOW_BITS + 1)
    if options.window_bits is not None:
        widths = range(options.window_bits, options.window_bits + 1)
    plans = (plan(width) for width in widths)
    fitting = (
        candidate
        for candidate in plans
        if len(candidate.block.block_counts) == 1 and fits(candidate.block)
    )
    return min(fitting, key=lambda candidate: candidate.additions, default=None)


class StreamedMsm:
    """Bases in page-locked host memory, and the recording of MSMs over them.

    points: array of affine points as for `ResidentMsm`; it is copied.
    """

    def __init__(self, device: AnyDevice, group: Group, points: Array) -> None:
        self.device = device
        self.group = group
        self._count = len(points)
        self._words = device.pinned(points.nbytes)
        self._words[:] = np.ascontiguousarray(points).reshape(-1).view(np.uint8)

    def record(self, recording: RecordingStream, scalars: Buffer, plan: StreamPlan) -> RecordedMsm:
        """Record an MSM of one vector of ``plan.count`` canonical scalars in device memory."""
        device, full = self.device, plan.block
        base_bytes = 8 * full.base_words
        slots = [device.allocate(plan.base_bytes, zero=False) for _ in range(2)]
        masks = [device.allocate(infinity_mask_bytes(full.count), zero=False) for _ in range(2)]
        any_flags = [device.allocate(16, zero=False) for _ in range(2)]

        def blocks() -> Iterator[BaseBlock]:
            for number, block_plan in enumerate(plan.plans):
                start, count = number * full.count, block_plan.count
                stop, slot = start + count, number % 2
                bases = slots[slot].slice(0, count * base_bytes)
                recording.upload(
                    self._words[start * base_bytes : stop * base_bytes], bases, label="upload bases"
                )  # fmt: skip
                record_infinity_mask(
                    recording, device, count, full.base_words, bases, masks[slot], any_flags[slot]
                )  # fmt: skip
                words = scalars.slice(SCALAR_BYTES * start, SCALAR_BYTES * stop)
                source = Scalars(words, count, count, 0, None, masks[slot])
                yield BaseBlock(block_plan, start, source, bases)

        workspace = Workspace(device, plan.workspace_bytes(device))
        return record_blocks(recording, device, blocks(), workspace)
