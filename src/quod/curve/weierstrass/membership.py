"""Kernels that check whether points are on their curve, in the subgroup of prime order, or finite.

The subgroup tests use endomorphisms (Scott, eprint 2021/1130; El Housni, Guillevic, Piellard,
2022/352). `quod.curve.weierstrass.affine` has the same tests for single points.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

from quod.curve.group import Group
from quod.curve.groups import PairingGroup
from quod.curve.parameters import by_family
from quod.curve.weierstrass.point import ExtendedPoint, PointArithmetic, plus_a_times
from quod.kernel import U32, U64, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

ON_CURVE, OFF_CURVE, OUTSIDE_SUBGROUP = 0, 1, 2


@kernel
def curve_check(
    k: Builder, count: U32, points: Pointer[U64], codes: Pointer[U32], *, group: Group,
    subgroup: bool,
) -> None:  # fmt: skip
    """codes[i] = 0 for a valid point, 1 for a point off the curve, 2 outside the subgroup.

    Code 2 occurs only with `subgroup`. Infinity is valid. Coordinates must be below the modulus.
    """
    curve, i = PointArithmetic(k, group), k.global_id()
    f = curve.field
    with k.if_(i < count):
        point = curve.load_affine(points, i)
        cube = plus_a_times(f, group, f.square(point.x) * point.x, point.x)
        right_side = cube + f.constant(group.parameters.b)
        off = ~(f.is_zero(f.square(point.y) - right_side) | point.infinity)
        result = k.select(off, k.constant(OFF_CURVE, types.u32), ON_CURVE)
        if subgroup and group.parameters.cofactor != 1:
            outside = ~off & ~_in_subgroup(k, curve, curve.extend(point))
            result = k.select(outside, k.constant(OUTSIDE_SUBGROUP, types.u32), result)
        codes[i] = result


@kernel
def find_finite(
    k: Builder, count: U32, points: Pointer[U64], finite: Pointer[U32], *, group: Group
) -> None:
    """finite[i] = 0 for the point at infinity, whose words are all 0, and non-zero otherwise."""
    i = k.global_id()
    with k.if_(i < count):
        words = k.load(points, i.cast(types.u64) * group.point_words, group.point_words)
        combined = functools.reduce(operator.or_, words)
        finite[i] = (combined | combined >> 32).cast(types.u32)


def _in_subgroup(k: Builder, curve: PointArithmetic, point: ExtendedPoint) -> Value:
    """Return whether a point on the curve has prime order or is infinity."""
    if not isinstance(curve.group, PairingGroup):
        return _times_long(k, curve, point, curve.group.scalars.value).infinity
    parameters = curve.group.curve
    x = parameters.x
    if curve.group.degree == 1:
        left = curve.add(_phi(curve, point), point)
        right = times(k, curve, times(k, curve, point, x), x)
    else:
        left = _psi(curve, point)
        right = times(k, curve, point, x)
        if by_family(parameters.family, bn=True, bls12=False):
            right = times(k, curve, times(k, curve, right, x), 6)
    return curve.add(left, curve.negate(right)).infinity


def _times_long(k: Builder, curve: PointArithmetic, p: ExtendedPoint, factor: int) -> ExtendedPoint:
    """Return factor * p for a positive constant of any length, by double-and-add word by word."""
    count = -(-factor.bit_length() // 64)
    total = curve.bounded(curve.infinity())
    for word_index in reversed(range(count)):
        word = k.constant(factor >> (64 * word_index) & (1 << 64) - 1, types.u64)
        with k.range(0, 64, carry=(total, word)) as loop:
            doubled = curve.bounded(curve.double(loop.carried[0]))
            with k.if_(loop.carried[1] >> 63 != 0) as branch:
                branch.yield_(curve.bounded(curve.add(doubled, p)))
            with branch.otherwise():
                branch.yield_(doubled)
            loop.next((branch.results, loop.carried[1] << 1))
        total = loop.results[0]
    return total


def _phi(curve: PointArithmetic, p: ExtendedPoint) -> ExtendedPoint:
    assert isinstance(curve.group, PairingGroup)
    beta = curve.field.constant(curve.group.curve.phi.beta)
    return curve.bounded(ExtendedPoint(p.x * beta, p.y, p.zz, p.zzz, p.infinity))


def _psi(curve: PointArithmetic, p: ExtendedPoint) -> ExtendedPoint:
    f = curve.field
    assert isinstance(curve.group, PairingGroup)
    cx, cy = (f.constant(c) for c in curve.group.curve.psi_coefficients)
    x, y, zz, zzz = (f.frobenius(part) for part in (p.x, p.y, p.zz, p.zzz))
    return curve.bounded(ExtendedPoint(x * cx, y * cy, zz, zzz, p.infinity))


def times(k: Builder, curve: PointArithmetic, p: ExtendedPoint, factor: int) -> ExtendedPoint:
    """Return factor * p for a non-zero constant of at most 64 bits, by double-and-add."""
    steps = abs(factor).bit_length() - 1
    bits = k.constant(abs(factor), types.u64)
    with k.range(0, steps, carry=curve.bounded(p)) as loop:
        doubled = curve.bounded(curve.double(loop.carried))
        bit = bits >> ((steps - 1) - loop.index).cast(types.u64) & 1
        with k.if_(bit != 0) as branch:
            branch.yield_(curve.bounded(curve.add(doubled, p)))
        with branch.otherwise():
            branch.yield_(doubled)
        loop.next(branch.results)
    result: ExtendedPoint = loop.results
    return curve.negate(result) if factor < 0 else result
