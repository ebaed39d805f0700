"""Split buckets into chunks and sort the chunks by length.

    place_buckets   bucket starts, chunks of each bucket, histogram of chunk lengths
    scan_chunks     first chunk of each block, first rank of each length
    make_chunks     the chunk table

A block is a range of buckets that one workgroup handles. A bucket of more than `longest` entries is
split into chunks of about equal length. A counting sort ranks the chunks by falling length.
"""

from __future__ import annotations

from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, Pointer, Value
from quod.kernel.machine import Capability
from quod.msm.gpu.layout import ChunkTable
from quod.msm.gpu.sort.workgroup import Scan, clear

MAX_LONGEST = 1023
"""The maximum number of entries of a chunk."""

LENGTHS = MAX_LONGEST + 1

# A workgroup writes the chunks of a bucket with more chunks than this, a subgroup those of a
# smaller bucket.
_MANY_CHUNKS = 1024


@frozen
class _Split:
    """The split of one bucket into `chunk_count` chunks.

    The first `longer_count` have short_length + 1 entries, the others short_length.
    """

    chunk_count: Value
    short_length: Value
    longer_count: Value

    @classmethod
    def of(cls, k: Builder, length: Value, longest: Value) -> _Split:
        chunk_count = (length + longest - 1) // longest
        divisor = k.maximum(chunk_count, 1)
        short_length = length // divisor
        return cls(chunk_count, short_length, length - short_length * divisor)

    def count_chunks(self, k: Builder, table: Value) -> tuple[Value, Value]:
        """Add the chunks to a histogram of lengths.

        Returns the previous values of the counters of the longer and of the shorter length.
        """
        ranks = []
        for length, count in (
            (self.short_length + 1, self.longer_count),
            (self.short_length, self.chunk_count - self.longer_count),
        ):
            with k.if_(count != 0) as branch:
                branch.yield_(k.atomic_add(table, length, count))
            with branch.otherwise():
                branch.yield_(k.constant(0, types.u32))
            ranks.append(branch.results)
        return ranks[0], ranks[1]


