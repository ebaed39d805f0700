"""Multiples of points by scalars that are known beforehand, inside kernels.

A scalar comes as the digits of its parts along an endomorphism (`quod.curve.scalar_parts`); all
parts share the doublings, and one table of eight multiples.
"""

from __future__ import annotations

from typing import Any

from quod.curve.group import Group
from quod.curve.groups import PairingGroup
from quod.curve.point import ExtendedPoint, PointArithmetic
from quod.curve.scalar_parts import DIGIT_BITS, parts_of
from quod.frozen import replace
from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.structure import flatten
from quod.kernel.value import Value

_ROWS = 1 << (DIGIT_BITS - 1)
_DIGITS_PER_WORD = 32 // DIGIT_BITS


class FixedMultiple:
    """Multiplies in one kernel, made at its top: each instance has a table of its own."""

    def __init__(self, k: Builder, curve: PointArithmetic) -> None:
        self._k = k
        self._curve = curve
        self._parts = parts_of(curve.group)
        values, _, self._rebuild = flatten(curve.carried(curve.infinity()))
        self._types = [value.type for value in values]
        self._width = types.u64 if types.u64 in self._types else types.u32
        self._memory = k.private(self._width, _ROWS * len(values))

    def __call__(self, point: ExtendedPoint, digits: Value, row: Value) -> ExtendedPoint:
        """The multiple by the scalar of a row of `digits`, as `ScalarParts.words` makes them."""
        k, curve, parts = self._k, self._curve, self._parts
        multiple = curve.carried(point)
        self._store(k.constant(0, types.u32), multiple)
        with k.range(1, _ROWS, carry=multiple) as filling:
            further = curve.carried(curve.add(filling.carried, point))
            self._store(filling.index, further)
            filling.next(further)
        start = row * (parts.count * parts.part_words)
        with k.range(0, parts.digits, carry=curve.carried(curve.infinity())) as loop:
            place = (parts.digits - 1) - loop.index
            word, shift = place // _DIGITS_PER_WORD, place % _DIGITS_PER_WORD * DIGIT_BITS
            total = loop.carried
            for _ in range(DIGIT_BITS):
                total = curve.double(total)
            for number in range(parts.count):
                own = digits[(start + number * parts.part_words + word).cast(types.u64)]
                digit = (own >> shift) & (2 * _ROWS - 1)
                negative = digit < _ROWS
                size = k.select(negative, _ROWS - digit, digit - _ROWS)
                entry = self._load(k.maximum(size, 1) - 1)
                entry = replace(entry, infinity=entry.infinity | (size == 0))
                entry = moved(curve, entry, number)
                turned = k.select(negative, k.constant(True, types.bool_), False)
                y = curve.field.select(
                    turned, curve.field.carried(-entry.y), curve.field.carried(entry.y)
                )
                total = curve.add(total, replace(entry, y=y))
            loop.next(curve.carried(total))
        result: ExtendedPoint = loop.results
        return result

    def _store(self, row: Value, point: ExtendedPoint) -> None:
        k = self._k
        values, _, _ = flatten(self._curve.carried(point))
        for part, value in enumerate(values):
            if value.type == types.bool_:
                value = k.select(value, k.constant(1, self._width), 0)
            self._memory[row * len(values) + part] = value

    def _load(self, row: Value) -> Any:
        values = []
        for part, type_ in enumerate(self._types):
            value = self._memory[row * len(self._types) + part]
            values.append(value != 0 if type_ == types.bool_ else value)
        return self._rebuild(values)


def moved(curve: PointArithmetic, point: ExtendedPoint, times: int) -> ExtendedPoint:
    """The endomorphism of the group's parts, applied so many times."""
    group: Group = curve.group
    if times == 0:
        return point
    assert isinstance(group, PairingGroup)
    f, parameters = curve.field, group.curve
    if group.degree == 1:
        beta = pow(parameters.phi.beta, times, parameters.fq.value)
        return curve.carried(replace(point, x=point.x * f.constant(beta)))
    cx, cy = parameters.psi_coefficients
    tower, p = parameters.tower, parameters.fq.value
    factor_x, factor_y = cx, cy
    for _ in range(times - 1):
        factor_x = tower.multiply((factor_x[0], -factor_x[1] % p), cx)
        factor_y = tower.multiply((factor_y[0], -factor_y[1] % p), cy)
    x, y, zz, zzz = (f.frobenius(part, times) for part in (point.x, point.y, point.zz, point.zzz))
    return curve.carried(
        ExtendedPoint(x * f.constant(factor_x), y * f.constant(factor_y), zz, zzz, point.infinity)
    )
