"""Challenges from digests; the bytes of elements are those of `quod.field.element_bytes`."""

from __future__ import annotations

from fractions import Fraction

from quod.errors import InputError
from quod.field.element_bytes import Plain
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.hash.function import DIGEST_BYTES


def challenge_bits(field: FieldSpec) -> int:
    """Bits of a digest that make one coefficient: as many whole 64-bit words as all can have."""
    words = DIGEST_BYTES // 8 // field.degree
    if words == 0 or 64 * words < field.modulus.bits:
        raise InputError(
            f"a challenge is a digest of {8 * DIGEST_BYTES} bits, too few for an element of "
            f"{field.name}; take a field of at most four coefficients and 256 bits"
        )
    return 64 * words


def challenge_of(field: FieldSpec, digest: bytes) -> Plain:
    """The element that a digest stands for.

    Coefficient i is the little-endian integer of its own run of `challenge_bits` bits, taken
    modulo p.
    """
    size = challenge_bits(field) // 8
    return tuple(
        int.from_bytes(digest[at : at + size], "little") % field.modulus.value
        for at in range(0, size * field.degree, size)
    )


def most_likely(field: FieldSpec) -> Fraction:
    """How likely the likeliest challenge is: above 1/|F| by what does not divide evenly."""
    count = 1 << challenge_bits(field)
    modulus: Modulus = field.modulus
    return Fraction(-(-count // modulus.value), count) ** field.degree


def describe(field: FieldSpec) -> bytes:
    """A field as a message: its prime, and the polynomial of each extension over it."""
    return _described(field).encode()


def _described(field: FieldSpec) -> str:
    if isinstance(field, Modulus):
        return str(field.value)
    p = field.modulus.value
    coefficients = [c if isinstance(c, tuple) else (c,) for c in field.polynomial]
    texts = [".".join(str(part % p) for part in c) for c in coefficients]
    return f"{_described(field.base)}[{','.join(texts)}]"
