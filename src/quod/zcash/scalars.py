"""Scalars of Jubjub, and derivations from seeds: PRF^expand and ToScalar.

Zcash protocol specification, 4.2.2 and 5.4.2; ZIP 212 for derivations from rseed.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b

from quod.curve.edwards.affine import EdwardsPair, edwards_group
from quod.curve.edwards.encoding import encode_edwards
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.validation import exact_bytes
from quod.zcash.protocol import SAPLING, Protocol

SCALAR_BYTES = 32


def expanded(seed: bytes, domain: bytes, protocol: Protocol = SAPLING) -> bytes:
    """Return the 64 bytes of PRF^expand for a seed of 32 bytes."""
    return blake2b(exact_bytes("a seed", seed, 32) + domain, person=protocol.expansion).digest()


def expanded_scalar(seed: bytes, domain: bytes, protocol: Protocol = SAPLING) -> int:
    """Return PRF^expand reduced modulo the order of the subgroup."""
    return int.from_bytes(expanded(seed, domain, protocol), "little") % JUBJUB.fr.value


def secret_scalar(name: str, value: object, *, least: int = 0) -> int:
    """Return a scalar; raise InputError, without its value, unless least <= value < order."""
    if type(value) is not int or not least <= value < JUBJUB.fr.value:
        raise InputError(
            f"{name} must be a scalar from {least} to r - 1, with r the order of Jubjub's subgroup"
        )
    return value


def random_scalar() -> int:
    """Return a uniformly random scalar from 1 on, from the system's randomness."""
    return 1 + secrets.randbelow(JUBJUB.fr.value - 1)


def decode_scalar(name: str, data: bytes, *, least: int = 0) -> int:
    """Decode 32 little-endian bytes; raise InputError for a scalar that is not canonical."""
    number = int.from_bytes(exact_bytes(name, data, SCALAR_BYTES), "little")
    return secret_scalar(name, number, least=least)


def encode_scalar(value: int) -> bytes:
    """Return the 32 little-endian bytes of a scalar."""
    return secret_scalar("a scalar", value).to_bytes(SCALAR_BYTES, "little")


def multiple(scalar: int, generator: EdwardsPair) -> EdwardsPair:
    """Return scalar * generator."""
    return edwards_group(JUBJUB).multiply_fixed(scalar, generator)


def encoded(point: EdwardsPair) -> bytes:
    """Return the 32 bytes of a point of Jubjub."""
    return encode_edwards(JUBJUB, point)
