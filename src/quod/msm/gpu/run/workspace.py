"""Workspaces: the device memory of MSMs in addition to their bases and scalars."""

from __future__ import annotations

from collections.abc import Iterable

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError
from quod.frozen import frozen, replace
from quod.kernel.ir.types import Type, u32, u64
from quod.msm.gpu.buckets import accumulate, merge
from quod.msm.gpu.buckets.chunks import LENGTHS
from quod.msm.gpu.layout import Chunks, GpuMsmPlan
from quod.msm.gpu.reduce import rounds, weighted_sums
from quod.msm.gpu.run.device_plan import SortShape, with_batch

_ALIGNMENT = 256


class Workspace:
    """`nbytes` of scratch memory that MSMs use one after the other.

    MSMs of one recording that share a workspace run in order; with different workspaces they can
    run concurrently.
    """

    def __init__(self, device: AnyDevice, nbytes: int) -> None:
        self.nbytes = max(nbytes, _ALIGNMENT)
        page = page_bytes(device)
        self.pages = [
            device.allocate(min(page, self.nbytes - start), zero=False)
            for start in range(0, self.nbytes, page)
        ]


def page_bytes(device: AnyDevice) -> int:
    """Return the bytes of the largest buffer of a workspace."""
    return 2 * device.largest_buffer


