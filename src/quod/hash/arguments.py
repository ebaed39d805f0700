"""Arguments of reference functions, validated: field elements, bits, bytes."""

from __future__ import annotations

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.validation import exact_bytes, in_order, whole_number


def element(name: str, value: object, field: Modulus) -> int:
    """An element of a field: an integer from 0 to p - 1. InputError for others."""
    number = whole_number(name, value, 0)
    if number >= field.value:
        raise InputError(f"{name} is not below the modulus of {field.name}")
    return number


def elements(name: str, values: object, field: Modulus) -> list[int]:
    """A list of such."""
    return [element(name, value, field) for value in in_order(name, values)]


def bits_of(name: str, values: object) -> list[int]:
    """A list of bits, each 0 or 1."""
    return [whole_number(f"a bit of {name}", value, 0, 1) for value in in_order(name, values)]


def bytes_to_bits(data: bytes) -> list[int]:
    """The bits of bytes, of each the lowest first."""
    return [byte >> at & 1 for byte in exact_bytes("the bytes", data) for at in range(8)]
