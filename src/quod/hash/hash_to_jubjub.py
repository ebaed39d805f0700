"""Sapling's hash into Jubjub, and the generators that come from it.

Zcash protocol specification, 5.4.9.5 (GroupHash) and 5.4.9.6; a generator is the first hit of
FindGroupHash, which appends a byte to the tag.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2s

from quod.curve.edwards.affine import EdwardsPair, edwards_group
from quod.curve.edwards.encoding import decode_edwards
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.validation import exact_bytes

UNIFORM_RANDOM_STRING = b"096b36a5804bfacef1691e173c366a47ff5ba84a44f26ddd7e8d9f79d5b42df0"
"""64 characters, hashed as they are: the hash of a block of Bitcoin, chosen in advance."""


def group_hash(personalisation: bytes, tag: bytes) -> EdwardsPair | None:
    """Return a point of Jubjub's subgroup of prime order; None for a tag that has none.

    personalisation: 8 bytes.
    """
    personalisation = exact_bytes("the personalisation", personalisation, 8)
    digest = blake2s(UNIFORM_RANDOM_STRING + tag, person=personalisation).digest()
    try:
        point = decode_edwards(JUBJUB, digest, check_subgroup=False)
    except InputError:
        return None
    point = edwards_group(JUBJUB).multiply(JUBJUB.cofactor, point)
    return None if point == (0, 1) else point


@cache
def find_group_hash(personalisation: bytes, tag: bytes) -> EdwardsPair:
    """Return the group hash of the tag followed by the smallest byte for which there is a point.

    Raises InputError if no byte gives a point.
    """
    for counter in range(256):
        point = group_hash(personalisation, tag + bytes([counter]))
        if point is not None:
            return point
    raise InputError("no byte appended to this tag gives a point of Jubjub; use another tag")
