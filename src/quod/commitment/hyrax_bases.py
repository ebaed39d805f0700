"""The bases of Hyrax: points of BN254 G1 between which nobody knows a relation.

Base i is hashed to the curve, by trying until it succeeds: for the attempts a = 0, 1, 2, ... take
the SHA3-256 of `LABEL`, i in 8 bytes and a in 4, little-endian, as a little-endian integer. Its
lower 254 bits are x. Where x is below q and x^3 + 3 is a square, the base is the point at x whose y
is the larger one, y > q - y, if the highest bit of the digest is set. The curve has prime order, so
that this is all of its group; that the time it takes depends on i matters to nobody.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np

from quod.curve.affine import affine_group
from quod.curve.array import from_points
from quod.curve.groups import GROUPS
from quod.field.array import Words

GROUP = GROUPS["bn254.g1"]

LABEL = b"quod hyrax bases 1 bn254.g1"


def hashed_base(number: int) -> tuple[int, int]:
    """A base as a plain point."""
    law, bits = affine_group(GROUP), GROUP.coordinates.bits
    q, attempt = GROUP.coordinates.value, 0
    while True:
        message = LABEL + number.to_bytes(8, "little") + attempt.to_bytes(4, "little")
        digest = int.from_bytes(hashlib.sha3_256(message).digest(), "little")
        x = digest & ((1 << bits) - 1)
        y = law.field.square_root(law.right_side(x)) if x < q else None
        if y is not None:
            larger = bool(digest >> 255)
            return x, y if law.field.is_larger(y) == larger else q - y
        attempt += 1


@cache
def hashed_bases(log2_count: int) -> Words:
    """The first 2**log2_count bases as an array of points; kept by the process once made.

    Nobody may write to it. A base takes about 0.1 ms.
    """
    if log2_count == 0:
        bases = from_points(GROUP, [hashed_base(0)])
    else:
        half = 1 << (log2_count - 1)
        others = from_points(GROUP, [hashed_base(half + number) for number in range(half)])
        bases = np.concatenate([hashed_bases(log2_count - 1), others])
    bases.flags.writeable = False
    return bases
