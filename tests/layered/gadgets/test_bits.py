"""Bits and ranges: exactly the valid bits satisfy the constraints."""

from __future__ import annotations

import pytest

from quod.errors import InputError
from quod.field import NAMED, Modulus
from quod.layered import Program
from quod.layered.gadgets import (
    assert_bits,
    assert_signs,
    bits_of_number,
    bytes_to_signs,
    number_from_bits,
    number_from_signs,
    signs_of_bits,
    signs_to_bytes,
)
from tests.layered.evaluation import finished, holds, outputs

TOY = Modulus("toy", 17)
M31 = NAMED["m31"]


def test_only_bits_and_signs_satisfy_toy_field_constraints() -> None:
    program, other = Program(TOY), Program(TOY)
    assert_bits(program, [program.input("x")])
    assert_signs(other, [other.input("x")])
    bits, signs = program.finished(), other.finished()
    for value in range(17):
        assert holds(bits, {"x": value}) == (value in (0, 1))
        assert holds(signs, {"x": value}) == (value in (1, 16))


def test_exactly_one_claimed_bit_decomposition_passes() -> None:
    """One of 2**4 choices of four bits of a number passes; also for the largest number, p - 1."""
    program = Program(TOY)
    finished(program, bits_of_number(program, program.input("x"), 4))
    layout = program.finished()
    for value in (0, 5, 15, 16):
        passing = []
        for claimed in range(16):
            bits = [claimed >> at & 1 for at in range(4)]
            inputs = [value, *bits, 0, 0, 0]
            if not any(outputs(layout.circuit, inputs, bits)):
                passing.append(claimed)
        assert passing == ([value] if value < 16 else [])
    with pytest.raises(InputError, match="5 bits are not unique"):
        bits_of_number(program, program.input("y"), 5)


def test_numbers_and_signs_of_bits() -> None:
    program = Program(M31)
    bits = program.inputs("bits", 8)
    signs = signs_of_bits(program, bits)
    layout = finished(
        program, [number_from_bits(program, bits), number_from_signs(program, signs), signs[0]]
    )
    for number in (0, 1, 0x5A, 255):
        values = [number >> at & 1 for at in range(8)]
        result = [number, number, 1 - 2 * (number & 1)]
        assert holds(layout, {"bits": values, "result": result})
        assert not holds(layout, {"bits": values, "result": [number, number + 1, result[2]]})


def test_bytes_and_signs() -> None:
    data = bytes(range(250, 256)) + b"\x01"
    signs = bytes_to_signs(data)
    assert signs[-8:] == [-1] + [1] * 7
    assert signs_to_bytes(signs, M31.value) == data
    assert signs_to_bytes([sign % M31.value for sign in signs], M31.value) == data
    assert signs_to_bytes([], 17) == b""
    for wrong in ([1] * 7, [0] * 8, [2] * 8, [1.0] * 8, "11111111"):
        with pytest.raises(InputError):
            signs_to_bytes(wrong, 17)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        bytes_to_signs("text")  # type: ignore[arg-type]
