"""Sorting entries by bucket: a partition into bins of buckets, then one within each bin.

    count_bins      how many digits fall into each bin
    scan_bins       where each bin begins, and its tiles
    scatter_bins    keys (the bucket within its bin) and entries, bin by bin
    count_buckets   how many entries each bucket has
    scatter_buckets entries, bucket by bucket

A workgroup counts its tile in shared memory, takes that many places of each bin or bucket at once
from a cursor in device memory, and writes there, so entries of a bucket are in no fixed order. With
few buckets a bin is one bucket: then the first three kernels do it all.
"""

from __future__ import annotations

from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.value import U16, U32, Pointer, Value
from quod.msm.gpu.digits import Digits, DigitShape, Source
from quod.msm.gpu.workgroup import Scan, Tally

LANES = 256
"""Instances a workgroup of these kernels."""

SCAN_LANES = 1024
"""Instances of the one workgroup that adds up bins."""

ENTRIES_A_LANE = 8

TILE = LANES * ENTRIES_A_LANE
"""Entries of one bin that a workgroup takes at once."""

_RESIDENT = 3
"""Workgroups a multiprocessor should hold: what limits these kernels is memory."""

# A key is below 2**13 and a rank below TILE.
_RANK_SHIFT = 16
_NOTHING = 0xFFFFFFFF

MOST_BINS = 8192
"""Counters that fit the shared memory of every workgroup."""


@kernel
def count_bins(
    k: Builder,
    count: U32,
    total: U32,
    scalar_stride: U32,
    base_stride: U32,
    first: U32,
    scalars: Pointer[U32],
    indices: Pointer[U32],
    marks: Pointer[U32],
    bin_counts: Pointer[U32],
    too_large: Pointer[U32],
    *,
    shape: DigitShape,
) -> None:
    """Adds how many digits fall into each bin to bin_counts; see `Source` for the parameters.

    Notes in too_large[0] if a scalar is above the maximum; see `position_of_too_large`.
    """
    k.resident_workgroups(_RESIDENT)
    source = Source(count, total, scalar_stride, base_stride, first, scalars, indices, marks)
    tally = Tally(k, shape.bins)
    tally.clear()
    k.barrier()
    step = k.num_workgroups() * k.workgroup_size
    with k.range(k.workgroup_id() * k.workgroup_size, total, step) as loop:
        digits = Digits(k, shape, source, loop.index + k.local_id())
        digits.check(too_large)
        for digit in digits.all():
            tally.add(digit.bucket >> shape.low_bits, digit.exists)
    k.barrier()
    with k.range(k.local_id(), shape.bins, k.workgroup_size) as bins:
        number = tally.table[bins.index]
        with k.if_(number != 0):
            k.atomic_add(bin_counts, bins.index, number)


