"""Split buckets into chunks and sort the chunks by length.

    place_buckets   bucket starts, chunks of each bucket, histogram of chunk lengths
    scan_chunks     first chunk number of each block, first rank of each length
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

LANES = 256
"""Instances of a workgroup of these kernels."""

MAX_LONGEST = 1023
"""The maximum number of entries of a chunk."""

LENGTHS = MAX_LONGEST + 1

# A workgroup writes the chunks of a bucket with more chunks than this, a subgroup those of a
# smaller bucket.
_MANY_CHUNKS = 1024


@frozen
class _Split:
    """The split of one bucket: `longer` chunks of short + 1 entries, then chunks of `short`."""

    chunks: Value
    short: Value
    longer: Value

    @classmethod
    def of(cls, k: Builder, length: Value, longest: Value) -> _Split:
        chunks = (length + longest - 1) // longest
        divisor = k.maximum(chunks, 1)
        short = length // divisor
        return cls(chunks, short, length - short * divisor)

    def tally(self, k: Builder, table: Value) -> tuple[Value, Value]:
        """Add the chunks to a histogram of lengths.

        Returns the previous values of the counters of the longer and of the shorter length.
        """
        ranks = []
        for length, number in (
            (self.short + 1, self.longer),
            (self.short, self.chunks - self.longer),
        ):
            with k.if_(number != 0) as branch:
                branch.yield_(k.atomic_add(table, length, number))
            with branch.otherwise():
                branch.yield_(k.constant(0, types.u32))
            ranks.append(branch.results)
        return ranks[0], ranks[1]


def _instance_counts(
    k: Builder, counts: Value, block_bits: int
) -> list[tuple[Value, Value, Value]]:
    """Return (bucket, entries, exists) of an instance's consecutive buckets."""
    size = 1 << block_bits
    buckets_per_instance = max(1, size // k.workgroup_size)
    offset = k.local_id() * buckets_per_instance
    exists = offset < size
    first = (k.workgroup_id() << block_bits) + k.select(exists, offset, 0)
    loaded = k.load(counts, first, buckets_per_instance)
    return [(first + i, k.select(exists, count, 0), exists) for i, count in enumerate(loaded)]


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
) -> None:
    """Compute starts and first chunks of a block's buckets, one workgroup per block.

    Block q begins at entry ``block_starts[q << start_bits]``. `first_chunk` is relative to the
    block until `make_chunks`; length_counts[n] counts chunks of n entries.
    """
    scan = Scan(k)
    lengths = k.shared(types.u32, LENGTHS)
    clear(k, lengths, LENGTHS)
    bucket_sizes = _instance_counts(k, counts, block_bits)
    cuts = [_Split.of(k, count, longest) for _, count, _ in bucket_sizes]
    entries = chunks = k.constant(0, types.u32)
    for (_, count, _), cut in zip(bucket_sizes, cuts, strict=True):
        entries, chunks = entries + count, chunks + cut.chunks
    start, _ = scan.exclusive(entries)
    start = start + block_starts[k.workgroup_id() << start_bits]
    chunk, all_chunks = scan.exclusive(chunks)
    for (bucket, count, exists), cut in zip(bucket_sizes, cuts, strict=True):
        with k.if_(exists):
            starts[bucket] = start
            cursors[bucket] = start
            first_chunk[bucket] = chunk
        cut.tally(k, lengths)
        start, chunk = start + count, chunk + cut.chunks
    with k.if_(k.local_id() == 0):
        block_chunks[k.workgroup_id()] = all_chunks
    k.barrier()
    with k.range(k.local_id(), LENGTHS, k.workgroup_size) as loop:
        number = lengths[loop.index]
        with k.if_(number != 0):
            k.atomic_add(length_counts, loop.index, number)


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

    def place_block(index: Value, before: Value) -> None:
        block_first[index] = before

    def place_length(index: Value, before: Value) -> None:
        ranks[MAX_LONGEST - index] = before

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
    chunk: the number of its first chunk.
    chunks: its number of chunks; the first `longer` have short + 1 entries, the others short.
    longer_rank: the rank of its first longer chunk.
    short_rank: the rank of its first shorter chunk.
    """

    start: Value
    chunk: Value
    chunks: Value
    short: Value
    longer: Value
    longer_rank: Value
    short_rank: Value

    def write(self, k: Builder, i: Value, table: ChunkTable) -> None:
        """Write chunk i of the bucket to the table."""
        is_longer = i < self.longer
        rank = k.select(is_longer, self.longer_rank + i, self.short_rank + (i - self.longer))
        table.starts[rank] = self.start + i * self.short + k.minimum(i, self.longer)
        table.lengths[rank] = self.short + k.select(is_longer, k.constant(1, types.u32), 0)
        table.numbers[rank] = self.chunk + i

    def values(self) -> list[Value]:
        return [
            self.start, self.chunk, self.chunks, self.short, self.longer, self.longer_rank,
            self.short_rank,
        ]  # fmt: skip


def _write_by_instance(k: Builder, bucket: _Bucket, max_chunks: int, table: ChunkTable) -> None:
    """Write the chunks of an instance's bucket if there are at most `max_chunks`."""
    if max_chunks == 1:
        with k.if_(bucket.chunks == 1):
            bucket.write(k, k.constant(0, types.u32), table)
        return
    with k.range(0, k.select(bucket.chunks <= max_chunks, bucket.chunks, 0)) as loop:
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
    own_chunks: int = 1,
) -> None:
    """Write the chunks of a block's buckets, one workgroup per block; see `layout.Chunks`.

    An instance alone writes the chunks of a bucket that has at most `own_chunks`.
    """
    by_subgroups = not k.machine.has(Capability.SLOW_SUBGROUPS)
    max_of_subgroup = _MANY_CHUNKS if by_subgroups else own_chunks
    tally = k.shared(types.u32, LENGTHS)
    slots = _Slots(k, 7)
    many = k.shared(types.u32, k.workgroup_size)
    many_count = k.shared(types.u32, 1)
    clear(k, tally, LENGTHS)
    bucket_sizes = _instance_counts(k, counts, block_bits)
    cuts = [_Split.of(k, count, longest) for _, count, _ in bucket_sizes]
    k.barrier()
    chunk_ranks = [cut.tally(k, tally) for cut in cuts]
    k.barrier()
    with k.range(k.local_id(), LENGTHS, k.workgroup_size) as loop:
        number = tally[loop.index]
        with k.if_(number != 0):
            tally[loop.index] = k.atomic_add(ranks, loop.index, number)
    first = block_first[k.workgroup_id()]
    for (bucket, _, exists), cut, (longer_rank, short_rank) in zip(
        bucket_sizes, cuts, chunk_ranks, strict=True
    ):
        with k.if_(k.local_id() == 0):
            many_count[0] = 0
        k.barrier()
        own_bucket = _Bucket(
            bucket_starts[bucket], first_chunk[bucket] + first, cut.chunks, cut.short, cut.longer,
            tally[k.minimum(cut.short + 1, MAX_LONGEST)] + longer_rank,
            tally[cut.short] + short_rank,
        )  # fmt: skip
        with k.if_(exists):
            first_chunk[bucket] = own_bucket.chunk
        _write_by_instance(k, own_bucket, own_chunks, table)
        slots.put(own_bucket.values())
        with k.if_(cut.chunks > max_of_subgroup):
            many[k.atomic_add(many_count, 0, 1)] = k.local_id()
        if by_subgroups:
            waiting = k.ballot((cut.chunks > own_chunks) & (cut.chunks <= max_of_subgroup))
        k.barrier()
        if by_subgroups:
            first_slot = k.local_id() - k.lane_id()
            with k.while_(waiting) as several:
                several.check(several.carried != 0)
                other = _Bucket(*slots.get(first_slot + k.emit("ctz", (several.carried,))))
                with k.range(k.lane_id(), other.chunks, k.subgroup_size) as loop:
                    other.write(k, loop.index, table)
                several.next(several.carried & (several.carried - 1))
        with k.range(0, many_count[0]) as large:
            other = _Bucket(*slots.get(many[large.index]))
            with k.range(k.local_id(), other.chunks, k.workgroup_size) as loop:
                other.write(k, loop.index, table)
        k.barrier()
