"""Field elements as bytes in messages and files: canonical little-endian integers."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from quod.errors import InputError
from quod.field.spec import FieldSpec
from quod.validation import shown

_WORDS = {4: "I", 8: "Q"}
_NO_LISTS = (str, bytes, bytearray, memoryview)

Plain = tuple[int, ...]
"""An element of any field as its coefficients over the prime field, each from 0 to p - 1."""


def element_bytes(field: FieldSpec) -> int:
    """Return the bytes of an element in a message, the same number as in memory."""
    return field.degree * field.modulus.bytes


def check_elements(field: FieldSpec, what: str, elements: object) -> tuple[Plain, ...]:
    """Return elements of a field as an immutable tuple; raise InputError for anything else.

    what: a description of the argument, for messages.
    """
    if not isinstance(elements, Sequence) or isinstance(elements, _NO_LISTS):
        raise InputError(f"{what} must be a tuple of elements of {field.name}")
    checked = tuple(
        tuple(element) if isinstance(element, tuple) else element for element in elements
    )
    for element in checked:
        if (
            not isinstance(element, tuple)
            or len(element) != field.degree
            or any(type(c) is not int or not 0 <= c < field.modulus.value for c in element)
        ):
            raise InputError(
                f"{what} must hold elements of {field.name}: tuples of {field.degree} int below "
                f"its prime, not {shown(element)}"
            )
    return checked


def encode(field: FieldSpec, elements: Sequence[Plain]) -> bytes:
    """Encode elements: each coefficient is a little-endian integer of `modulus.bytes` bytes."""
    size = field.modulus.bytes
    return b"".join(c.to_bytes(size, "little") for element in elements for c in element)


def decode(field: FieldSpec, data: bytes, *, offset: int = 0) -> list[Plain]:
    """Decode the elements that `encode` wrote.

    offset: byte offset of the data in its file, for the error.
    Raises InputError for a partial element, or a coefficient that is not below p.
    """
    modulus, size, degree = field.modulus, field.modulus.bytes, field.degree
    if len(data) % (size * degree):
        raise InputError(
            f"{len(data)} bytes are not a whole number of elements of {field.name}, which take "
            f"{size * degree} each"
        )
    coefficients: Sequence[int]
    if size in _WORDS:
        coefficients = struct.unpack(f"<{len(data) // size}{_WORDS[size]}", data)
    else:
        coefficients = [
            int.from_bytes(data[start : start + size], "little")
            for start in range(0, len(data), size)
        ]
    for index, coefficient in enumerate(coefficients):
        if coefficient >= modulus.value:
            raise InputError(
                f"coefficient {index % degree} of element {index // degree} is not below the "
                f"modulus of {field.name}",
                offset=offset + index * size,
            )
    return list(zip(*[iter(coefficients)] * degree, strict=True))
