"""Scalars of Jubjub and what Sapling derives from seeds: PRF^expand and ToScalar.

Zcash protocol specification, 4.2.2, 5.4.2, and ZIP 212 for what follows from rseed.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b

from quod.curve.edwards.affine import EdwardsPair, edwards_group
from quod.curve.edwards.encoding import encode_edwards
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.validation import exact_bytes

SCALAR_BYTES = 32


def expanded(seed: bytes, domain: bytes) -> bytes:
    """The 64 bytes of PRF^expand of a seed of 32 bytes."""
    return blake2b(exact_bytes("a seed", seed, 32) + domain, person=b"Zcash_ExpandSeed").digest()


def expanded_scalar(seed: bytes, domain: bytes) -> int:
    """PRF^expand as a scalar, reduced modulo the order of the subgroup."""
    return int.from_bytes(expanded(seed, domain), "little") % JUBJUB.fr.value


def secret_scalar(name: str, value: object, *, least: int = 0) -> int:
    """A scalar that is canonical, from `least` up to the order; an error does not show it."""
    if type(value) is not int or not least <= value < JUBJUB.fr.value:
        raise InputError(f"{name} must be a scalar from {least} up to the order of Jubjub")
    return value


def random_scalar() -> int:
    """A uniform scalar from the system, not 0."""
    return 1 + secrets.randbelow(JUBJUB.fr.value - 1)


def decode_scalar(name: str, data: bytes) -> int:
    """The scalar of 32 bytes, little-endian; InputError for one that is not canonical."""
    return secret_scalar(name, int.from_bytes(exact_bytes(name, data, SCALAR_BYTES), "little"))


def encode_scalar(value: int) -> bytes:
    """The 32 bytes of a scalar."""
    return secret_scalar("a scalar", value).to_bytes(SCALAR_BYTES, "little")


def multiple(scalar: int, generator: EdwardsPair) -> EdwardsPair:
    """scalar * generator."""
    return edwards_group(JUBJUB).multiply_fixed(scalar, generator)


def encoded(point: EdwardsPair) -> bytes:
    """The 32 bytes of a point of Jubjub."""
    return encode_edwards(JUBJUB, point)
