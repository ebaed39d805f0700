"""Sums of segments of points on a CPU, in passes over chunks of bounded length."""

from __future__ import annotations

import numpy as np

from quod.curve.group import Group
from quod.device.memory.buffer import Array
from quod.device.protocol import HostDevice
from quod.device.runtime.sentinel import check_written, mark, unwritten
from quod.msm.host import segments
from quod.msm.host.affine_rounds import ROW_UNIT, accumulate, max_rows

# With fewer rows, the shared inversion costs too much.
_FEW_ROWS = 64


class PointSums:
    """Sums of `owner_count` segments of points.

    point_indices: point_indices[i] is the index in `points` of owner i's sum, or
        `segments.NO_POINT`.
    points: uint64 words of affine points, to which passes of additions append.

    A segment of more than `longest` entries is split into chunks of at most `chunk_length`.
    """

    def __init__(
        self, device: HostDevice, group: Group, owner_count: int, *, longest: int, chunk_length: int
    ) -> None:
        self._device = device
        self._group = group
        self._longest = longest
        self._chunk_length = chunk_length
        self.point_indices = np.empty(owner_count, np.uint32)
        self.points: Array = np.empty(0, np.uint64)

    def add_up(self, source: Array, entries: Array, starts: Array, lengths: Array) -> None:
        """Sum every segment of entries, which are signed indices of points of `source`."""
        owners = np.arange(len(starts), dtype=np.uint32)
        first_point = 0
        while len(starts):
            is_long = lengths > np.uint32(self._longest)
            long_chunk_counts = -(-lengths[is_long].astype(np.int64) // self._chunk_length)
            capacity = len(lengths) + int(long_chunk_counts.sum())
            chunked = self._cut(starts, lengths, owners, first_point, capacity)
            (chunk_count, long_count), tables, long_segments = chunked
            if first_point == 0:
                # Each further pass adds three or more chunks to one, so all further passes produce
                # at most half as many points as the long segments have chunks now.
                capacity = chunk_count + int(long_chunk_counts.sum())
                self.points = np.empty(capacity * self._group.point_words, np.uint64)
                points = source
            else:
                points = self.points
                entries = np.arange(first_point, dtype=np.uint32)
            if chunk_count:
                self._accumulate(chunk_count, tables, entries, points)
            starts, lengths, owners = (table[:long_count] for table in long_segments)
            first_point += chunk_count

    def _cut(
        self, starts: Array, lengths: Array, owners: Array, first: int, capacity: int
    ) -> tuple[tuple[int, int], list[Array], list[Array]]:
        """Split segments into chunks, whose sums are the points from index `first` on.

        Returns the numbers of chunks and of long segments, and the arrays of both; see
        `segments.cut_segments`.
        """
        device, longest, chunk_length = self._device, self._longest, self._chunk_length
        histogram = np.zeros(longest + 1, np.uint32)
        tables = [np.empty(capacity, np.uint32) for _ in range(3)]
        long_segments = [np.empty(len(starts), np.uint32) for _ in range(3)]
        totals = unwritten(2)
        cut_kernel = device.compile(segments.cut_segments, lanes=1)
        device.launch(
            cut_kernel, 1, len(starts), longest, chunk_length, first,
            segments.Segments(starts, lengths, owners), histogram, segments.SegmentChunks(*tables),
            self.point_indices, segments.Segments(*long_segments), totals,
        )  # fmt: skip
        check_written(device, "chunks of segments", totals)
        counts = int(totals[segments.CHUNKS]), int(totals[segments.LONG_SEGMENTS])
        return counts, tables, long_segments

    def _accumulate(
        self, chunk_count: int, tables: list[Array], entries: Array, points: Array
    ) -> None:
        """Sum chunks of entries of `points` into `self.points`; `tables` are their columns."""
        device = self._device
        # Several workgroups per thread, so that threads finish together, unless workgroups get too
        # small.
        row_limit = max_rows(self._group)
        chunks_per_instance = -(-chunk_count // (device.lanes * device.threads))
        rows = min(row_limit, max(chunks_per_instance // 4, min(_FEW_ROWS, chunks_per_instance)))
        rows = -(-rows // ROW_UNIT) * ROW_UNIT
        workgroups = -(-chunk_count // (rows * device.lanes))
        kernel = device.compile(accumulate, group=self._group, max_rows=row_limit)
        # The sum of the last chunk holds the sentinel.
        last = self.points.reshape(-1, self._group.point_words)[tables[2][chunk_count - 1]]
        mark(last)
        device.launch(kernel, workgroups, chunk_count, rows, *tables, entries, points, self.points)
        check_written(device, "sums of points", last)
