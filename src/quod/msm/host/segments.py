"""Split segments of entries into chunks of bounded length, sorted by falling length.

A segment is the range of a bucket's entries. A long segment, such as the bucket of all ones of a
witness, becomes several chunks, whose sums are added in a further pass over far fewer entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.kernel.builder.structs import Struct
from quod.kernel.definition import kernel
from quod.kernel.ir.types import u32
from quod.kernel.ir.value import U32, Pointer, Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

NO_POINT = 0xFFFFFFFF
"""The point number of an empty segment's sum."""

# Indices of the `totals` of `cut_segments`.
CHUNKS, LONG_SEGMENTS = 0, 1


class Segments(Struct):
    """Ranges of entries: start, length, and owner of the sum."""

    starts: Pointer[U32]
    lengths: Pointer[U32]
    owners: Pointer[U32]


class SegmentChunks(Struct):
    """Chunks sorted by falling length: start, length, and index of the point for the sum."""

    starts: Pointer[U32]
    lengths: Pointer[U32]
    targets: Pointer[U32]


def _chunk_count(k: Builder, length: Value, longest: Value, chunk_length: Value) -> Value:
    """Return the number of chunks of a segment."""
    uncut = k.minimum(length, 1)
    return k.select(length > longest, (length + chunk_length - 1) // chunk_length, uncut)


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
    """Split `count` segments into chunks of at most `longest` entries. Runs as one instance.

    A longer segment is split into about equal chunks of at most `chunk_length`, which is at most
    `longest`, because more and shorter chunks share inversions better.

    The sums go to consecutive points from `first_target` on.

    histogram: longest + 1 zeros.
    table: receives the chunks.
    points: points[owner] is set to the index of the segment's first sum, or NO_POINT if it is
        empty.
    long: receives, for each segment of several chunks, the segment of its sums for the next pass.
    totals: receives the numbers of chunks and of long segments.
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
        chunk_count = histogram[length]
        histogram[length] = ranks.carried
        ranks.next(ranks.carried + chunk_count)
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
        long_chunks = k.select(is_long, k.constant(1, u32), 0)
        loop.next((target + chunks, long_count + long_chunks))
    totals[LONG_SEGMENTS] = loop.results[1]
