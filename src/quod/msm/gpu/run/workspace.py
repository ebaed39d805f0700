"""The device memory in which MSMs work, beside their bases and scalars."""

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
    """Scratch memory of `nbytes` that MSMs use one after the other.

    MSMs of one recording with the same workspace wait for one another; with different ones they
    run side by side.
    """

    def __init__(self, device: AnyDevice, nbytes: int) -> None:
        self.nbytes = max(nbytes, _ALIGNMENT)
        page = page_bytes(device)
        self.pages = [
            device.allocate(min(page, self.nbytes - start), zero=False)
            for start in range(0, self.nbytes, page)
        ]


def page_bytes(device: AnyDevice) -> int:
    """The most that a buffer may have; a workspace of more is several."""
    return 2 * device.largest_buffer


class Arena:
    """Cuts memory into aligned arrays, one after the other; without memory it only counts.

    No array lies across two pages of the device. Room is taken in elements of the type that
    kernels bind, for which a launch takes whole numbers of them only.
    """

    def __init__(self, device: AnyDevice, memory: Workspace | None = None) -> None:
        self._memory = memory
        self._page = page_bytes(device)
        self._empty = Buffer.zeros(0)
        self.used = 0
        self.peak = 0

    def allocate(self, count: int, element: Type = u32) -> Buffer:
        """The next `count` elements; DeviceError if there is no room for them."""
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
        number, place = divmod(start, page)
        return self._memory.pages[number].slice(place, place + nbytes)

    def rewind(self, mark: int) -> None:
        """Goes back to where `used` was `mark`: what follows lies over what was taken since."""
        self.used = mark


@frozen
class MsmBuffers:
    """Where the arrays of one MSM are. MsmBuffers that are never in use together lie in one place.

    `result` is what the host gets: the lines, then the word about scalars that are too large.
    `zeroed` is what must be zero before the MSM begins: the counts, and that word.
    """

    zeroed: Buffer
    result: Buffer
    lines: Buffer
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
        """Takes what the plan needs."""
        sort = SortShape.of(plan)
        allocate = arena.allocate
        line_bytes = weighted_sums.line_bytes(plan)
        aligned_lines = -(-line_bytes // _ALIGNMENT) * _ALIGNMENT
        bin_bytes = -(-4 * sort.bins // _ALIGNMENT) * _ALIGNMENT
        counter_bytes = 0 if sort.direct else -(-4 * plan.all_buckets // _ALIGNMENT) * _ALIGNMENT
        # The word about scalars ends the result and begins what is zeroed.
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
        starts, chunk_lengths, numbers = (allocate(plan.most_chunks) for _ in range(3))
        first_chunk, count = allocate(plan.all_buckets + 1), allocate(1)
        chunks = Chunks(starts, chunk_lengths, numbers, first_chunk, count)
        entries = allocate(plan.most_entries)
        mark = arena.used
        # The last tile reads on where it ends.
        binned_room = 0 if sort.direct else plan.most_entries + plan.sort.tile
        # Kernels bind keys as words, also where a word has two of them.
        binned, keys = (
            allocate(binned_room),
            allocate(-(-plan.sort.key_bytes * binned_room // u32.bytes)),
        )
        arena.rewind(mark)
        sums = allocate(plan.sum_words * plan.most_chunks, u64)
        scratch_bytes = max(
            accumulate.scratch_bytes(device, plan),
            merge.scratch_bytes(device, plan),
            weighted_sums.scratch_bytes(device, plan)
            if plan.processor.shuffles
            else rounds.scratch_bytes(plan),
        )
        scratch = allocate(-(-scratch_bytes // u64.bytes), u64)
        return cls(
            zeroed, result, lines, too_large, bin_counts, bucket_counts, length_counts, bin_starts,
            bin_cursors, first_tile, bucket_starts, bucket_cursors, block_chunks, block_first,
            ranks, chunks, entries, keys, binned, sums, scratch,
        )  # fmt: skip


def workspace_bytes(device: AnyDevice, plan: GpuMsmPlan) -> int:
    """The size of a workspace for the plan."""
    counts = plan.block_counts
    if len(counts) > 1:
        return blocks_bytes(device, [block_of(plan, count) for count in {*counts}])
    arena = Arena(device)
    MsmBuffers.of(device, plan, arena)
    return arena.peak


def block_of(plan: GpuMsmPlan, count: int) -> GpuMsmPlan:
    """The plan of a part of so many bases."""
    return with_batch(replace(plan, base_block=None), count, plan.batch)


def carried_sums(arena: Arena, plan: GpuMsmPlan) -> Buffer:
    """Room for the sums of buckets that an MSM in sections carries from one to the next."""
    return arena.allocate(plan.sum_words * plan.all_buckets, u64)


def blocks_bytes(device: AnyDevice, plans: Iterable[GpuMsmPlan]) -> int:
    """The size of a workspace for an MSM in sections of these plans."""
    arena, peak = Arena(device), 0
    for plan in plans:
        arena.rewind(0)
        carried_sums(arena, plan)
        MsmBuffers.of(device, plan, arena)
        peak = max(peak, arena.peak)
    return peak