class Arena:
    """A bump allocator of aligned arrays in a workspace; without a workspace it only measures.

    No array spans two pages. Sizes are in elements of the type that kernels bind, since launches
    accept only whole elements.
    """

    def __init__(self, device: AnyDevice, memory: Workspace | None = None) -> None:
        self._memory = memory
        self._page = page_bytes(device)
        self._empty = Buffer.zeros(0)
        self.used = 0
        self.peak = 0

    def allocate(self, count: int, element: Type = u32) -> Buffer:
        """Allocate `count` elements; raise DeviceError if the workspace is too small."""
        nbytes = count * element.bytes
        start, page = self.used, self._page
        if start // page != (start + max(0, nbytes - 1)) // page:
            start = -(-start // page) * page
        self.used = -(-(start + nbytes) // _ALIGNMENT) * _ALIGNMENT
        self.peak = max(self.peak, self.used)
        if self._memory is None:
            return self._empty
        if start + nbytes > self._memory.nbytes:
            raise DeviceError(
                f"a workspace of {self._memory.nbytes} bytes is too small for this MSM; make it of "
                "ResidentMsm.workspace_bytes"
            )
        if not nbytes:
            return self._memory.pages[0].slice(0, 0)
        page_index, offset = divmod(start, page)
        return self._memory.pages[page_index].slice(offset, offset + nbytes)

    def rewind(self, mark: int) -> None:
        """Free all arrays allocated since `used` was `mark`, so that later ones overlap them."""
        self.used = mark


@frozen
class MsmBuffers:
    """The arrays of one MSM; arrays that are never live at the same time overlap.

    zeroed: the flag `too_large` and the counts, which must be zero before the MSM begins.
    result: the lines, then the flag `too_large`, which the host downloads.
    too_large: set if a scalar is above the maximum; see `position_of_too_large`.
    """

    zeroed: Buffer
    result: Buffer
    window_sums: Buffer
    too_large: Buffer
    bin_counts: Buffer
    bucket_counts: Buffer
    length_counts: Buffer
    bin_starts: Buffer
    bin_cursors: Buffer
    first_tile: Buffer
    bucket_starts: Buffer
    bucket_cursors: Buffer
    block_chunks: Buffer
    block_first: Buffer
    ranks: Buffer
    chunks: Chunks
    entries: Buffer
    keys: Buffer
    binned: Buffer
    sums: Buffer
    scratch: Buffer

    @classmethod
    def of(cls, device: AnyDevice, plan: GpuMsmPlan, arena: Arena) -> MsmBuffers:
        """Allocate the arrays of a plan."""
        sort = SortShape.of(plan)
        allocate = arena.allocate
        line_bytes = weighted_sums.line_bytes(plan)
        aligned_lines = -(-line_bytes // _ALIGNMENT) * _ALIGNMENT
        bin_bytes = -(-4 * sort.bins // _ALIGNMENT) * _ALIGNMENT
        counter_bytes = 0 if sort.direct else -(-4 * plan.all_buckets // _ALIGNMENT) * _ALIGNMENT
        # `flag`, `counts` and `lengths` are byte offsets in `head`. `result` ends with the flag,
        # and `zeroed` begins with it.
        flag = aligned_lines
        counts = flag + _ALIGNMENT
        lengths = counts + bin_bytes + counter_bytes
        head = allocate(lengths // 4 + LENGTHS)
        if not head.nbytes:
            sections = [head] * 7
        else:
            sections = [
                head.slice(flag, lengths + 4 * LENGTHS),
                head.slice(0, flag + 16),
                head.slice(0, line_bytes),
                head.slice(flag, flag + 16),
                head.slice(counts, counts + 4 * sort.bins),
                head.slice(counts + bin_bytes, counts + bin_bytes + 4 * plan.all_buckets)
                if counter_bytes
                else head.slice(counts, counts + 4 * sort.bins),
                head.slice(lengths, lengths + 4 * LENGTHS),
            ]
        zeroed, result, lines, too_large, bin_counts, bucket_counts, length_counts = sections
        bin_starts, bin_cursors = allocate(sort.bins + 1), allocate(sort.bins)
        first_tile = allocate(sort.bins + 1)
        bucket_starts, bucket_cursors = (allocate(plan.all_buckets) for _ in range(2))
        block_chunks, block_first = (allocate(sort.blocks) for _ in range(2))
        ranks = allocate(LENGTHS)
        starts, chunk_lengths, numbers = (allocate(plan.max_chunks) for _ in range(3))
        first_chunk, count = allocate(plan.all_buckets + 1), allocate(1)
        chunks = Chunks(starts, chunk_lengths, numbers, first_chunk, count)
        entries = allocate(plan.max_entries)
        mark = arena.used
        # Loads are not bounds-checked, so those of the last tile may read up to a tile beyond the
        # end.
        binned_capacity = 0 if sort.direct else plan.max_entries + plan.sort.tile
        # Kernels bind keys as 32-bit words, even if a word has two keys.
        binned, keys = (
            allocate(binned_capacity),
            allocate(-(-plan.sort.key_bytes * binned_capacity // u32.bytes)),
        )
        arena.rewind(mark)
        sums = allocate(plan.sum_words * plan.max_chunks, u64)
        scratch_bytes = max(
            accumulate.scratch_bytes(device, plan),
            merge.scratch_bytes(device, plan),
            weighted_sums.scratch_bytes(device, plan)
            if plan.limits.compact or plan.limits.shuffles
            else rounds.scratch_bytes(plan),
        )
        scratch = allocate(-(-scratch_bytes // u64.bytes), u64)
        return cls(
            zeroed, result, lines, too_large, bin_counts, bucket_counts, length_counts, bin_starts,
            bin_cursors, first_tile, bucket_starts, bucket_cursors, block_chunks, block_first,
            ranks, chunks, entries, keys, binned, sums, scratch,
        )  # fmt: skip


def workspace_bytes(device: AnyDevice, plan: GpuMsmPlan) -> int:
    """Return the bytes of a workspace for the plan."""
    counts = plan.block_counts
    if len(counts) > 1:
        return blocks_bytes(device, [block_of(plan, count) for count in {*counts}])
    arena = Arena(device)
    MsmBuffers.of(device, plan, arena)
    return arena.peak


def block_of(plan: GpuMsmPlan, count: int) -> GpuMsmPlan:
    """Return the plan of a block of `count` bases."""
    return with_batch(replace(plan, base_block=None), count, plan.batch)


def carried_sums(arena: Arena, plan: GpuMsmPlan) -> Buffer:
    """Allocate the bucket sums that an MSM carries from block to block."""
    return arena.allocate(plan.sum_words * plan.all_buckets, u64)


def blocks_bytes(device: AnyDevice, plans: Iterable[GpuMsmPlan]) -> int:
    """Return the bytes of a workspace for an MSM in blocks of these plans."""
    arena, peak = Arena(device), 0
    for plan in plans:
        arena.rewind(0)
        carried_sums(arena, plan)
        MsmBuffers.of(device, plan, arena)
        peak = max(peak, arena.peak)
    return peak
