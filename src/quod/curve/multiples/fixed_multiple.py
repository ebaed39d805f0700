"""Multiples of points of prime order by scalars in parts, inside kernels.

A scalar is given as the digits of its parts along an endomorphism
(`quod.curve.multiples.scalar_parts`). All parts share the doublings, and one table of eight
multiples. The table is affine without an inversion, on an isomorphic curve: the point (x, y)
corresponds to (x*u^2, y*u^3) of y^2 = x^3 + b*u^6, and no formula here depends on b. If tables are
scanned, the instructions and memory accesses are the same for all scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.curve.groups import PairingGroup
from quod.curve.multiples.scalar_parts import DIGIT_BITS, scalar_decomposition
from quod.curve.weierstrass.jacobian import Coordinate, JacobianArithmetic, Pair
from quod.curve.weierstrass.point import ExtendedPoint, PointArithmetic
from quod.kernel.builder.builder import Builder
from quod.kernel.builder.structure import flatten
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

_ROWS = 1 << (DIGIT_BITS - 1)
_WORD_BITS = 64


class FixedMultiple:
    """Multiplication in one kernel; create it at the kernel's top. Each instance has its own table.

    The additions never meet equal or opposite points. Their parts would differ by a nonzero vector
    of the lattice that represents 0, but the parts of a scalar, and those of its first digits, are
    too small for that: at most half of each vector of the basis plus a digit.
    """

    def __init__(self, k: Builder, curve: PointArithmetic, *, scanned: bool) -> None:
        """scanned: read all rows of the table for each digit, as secret scalars require."""
        self._k = k
        self._curve = curve
        self._law = JacobianArithmetic(k, curve.group)
        self._parts = scalar_decomposition(curve.group)
        self._scanned = scanned
        one = curve.field.bounded(curve.field.one())
        values, _, self._rebuild = flatten((one, one, one))
        self._values_per_row = len(values)
        self._memory = k.private(values[0].type, _ROWS * self._values_per_row)

    def __call__(self, point: ExtendedPoint, digits: Sequence[Sequence[Value]]) -> ExtendedPoint:
        """Return the multiple of a point by a scalar; `digits` are the words of its parts."""
        k, curve, law, parts = self._k, self._curve, self._law, self._parts
        f = curve.field
        scale = self._fill(point)
        words = [self._aligned(part) for part in digits]
        one, zero = f.bounded(f.one()), f.bounded(f.zero())
        initial = (one, one, zero), k.constant(True, types.bool_), words
        with k.range(0, parts.digits, carry=initial) as loop:
            total, infinite, words = loop.carried
            for _ in range(DIGIT_BITS):
                total = law.double(total)
            for part_index, part in enumerate(words):
                # Digits are stored plus 8, which is `_ROWS`.
                stored_digit = (part[-1] >> (_WORD_BITS - DIGIT_BITS)).cast(types.u32)
                negative = stored_digit < _ROWS
                magnitude = k.select(negative, _ROWS - stored_digit, stored_digit - _ROWS)
                x, y = self._apply_endomorphism(self._entry(magnitude), part_index)
                entry = x, f.select(negative, f.bounded(-y), y)
                added = law.add_affine(total, entry)
                first_entry = (*entry, one)
                is_zero = magnitude == 0
                total = tuple(
                    f.select(is_zero, previous, f.select(infinite, single, summed))
                    for previous, single, summed in zip(total, first_entry, added, strict=True)
                )
                infinite = infinite & is_zero
            loop.next((law.bounded(total), infinite, [self._shifted(part) for part in words]))
        (x, y, z), infinite, _ = loop.results
        z = f.bounded(z * scale)
        zz = f.bounded(f.square(z))
        return curve.bounded(
            ExtendedPoint(x, y, zz, zz * z, infinite | point.infinity)
        )  # fmt: skip

    def _fill(self, point: ExtendedPoint) -> Coordinate:
        """Fill the table; return the factor u of its curve.

        The coordinates of the table are x*u^2 and y*u^3.
        """
        k, law, f = self._k, self._law, self._curve.field
        scaled_point = law.bounded((point.x * point.zz, point.y * point.zzz))
        # `once` and `twice`, the point and its double, have a common Z. `ratio` is its quotient by
        # the previous Z.
        twice, once, ratio = law.double_sharing((scaled_point[0], scaled_point[1]))
        one = f.bounded(f.one())
        self._store(k.constant(0, types.u32), (scaled_point[0], scaled_point[1], one))
        self._store(k.constant(1, types.u32), (*twice, ratio))
        start = twice, once, f.bounded(ratio * point.zz)
        with k.range(2, _ROWS, carry=start) as filling:
            last, once, z = filling.carried
            next_multiple, once, ratio = law.add_sharing(once, last)
            self._store(filling.index, (*next_multiple, ratio))
            filling.next((next_multiple, once, f.bounded(z * ratio)))
        z = filling.results[2]
        # Endomorphisms of G2 conjugate coordinates, so u must be in the prime field there.
        factor = f.bounded(f.frobenius(z)) if self._parts.count > 2 else one
        with k.range(0, _ROWS, carry=factor) as backward:
            row = (_ROWS - 1) - backward.index
            x, y, ratio = self._load(row)
            squared = f.square(backward.carried)
            self._store(row, (*law.bounded((x * squared, y * (squared * backward.carried))), ratio))
            backward.next(f.bounded(backward.carried * ratio))
        return f.bounded(z * factor)

    def _aligned(self, part: Sequence[Value]) -> list[Value]:
        """Return a part in 64-bit words, with the highest digit at the top of the last word."""
        k = self._k
        bits = DIGIT_BITS * self._parts.digits
        count = -(-bits // _WORD_BITS)
        wide = [word.cast(types.u64) for word in part]
        wide += [k.constant(0, types.u64)] * (2 * count - len(wide))
        words = [low | high << 32 for low, high in zip(wide[::2], wide[1::2], strict=True)]
        return self._shifted(words, _WORD_BITS * count - bits)

    def _shifted(self, words: Sequence[Value], bits: int = DIGIT_BITS) -> list[Value]:
        if bits == 0:
            return list(words)
        below = [None, *words[:-1]]
        return [
            word << bits if low is None else word << bits | low >> (_WORD_BITS - bits)
            for word, low in zip(words, below, strict=True)
        ]

    def _store(self, row: Value, entry: tuple[Coordinate, ...]) -> None:
        values, _, _ = flatten(entry)
        for part, value in enumerate(values):
            self._memory[row * self._values_per_row + part] = value

    def _load(self, row: Value) -> Any:
        return self._rebuild(
            [
                self._memory[row * self._values_per_row + index]
                for index in range(self._values_per_row)
            ]
        )

    def _entry(self, magnitude: Value) -> Pair:
        """Return the table's multiple of a digit of this size; any entry for 0."""
        k = self._k
        if not self._scanned:
            x, y, _ = self._load(k.maximum(magnitude, 1) - 1)
            return x, y
        xy_values = self._values_per_row // 3 * 2
        words = [self._memory[part] for part in range(xy_values)]
        for row in range(1, _ROWS):
            is_row = magnitude == row + 1
            words = [
                k.select(is_row, self._memory[row * self._values_per_row + part], value)
                for part, value in enumerate(words)
            ]
        x, y, _ = self._rebuild([*words, *words[: self._values_per_row - xy_values]])
        return x, y

    def _apply_endomorphism(self, point: Pair, times: int) -> Pair:
        """Apply the endomorphism of the group's parts `times` times."""
        group = self._curve.group
        if times == 0:
            return point
        assert isinstance(group, PairingGroup)
        f, parameters = self._curve.field, group.curve
        x, y = point
        if group.degree == 1:
            return f.bounded(
                x * f.constant(pow(parameters.phi.beta, times, parameters.fq.value))
            ), y
        cx, cy = parameters.psi_coefficients
        tower, p = parameters.tower, parameters.fq.value
        factor_x, factor_y = cx, cy
        for _ in range(times - 1):
            factor_x = tower.multiply((factor_x[0], -factor_x[1] % p), cx)
            factor_y = tower.multiply((factor_y[0], -factor_y[1] % p), cy)
        x = f.frobenius(x, times) * f.constant(factor_x)
        y = f.frobenius(y, times) * f.constant(factor_y)
        return f.bounded(x), f.bounded(y)


def loaded_digits(digits: Value, row: Value, count: int, part_words: int) -> list[list[Value]]:
    """Load the parts in row `row` of an array that `ScalarDecomposition.words` returns."""
    start = (row * (count * part_words)).cast(types.u64)
    return [
        [digits[start + (part * part_words + word)] for word in range(part_words)]
        for part in range(count)
    ]
