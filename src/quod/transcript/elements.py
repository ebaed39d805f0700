"""Challenges from digests; the bytes of elements are those of `quod.field.element_bytes`."""

from __future__ import annotations

from fractions import Fraction

from quod.errors import InputError
from quod.field.element_bytes import Plain
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.hash.function import DIGEST_BYTES


def challenge_bits(field: FieldSpec) -> int:
    """Return the digest bits of one coefficient: the digest's 64-bit words are shared evenly.

    Raises InputError if a digest has too few bits for an element of the field.
    """
    words = DIGEST_BYTES // 8 // field.degree
    if words == 0 or 64 * words < field.modulus.bits:
        raise InputError(
            f"a challenge is a digest of {8 * DIGEST_BYTES} bits, too few for an element of "
            f"{field.name}; take a field of at most four coefficients and 256 bits"
        )
    return 64 * words


def challenge_of(field: FieldSpec, digest: bytes) -> Plain:
    """Derive a challenge from a digest.

    Coefficient i is the little-endian integer of the i-th run of `challenge_bits` bits, modulo p.
    """
    size = challenge_bits(field) // 8
    return tuple(
        int.from_bytes(digest[start : start + size], "little") % field.modulus.value
        for start in range(0, size * field.degree, size)
    )


def most_likely(field: FieldSpec) -> Fraction:
    """Return the probability of the likeliest challenge, slightly above 1/|F| by the bias mod p."""
    count = 1 << challenge_bits(field)
    modulus: Modulus = field.modulus
    return Fraction(-(-count // modulus.value), count) ** field.degree


def describe(field: FieldSpec) -> bytes:
    """Encode a field as a message: its prime, and the polynomial of each extension."""
    return _described(field).encode()


def _described(field: FieldSpec) -> str:
    if isinstance(field, Modulus):
        return str(field.value)
    p = field.modulus.value
    coefficients = [c if isinstance(c, tuple) else (c,) for c in field.polynomial]
    texts = [".".join(str(part % p) for part in c) for c in coefficients]
    return f"{_described(field.base)}[{','.join(texts)}]"
