"""Scalars as short parts along the endomorphisms of a group, in digits that kernels read.

A scalar s is s_0 + s_1*e + s_2*e**2 + ... modulo the order, e the eigenvalue of an endomorphism:
two parts of half the length by phi in G1 (Gallant, Lambert and Vanstone, CRYPTO 2001), four of a
quarter by psi in G2 (Galbraith and Scott, Pairing 2008). Scalars are public here;
`quod.curve.multiples.scalar_splitting` is for others.
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
"""Bits of a digit; digits are from -8 to 7, of which 8 multiples of a point are enough."""

_HALF = 1 << (DIGIT_BITS - 1)
# What rounding reciprocals leaves is below 2**-16 of a row.
_GUARD_BITS = 16

_DIGITS_PER_WORD = 32 // DIGIT_BITS


@frozen
class ScalarParts:
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
        # Rounding leaves at most half of each vector; digits reach from -8 to 7 in each place.
        largest = max(sum(abs(row[at]) for row in self.basis) for at in range(self.count)) // 2 + 1
        return -(-(largest.bit_length() + 2) // DIGIT_BITS)

    @property
    def part_words(self) -> int:
        """32-bit words of a part's digits."""
        return -(-self.digits // _DIGITS_PER_WORD)

    @property
    def offset(self) -> int:
        """The number whose addition to a part adds 8 to each of its digits."""
        return sum(_HALF << (DIGIT_BITS * place) for place in range(self.digits))

    def reciprocals(self, shift: int) -> tuple[int, ...]:
        """Return factors whose products with a scalar, over 2**shift, are coefficients of rows."""
        return _reciprocals(self.basis, shift)

    def split(self, scalar: int) -> tuple[int, ...]:
        """Split an integer below the order into signed parts."""
        shift = self.order.bit_length() + _GUARD_BITS
        factors = self.reciprocals(shift)
        half = 1 << (shift - 1)
        rounded = [(scalar * factor + half) >> shift for factor in factors]
        return tuple(
            (0 if at else scalar) - sum(map(mul, rounded, column))
            for at, column in enumerate(zip(*self.basis))
        )

    def words(self, scalars: Iterable[int]) -> Words:
        """uint32 of shape (n, count * part_words): each digit plus 8, the lowest first."""
        size, split, offset = 4 * self.part_words, self.split, self.offset
        raw = b"".join(
            [
                (part + offset).to_bytes(size, "little")
                for scalar in scalars
                for part in split(scalar)
            ]
        )
        return np.frombuffer(raw, "<u4").astype(np.uint32).reshape(-1, self.count * self.part_words)


@cache
def parts_of(group: Group) -> ScalarParts:
    """The parts that suit a group; one, the scalar itself, where no endomorphism is known."""
    order = group.scalars.value
    if not isinstance(group, PairingGroup):
        return ScalarParts(((order,),), order)
    curve = group.curve
    if group.degree == 1:
        return ScalarParts(curve.phi.basis, order)
    return ScalarParts(_twist_basis(curve), order)


def _twist_basis(curve: PairingCurve) -> tuple[tuple[int, ...], ...]:
    """Short vectors (a, b, c, d) with a + b*e + c*e**2 + d*e**3 = 0, e = t - 1."""
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
    """The first row of the inverse of a matrix, as fractions: how much of each row 1 takes."""
    size = len(basis)
    # Columns of the transposed system: sum of c_j * basis[j] = (1, 0, ...).
    rows = [
        [*(Fraction(basis[j][at]) for j in range(size)), Fraction(int(at == 0))]
        for at in range(size)
    ]
    for at in range(size):
        pivot = next(row for row in range(at, size) if rows[row][at])
        rows[at], rows[pivot] = rows[pivot], rows[at]
        rows[at] = [value / rows[at][at] for value in rows[at]]
        for other in range(size):
            if other != at:
                factor = rows[other][at]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[at])]
    return [row[-1].as_integer_ratio() for row in rows]
