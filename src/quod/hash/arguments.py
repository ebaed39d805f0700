"""Arguments of reference functions, validated: field elements, bits, bytes."""

from __future__ import annotations

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.validation import exact_bytes, in_order, whole_number


def element(name: str, value: object, field: Modulus) -> int:
    """Return an element of a field: an integer from 0 to p - 1; raise InputError for others."""
    number = whole_number(name, value, 0)
    if number >= field.value:
        raise InputError(f"{name} is not below the modulus of {field.name}")
    return number


def elements(name: str, values: object, field: Modulus) -> list[int]:
    """Return a list of elements of a field; raise InputError for others."""
    return [element(name, value, field) for value in in_order(name, values)]


def bits_of(name: str, values: object) -> list[int]:
    """Return a list of bits, each 0 or 1; raise InputError for others."""
    return [whole_number(f"a bit of {name}", value, 0, 1) for value in in_order(name, values)]


def bytes_to_bits(data: bytes) -> list[int]:
    """Return the bits of bytes, the least significant bit of each byte first."""
    return [
        byte >> position & 1 for byte in exact_bytes("the bytes", data) for position in range(8)
    ]
