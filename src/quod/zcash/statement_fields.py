"""Fields of statements, with the checks that verifiers make outside the circuits."""

from __future__ import annotations

from quod.curve.edwards.affine import EdwardsPair, edwards_group, edwards_pair
from quod.curve.edwards.encoding import decode_edwards
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.validation import exact_bytes

FIELD_BYTES = 32
POINT_FIELDS = frozenset({"cv", "rk", "epk"})
NUMBER_FIELDS = frozenset({"anchor", "cmu"})
"""The names of fields that encode points, and of those that encode numbers."""


def statement_point(name: str, coordinates: object) -> EdwardsPair:
    """Return a point; raise InputError, with the field's name, if it is off the curve or small.

    Small points are those whose order divides the cofactor.
    """
    point = edwards_pair(name, JUBJUB, coordinates)
    if edwards_group(JUBJUB).has_small_order(point):
        raise InputError(f"{name} is a point of small order")
    return point


def decode_point(name: str, data: bytes) -> EdwardsPair:
    """Decode 32 bytes; raise InputError, with the field's name, if they encode no point."""
    data = exact_bytes(name, data, 32)
    try:
        return decode_edwards(JUBJUB, data, check_subgroup=False)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def decode_number(name: str, data: bytes) -> int:
    """Return the number that 32 bytes encode, least significant byte first."""
    return int.from_bytes(exact_bytes(name, data, 32), "little")
