"""Cutting segments of entries into chunks of bounded length, sorted by falling length.

A segment is a bucket's run of entries. Long ones, such as the bucket of all the ones of a
witness, become several chunks, whose sums are added in a further pass over far fewer entries.
"""

from __future__ import annotations

from quod.kernel.builder.builder import Builder
from quod.kernel.builder.structs import Struct
from quod.kernel.definition import kernel
from quod.kernel.ir.types import u32
from quod.kernel.ir.value import U32, Pointer, Value

NO_POINT = 0xFFFFFFFF
"""Stands for the sum of an empty segment."""

# Places in the `totals` of `cut_segments`.
CHUNKS, LONG_SEGMENTS = 0, 1


class Segments(Struct):
    """Runs of entries: where each begins, its length, and the owner of its sum."""

    starts: Pointer[U32]
    lengths: Pointer[U32]
    owners: Pointer[U32]


class SegmentChunks(Struct):
    """Chunks by falling length: where each begins, its length, and the point its sum goes to."""

    starts: Pointer[U32]
    lengths: Pointer[U32]
    targets: Pointer[U32]


def _chunk_count(k: Builder, length: Value, longest: Value, chunk_length: Value) -> Value:
    """How many chunks a segment becomes."""
    whole = k.minimum(length, 1)
    return k.select(length > longest, (length + chunk_length - 1) // chunk_length, whole)


@kernel
def cut_segments(
    k: Builder,
    count: U32,
    longest: U32,
    chunk_length: U32,
    first_target: U32,
    segments: Segments,
    histogram: Pointer[U32],
    table: SegmentChunks,
    points: Pointer[U32],
    long: Segments,
    totals: Pointer[U32],
) -> None:
    """Cuts `count` segments into chunks no longer than `longest`, one instance on one lane.

    A longer segment is cut into about equal chunks of at most `chunk_length`, which is at most
    `longest`: shorter chunks are more of them, to share inversions.

    The sums go to consecutive points from `first_target` on; points[owner] says to which, or
    NO_POINT for an empty segment. A segment of several chunks becomes a segment of the next pass:
    its sums' numbers, its length, its owner. `histogram` has longest + 1 zeros.
    """
    with k.range(0, count) as loop:
        length = segments.lengths[loop.index]
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
    with k.range(0, count, carry=(first_target, k.constant(0, u32))) as loop:
        target, long_count = loop.carried
        start, length = segments.starts[loop.index], segments.lengths[loop.index]
        owner = segments.owners[loop.index]
        chunks = _chunk_count(k, length, longest, chunk_length)
        divisor = k.maximum(chunks, 1)
        short, longer = length // divisor, length % divisor
        with k.range(0, chunks, carry=start) as cut:
            size = short + k.select(cut.index < longer, k.constant(1, u32), 0)
            rank = histogram[size]
            histogram[size] = rank + 1
            table.starts[rank] = cut.carried
            table.lengths[rank] = size
            table.targets[rank] = target + cut.index
            cut.next(cut.carried + size)
        points[owner] = k.select(chunks == 0, k.constant(NO_POINT, u32), target)
        is_long = chunks > 1
        with k.if_(is_long):
            long.starts[long_count] = target
            long.lengths[long_count] = chunks
            long.owners[long_count] = owner
        more = k.select(is_long, k.constant(1, u32), 0)
        loop.next((target + chunks, long_count + more))
    totals[LONG_SEGMENTS] = loop.results[1]
