"""The cost of memory accesses: sectors of device memory, bank conflicts in shared memory."""

from __future__ import annotations

from typing import Literal

import numpy as np

from quod.frozen import frozen
from quod.kernel.analysis.lanes import WARP, Lanes
from quod.kernel.ir.nodes import Location
from quod.kernel.ops.definition import AccessKind
from quod.kernel.ops.semantics import Array

SECTOR = 32
"""The transfer unit of device memory in bytes."""

_BANKS, _WORD = 32, 4
_WIDEST = 16  # bytes of the widest access of a lane


@frozen(eq=False)
class Access:
    """One load, store, atomic or copy, with the lanes' byte addresses and active lanes."""

    verb: AccessKind
    space: Literal["global", "shared"]
    location: Location
    bytes: int
    """Consecutive bytes accessed by one lane."""
    element_bytes: int
    address: Lanes
    active: Array


@frozen
class Traffic:
    """The device-memory traffic of an access by the warp with the largest `sectors` / `least`.

    sectors: the number of distinct sectors touched.
    least: the number of sectors that the accessed bytes would fill if contiguous.
    requests: sectors summed over the instructions of the warp. It exceeds `sectors` if several
        instructions use parts of one sector, which then comes from the cache.
    """

    sectors: int
    least: int
    requests: int
    stride: int | None
    """Bytes between neighbouring lanes; None if they differ or are not known."""


@frozen
class Conflicts:
    """The bank conflicts of an access by the warp with the largest `turns` / `least`.

    turns: the cycles that the banks need for the access.
    least: the cycles that they would need without conflicts.
    """

    turns: int
    least: int
    padded: int
    """The turns with padding after each 32 words: the words of one lane in one instruction."""
    swizzled: int
    """The turns with the low five bits of a word's index xored with the next five.

    The bits that number the words of one lane in one instruction are not changed.
    """


def _warps(access: Access) -> list[Array]:
    """Return the offsets of the active lanes of each warp, without idle warps."""
    offsets = access.address.offsets
    assert offsets is not None
    starts = range(0, len(offsets), WARP)
    warp_offsets = [
        offsets[start : start + WARP][access.active[start : start + WARP]] for start in starts
    ]
    return [offsets_of_warp for offsets_of_warp in warp_offsets if len(offsets_of_warp)]


def _width(access: Access) -> int:
    """Return the width, in bytes, of the instructions that an access is split into.

    The width is the largest power of two, up to 16, that divides the size of the access and all
    addresses: the lowest set bit of their bitwise or. It is at least one element. An address is a
    base, which `multiple` divides, plus the lane's offset. Unknown addresses count as multiples of
    an element.
    """
    offsets = access.address.offsets
    common = access.bytes
    if offsets is None:
        common |= access.element_bytes
    else:
        common |= int(np.bitwise_or.reduce(offsets)) | min(access.address.multiple, _WIDEST)
    return max(access.element_bytes, min(_WIDEST, common & -common))


def traffic(access: Access) -> Traffic | None:
    """Return the traffic of an access to device memory; None if no lane is active."""
    # The active lanes of the warp that has the most.
    active_lanes = max((int(access.active[lane : lane + WARP].sum())
                  for lane in range(0, len(access.active), WARP)), default=0)  # fmt: skip
    if not active_lanes:
        return None
    width = _width(access)
    instructions = -(-access.bytes // width)
    if access.address.offsets is None:
        # Addresses are unknown: assume each lane's bytes in sectors of their own.
        lane_sectors = -(-access.bytes // SECTOR)
        least = -(-active_lanes * access.bytes // SECTOR)
        return Traffic(active_lanes * lane_sectors, least, active_lanes * instructions, None)
    worst = Traffic(0, 1, 0, None)
    for offsets in _warps(access):
        addresses = offsets[:, None] + np.arange(0, access.bytes, access.element_bytes)
        sectors = len(np.unique(addresses // SECTOR))
        requests = sum(
            len(np.unique((offsets + byte_offset) // SECTOR))
            for byte_offset in range(0, access.bytes, width)
        )
        distinct_bytes = len(np.unique(addresses)) * access.element_bytes
        distances = np.unique(np.diff(offsets))
        stride = int(distances[0]) if len(distances) == 1 else (0 if len(offsets) == 1 else None)
        warp_traffic = Traffic(sectors, -(-distinct_bytes // SECTOR), requests, stride)
        if warp_traffic.sectors * worst.least >= worst.sectors * warp_traffic.least:
            worst = warp_traffic
    return worst


def _turns(words: Array, words_per_lane: int) -> int:
    """Return the number of turns (cycles) of one instruction; a bank serves one word per turn.

    The hardware serves groups of lanes whose accesses are 128 bytes in all.
    """
    lanes_per_group = max(1, WARP // words_per_lane)
    total = 0
    for start in range(0, len(words), lanes_per_group):
        distinct_words = np.unique(
            words[start : start + lanes_per_group][:, None] + np.arange(words_per_lane)
        )
        total += int(np.bincount(distinct_words % _BANKS, minlength=_BANKS).max())
    return total


def conflicts(access: Access) -> Conflicts | None:
    """Return the bank conflicts of an access to shared memory; None for unknown addresses."""
    if access.address.offsets is None:
        return None
    width = _width(access)
    words_per_lane = max(1, width // _WORD)
    worst: Conflicts | None = None
    for offsets in _warps(access):
        turns = least = padded = swizzled = 0
        for byte_offset in range(0, access.bytes, width):
            words = (offsets + byte_offset) // _WORD
            # Offsets may be negative: adding whole rows of banks keeps the banks.
            words = words - min(0, int(words.min())) // _BANKS * _BANKS
            distinct = len(np.unique(words[:, None] + np.arange(words_per_lane)))
            turns += _turns(words, words_per_lane)
            least += -(-distinct // _BANKS)
            padded += _turns(words + words // _BANKS * words_per_lane, words_per_lane)
            swizzled += _turns(
                words ^ (words // _BANKS % _BANKS // words_per_lane * words_per_lane),
                words_per_lane,
            )
        if worst is None or turns * worst.least > worst.turns * least:
            worst = Conflicts(turns, least, padded, swizzled)
    return worst
