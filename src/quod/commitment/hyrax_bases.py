"""The bases of Hyrax: points of BN254 G1 without a known relation between them.

Base i is hashed to the curve by try-and-increment. For attempts a = 0, 1, 2, ... the SHA3-256 of
`LABEL`, i in 8 bytes and a in 4, little-endian, is read as a little-endian integer. Its lower 254
bits are x. The first attempt with x below q and x^3 + 3 a square gives the base: the point at x
whose y is the larger of y and q - y if the highest bit of the digest is set, else the smaller. The
curve has prime order, so the point is in the group. The time depends on i, which is public.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np

from quod.curve.array import from_points
from quod.curve.encoding.ordinates import ordinates
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import affine_group
from quod.field.array import Words

GROUP = GROUPS["bn254.g1"]

LABEL = b"quod hyrax bases 1 bn254.g1"

# The bits of a digest that are x.
_X = (1 << GROUP.coordinates.bits) - 1


def hashed_base(number: int) -> tuple[int, int]:
    """Return base `number` as a plain affine point."""
    (point,) = _hashed(range(number, number + 1))
    return point


@cache
def hashed_bases(log2_count: int) -> Words:
    """Return the first 2**log2_count bases as an array of points.

    The process caches the array, so callers must not write to it.
    """
    if log2_count == 0:
        bases = from_points(GROUP, _hashed(range(1)))
    else:
        half = 1 << (log2_count - 1)
        upper_half = from_points(GROUP, _hashed(range(half, 2 * half)))
        bases = np.concatenate([hashed_bases(log2_count - 1), upper_half])
    bases.flags.writeable = False
    return bases


def _hashed(numbers: range) -> list[tuple[int, int]]:
    """Hash several bases; each attempt computes only those that are still missing."""
    field, q = affine_group(GROUP).field, GROUP.coordinates.value
    bases: dict[int, tuple[int, int]] = {}
    missing, attempt = list(numbers), 0
    while missing:
        digests = {number: _digest(number, attempt) for number in missing}
        xs = {number: digest & _X for number, digest in digests.items() if digest & _X < q}
        for (number, x), y in zip(xs.items(), ordinates(GROUP, list(xs.values())), strict=True):
            if y is not None:
                larger = bool(digests[number] >> 255)
                bases[number] = x, y if field.is_larger(y) == larger else q - y
        missing, attempt = [number for number in missing if number not in bases], attempt + 1
    return [bases[number] for number in numbers]


def _digest(number: int, attempt: int) -> int:
    message = LABEL + number.to_bytes(8, "little") + attempt.to_bytes(4, "little")
    return int.from_bytes(hashlib.sha3_256(message).digest(), "little")
