"""Scalars as short parts along the endomorphisms of a group, in digits that kernels read.

A scalar s is s_0 + s_1*e + s_2*e**2 + ... modulo the order, where e is the eigenvalue of an
endomorphism: two parts of half the length by phi in G1 (Gallant, Lambert and Vanstone, CRYPTO
2001), four of a quarter by psi in G2 (Galbraith and Scott, Pairing 2008). The code here is for
public scalars, `quod.curve.multiples.scalar_splitting` for secret ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from operator import mul

import numpy as np

from quod.curve.group import Group
from quod.curve.groups import PairingGroup
from quod.curve.parameters import PairingCurve, by_family
from quod.field.array import Words
from quod.frozen import frozen

DIGIT_BITS = 4
"""Bits of a digit; digits are from -8 to 7, so kernels need the multiples 1 to 8 of a point."""

_HALF = 1 << (DIGIT_BITS - 1)
# The error of rounded reciprocals is below 2**-16 of a row.
_GUARD_BITS = 16

_DIGITS_PER_WORD = 32 // DIGIT_BITS


@frozen
class ScalarDecomposition:
    """The decomposition of a group's scalars into short parts.

    basis: spans the lattice of vectors of parts that represent the scalar 0.
    order: the order of the group.
    """

    basis: tuple[tuple[int, ...], ...]
    order: int

    @property
    def count(self) -> int:
        """The number of parts of a scalar."""
        return len(self.basis)

    @property
    def digits(self) -> int:
        """Digits of a part."""
        # Rounding leaves at most half of each vector; a digit is from -8 to 7.
        largest = (
            max(
                sum(abs(row[column_index]) for row in self.basis)
                for column_index in range(self.count)
            )
            // 2
            + 1
        )
        return -(-(largest.bit_length() + 2) // DIGIT_BITS)

    @property
    def part_words(self) -> int:
        """32-bit words of a part's digits."""
        return -(-self.digits // _DIGITS_PER_WORD)

    @property
    def offset(self) -> int:
        """The number whose addition to a part adds 8 to each of its digits."""
        return sum(_HALF << (DIGIT_BITS * digit_index) for digit_index in range(self.digits))

    def reciprocals(self, shift: int) -> tuple[int, ...]:
        """Return one factor per row of the basis.

        scalar * factor / 2**shift, rounded, is the multiple of the row that `split` subtracts.
        """
        return _reciprocals(self.basis, shift)

    def split(self, scalar: int) -> tuple[int, ...]:
        """Split an integer below the order into signed parts."""
        shift = self.order.bit_length() + _GUARD_BITS
        factors = self.reciprocals(shift)
        half = 1 << (shift - 1)
        rounded = [(scalar * factor + half) >> shift for factor in factors]
        return tuple(
            (0 if column_index else scalar) - sum(map(mul, rounded, column))
            for column_index, column in enumerate(zip(*self.basis))
        )

    def words(self, scalars: Iterable[int]) -> Words:
        """Return each digit plus 8, lowest first, as uint32 of shape (n, count * part_words)."""
        size, split, offset = 4 * self.part_words, self.split, self.offset
        data = b"".join(
            [
                (part + offset).to_bytes(size, "little")
                for scalar in scalars
                for part in split(scalar)
            ]
        )
        return (
            np.frombuffer(data, "<u4").astype(np.uint32).reshape(-1, self.count * self.part_words)
        )


@cache
def scalar_decomposition(group: Group) -> ScalarDecomposition:
    """Return the decomposition for a group; without a known endomorphism the scalar is one part."""
    order = group.scalars.value
    if not isinstance(group, PairingGroup):
        return ScalarDecomposition(((order,),), order)
    curve = group.curve
    if group.degree == 1:
        return ScalarDecomposition(curve.phi.basis, order)
    return ScalarDecomposition(_twist_basis(curve), order)


def _twist_basis(curve: PairingCurve) -> tuple[tuple[int, ...], ...]:
    """Return short vectors (a, b, c, d) with a + b*e + c*e**2 + d*e**3 = 0 modulo the order.

    e = t - 1 is the eigenvalue of psi.
    """
    x = curve.x
    return by_family(
        curve.family,
        bls12=((x, -1, 0, 0), (0, x, -1, 0), (0, 0, x, -1), (1, 0, -1, x)),
        bn=(
            (x + 1, x, x, -2 * x),
            (2 * x + 1, -x, -(x + 1), -x),
            (2 * x, 2 * x + 1, 2 * x + 1, 2 * x + 1),
            (x - 1, 4 * x + 2, -(2 * x - 1), x - 1),
        ),
    )


@cache
def _reciprocals(basis: tuple[tuple[int, ...], ...], shift: int) -> tuple[int, ...]:
    return tuple(
        (2 * (top << shift) + bottom) // (2 * bottom) for top, bottom in _first_row(basis)
    )  # fmt: skip


def _first_row(basis: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the first row of the inverse of a matrix, as numerators and denominators.

    These are the coefficients with which the rows of `basis` sum to (1, 0, ...).
    """
    size = len(basis)
    # One equation per column of `basis`, with its right-hand side last: the sum of c_j * basis[j]
    # is (1, 0, ...).
    rows = [
        [*(Fraction(basis[j][column_index]) for j in range(size)), Fraction(int(column_index == 0))]
        for column_index in range(size)
    ]
    for column_index in range(size):
        pivot = next(row for row in range(column_index, size) if rows[row][column_index])
        rows[column_index], rows[pivot] = rows[pivot], rows[column_index]
        rows[column_index] = [
            value / rows[column_index][column_index] for value in rows[column_index]
        ]
        for other in range(size):
            if other != column_index:
                factor = rows[other][column_index]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[column_index])]
    return [row[-1].as_integer_ratio() for row in rows]
