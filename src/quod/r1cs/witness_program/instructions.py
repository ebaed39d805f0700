"""Witness programs: instructions over registers of field elements, as data.

`lowered` makes one of the steps of a circuit. A quotient is not computed where it is made: wires
are fractions, whose divisors multiply up as in projective coordinates, and all divisors are
inverted together at the end, or where bits of a value or a hint need it (Montgomery's trick). A
chain of 252 additions of points so takes one inversion, whatever gadget it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from quod.frozen import frozen
from quod.r1cs.witness_program.steps import Hint


class Op(IntEnum):
    """The operation of an instruction on registers d, a and b."""

    MULTIPLY = 0
    """d = a * b."""
    ADD = 1
    """d = a + b."""
    SUBTRACT = 2
    """d = a - b."""
    LINEAR = 3
    """d = the sum of coefficient times register over b terms from term a on."""
    BIT = 4
    """d = bit b of the integer that register a holds as it is."""
    INTEGER = 5
    """d = the integer below p that a is, as it is."""
    GUARD = 6
    """d = a, or 1 for 0; with b = 1 the input is marked as one that divides by 0."""
    INVERT = 7
    """d = 1/a."""
    UNLESS_ZERO = 8
    """d = b where a is not 0, else 0."""
    INPUT = 9
    """d = element a of the input."""
    INPUT_BIT = 10
    """d = bit a of the input's bits."""


ZERO, ONE_REGISTER = 0, 1


@frozen(eq=False)
class Call:
    """A hint between two stretches of instructions: its arguments' registers, as integers, and
    which elements of the input its results become."""

    hint: Hint
    arguments: tuple[int, ...]
    results: tuple[int, ...]


@frozen(eq=False)
class Program:
    """Instructions (n, 4) of op, d, a, b; `terms` (m, 2) of coefficient and register.

    `coefficients` are integers below the prime. `stretches` end where `calls` are made, of which
    there is one less. `outputs` are the registers of all wires in the order of a witness. The
    input has `elements` field elements, of which the first are the caller's `element_wires`, and
    `bit_wires` bits.
    """

    instructions: NDArray[np.uint32]
    terms: NDArray[np.uint32]
    coefficients: Sequence[int]
    registers: int
    outputs: NDArray[np.uint32]
    element_wires: tuple[int, ...]
    bit_wires: tuple[int, ...]
    elements: int
    stretches: tuple[int, ...]
    calls: tuple[Call, ...]
