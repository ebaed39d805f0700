"""The sizes of workgroups that suit a device."""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.frozen import frozen
from quod.inference.transformer.kernels.arithmetic import is_bytewise
from quod.kernel.machine import Capability

CPU_CHUNK = 64
"""The tokens that are evaluated at once on a CPU, whose caches their activations should fit."""
_GPU_CHUNK = 1024
_ROWS_OF_GPU_WORKGROUP = 16
_GPU_LANES = 128
_HEAD_LANES = 256
"""All GPUs have workgroups of this size."""
_NVIDIA_HEAD_LANES = 512
_CAPACITY_STEP = 1024
"""Caches grow by this number of positions, or by the multiple of workgroups next below it."""
_TILE = 4
"""The tokens of a workgroup of products; more do not fit into the vector registers of CPUs."""


@frozen
class Workgroups:
    """Sizes of workgroups.

    product: The instances of a workgroup of products.
    parts: The instances that share a row of a matrix.
    tile: The tokens of a workgroup of products.
    rows: The instances of a workgroup of other kernels.
    head: The instances of a workgroup of the attention; see `attend`.
    head_tile: The tokens of a workgroup of the attention.
    sums: Whether the sums of groups are computed by a kernel of their own.
    """

    product: int
    parts: int
    tile: int
    rows: int
    head: int
    head_tile: int
    sums: bool


def chunk_of(device: AnyDevice) -> int:
    """Return the number of tokens that a device should evaluate at once."""
    return CPU_CHUNK if _has_vectors(device) else _GPU_CHUNK


def workgroups_of(device: AnyDevice, head_width: int, tokens: int, *, one_text: bool) -> Workgroups:
    """Return the sizes for a device, the width of a model's heads and a number of tokens.

    one_text: Whether all tokens are of the same sequence.
    """
    tile = min(_TILE, tokens)
    if _has_vectors(device):
        # The widest vector with an instruction for pairs of 16-bit integers.
        lanes = next((n for n in (16, 8) if device.machine(n).has(Capability.PAIR_PRODUCTS)), 4)
        head = next(n for n in (lanes, 4, 2, 1) if head_width % n == 0)
        return Workgroups(lanes, 1, tile, lanes, head, 1, sums=True)
    # A prompt has enough workgroups; a token needs many instances for each row and head.
    parts = 8 if tokens == 1 else 2
    return Workgroups(
        _ROWS_OF_GPU_WORKGROUP * parts, parts, tile, _GPU_LANES,
        _gpu_head_lanes(device, head_width, tokens), tile if one_text else 1, sums=tokens > 1,
    )  # fmt: skip


def capacity_of(device: AnyDevice, head_width: int, context: int) -> int:
    """Return the number of positions that a cache of `context` positions needs memory for.

    A workgroup of the attention reads and writes whole vectors of positions, and of pairs of them.
    """
    step = _CAPACITY_STEP
    if not _has_vectors(device):
        # Those of a single token are a multiple of those of several.
        step -= step % (2 * _gpu_head_lanes(device, head_width, 1))
    return -(-context // step) * step


def _gpu_head_lanes(device: AnyDevice, head_width: int, tokens: int) -> int:
    """Return the instances of a workgroup of the attention; see `attend`."""
    if head_width > _HEAD_LANES:
        return next(n for n in range(_HEAD_LANES, 0, -1) if head_width % n == 0)
    lanes = max(1, _GPU_LANES // head_width) * head_width
    if tokens > 1:
        return lanes
    most = _NVIDIA_HEAD_LANES if is_bytewise(device.machine(1)) else _HEAD_LANES
    return most // lanes * lanes


def _has_vectors(device: AnyDevice) -> bool:
    return device.machine(16).has(Capability.VECTOR_LANES)
