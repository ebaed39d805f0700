"""Multi-scalar multiplication: the sum of scalar times base over two arrays.

Pippenger's bucket method: digits, a counting sort into buckets, sums of the buckets in affine
coordinates with shared inversions, sums of rows and columns of buckets by the same kernel, and
Horner's rule over the windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quod.curve.groups import Group
from quod.curve.parameters import Fq2Element
from quod.device.cpu import CpuDevice
from quod.device.timeline import Timeline, or_null
from quod.errors import InputError
from quod.msm import reduce, slices
from quod.msm.accumulate import CHAINS, accumulate
from quod.msm.digits import SCALAR_WORDS, count_digits, digits, place_buckets, scatter_digits
from quod.msm.options import MsmOptions
from quod.msm.plan import MsmPlan, plan_msm

Array = np.ndarray[Any, Any]
AffineInts = tuple[int, int] | tuple[Fq2Element, Fq2Element] | None

_MAX_ROWS = 256


class MsmBases:
    """Bases that stay with a device for many MSMs.

    `points` is a host array of affine points in Montgomery form, shape (n, *group.shape), dtype
    uint32; it is used in place and must not change. Points are not checked to be on the curve.
    """

    def __init__(self, device: CpuDevice, group: Group, points: Array) -> None:
        if points.dtype != np.uint32 or points.shape[1:] != group.shape:
            raise InputError(
                f"bases of {group.name} are uint32 words of shape (n, "
                f"{', '.join(map(str, group.shape))}), not {points.dtype} of {points.shape}"
            )
        if len(points) >= 1 << 31:
            raise InputError("an MSM takes fewer than 2**31 bases")
        self.device = device
        self.group = group
        self.points = np.ascontiguousarray(points)
        flat = self.points.reshape(len(points), -1)
        self.infinite: Array = (~flat.any(axis=1)).astype(np.uint8)
        self.has_infinite = bool(self.infinite.any())

    def __len__(self) -> int:
        return len(self.points)


class _Sums:
    """Points that passes of additions append to, and which of them each owner's sum is."""

    def __init__(self, device: CpuDevice, plan: MsmPlan, owners: int) -> None:
        self._device = device
        self._plan = plan
        self.numbers = np.empty(owners, np.uint32)
        self.points: Array = np.empty(0, np.uint64)

    def add_up(self, source: Array, entries: Array, starts: Array, lengths: Array) -> None:
        """Sums every segment of entries, which stand for points of `source`."""
        owners = np.arange(len(starts), dtype=np.uint32)
        first = 0
        while len(starts):
            room = int((lengths.astype(np.int64) + self._plan.longest - 1).sum())
            room //= self._plan.longest
            cut = self._cut(starts, lengths, owners, first, room)
            (total, long_count), tables, longs = cut
            if first == 0:
                # Every further pass has at most two thirds of the slices of the one before.
                self.points = np.empty((3 * total + 1) * self._plan.group.point_words, np.uint64)
                points = source
            else:
                points = self.points
                entries = np.arange(first, dtype=np.uint32)
            if total:
                self._accumulate(total, tables, entries, points)
            starts, lengths, owners = (table[:long_count] for table in longs)
            first += total

    def _cut(
        self, starts: Array, lengths: Array, owners: Array, first: int, room: int
    ) -> tuple[tuple[int, int], list[Array], list[Array]]:
        device, longest = self._device, self._plan.longest
        histogram = np.zeros(longest + 1, np.uint32)
        tables = [np.empty(room, np.uint32) for _ in range(3)]
        longs = [np.empty(len(starts), np.uint32) for _ in range(3)]
        totals = np.zeros(2, np.uint32)
        cut = device.compile(slices.cut_segments, lanes=1)
        device.launch(
            cut, 1, len(starts), longest, first, starts, lengths, owners, histogram, *tables,
            self.numbers, *longs, totals,
        )  # fmt: skip
        return (int(totals[0]), int(totals[1])), tables, longs

    def _accumulate(self, total: int, tables: list[Array], entries: Array, points: Array) -> None:
        device = self._device
        # Enough workgroups for every thread to have several, and rows enough to share inversions.
        rows = total // (8 * device.lanes * device.threads)
        rows = min(_MAX_ROWS, max(16, rows)) // CHAINS * CHAINS
        groups = -(-total // (rows * device.lanes))
        kernel = device.compile(accumulate, group=self._plan.group, max_rows=_MAX_ROWS)
        device.launch(kernel, groups, total, rows, *tables, entries, points, self.points)


class _Execution:
    """One MSM in progress."""

    def __init__(self, bases: MsmBases, plan: MsmPlan, timeline: Timeline | None) -> None:
        self.bases = bases
        self.device = bases.device
        self.plan = plan
        self.timeline = or_null(timeline)

    def run(self, scalars: Array) -> Array:
        plan, device = self.plan, self.device
        with self.timeline.stage("digits"):
            stored = self._digits(scalars)
        with self.timeline.stage("sort"):
            entries, starts, lengths = self._sort(stored)
        del stored
        with self.timeline.stage("accumulate"):
            buckets = _Sums(device, plan, len(starts))
            source = self.bases.points.reshape(-1).view(np.uint64)
            buckets.add_up(source, entries, starts, lengths)
        del entries
        with self.timeline.stage("reduce"):
            return self._reduce(buckets)

    def _digits(self, scalars: Array) -> Array:
        plan, device, bases = self.plan, self.device, self.bases
        stored = np.empty(plan.digit_windows * plan.count, np.uint16)
        overflow = np.zeros(1, np.uint32)
        kernel = device.compile(
            digits, lanes=device.lanes, window_bits=plan.window_bits, windows=plan.digit_windows,
            masked=bases.has_infinite,
        )  # fmt: skip
        groups = -(-plan.count // device.lanes)
        words = scalars.reshape(-1).view(np.uint64)
        device.launch(kernel, groups, plan.count, words, bases.infinite, stored, overflow)
        if overflow[0]:
            raise InputError(
                "a scalar is larger than promised: scalars are canonical integers below the "
                "group's order, or below 2**scalar_bits"
            )
        return stored

    def _sort(self, stored: Array) -> tuple[Array, Array, Array]:
        plan, device = self.plan, self.device
        parts = max(1, -(-2 * device.threads // plan.windows)) if plan.count > 4096 else 1
        buckets, windows = plan.buckets, plan.windows
        counts = np.zeros(windows * parts * buckets, np.uint32)
        shape = (plan.count, parts, windows, plan.copies, buckets)
        kernel = device.compile(count_digits, lanes=1)
        device.launch(kernel, windows * parts, *shape, stored, counts)
        starts = np.empty(windows * buckets, np.uint32)
        lengths = np.empty(windows * buckets, np.uint32)
        room = plan.count * plan.copies
        kernel = device.compile(place_buckets, lanes=1)
        device.launch(kernel, windows, room, parts, buckets, counts, starts, lengths)
        entries = np.empty(windows * room, np.uint32)
        kernel = device.compile(scatter_digits, lanes=1)
        device.launch(kernel, windows * parts, *shape, stored, counts, entries)
        return entries, starts, lengths

    def _reduce(self, buckets: _Sums) -> Array:
        plan, device, group = self.plan, self.device, self.plan.group
        segments = plan.windows * (plan.rows + plan.columns)
        entries = np.empty(plan.windows * plan.buckets * 2 + 1, np.uint32)
        starts, lengths = (np.empty(segments, np.uint32) for _ in range(2))
        kernel = device.compile(reduce.list_rows_and_columns, lanes=1)
        device.launch(
            kernel, plan.windows, plan.rows, plan.columns, buckets.numbers, entries, starts, lengths
        )  # fmt: skip
        lines = _Sums(device, plan, segments)
        lines.add_up(buckets.points, entries, starts, lengths)
        count = 2 * plan.windows
        sums = np.empty(count * 4 * group.coordinate_words, np.uint64)
        kernel = device.compile(reduce.weigh, group=group)
        device.launch(
            kernel, -(-count // device.lanes), count, plan.rows, plan.columns, lines.numbers,
            lines.points, sums,
        )  # fmt: skip
        result = np.zeros(group.point_words, np.uint64)
        kernel = device.compile(reduce.combine, lanes=1, group=group)
        device.launch(
            kernel, 1, plan.windows, plan.window_bits, plan.column_bits, sums, result
        )  # fmt: skip
        return result


def msm_words(
    bases: MsmBases,
    scalars: Array,
    options: MsmOptions | None = None,
    timeline: Timeline | None = None,
) -> Array:
    """The sum of scalars[i] * bases[i] as the uint64 words of an affine point in Montgomery form.

    `scalars` are canonical integers, uint32 words of shape (n, 8); there may be fewer than bases.
    (0, 0) stands for infinity. Raises InputError for a scalar above the promised size.
    """
    if scalars.dtype != np.uint32 or scalars.shape[1:] != (2 * SCALAR_WORDS,):
        raise InputError(
            f"scalars are uint32 words of shape (n, 8), not {scalars.dtype} of {scalars.shape}"
        )
    if len(scalars) > len(bases):
        raise InputError(f"{len(scalars)} scalars have only {len(bases)} bases")
    if not len(scalars):
        return np.zeros(bases.group.point_words, np.uint64)
    plan = plan_msm(bases.group, len(scalars), options or MsmOptions())
    return _Execution(bases, plan, timeline).run(np.ascontiguousarray(scalars))


def affine_ints(group: Group, words: Array) -> AffineInts:
    """An affine point of Montgomery words as plain integers; None for infinity."""
    if not words.any():
        return None
    modulus = group.coordinates
    size = modulus.bytes
    data = words.tobytes()
    numbers = [
        modulus.from_montgomery(int.from_bytes(data[at : at + size], "little"))
        for at in range(0, len(data), size)
    ]
    if group.degree == 1:
        return numbers[0], numbers[1]
    return (numbers[0], numbers[1]), (numbers[2], numbers[3])


def msm(
    device: CpuDevice,
    group: Group,
    bases: Array | MsmBases,
    scalars: Array,
    options: MsmOptions | None = None,
    timeline: Timeline | None = None,
) -> AffineInts:
    """The sum of scalars[i] * bases[i] as plain affine integers, None for infinity.

    See `MsmBases` and `msm_words` for the arrays and the errors.
    """
    resident = bases if isinstance(bases, MsmBases) else MsmBases(device, group, bases)
    return affine_ints(group, msm_words(resident, scalars, options, timeline))
