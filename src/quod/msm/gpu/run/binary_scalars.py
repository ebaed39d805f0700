"""MSMs whose scalars are mostly 0 and 1, over bases in device memory.

    scalars ── split ─┬─ ones: sums of equal chunks ── one sum
                      └─ others, gathered ── an ordinary MSM

The number of scalars that are neither 0 nor 1 determines the windows and the memory of the second
MSM. So the split is a separate recording, and the host waits for it. The MSM is then recorded for
that number, rounded up by at most an eighth, so that witnesses of one circuit share the recording.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from quod.curve.group import Group
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, mark
from quod.device.runtime.stream import RecordingStream
from quod.frozen import frozen
from quod.kernel.ir.types import u64
from quod.msm.gpu.buckets import accumulate, merge
from quod.msm.gpu.buckets.chunks import MAX_LONGEST
from quod.msm.gpu.device_limits import DeviceLimits
from quod.msm.gpu.layout import Chunks, GpuMsmPlan
from quod.msm.gpu.reduce import rounds, weighted_sums
from quod.msm.gpu.run.affine_bases import plain_plan
from quod.msm.gpu.run.record_buckets import (
    RecordedMsm,
    Span,
    record_buckets,
    record_result,
    record_sentinel,
    record_window_sums,
)
from quod.msm.gpu.run.record_sort import Scalars
from quod.msm.gpu.run.workspace import Arena, MsmBuffers, Workspace
from quod.msm.gpu.sort import split
from quod.msm.gpu.sort.digits import NOT_TOO_LARGE, position_of_too_large
from quod.msm.scalars import SCALAR_BYTES, too_large

# Chunks of ones per resident lane. With several waves of lanes, the last, partial one costs little.
_WAVES = 4
_SHORTEST = 8

# All ones fall into one bucket; this is the narrowest window that the reduction supports.
_WINDOW_BITS = 3


@frozen
class SplitCounts:
    """The numbers of scalars that are 1 and of scalars above 1."""

    ones: int
    others: int

    @property
    def capacity(self) -> int:
        """Capacity for scalars above 1, rounded up by at most an eighth so that few sizes occur."""
        step = 1 << max(0, self.others.bit_length() - 4)
        return max(1, -(-self.others // step) * step)


class ScalarSplit:
    """Lists of the bases whose scalar is 1, and of those whose scalar is above 1.

    count: the number of bases; base i has scalar i, or scalar indices[i].
    infinity_mask: the infinite bases, which are in neither list.

    Groups of the same order can share a split.
    """

    def __init__(
        self, device: AnyDevice, group: Group, count: int, *, indices: Buffer | None = None,
        infinity_mask: Buffer | None = None,
    ) -> None:  # fmt: skip
        self.device, self.group, self.count = device, group, count
        self.indices, self._mask = indices, infinity_mask
        self.ones, self.others = (device.allocate(4 * count, zero=False) for _ in range(2))
        self.counters = device.allocate(split.COUNTER_BYTES, zero=False)
        self._counters = device.pinned(split.COUNTER_BYTES).view(np.uint32)

    @staticmethod
    def nbytes(count: int) -> int:
        """Return the bytes of device memory for a split of `count` bases."""
        return 8 * count + split.COUNTER_BYTES

    def record(self, recording: RecordingStream, scalars: Buffer) -> None:
        """Record the split of canonical scalars of eight u32 each."""
        device = self.device
        compiled = device.compile(
            split.split_scalars, lanes=split.LANES, maximum=self.group.scalars.value - 1,
            indexed=self.indices is not None, masked=self._mask is not None,
        )  # fmt: skip
        recording.fill(self.counters, label="split")
        recording.launch(
            compiled, -(-self.count // split.LANES), self.count, scalars,
            self.indices or scalars, self._mask or scalars, self.ones, self.others, self.counters,
            label="split", bytes=self.count * (SCALAR_BYTES + 4 * (self.indices is not None)),
        )  # fmt: skip
        recording.download(self.counters, self._counters, label="split")

    def reset_results(self) -> None:
        """Prepare for a submission of the recording; see `RecordedMsm.reset_results`."""
        mark(self._counters)

    def counts(self) -> SplitCounts:
        """Return the counts, after the recording has finished.

        Raises InputError if a scalar is too large.
        """
        check_written(self.device, "which scalars are 0 and 1", self._counters)
        ones, others, word = (int(counter) for counter in self._counters[:3])
        if word != NOT_TOO_LARGE:
            position = position_of_too_large(word)
            raise too_large(self.group, self.group.scalars.value - 1, position)
        return SplitCounts(ones, others)


@frozen
class BinaryScalarMsm:
    """The shape of an MSM over `count` bases, at most `capacity` of them with scalars above 1.

    affine: see `GpuMsmPlan`.
    """

    device: AnyDevice
    group: Group
    count: int
    capacity: int
    affine: bool = True

    @cached_property
    def _ones_plan(self) -> GpuMsmPlan:
        """The plan for the scalars that are 1, all in one bucket."""
        lanes = _WAVES * self.device.resident_lanes
        longest = min(MAX_LONGEST, max(_SHORTEST, -(-self.count // lanes)))
        # One window, one copy of the bases, and 1 as the largest scalar.
        return GpuMsmPlan(
            self.group, self.count, _WINDOW_BITS, 1, 1, 1, longest,
            limits=DeviceLimits.of(self.device), affine=self.affine,
        )  # fmt: skip

    @cached_property
    def _others_plan(self) -> GpuMsmPlan:
        """The plan for the scalars above 1."""
        return plain_plan(self.device, self.group, self.capacity, affine=self.affine)

    @cached_property
    def workspace_bytes(self) -> int:
        """The bytes of the workspace that `record` needs."""
        arena = Arena(self.device)
        self._allocate_others(arena)
        arena.rewind(0)
        self._allocate_ones(arena)
        return arena.peak

    def _allocate_others(self, arena: Arena) -> tuple[Buffer, Buffer, MsmBuffers]:
        """Allocate gathered scalars, the indices of their bases, and their MSM's buffers."""
        words, indices = (
            arena.allocate(SCALAR_BYTES // 4 * self.capacity),
            arena.allocate(self.capacity),
        )
        return words, indices, MsmBuffers.of(self.device, self._others_plan, arena)

    def _allocate_ones(self, arena: Arena) -> tuple[Chunks, Buffer, Buffer, Buffer]:
        """Allocate chunks, their sums, scratch memory and lines."""
        plan, allocate = self._ones_plan, arena.allocate
        starts, lengths, numbers = (allocate(plan.max_chunks) for _ in range(3))
        chunks = Chunks(starts, lengths, numbers, allocate(plan.all_buckets + 1), allocate(1))
        scratch = max(
            accumulate.scratch_bytes(self.device, plan),
            merge.scratch_bytes(self.device, plan),
            weighted_sums.scratch_bytes(self.device, plan)
            if plan.limits.shuffles
            else rounds.scratch_bytes(plan),
        )
        return (
            chunks,
            allocate(plan.sum_words * plan.max_chunks, u64),
            allocate(-(-scratch // u64.bytes), u64),
            allocate(weighted_sums.line_bytes(plan) // 4),
        )

    def record(
        self, recording: RecordingStream, scalar_split: ScalarSplit, scalars: Buffer, bases: Buffer,
        workspace: Workspace,
    ) -> tuple[RecordedMsm, RecordedMsm]:  # fmt: skip
        """Record the sum of the bases whose scalar is 1, and the MSM of the others.

        scalar_split: a split whose recording has finished, with at most `capacity` others.
        bases: affine points in device memory, without multiples.
        Returns two MSMs, whose results are to be added.
        """
        # Both MSMs use the whole workspace, one after the other.
        arenas = (Arena(self.device, workspace) for _ in range(2))
        with recording.part("ones"):
            ones = self._record_ones(recording, scalar_split, bases, next(arenas))
        with recording.part("others"):
            others = self._record_others(recording, scalar_split, scalars, bases, next(arenas))
        return ones, others

    def _record_ones(
        self, recording: RecordingStream, scalar_split: ScalarSplit, bases: Buffer, arena: Arena
    ) -> RecordedMsm:
        """Record the sum of the bases whose scalar is 1, in equal chunks."""
        plan, device = self._ones_plan, self.device
        chunks, sums, scratch, lines = self._allocate_ones(arena)
        lanes = max(plan.max_chunks, plan.all_buckets + 1)
        recording.launch(
            device.compile(split.cut_evenly), -(-lanes // device.lanes), plan.longest,
            plan.all_buckets, scalar_split.counters, chunks.table, chunks.first_chunk, chunks.count,
            label="cut",
        )  # fmt: skip
        accumulate.record(recording, device, plan, bases, scalar_split.ones, chunks, sums, scratch)
        merge.record(recording, device, plan, chunks, sums, scratch)
        record_sentinel(recording, lines)
        record_window_sums(recording, device, plan, chunks.first_chunk, sums, lines, scratch)
        host = device.pinned(lines.nbytes)
        recording.download(lines, host, label="reduce")
        # The split has already checked the range of all scalars.
        in_range_word = np.full(4, NOT_TOO_LARGE, np.uint32).view(np.uint8)
        return RecordedMsm(device, plan, host, [Span(in_range_word, 0, 1)])

    def _record_others(
        self, recording: RecordingStream, scalar_split: ScalarSplit, scalars: Buffer, bases: Buffer,
        arena: Arena,
    ) -> RecordedMsm:  # fmt: skip
        """Record the MSM of the scalars above 1, which are gathered first."""
        plan, device, capacity = self._others_plan, self.device, self.capacity
        words, base_indices, buffers = self._allocate_others(arena)
        gather = device.compile(split.gather_scalars, indexed=scalar_split.indices is not None)
        recording.launch(
            gather, -(-capacity // device.lanes), capacity, scalars,
            scalar_split.indices or scalars, scalar_split.others, scalar_split.counters, words,
            base_indices, label="gather",
            bytes=2 * capacity * SCALAR_BYTES,
        )  # fmt: skip
        source = Scalars(words, capacity, self.count, 0, base_indices, None, listed=True)
        record_buckets(recording, device, plan, source, bases, buffers)
        return record_result(recording, device, plan, buffers, capacity)
