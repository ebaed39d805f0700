"""Sort entries by bucket: a partition into bins of buckets, then a partition within each bin.

    count_bins      histogram of digits by bin
    scan_bins       starts of bins, and their tiles
    scatter_bins    keys (the bucket within its bin) and entries, bin by bin
    count_buckets   histogram of entries by bucket
    scatter_buckets entries, bucket by bucket

Entries of a bucket are in no fixed order; see `partition`. With few buckets a bin is one bucket,
and the first three kernels complete the sort.
"""

from __future__ import annotations

from itertools import islice

from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, Pointer, Value
from quod.msm.gpu.device_limits import SortTuning
from quod.msm.gpu.sort.digits import Digits, DigitShape, ScalarSource
from quod.msm.gpu.sort.partition import Item, Partition
from quod.msm.gpu.sort.workgroup import Histogram, Scan


@kernel
def count_bins(
    k: Builder,
    source: ScalarSource,
    bin_counts: Pointer[U32],
    too_large: Pointer[U32],
    *,
    shape: DigitShape,
    tuning: SortTuning,
) -> None:
    """Add the histogram of digits by bin to bin_counts.

    Sets too_large[0] if a scalar is above the maximum; see `position_of_too_large`.
    """
    k.resident_workgroups(tuning.resident)
    histogram = Histogram(k, shape.bins)
    histogram.clear()
    k.barrier()
    step = k.num_workgroups() * k.workgroup_size
    with k.range(k.workgroup_id() * k.workgroup_size, source.total, step) as loop:
        digits = Digits(k, shape, source, loop.index + k.local_id())
        digits.check(too_large)
        for voter, digit in enumerate(digits):
            histogram.count(digit.bucket >> shape.low_bits, digit.exists, voter)
    k.barrier()
    with k.range(k.local_id(), shape.bins, k.workgroup_size) as bins:
        count = histogram.table[bins.index]
        with k.if_(count != 0):
            k.atomic_add(bin_counts, bins.index, count)


