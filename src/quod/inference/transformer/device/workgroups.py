"""The sizes of workgroups that suit a device."""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.frozen import frozen
from quod.kernel.machine import Capability

CPU_CHUNK = 64
"""The tokens that are evaluated at once on a CPU, whose caches their activations should fit."""
_GPU_CHUNK = 256
_GPU_PARTS = 8
_ROWS_OF_GPU_WORKGROUP = 16
_GPU_LANES = 128


@frozen
class Workgroups:
    """Sizes of workgroups.

    product: The instances of a workgroup of products.
    parts: The instances that share a row of a matrix.
    rows: The instances of a workgroup of other kernels.
    head: The instances of a workgroup of the attention; it divides the width of a head.
    chunk: The number of tokens that are evaluated at once.
    """

    product: int
    parts: int
    rows: int
    head: int
    chunk: int


def workgroups_of(device: AnyDevice, head_width: int) -> Workgroups:
    """Return the sizes for a device and the width of a model's heads."""
    if device.machine(16).has(Capability.VECTOR_LANES):
        # The widest vector with an instruction for pairs of 16-bit integers.
        lanes = next((n for n in (16, 8) if device.machine(n).has(Capability.PAIR_PRODUCTS)), 4)
        head = next(n for n in (lanes, 4, 2, 1) if head_width % n == 0)
        return Workgroups(lanes, 1, lanes, head, CPU_CHUNK)
    head = next(n for n in (64, 32, 16, 8, 4, 2, 1) if head_width % n == 0)
    return Workgroups(_ROWS_OF_GPU_WORKGROUP * _GPU_PARTS, _GPU_PARTS, _GPU_LANES, head, _GPU_CHUNK)
