"""The launches that turn scalars into sorted chunks of entries."""

from __future__ import annotations

from typing import Any

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.frozen import frozen
from quod.msm.gpu.buckets import chunks
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.run.device_plan import SortShape
from quod.msm.gpu.run.workspace import MsmBuffers
from quod.msm.gpu.sort import binning
from quod.msm.gpu.sort.digits import DigitShape, ScalarSource
from quod.msm.scalars import SCALAR_BYTES

# Counting workgroups, in multiples of those that fill the device: so many that the last wave
# matters little, but not more, since each adds all its counters to device memory.
_WAVES = 4


@frozen
class Scalars:
    """The scalars of an MSM in device memory, and the bases they multiply.

    words: canonical integers of eight u32.
    stride: the number of scalars from the start of one vector to the next.
    bases: the number of bases of a copy.
    first: base first + i takes scalar i of a vector.
    indices: base first + i takes scalar indices[i] instead; if `listed`, scalar i is for base
        first + indices[i].
    infinity_mask: one bit for each base of each copy, set if the base is infinite.
    """

    words: Buffer
    stride: int
    bases: int
    first: int = 0
    indices: Buffer | None = None
    infinity_mask: Buffer | None = None
    listed: bool = False


def record_chunks(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    scalars: Scalars,
    arrays: MsmBuffers,
) -> None:
    """Record digits, sort and chunks of an MSM, after a step that zeroes `arrays.zeroed`."""
    shape = SortShape.of(plan)
    digits = DigitShape.of(
        plan,
        shape.low_bits,
        indexed=scalars.indices is not None and not scalars.listed,
        masked=scalars.infinity_mask is not None,
        listed=scalars.listed,
    )
    total_scalars = plan.count * plan.batch
    source = ScalarSource(
        plan.count, total_scalars, scalars.stride, scalars.bases, scalars.first, scalars.words,
        scalars.indices or scalars.words, scalars.infinity_mask or scalars.words,
    )  # fmt: skip
    scalar_bytes = total_scalars * (SCALAR_BYTES + 4 * (scalars.indices is not None))
    tuning = plan.sort
    tiles = -(-total_scalars // tuning.lanes)
    max_counting_workgroups = max(1, _WAVES * device.resident_lanes // tuning.lanes)
    count_kernel = device.compile(
        binning.count_bins, lanes=tuning.lanes, shape=digits, tuning=tuning
    )
    recording.launch(
        count_kernel, min(tiles, max_counting_workgroups), source, arrays.bin_counts,
        arrays.too_large, label="digits", bytes=scalar_bytes,
    )  # fmt: skip
    scan_kernel = device.compile(
        binning.scan_bins, lanes=tuning.scan_lanes, bins=shape.bins, tile=tuning.tile
    )
    bin_arrays = (arrays.bin_starts, arrays.first_tile)
    recording.launch(
        scan_kernel, 1, arrays.bin_counts, arrays.bin_starts, arrays.bin_cursors, arrays.first_tile,
        label="sort",
    )  # fmt: skip
    scatter_kernel = device.compile(
        binning.scatter_bins, lanes=tuning.lanes, shape=digits, tuning=tuning
    )
    # If a bin is one bucket there are no keys, and this launch completes the sort.
    keys = arrays.bin_cursors if shape.direct else arrays.keys
    binned = arrays.entries if shape.direct else arrays.binned
    recording.launch(
        scatter_kernel, tiles, source, arrays.bin_cursors, keys, binned, label="digits",
        bytes=scalar_bytes + plan.max_entries * (4 if shape.direct else 4 + tuning.key_bytes),
    )  # fmt: skip
    static: dict[str, Any] = {"bins": shape.bins, "low_bits": shape.low_bits, "tuning": tuning}
    bin_tiles = shape.max_tiles(plan)
    if not shape.direct:
        count_kernel = device.compile(binning.count_buckets, lanes=tuning.lanes, **static)
        recording.launch(
            count_kernel, min(bin_tiles, max_counting_workgroups), *bin_arrays, arrays.keys,
            arrays.bucket_counts, label="sort", bytes=tuning.key_bytes * plan.max_entries,
        )  # fmt: skip
    _record_cuts(recording, device, plan, shape, arrays)
    if not shape.direct:
        scatter_kernel = device.compile(binning.scatter_buckets, lanes=tuning.lanes, **static)
        recording.launch(
            scatter_kernel, bin_tiles, *bin_arrays, arrays.keys, arrays.binned,
            arrays.bucket_cursors, arrays.entries, label="sort",
            bytes=(8 + tuning.key_bytes) * plan.max_entries,
        )  # fmt: skip


def _record_cuts(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    shape: SortShape,
    arrays: MsmBuffers,
) -> None:
    """Record the starts of buckets, and their chunks."""
    chunk_arrays = arrays.chunks
    place_kernel = device.compile(
        chunks.place_buckets, lanes=plan.sort.chunk_lanes, block_bits=shape.block_bits,
        start_bits=shape.start_bits, compact=plan.limits.compact,
    )  # fmt: skip
    recording.launch(
        place_kernel, shape.blocks, plan.longest, arrays.bin_starts, arrays.bucket_counts,
        arrays.bucket_starts, arrays.bucket_cursors, chunk_arrays.first_chunk, arrays.block_chunks,
        arrays.length_counts, label="sort", bytes=16 * plan.all_buckets,
    )  # fmt: skip
    scan_kernel = device.compile(
        chunks.scan_chunks, lanes=plan.sort.scan_lanes, blocks=shape.blocks,
        buckets=plan.all_buckets,
    )  # fmt: skip
    recording.launch(
        scan_kernel, 1, arrays.block_chunks, arrays.length_counts, arrays.block_first, arrays.ranks,
        chunk_arrays.first_chunk, chunk_arrays.count, label="sort",
    )  # fmt: skip
    make_kernel = device.compile(
        chunks.make_chunks, lanes=plan.sort.chunk_lanes, block_bits=shape.block_bits,
        own_chunks=None if plan.limits.compact else plan.sort.own_chunks,
    )  # fmt: skip
    recording.launch(
        make_kernel, shape.blocks, plan.longest, arrays.bucket_counts, arrays.bucket_starts,
        arrays.block_first, arrays.ranks, chunk_arrays.table, chunk_arrays.first_chunk,
        label="sort", bytes=16 * (plan.all_buckets + plan.max_chunks),
    )  # fmt: skip