def _instance_buckets(
    k: Builder, counts: Value, block_bits: int
) -> list[tuple[Value, Value, Value]]:
    """Return (bucket, entries, exists) of an instance's consecutive buckets."""
    size = 1 << block_bits
    buckets_per_instance = max(1, size // k.workgroup_size)
    offset = k.local_id() * buckets_per_instance
    exists = offset < size
    first_bucket = (k.workgroup_id() << block_bits) + k.select(exists, offset, 0)
    loaded = k.load(counts, first_bucket, buckets_per_instance)
    return [
        (first_bucket + i, k.select(exists, count, 0), exists) for i, count in enumerate(loaded)
    ]


@kernel
def place_buckets(
    k: Builder,
    longest: U32,
    block_starts: Pointer[U32],
    counts: Pointer[U32],
    starts: Pointer[U32],
    cursors: Pointer[U32],
    first_chunk: Pointer[U32],
    block_chunks: Pointer[U32],
    length_counts: Pointer[U32],
    *,
    block_bits: int,
    start_bits: int,
    compact: bool = False,
) -> None:
    """Compute starts and first chunks of a block's buckets, one workgroup per block.

    Block q begins at entry ``block_starts[q << start_bits]``. `first_chunk` is relative to the
    block until `make_chunks`; length_counts[n] counts chunks of n entries.
    compact: count in device memory, without a histogram of the block in shared memory.
    """
    scan = Scan(k)
    lengths: Value = length_counts
    if not compact:
        lengths = k.shared(types.u32, LENGTHS)
        clear(k, lengths, LENGTHS)
    own_buckets = _instance_buckets(k, counts, block_bits)
    splits = [_Split.of(k, count, longest) for _, count, _ in own_buckets]
    entries = chunks = k.constant(0, types.u32)
    for (_, count, _), split in zip(own_buckets, splits, strict=True):
        entries, chunks = entries + count, chunks + split.chunk_count
    start, _ = scan.exclusive(entries)
    start = start + block_starts[k.workgroup_id() << start_bits]
    chunk, all_chunks = scan.exclusive(chunks)
    for (bucket, count, exists), split in zip(own_buckets, splits, strict=True):
        with k.if_(exists):
            starts[bucket] = start
            cursors[bucket] = start
            first_chunk[bucket] = chunk
        split.count_chunks(k, lengths)
        start, chunk = start + count, chunk + split.chunk_count
    with k.if_(k.local_id() == 0):
        block_chunks[k.workgroup_id()] = all_chunks
    if compact:
        return
    k.barrier()
    with k.range(k.local_id(), LENGTHS, k.workgroup_size) as loop:
        length_count = lengths[loop.index]
        with k.if_(length_count != 0):
            k.atomic_add(length_counts, loop.index, length_count)


@kernel
def scan_chunks(
    k: Builder,
    block_chunks: Pointer[U32],
    length_counts: Pointer[U32],
    block_first: Pointer[U32],
    ranks: Pointer[U32],
    first_chunk: Pointer[U32],
    count: Pointer[U32],
    *,
    blocks: int,
    buckets: int,
) -> None:
    """Compute the first chunk of each block, the first rank of each length, and the chunk count.

    Ranks begin with the longest chunks. Launched as one workgroup.
    """
    scan = Scan(k)

    def place_block(index: Value, total_before: Value) -> None:
        block_first[index] = total_before

    def place_length(index: Value, total_before: Value) -> None:
        ranks[MAX_LONGEST - index] = total_before

    chunks = scan.array(blocks, lambda index: block_chunks[index], place_block)
    scan.array(LENGTHS, lambda index: length_counts[MAX_LONGEST - index], place_length)
    with k.if_(k.local_id() == 0):
        first_chunk[buckets] = chunks
        count[0] = chunks


class _Slots:
    """Bucket records in shared memory, one per instance, so that other instances can read them."""

    def __init__(self, k: Builder, fields: int) -> None:
        self._k = k
        self._fields = [k.shared(types.u32, k.workgroup_size) for _ in range(fields)]

    def put(self, values: list[Value]) -> None:
        for field, value in zip(self._fields, values, strict=True):
            field[self._k.local_id()] = value

    def get(self, slot: Value) -> list[Value]:
        return [field[slot] for field in self._fields]


@frozen
class _Bucket:
    """A bucket whose chunks are to be written.

    start: the index of its first entry.
    first_chunk: the index of its first chunk.
    chunk_count, short_length, longer_count: see `_Split`.
    longer_rank: the rank of its first longer chunk.
    short_rank: the rank of its first shorter chunk.
    """

    start: Value
    first_chunk: Value
    chunk_count: Value
    short_length: Value
    longer_count: Value
    longer_rank: Value
    short_rank: Value

    def write(self, k: Builder, i: Value, table: ChunkTable) -> None:
        """Write chunk i of the bucket to the table."""
        is_longer = i < self.longer_count
        rank = k.select(is_longer, self.longer_rank + i, self.short_rank + (i - self.longer_count))
        table.starts[rank] = self.start + i * self.short_length + k.minimum(i, self.longer_count)
        table.lengths[rank] = self.short_length + k.select(is_longer, k.constant(1, types.u32), 0)
        table.numbers[rank] = self.first_chunk + i

    def values(self) -> list[Value]:
        return [
            self.start, self.first_chunk, self.chunk_count, self.short_length, self.longer_count,
            self.longer_rank, self.short_rank,
        ]  # fmt: skip


def _write_by_instance(k: Builder, bucket: _Bucket, max_chunks: int, table: ChunkTable) -> None:
    """Write the chunks of an instance's bucket if there are at most `max_chunks`."""
    if max_chunks == 1:
        with k.if_(bucket.chunk_count == 1):
            bucket.write(k, k.constant(0, types.u32), table)
        return
    with k.range(0, k.select(bucket.chunk_count <= max_chunks, bucket.chunk_count, 0)) as loop:
        bucket.write(k, loop.index, table)


@kernel
def make_chunks(
    k: Builder,
    longest: U32,
    counts: Pointer[U32],
    bucket_starts: Pointer[U32],
    block_first: Pointer[U32],
    ranks: Pointer[U32],
    table: ChunkTable,
    first_chunk: Pointer[U32],
    *,
    block_bits: int,
    own_chunks: int | None = 1,
) -> None:
    """Write the chunks of a block's buckets, one workgroup per block; see `layout.Chunks`.

    own_chunks: an instance alone writes the chunks of a bucket that has at most so many. With None
        it writes those of all its buckets, and ranks are counted in device memory, so the kernel
        has no shared memory.
    """
    if own_chunks is None:
        _make_chunks_by_instances(
            k, longest, counts, bucket_starts, block_first, ranks, table, first_chunk, block_bits
        )
        return
    uses_subgroups = not k.machine.has(Capability.SLOW_SUBGROUPS)
    max_subgroup_chunks = _MANY_CHUNKS if uses_subgroups else own_chunks
    histogram = k.shared(types.u32, LENGTHS)
    slots = _Slots(k, 7)
    large_lanes = k.shared(types.u32, k.workgroup_size)
    large_count = k.shared(types.u32, 1)
    clear(k, histogram, LENGTHS)
    own_buckets = _instance_buckets(k, counts, block_bits)
    splits = [_Split.of(k, count, longest) for _, count, _ in own_buckets]
    k.barrier()
    chunk_ranks = [split.count_chunks(k, histogram) for split in splits]
    k.barrier()
    with k.range(k.local_id(), LENGTHS, k.workgroup_size) as loop:
        length_count = histogram[loop.index]
        # Reserve ranks for the block's chunks of each length; `histogram` then has the first rank.
        with k.if_(length_count != 0):
            histogram[loop.index] = k.atomic_add(ranks, loop.index, length_count)
    block_first_chunk = block_first[k.workgroup_id()]
    for (bucket, _, exists), split, (longer_rank, short_rank) in zip(
        own_buckets, splits, chunk_ranks, strict=True
    ):
        with k.if_(k.local_id() == 0):
            large_count[0] = 0
        k.barrier()
        own_bucket = _Bucket(
            bucket_starts[bucket], first_chunk[bucket] + block_first_chunk, split.chunk_count,
            split.short_length, split.longer_count,
            histogram[k.minimum(split.short_length + 1, MAX_LONGEST)] + longer_rank,
            histogram[split.short_length] + short_rank,
        )  # fmt: skip
        with k.if_(exists):
            first_chunk[bucket] = own_bucket.first_chunk
        _write_by_instance(k, own_bucket, own_chunks, table)
        slots.put(own_bucket.values())
        with k.if_(split.chunk_count > max_subgroup_chunks):
            large_lanes[k.atomic_add(large_count, 0, 1)] = k.local_id()
        if uses_subgroups:
            pending_lanes = k.ballot(
                (split.chunk_count > own_chunks) & (split.chunk_count <= max_subgroup_chunks)
            )
        k.barrier()
        if uses_subgroups:
            first_slot = k.local_id() - k.lane_id()
            with k.while_(pending_lanes) as lanes_loop:
                lanes_loop.check(lanes_loop.carried != 0)
                lane_bucket = _Bucket(*slots.get(first_slot + k.emit("ctz", (lanes_loop.carried,))))
                with k.range(k.lane_id(), lane_bucket.chunk_count, k.subgroup_size) as loop:
                    lane_bucket.write(k, loop.index, table)
                lanes_loop.next(lanes_loop.carried & (lanes_loop.carried - 1))
        with k.range(0, large_count[0]) as large_loop:
            lane_bucket = _Bucket(*slots.get(large_lanes[large_loop.index]))
            with k.range(k.local_id(), lane_bucket.chunk_count, k.workgroup_size) as loop:
                lane_bucket.write(k, loop.index, table)
        k.barrier()


def _make_chunks_by_instances(
    k: Builder, longest: Value, counts: Value, bucket_starts: Value, block_first: Value,
    ranks: Value, table: ChunkTable, first_chunk: Value, block_bits: int,
) -> None:  # fmt: skip
    """Trace `make_chunks` without shared memory."""
    block_first_chunk = block_first[k.workgroup_id()]
    for bucket, count, exists in _instance_buckets(k, counts, block_bits):
        split = _Split.of(k, count, longest)
        longer_rank, short_rank = split.count_chunks(k, ranks)
        own_bucket = _Bucket(
            bucket_starts[bucket], first_chunk[bucket] + block_first_chunk, split.chunk_count,
            split.short_length, split.longer_count, longer_rank, short_rank,
        )  # fmt: skip
        with k.if_(exists):
            first_chunk[bucket] = own_bucket.first_chunk
        with k.range(0, split.chunk_count) as loop:
            own_bucket.write(k, loop.index, table)
