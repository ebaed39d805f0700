"""What the plan of an MSM must know of the processor that it is for."""

from __future__ import annotations

from quod.device.memory.budget import UNLIMITED
from quod.device.protocol import AnyDevice
from quod.frozen import frozen
from quod.kernel.machine import Capability

_PORTABLE_LANES = 256
"""The largest workgroup of every implementation of WebGPU."""


@frozen
class SortTuning:
    """What suits a processor in sorting.

    Workgroups have `lanes` instances, each of which brings `items` entries at once, and a
    multiprocessor should hold `resident` of them. `staged`: a tile is sorted in shared memory
    before it is written. Bins have 2**low_bits buckets, by default about as many as there are bins,
    and at most 2**most_low_bits; there are at most `bins` of them: the counters of either fit
    shared memory. `scan_lanes` is the size of the one workgroup that adds up counters. A bucket of
    up to `own_chunks` chunks is written by its instance, one of more by others as well.
    `narrow_keys`: the bucket within a bin is kept in 16 bits.
    """

    lanes: int = 512
    items: int = 16
    resident: int = 2
    staged: bool = True
    low_bits: int | None = None
    bins: int = 8192
    most_low_bits: int = 12
    scan_lanes: int = 1024
    own_chunks: int = 1
    narrow_keys: bool = True

    @property
    def tile(self) -> int:
        """The most entries of one bin that a workgroup takes at once."""
        return self.lanes * self.items

    @property
    def key_bytes(self) -> int:
        return 2 if self.narrow_keys else 4


@frozen
class Processor:
    """A GPU as plans see it.

    `resident_lanes` fill it. A kernel reaches `largest_buffer` bytes through one argument, and
    memory is had in pieces of up to twice as many. Where sums are not for `shuffles`, additions are
    not shared by lanes that would exchange coordinates in each step. Kernels may be `long`: what a
    loop needs is copied into it, and forms that need more arguments are taken where those are
    faster.
    """

    resident_lanes: int = 132 * 2048
    largest_buffer: int = UNLIMITED
    shuffles: bool = True
    long: bool = True
    sort: SortTuning = SortTuning()

    @classmethod
    def of(cls, device: AnyDevice) -> Processor:
        """What the device says of itself."""
        machine = device.machine(_PORTABLE_LANES)
        short = machine.has(Capability.SHORT_KERNELS)
        tuning = SortTuning()
        if machine.has(Capability.WORD_STORES):
            # Half of the shared memory is for counters.
            counters = machine.shared_bytes_limit // 2 // 4
            bits = counters.bit_length() - 1
            tuning = SortTuning(
                lanes=_PORTABLE_LANES, staged=False, bins=1 << bits,
                most_low_bits=min(12, bits), scan_lanes=_PORTABLE_LANES, narrow_keys=False,
                own_chunks=32 if machine.has(Capability.SLOW_SUBGROUPS) else 1,
            )  # fmt: skip
        return cls(
            device.resident_lanes, device.largest_buffer, not short, not short, tuning,
        )  # fmt: skip
