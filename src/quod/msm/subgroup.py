"""Subgroup checks of many points at once on CPUs, by sums of random subsets.

Each round puts every point into one of 2**k buckets at random, and checks the sum of each bucket.
If a point is outside the subgroup, then, whatever the buckets of the other points, at most one
bucket for this point leaves all sums in the subgroup: the round passes with a probability of at
most 2**-k. A point then takes an addition a round in place of a multiplication by some 128 bits.
The buckets are drawn after the points are known, so nobody can choose points that fit them.
"""

from __future__ import annotations

import os

import numpy as np

from quod.curve.group import Group
from quod.curve.weierstrass import operations
from quod.device.protocol import AnyDevice, in_host_memory
from quod.field.array import Words
from quod.msm.host.sparse_sums import segment_sums
from quod.security import MIN_BITS

ERROR_BITS = MIN_BITS
"""Points outside the subgroup pass with a probability of at most 2**-ERROR_BITS."""

# Fewer points are checked one by one.
_MANY_POINTS = 1 << 14

# Points of one pass, few enough that their buckets take little memory.
_CHUNK = 1 << 22

# The cost of a point's subgroup check, in additions with a shared inversion.
_CHECK_COST = 200


def first_bad_point(
    device: AnyDevice, group: Group, points: Words, *, subgroup: bool, infinity: bool
) -> tuple[int, str] | None:
    """Return the index of the first invalid point and the reason, or None if all are valid.

    The arguments and the result are those of `quod.curve.weierstrass.operations.first_bad_point`,
    which checks each point. With `subgroup`, many points on a CPU are checked by sums of random
    subsets, some ten times faster; invalid ones pass with a probability of at most
    2**-`ERROR_BITS`. Each point is checked to be on the curve.
    """
    by_sums = subgroup and group.parameters.cofactor != 1 and len(points) >= _MANY_POINTS
    if by_sums and in_host_memory(device):
        bad_point = operations.first_bad_point(
            device, group, points, subgroup=False, infinity=infinity
        )
        starts = range(0, len(points), _CHUNK)
        if bad_point is None and all(
            _are_in_subgroup(device, group, points[start : start + _CHUNK]) for start in starts
        ):
            return None
    return operations.first_bad_point(device, group, points, subgroup=subgroup, infinity=infinity)


def _are_in_subgroup(device: AnyDevice, group: Group, points: Words) -> bool:
    """Return whether all points, which are on the curve, are in the subgroup."""
    bits = _bucket_bits(len(points))
    points = np.require(points, requirements=("C", "A"))
    for _ in range(-(-ERROR_BITS // bits)):
        drawn = np.frombuffer(os.urandom(2 * len(points)), np.uint16)
        buckets = drawn & np.uint16((1 << bits) - 1)
        entries = np.argsort(buckets, kind="stable").astype(np.uint32)
        lengths = np.bincount(buckets, minlength=1 << bits)
        sums = segment_sums(device, group, points, entries, np.cumsum(lengths) - lengths, lengths)
        if not operations.is_in_subgroup(device, group, sums).all():
            return False
    return True


def _bucket_bits(count: int) -> int:
    """Return log2 of the number of buckets for which `count` points take the least time."""
    return min(range(1, 17), key=lambda bits: (count + (_CHECK_COST << bits)) / bits)