@kernel
def scan_bins(
    k: Builder,
    bin_counts: Pointer[U32],
    bin_starts: Pointer[U32],
    cursors: Pointer[U32],
    first_tile: Pointer[U32],
    *,
    bins: int,
) -> None:
    """Where each bin begins, twice, and its first tile; bins + 1 elements but for `cursors`.

    For one workgroup.
    """
    scan = Scan(k)

    def place(index: Value, before: Value) -> None:
        bin_starts[index] = before
        cursors[index] = before

    def place_tile(index: Value, before: Value) -> None:
        first_tile[index] = before

    entries = scan.array(bins, lambda index: bin_counts[index], place)
    tiles = scan.array(bins, lambda index: (bin_counts[index] + (TILE - 1)) // TILE, place_tile)
    with k.if_(k.local_id() == 0):
        bin_starts[bins] = entries
        first_tile[bins] = tiles


@kernel
def scatter_bins(
    k: Builder,
    count: U32,
    total: U32,
    scalar_stride: U32,
    base_stride: U32,
    first: U32,
    scalars: Pointer[U32],
    indices: Pointer[U32],
    marks: Pointer[U32],
    cursors: Pointer[U32],
    keys: Pointer[U16],
    entries: Pointer[U32],
    *,
    shape: DigitShape,
) -> None:
    """The entries, bin by bin, and the low bits of their buckets, unless a bin is one bucket."""
    k.resident_workgroups(_RESIDENT)
    source = Source(count, total, scalar_stride, base_stride, first, scalars, indices, marks)
    tally = Tally(k, shape.bins)
    tally.clear()
    k.barrier()
    digits = Digits(k, shape, source, k.global_id()).all()
    ranks = [tally.add(digit.bucket >> shape.low_bits, digit.exists) for digit in digits]
    k.barrier()
    tally.reserve(cursors, k.constant(0, types.u32))
    k.barrier()
    for digit, rank in zip(digits, ranks, strict=True):
        with k.if_(digit.exists):
            place = tally.table[digit.bucket >> shape.low_bits] + rank
            entries[place] = digit.entry
            if shape.low_bits:
                keys[place] = digit.bucket & ((1 << shape.low_bits) - 1)


class _Tile:
    """One tile of a bin: which bin, and where its entries are."""

    def __init__(
        self, k: Builder, number: Value, first_tile: Value, bin_starts: Value, bins: int
    ) -> None:
        # The last bin whose first tile is not behind this one.
        low = k.constant(0, types.u32)
        step = 1 << max(0, bins - 1).bit_length()
        while step > 1:
            step //= 2
            probe = k.minimum(low + step, bins - 1)
            low = k.select(first_tile[probe] <= number, probe, low)
        self.bin = low
        self._start = bin_starts[low] + (number - first_tile[low]) * TILE
        self._stop = bin_starts[low + 1]
        self._k = k

    def places(self) -> list[tuple[Value, Value]]:
        """(place, whether there is such an entry) for those of this instance."""
        k = self._k
        found = []
        for part in range(ENTRIES_A_LANE):
            place = self._start + (k.local_id() + part * k.workgroup_size)
            found.append((place, place < self._stop))
        return found


@kernel
def count_buckets(
    k: Builder,
    bin_starts: Pointer[U32],
    first_tile: Pointer[U32],
    keys: Pointer[U16],
    bucket_counts: Pointer[U32],
    *,
    bins: int,
    low_bits: int,
) -> None:
    """Adds how many entries each bucket has to bucket_counts."""
    k.resident_workgroups(_RESIDENT)
    tally = Tally(k, 1 << low_bits)
    with k.range(k.workgroup_id(), k.uniform(first_tile[bins]), k.num_workgroups()) as loop:
        tile = _Tile(k, loop.index, first_tile, bin_starts, bins)
        tally.clear()
        places = tile.places()
        found = [keys[k.select(exists, place, 0)] for place, exists in places]
        k.barrier()
        for key, (_, exists) in zip(found, places, strict=True):
            tally.add(k.select(exists, key, 0), exists)
        k.barrier()
        first = tile.bin << low_bits
        with k.range(k.local_id(), 1 << low_bits, k.workgroup_size) as buckets:
            number = tally.table[buckets.index]
            with k.if_(number != 0):
                k.atomic_add(bucket_counts, first + buckets.index, number)
        k.barrier()


@kernel
def scatter_buckets(
    k: Builder,
    bin_starts: Pointer[U32],
    first_tile: Pointer[U32],
    keys: Pointer[U16],
    binned: Pointer[U32],
    cursors: Pointer[U32],
    entries: Pointer[U32],
    *,
    bins: int,
    low_bits: int,
) -> None:
    """The entries, which are sorted by bin in `binned`, bucket by bucket."""
    k.resident_workgroups(_RESIDENT)
    tally = Tally(k, 1 << low_bits)
    with k.range(k.workgroup_id(), k.uniform(first_tile[bins]), k.num_workgroups()) as loop:
        tile = _Tile(k, loop.index, first_tile, bin_starts, bins)
        tally.clear()
        places = [(k.select(exists, place, 0), exists) for place, exists in tile.places()]
        found = [keys[place] for place, _ in places]
        k.barrier()
        # Key and rank in one register, all ones for no entry: few live across the barriers.
        ranked = []
        for key, (_, exists) in zip(found, places, strict=True):
            rank = tally.add(k.select(exists, key, 0), exists)
            ranked.append(k.select(exists, key | (rank << _RANK_SHIFT), _NOTHING))
        k.barrier()
        tally.reserve(cursors, tile.bin << low_bits)
        k.barrier()
        moved = [binned[place] for place, _ in places]
        for entry, both in zip(moved, ranked, strict=True):
            with k.if_(both != _NOTHING):
                key = both & ((1 << _RANK_SHIFT) - 1)
                entries[tally.table[key] + (both >> _RANK_SHIFT)] = entry
        k.barrier()
