"""Bits as values 0 and 1, or as signs: 1 for a bit of 0 and -1 for a bit of 1.

With signs exclusive or is a single product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.errors import InputError
from quod.layered.gadgets.arguments import wires_of
from quod.layered.program import Program
from quod.layered.wire import Wire
from quod.validation import shown_kind, whole_number

MAX_BITS = 1 << 10


def assert_bits(program: Program, wires: Sequence[Wire], name: str = "bits") -> None:
    """Assert that each wire is 0 or 1."""
    wires = wires_of("bits", program, wires)
    program.assert_equal([wire * wire for wire in wires], wires, name)


def assert_signs(program: Program, wires: Sequence[Wire], name: str = "signs") -> None:
    """Assert that each wire is 1 or -1."""
    wires = wires_of("signs", program, wires)
    program.assert_equal([wire * wire for wire in wires], [1] * len(wires), name)


def signs_of_bits(program: Program, bits: Sequence[Wire]) -> list[Wire]:
    """Convert bits to signs."""
    return [1 - 2 * bit for bit in wires_of("bits", program, bits)]


def number_from_bits(program: Program, bits: Sequence[Wire]) -> Wire:
    """Return the number with these bits, lowest first."""
    bits = wires_of("bits", program, bits)
    return program.sum(bits, [1 << index for index in range(len(bits))])


def number_from_signs(program: Program, signs: Sequence[Wire]) -> Wire:
    """Return the number with these bits, given as signs, lowest first."""
    signs = wires_of("signs", program, signs)
    # A bit is (1 - sign) / 2.
    half, ones = pow(2, -1, program.field.value), (1 << len(signs)) - 1
    weights = [-half << index for index in range(len(signs))]
    return program.sum(signs, weights) + half * ones


def bits_of_number(program: Program, number: Wire, count: int, name: str = "bits") -> list[Wire]:
    """Decompose a number into `count` bits, lowest first; asserts that it has no more.

    InputError if 2**count is above p, as a number would have two decompositions.
    """
    (number,) = wires_of("a number", program, [number])
    count = whole_number("the count of bits", count, 1, MAX_BITS)
    if 1 << count > program.field.value:
        raise InputError(
            f"{count} bits are not unique modulo the prime of {program.field.name}; use fewer bits"
        )

    def bits_of(value: Any) -> list[Any]:
        return [value >> index & 1 for index in range(count)]

    bits = program.advice(bits_of, [number], count)
    with program.scope(name):
        assert_bits(program, bits)
        program.assert_equal(number_from_bits(program, bits), number, "number")
    return bits


def bytes_to_signs(data: bytes) -> list[int]:
    """Return the bits of bytes as signs 1 and -1; each byte's lowest bit comes first."""
    if not isinstance(data, (bytes, bytearray)):
        raise InputError(f"the argument must be bytes, not {shown_kind(data)}")
    return [1 - 2 * (byte >> index & 1) for byte in data for index in range(8)]


def signs_to_bytes(signs: Sequence[int], modulus: int) -> bytes:
    """Return the bytes of signs, whose -1 may be p - 1; InputError for another value."""
    if not isinstance(signs, (list, tuple)) or len(signs) % 8:
        raise InputError("the number of signs must be a multiple of 8")
    modulus = whole_number("the modulus of signs", modulus, 3)
    values = [whole_number("a sign", sign) % modulus for sign in signs]
    if not set(values) <= {1, modulus - 1}:
        raise InputError("a sign must be 1 or -1")
    bits = [int(value != 1) for value in values]
    number = sum(bit << index for index, bit in enumerate(bits))
    return number.to_bytes(len(bits) // 8, "little")
