"""Witness programs: instructions over registers of field elements, as data.

`lowered` translates the steps of a circuit. Divisions are deferred: a wire is a fraction, whose
denominator is a product of divisors, as in projective coordinates. All divisors are inverted in one
batch (Montgomery's trick) at the end, or earlier if a hint or the bits of a value need an inverse.
So a chain of point additions, such as the 252 of a scalar multiplication, takes one inversion,
whichever gadget made it.
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
    """d = the sum of coefficient times register over terms a to a + b - 1."""
    BIT = 4
    """d = bit b of register a, which holds an integer, not Montgomery form."""
    INTEGER = 5
    """d = the value of register a as an integer below p, out of Montgomery form."""
    GUARD = 6
    """d = a, or 1 if a is 0; with b = 1, a zero marks the whole witness as dividing by 0."""
    INVERT = 7
    """d = 1/a."""
    UNLESS_ZERO = 8
    """d = b if a is not 0, else 0."""
    INPUT = 9
    """d = the witness's value at column a (`quod.r1cs.repetition.parts.Part`)."""


ZERO_REGISTER, ONE_REGISTER = 0, 1
"""The registers that hold 0 and 1."""


@frozen(eq=False)
class Call:
    """A call of a hint at the end of a stretch.

    hint: the hint.
    arguments: the registers of the arguments, which hold integers.
    results: the columns of the witness to which the results are stored.
    """

    hint: Hint
    arguments: tuple[int, ...]
    results: tuple[int, ...]


@frozen(eq=False)
class Stretch:
    """Consecutive instructions of a program, after which results are stored.

    instructions, outputs: the exclusive ends of its instructions and of its outputs.
    call: the hint to call then, or None.
    """

    instructions: int
    outputs: int
    call: Call | None = None


@frozen(eq=False)
class Program:
    """A compiled witness program: it reads values of a witness, and stores others.

    instructions: (n, 4) of op, d, a and b.
    terms: (m, 2) of the index of a coefficient and a register.
    coefficients: integers below the prime.
    registers: the number of registers.
    outputs: (k, 2) of a register and the column to which its value is stored.
    stretches: the parts of the program, in order. Registers of outputs are valid at the end of the
        stretch that stores them.
    """

    instructions: NDArray[np.uint32]
    terms: NDArray[np.uint32]
    coefficients: Sequence[int]
    registers: int
    outputs: NDArray[np.uint32]
    stretches: tuple[Stretch, ...]

    @property
    def has_calls(self) -> bool:
        """True if the program calls hints."""
        return any(stretch.call is not None for stretch in self.stretches)
