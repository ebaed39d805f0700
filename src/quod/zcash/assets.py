"""Assets of MASP: identifiers hashed from names, and generators hashed from identifiers."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2s

from quod.curve.edwards.affine import EdwardsPair, edwards_group
from quod.curve.edwards.encoding import decode_edwards
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.hash.hash_to_jubjub import UNIFORM_RANDOM_STRING
from quod.validation import exact_bytes

ASSET_GENERATOR = b"MASP__v_"
"""The personalisation of the hash from the identifier of an asset to its generator."""
_IDENTIFIER = b"MASP__t_"


def asset_generator(identifier: bytes) -> EdwardsPair:
    """Return the point whose encoding is the hash of an identifier of 32 bytes.

    Raises InputError if the hash encodes no point, or a point of small order.
    """
    return _generator(exact_bytes("an asset's identifier", identifier, 32))


@lru_cache
def _generator(identifier: bytes) -> EdwardsPair:
    digest = blake2s(identifier, person=ASSET_GENERATOR).digest()
    point = decode_edwards(JUBJUB, digest, check_subgroup=False)
    if edwards_group(JUBJUB).has_small_order(point):
        raise InputError("the asset's generator is of small order")
    return point


def asset_identifier(name: bytes) -> bytes:
    """Return the identifier of an asset: the hash with the first nonce that has a generator."""
    prefix = UNIFORM_RANDOM_STRING + exact_bytes("the name of an asset", name)
    for nonce in range(256):
        identifier = blake2s(prefix + bytes([nonce]), person=_IDENTIFIER).digest()
        try:
            asset_generator(identifier)
        except InputError:
            continue
        return identifier
    raise InputError("no nonce gives the asset a generator; choose another name")
