"""Device limits that the plan of an MSM depends on."""

from __future__ import annotations

from quod.device.memory.budget import UNLIMITED
from quod.device.protocol import AnyDevice
from quod.frozen import frozen
from quod.kernel.machine import Capability

_PORTABLE_LANES = 256
"""The workgroup size that every WebGPU implementation supports."""

_COMPACT_LANES = 64
"""The instances of scans with little shared memory."""


@frozen
class SortTuning:
    """Tuning of the sort of entries by bucket.

    lanes: instances of a workgroup.
    items: entries that an instance moves at once.
    resident: workgroups that a multiprocessor should hold at a time.
    staged: sort a tile in shared memory before writing it.
    low_bits: bins have 2**low_bits buckets. Default: about as many as there are bins.
    bins: the maximum number of bins, whose counters must fit shared memory.
    max_low_bits: the maximum of `low_bits`, so that the counters of a bin's buckets fit too.
    scan_lanes: instances of the one workgroup that scans counters.
    own_chunks: the maximum number of chunks of a bucket that one instance writes alone.
    chunk_lanes: instances of a workgroup that cuts buckets into chunks.
    narrow_keys: store the bucket within a bin in 16 bits.
    """

    lanes: int = 512
    items: int = 16
    resident: int = 2
    staged: bool = True
    low_bits: int | None = None
    bins: int = 8192
    max_low_bits: int = 12
    scan_lanes: int = 1024
    own_chunks: int = 1
    chunk_lanes: int = 256
    narrow_keys: bool = True

    @property
    def tile(self) -> int:
        """The entries of a tile: the maximum of one bin that a workgroup moves at once."""
        return self.lanes * self.items

    @property
    def key_bytes(self) -> int:
        return 2 if self.narrow_keys else 4


@frozen
class DeviceLimits:
    """Limits and preferences of a GPU.

    resident_lanes: instances that fill the device; default: those of an H100 or H200.
    largest_buffer: bytes that a kernel can address through one argument. An allocation may be twice
        as large.
    shuffles: reduce bucket sums with four lanes per addition, which exchange coordinates by
        shuffles; otherwise through shared memory.
    long: kernels may be long, so products may be inlined and bases loaded ahead.
    compact: use few kernels with little shared memory: complete additions everywhere, one lane per
        sum (see `quod.msm.gpu.reduce.serial`), and counters in device memory.
    sort: tuning of the sort.
    """

    resident_lanes: int = 132 * 2048
    largest_buffer: int = UNLIMITED
    shuffles: bool = True
    long: bool = True
    compact: bool = False
    sort: SortTuning = SortTuning()

    @classmethod
    def of(cls, device: AnyDevice) -> DeviceLimits:
        """Return the limits of a device."""
        machine = device.machine(_PORTABLE_LANES)
        short = machine.has(Capability.SHORT_KERNELS)
        compact = machine.has(Capability.FEW_KERNELS)
        scan_lanes = _COMPACT_LANES if compact else _PORTABLE_LANES
        tuning = SortTuning()
        if machine.has(Capability.WORD_STORES):
            # Counters may take half of the shared memory.
            counters = machine.shared_bytes_limit // 2 // 4
            bits = counters.bit_length() - 1
            tuning = SortTuning(
                lanes=_PORTABLE_LANES, staged=False, bins=1 << bits,
                max_low_bits=min(12, bits), scan_lanes=scan_lanes, narrow_keys=False,
                own_chunks=32 if machine.has(Capability.SLOW_SUBGROUPS) else 1,
                chunk_lanes=scan_lanes,
            )  # fmt: skip
        return cls(
            device.resident_lanes, device.largest_buffer, not short, not short, compact, tuning,
        )  # fmt: skip
