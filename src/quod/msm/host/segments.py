"""Cutting segments of entries into chunks of bounded length, sorted by falling length.

A segment is a bucket's run of entries. Long ones, such as the bucket of all the ones of a
witness, become several chunks, whose sums are added in a further pass over far fewer entries.
"""

from __future__ import annotations

from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir.types import u32
from quod.kernel.ir.value import U32, Pointer, Value

NO_POINT = 0xFFFFFFFF
"""Stands for the sum of an empty segment."""

# Places in the `totals` of `cut_segments`.
CHUNKS, LONG_SEGMENTS = 0, 1


def _chunk_count(k: Builder, length: Value, longest: Value, chunk_length: Value) -> Value:
    """How many chunks a segment becomes."""
    whole = k.minimum(length, 1)
    return k.select(length > longest, (length + chunk_length - 1) // chunk_length, whole)


@kernel
def cut_segments(
    k: Builder,
    segments: U32,
    longest: U32,
    chunk_length: U32,
    first_target: U32,
    starts: Pointer[U32],
    lengths: Pointer[U32],
    owners: Pointer[U32],
    histogram: Pointer[U32],
    chunk_starts: Pointer[U32],
    chunk_lengths: Pointer[U32],
    chunk_targets: Pointer[U32],
    points: Pointer[U32],
    long_starts: Pointer[U32],
    long_lengths: Pointer[U32],
    long_owners: Pointer[U32],
    totals: Pointer[U32],
) -> None:
    """Chunks no longer than `longest`, one instance on one lane.

    A longer segment is cut into about equal chunks of at most `chunk_length`, which is at most
    `longest`: shorter chunks are more of them, to share inversions.

    The sums go to consecutive points from `first_target` on; points[owner] says to which, or
    NO_POINT for an empty segment. A segment of several chunks becomes a segment of the next pass:
    its sums' numbers, its length, its owner. `histogram` has longest + 1 zeros.
    """
    with k.range(0, segments) as loop:
        length = lengths[loop.index]
        chunks = _chunk_count(k, length, longest, chunk_length)
        with k.if_(chunks != 0):
            short, longer = length // chunks, length % chunks
            histogram[short] = histogram[short] + (chunks - longer)
            histogram[k.minimum(short + 1, longest)] = (
                histogram[k.minimum(short + 1, longest)] + longer
            )
    with k.range(0, longest, carry=k.constant(0, u32)) as ranks:
        length = longest - ranks.index
        here = histogram[length]
        histogram[length] = ranks.carried
        ranks.next(ranks.carried + here)
    totals[CHUNKS] = ranks.results
    with k.range(0, segments, carry=(first_target, k.constant(0, u32))) as loop:
        target, long_count = loop.carried
        start, length, owner = (table[loop.index] for table in (starts, lengths, owners))
        chunks = _chunk_count(k, length, longest, chunk_length)
        divisor = k.maximum(chunks, 1)
        short, longer = length // divisor, length % divisor
        with k.range(0, chunks, carry=start) as cut:
            size = short + k.select(cut.index < longer, k.constant(1, u32), 0)
            rank = histogram[size]
            histogram[size] = rank + 1
            chunk_starts[rank] = cut.carried
            chunk_lengths[rank] = size
            chunk_targets[rank] = target + cut.index
            cut.next(cut.carried + size)
        points[owner] = k.select(chunks == 0, k.constant(NO_POINT, u32), target)
        is_long = chunks > 1
        with k.if_(is_long):
            long_starts[long_count] = target
            long_lengths[long_count] = chunks
            long_owners[long_count] = owner
        more = k.select(is_long, k.constant(1, u32), 0)
        loop.next((target + chunks, long_count + more))
    totals[LONG_SEGMENTS] = loop.results[1]