@kernel
def scan_bins(
    k: Builder,
    bin_counts: Pointer[U32],
    bin_starts: Pointer[U32],
    cursors: Pointer[U32],
    first_tile: Pointer[U32],
    *,
    bins: int,
    tile: int,
) -> None:
    """Compute the start and the first tile of each bin. Launched as one workgroup.

    bin_starts, first_tile: bins + 1 elements, of which the last is the total.
    cursors: a copy of the bins' starts.
    """
    scan = Scan(k)

    def store_start(index: Value, total_before: Value) -> None:
        bin_starts[index] = total_before
        cursors[index] = total_before

    def store_tile(index: Value, total_before: Value) -> None:
        first_tile[index] = total_before

    entries = scan.array(bins, lambda index: bin_counts[index], store_start)
    tiles = scan.array(bins, lambda index: (bin_counts[index] + (tile - 1)) // tile, store_tile)
    with k.if_(k.local_id() == 0):
        bin_starts[bins] = entries
        first_tile[bins] = tiles


def _cast_keys(keys: Value, tuning: SortTuning) -> Value:
    """Cast the keys' memory to u16 if keys are narrow."""
    return keys.cast(types.u16) if tuning.narrow_keys else keys


@kernel
def scatter_bins(
    k: Builder,
    source: ScalarSource,
    cursors: Pointer[U32],
    keys: Pointer[U32],
    entries: Pointer[U32],
    *,
    shape: DigitShape,
    tuning: SortTuning,
) -> None:
    """Write the entries bin by bin, and the low bits of their buckets, if any, as keys."""
    k.resident_workgroups(tuning.resident)
    rounds = -(-shape.digits // tuning.items)
    items = -(-shape.digits // rounds)
    partition = Partition(
        k, shape.bins, items, types.u32, lambda bucket: bucket >> shape.low_bits,
        staged=tuning.staged and shape.low_bits > 0,
    )  # fmt: skip

    key_memory = _cast_keys(keys, tuning)

    def write(index: Value, bucket: Value, entry: Value) -> None:
        entries[index] = entry
        if shape.low_bits:
            key_memory[index] = bucket & ((1 << shape.low_bits) - 1)

    digits = iter(Digits(k, shape, source, k.global_id()))
    for _ in range(rounds):
        partition.clear()
        k.barrier()
        tile_items = [
            Item(digit.exists, digit.bucket, digit.entry) for digit in islice(digits, items)
        ]
        partition.move(tile_items, cursors, 0, write)


class _Tile:
    """One tile of a bin: its bin, and the range of its entries."""

    def __init__(
        self, k: Builder, tile_index: Value, first_tile: Value, bin_starts: Value, bins: int,
        tuning: SortTuning,
    ) -> None:  # fmt: skip
        # Binary search for the last bin that begins at or before this tile.
        low = k.constant(0, types.u32)
        step = 1 << max(0, bins - 1).bit_length()
        while step > 1:
            step //= 2
            probe = k.minimum(low + step, bins - 1)
            low = k.select(first_tile[probe] <= tile_index, probe, low)
        self.bin = low
        start = bin_starts[low] + (tile_index - first_tile[low]) * tuning.tile
        self._length = bin_starts[low + 1] - start
        self._first = (start + k.local_id()).cast(types.u64)
        self._k = k
        self._items = tuning.items

    def load(self, array: Value) -> list[Value]:
        """Load the elements of this instance, unchecked: the array is padded by a tile."""
        return [array[self._first + i * self._k.workgroup_size] for i in range(self._items)]

    def exists(self) -> list[Value]:
        """Return for each element whether it is in this tile."""
        k = self._k
        return [k.local_id() + i * k.workgroup_size < self._length for i in range(self._items)]


@kernel
def count_buckets(
    k: Builder,
    bin_starts: Pointer[U32],
    first_tile: Pointer[U32],
    keys: Pointer[U32],
    bucket_counts: Pointer[U32],
    *,
    bins: int,
    low_bits: int,
    tuning: SortTuning,
) -> None:
    """Add the histogram of entries by bucket to bucket_counts.

    A workgroup counts consecutive tiles, and adds its counters when the bin changes.
    """
    k.resident_workgroups(tuning.resident)
    histogram, key_memory = Histogram(k, 1 << low_bits), _cast_keys(keys, tuning)

    def flush(bin_: Value) -> None:
        k.barrier()
        with k.range(k.local_id(), 1 << low_bits, k.workgroup_size) as buckets:
            counted = histogram.table[buckets.index]
            with k.if_(counted != 0):
                k.atomic_add(bucket_counts, (bin_ << low_bits) + buckets.index, counted)
                histogram.table[buckets.index] = 0
        k.barrier()

    tiles = k.uniform(first_tile[bins])
    tiles_per_workgroup = (tiles + k.num_workgroups() - 1) // k.num_workgroups()
    begin = k.workgroup_id() * tiles_per_workgroup
    histogram.clear()
    k.barrier()
    with k.range(
        begin, k.minimum(begin + tiles_per_workgroup, tiles), carry=k.constant(0, types.u32)
    ) as loop:
        tile = _Tile(k, loop.index, first_tile, bin_starts, bins, tuning)
        loaded_keys = tile.load(key_memory)
        bin_ = k.uniform(tile.bin)
        with k.if_(bin_ != k.uniform(loop.carried)):
            flush(loop.carried)
        for voter, (key, exists) in enumerate(zip(loaded_keys, tile.exists(), strict=True)):
            histogram.count(key, exists, voter)
        loop.next(bin_)
    flush(loop.results)


@kernel
def scatter_buckets(
    k: Builder,
    bin_starts: Pointer[U32],
    first_tile: Pointer[U32],
    keys: Pointer[U32],
    binned: Pointer[U32],
    cursors: Pointer[U32],
    entries: Pointer[U32],
    *,
    bins: int,
    low_bits: int,
    tuning: SortTuning,
) -> None:
    """Write the entries, sorted by bin in `binned`, bucket by bucket; one workgroup per tile.

    Concurrent workgroups write to few bins, so writes to a bucket combine in the L2 cache.
    """
    k.resident_workgroups(tuning.resident)
    partition = Partition(
        k, 1 << low_bits, tuning.items, types.u16, lambda key: key, staged=tuning.staged
    )

    def write(index: Value, key: Value, entry: Value) -> None:
        entries[index] = entry

    with k.if_(k.workgroup_id() < k.uniform(first_tile[bins])):
        tile = _Tile(k, k.workgroup_id(), first_tile, bin_starts, bins, tuning)
        partition.clear()
        loaded_keys = tile.load(_cast_keys(keys, tuning))
        loaded = zip(tile.exists(), loaded_keys, tile.load(binned), strict=True)
        items = [Item(exists, key, entry) for exists, key, entry in loaded]
        k.barrier()
        partition.move(items, cursors, tile.bin << low_bits, write)
