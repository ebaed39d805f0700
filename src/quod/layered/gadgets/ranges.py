"""Range checks of numbers, by bits or by limbs that are looked up."""

from __future__ import annotations

from functools import cache
from typing import Any

from quod.errors import InputError
from quod.layered.gadgets.arguments import wires_of
from quod.layered.gadgets.bits import MAX_BITS, bits_of_number
from quod.layered.program import Program
from quod.layered.table import Table
from quod.layered.wire import Wire
from quod.validation import whole_number

MAX_LIMB = 16


def assert_range(
    program: Program, number: Wire, count: int, name: str = "range", *, limb: int | None = None
) -> None:
    """Assert that a number is below 2**count: by its bits, or by limbs of `limb` bits.

    Limbs are looked up in one table of 2**limb rows for the whole program, which is cheaper for
    many numbers.
    """
    if limb is None:
        bits_of_number(program, number, count, name)
    else:
        limbs_of_number(program, number, count, limb, name)


def limbs_of_number(
    program: Program, number: Wire, count: int, limb: int, name: str = "limbs"
) -> list[Wire]:
    """Decompose a number of `count` bits into limbs of `limb` bits, lowest first.

    Asserts that it has no more bits, by lookups of the limbs in a table of all limbs. The last limb
    has the remaining bits. InputError if 2**count is above p, as a number would have two
    decompositions.
    """
    (number,) = wires_of("a number", program, [number])
    count = whole_number("the count of bits", count, 1, MAX_BITS)
    limb = whole_number("the bits of a limb", limb, 1, MAX_LIMB)
    if 1 << count > program.field.value:
        raise InputError(
            f"{count} bits are not unique modulo the prime of {program.field.name}; use fewer bits"
        )
    offsets = range(0, count, limb)

    def upper(value: Any) -> list[Any]:
        return [value >> index & (1 << limb) - 1 for index in offsets[1:]]

    with program.scope(name):
        # The lowest limb is the number minus the other limbs, so their sum needs no assertion.
        upper_limbs = program.advice(upper, [number], len(offsets) - 1) if len(offsets) > 1 else []
        limbs = [
            number - program.sum(upper_limbs, [1 << index for index in offsets[1:]]),
            *upper_limbs,
        ]
        table, missing_bits = _numbers(limb), limb - (count - offsets[-1])
        # If the product below could wrap around modulo p, the last limb is checked by its bits.
        if missing_bits and (1 << limb) - 1 << missing_bits >= program.field.value:
            bits_of_number(program, limbs[-1], limb - missing_bits, "last")
            missing_bits, looked_up = 0, limbs[:-1]
        else:
            looked_up = limbs
        for index, wire in enumerate(looked_up):
            program.assert_in_table([wire], table, f"limb[{index}]")
        if missing_bits:
            # Its product with 2**missing_bits is below 2**limb only if the last limb has at most
            # limb - missing_bits bits.
            program.assert_in_table([limbs[-1] * (1 << missing_bits)], table, "last")
    return limbs


@cache
def _numbers(bits: int) -> Table:
    return Table(range(1 << bits))
