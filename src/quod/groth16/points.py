"""Small services over arrays of points: multiples of a generator, of given points, membership.

The group law is `quod.curve.point`; the MSMs of a proof are `quod.msm`. Arrays of points are uint32
of shape (n, *group.shape), Montgomery form, infinity all zero; scalars are canonical, (n, words).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.curve.affine import AffineGroup, g1_group, g2_group
from quod.curve.array import Point, from_points, to_points
from quod.curve.groups import Group
from quod.curve.parameters import Family, PairingCurve
from quod.curve.point import ExtendedPoint, PointArithmetic
from quod.device.cpu import CpuDevice
from quod.field.arithmetic import FieldArithmetic
from quod.field.array import Words, integers_to_words
from quod.field.extension import QuadraticField
from quod.kernel import U32, U64, Builder, Pointer, kernel, types
from quod.kernel.value import Value
from quod.msm import msm

# Bits of the digits of `multiply_generator`, from so many scalars on: they pay for the table.
_WINDOWS = ((1 << 12, 8), (0, 4))
# Points from which on an MSM is faster than a multiple an instance.
_FEW = 24
# Points that one instance brings to affine form with one inversion.
_BATCH = 32


@kernel
def multiply_points(
    k: Builder,
    count: U32,
    points: Pointer[U64],
    scalars: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
) -> None:
    """out[i] = scalars[i] * points[i] in affine form, by doubling and adding."""
    curve = PointArithmetic(k, group)
    words = group.scalars.words // 2
    i = k.global_id()
    with k.if_(i < count):
        point = curve.load_affine(points, i)
        with k.range(0, 64 * words, carry=curve.infinity()) as loop:
            bit = (64 * words - 1) - loop.index
            word = scalars[i.cast(types.u64) * words + (bit >> 6).cast(types.u64)]
            doubled = curve.double(loop.carried)
            with k.if_((word >> (bit & 63).cast(types.u64) & 1) != 0) as branch:
                branch.give(curve.carried(curve.add_affine(doubled, point)))
            with branch.otherwise():
                branch.give(curve.carried(doubled))
            loop.next(branch.results)
        k.store(
            out,
            i.cast(types.u64) * group.point_words,
            *curve.to_affine_words(loop.results),
        )


@kernel
def multiply_generator(
    k: Builder,
    count: U32,
    batch: U32,
    table: Pointer[U64],
    scalars: Pointer[U64],
    scratch: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    window_bits: int,
) -> None:
    """out[i] = scalars[i] * G by a sum of table entries; `batch` scalars an instance.

    Entry d of row j of the table is d * 2**(window_bits * j) * G, affine. `scratch` holds an
    extended point and a coordinate for each scalar.
    """
    curve = PointArithmetic(k, group)
    field = curve.field
    windows = 64 // window_bits * (group.scalars.words // 2)
    size = group.coordinate_words
    mask = (1 << window_bits) - 1
    first = k.global_id() * batch
    last = k.minimum(first + batch, count)
    running = k.pointer_add(scratch, count.cast(types.u64) * (4 * size))
    with k.if_(first < last):
        with k.range(first, last, carry=field.carried(field.one())) as forward:
            i = forward.index
            with k.range(0, windows, carry=curve.infinity()) as loop:
                bit = loop.index * window_bits
                word = scalars[
                    i.cast(types.u64) * (group.scalars.words // 2) + (bit >> 6).cast(types.u64)
                ]
                digit = (word >> (bit & 63).cast(types.u64) & mask).cast(types.u32)
                entry = curve.load_affine(table, (loop.index << window_bits) + digit)
                loop.next(curve.carried(curve.add_affine(loop.carried, entry)))
            total = loop.results
            curve.store_extended(scratch, i, total)
            field.store(running, i, forward.carried)
            forward.next(field.carried(forward.carried * _or_one(field, total)))
        inverse = field.carried(field.inverse(forward.results))
        with k.range(first, last, carry=inverse) as backward:
            i = last - 1 - (backward.index - first)
            point = curve.load_extended(scratch, i)
            own = backward.carried * field.load(running, i)
            scale = own * point.zz
            words = (
                *field.to_words(point.x * field.square(scale)),
                *field.to_words(point.y * own),
            )
            zero = k.constant(0, types.u64)
            k.store(
                out,
                i.cast(types.u64) * group.point_words,
                *(k.select(point.infinity, zero, word) for word in words),
            )
            backward.next(field.carried(backward.carried * _or_one(field, point)))


def _or_one(field: FieldArithmetic[Any], point: ExtendedPoint) -> Any:
    """ZZZ of a point, and 1 for infinity, so that products of many can be inverted."""
    return field.select(
        point.infinity, field.carried(field.one()), field.carried(point.zzz)
    )  # fmt: skip


@kernel
def find_finite(
    k: Builder, count: U32, points: Pointer[U64], finite: Pointer[U32], *, group: Group
) -> None:
    """finite[i] = 0 for the point at infinity, all zero, and something else for any other."""
    i = k.global_id()
    with k.if_(i < count):
        words = k.load(points, i.cast(types.u64) * group.point_words, group.point_words)
        combined = functools.reduce(operator.or_, words)
        finite[i] = (combined | combined >> 32).cast(types.u32)


@kernel
def check_points(
    k: Builder,
    count: U32,
    points: Pointer[U64],
    found: Pointer[U32],
    *,
    group: Group,
    subgroup: bool,
) -> None:
    """found[i] = 0 for a point on the curve, 1 off it, 2 outside the subgroup of prime order."""
    curve = PointArithmetic(k, group)
    field = curve.field
    i = k.global_id()
    with k.if_(i < count):
        point = curve.load_affine(points, i)
        right = field.square(point.x) * point.x + field.constant(group.parameters.b)
        off = ~(field.is_zero(field.square(point.y) - right) | point.infinity)
        result = k.select(off, k.constant(1, types.u32), k.constant(0, types.u32))
        if subgroup and group.parameters.cofactor != 1:
            extended = curve.extend(point)
            outside = ~_has_prime_order(k, curve, extended) & ~off
            result = k.select(outside, k.constant(2, types.u32), result)
        found[i] = result


def _has_prime_order(k: Builder, curve: PointArithmetic, point: ExtendedPoint) -> Value:
    """By an endomorphism; see `quod.curve.affine` for the equations and their sources."""
    parameters = curve.group.curve
    x = parameters.x
    if curve.group.degree == 1:
        left = curve.add(_phi(curve, point, parameters), point)
        right = _times(k, curve, _times(k, curve, point, x), x)
    else:
        left = _psi(curve, point, parameters)
        right = _times(k, curve, point, x)
        if parameters.family is Family.BN:
            right = _times(k, curve, _times(k, curve, right, x), 6)
    return curve.add(left, curve.negate(right)).infinity


def _phi(curve: PointArithmetic, p: ExtendedPoint, parameters: PairingCurve) -> ExtendedPoint:
    beta = curve.field.constant(parameters.phi.beta)
    return curve.carried(ExtendedPoint(p.x * beta, p.y, p.zz, p.zzz, p.infinity))


def _psi(curve: PointArithmetic, p: ExtendedPoint, parameters: PairingCurve) -> ExtendedPoint:
    field = curve.field
    assert isinstance(field, QuadraticField)
    cx, cy = (field.constant(c) for c in parameters.psi_coefficients)
    x, y, zz, zzz = (field.conjugate(part) for part in (p.x, p.y, p.zz, p.zzz))
    return curve.carried(ExtendedPoint(x * cx, y * cy, zz, zzz, p.infinity))


def _times(k: Builder, curve: PointArithmetic, p: ExtendedPoint, factor: int) -> ExtendedPoint:
    """factor * p for a constant: doublings in loops, an addition for each bit set."""
    result = curve.carried(p)
    for run in bin(abs(factor))[3:].replace("1", "1 ").split():
        with k.range(0, len(run), carry=result) as loop:
            loop.next(curve.carried(curve.double(loop.carried)))
        result = loop.results
        if run.endswith("1"):
            result = curve.carried(curve.add(result, p))
    return curve.negate(result) if factor < 0 else result


# --- on the host


def multiples(
    device: CpuDevice, group: Group, points: Sequence[Point], scalars: Sequence[int]
) -> list[Point]:
    """scalars[i] * points[i] for a few points and scalars below the order."""
    return to_points(group, _multiply(device, group, from_points(group, points), scalars))


class GeneratorTable:
    """Multiples of a group's generator for `generator_multiples`, made once for many scalars.

    Entry d of row j is ``d * 2**(window_bits * j) * G``. `scalars` is how many scalars there will
    be in all; it decides how wide the digits are.
    """

    def __init__(self, device: CpuDevice, group: Group, scalars: int) -> None:
        self.device = device
        self.group = group
        self.window_bits = next(bits for least, bits in _WINDOWS if scalars >= least)
        bits, order = 32 * group.scalars.words, group.scalars.value
        generator = from_points(group, [group.parameters.generator])
        self._entries = _multiply(
            device,
            group,
            np.repeat(generator, (bits // self.window_bits) << self.window_bits, axis=0),
            [
                (digit << shift) % order
                for shift in range(0, bits, self.window_bits)
                for digit in range(1 << self.window_bits)
            ],
        )

    def multiply(self, scalars: Words) -> Words:
        """scalars[i] * G for canonical scalars (n, words): affine points (n, *group.shape)."""
        device, group, count = self.device, self.group, len(scalars)
        out = np.zeros((count, *group.shape), dtype=np.uint32)
        compiled = device.compile(
            multiply_generator, group=group, window_bits=self.window_bits
        )  # fmt: skip
        instances = -(-count // _BATCH)
        device.launch(
            compiled,
            -(-instances // device.lanes),
            count,
            _BATCH,
            self._entries,
            np.ascontiguousarray(scalars),
            device.allocate(5 * count * 8 * group.coordinate_words),
            out,
        )
        return out


def _multiply(device: CpuDevice, group: Group, points: Words, scalars: Sequence[int]) -> Words:
    out = np.zeros_like(points)
    compiled = device.compile(multiply_points, group=group)
    device.launch(
        compiled,
        -(-len(points) // device.lanes),
        len(points),
        points,
        integers_to_words(group.scalars, scalars),
        out,
    )
    return out


def finite_points(device: CpuDevice, group: Group, points: Words) -> NDArray[np.bool_]:
    """Which of the points, (n, *group.shape), are not infinity."""
    found = np.empty(len(points), dtype=np.uint32)
    compiled = device.compile(find_finite, group=group)
    device.launch(compiled, -(-len(points) // device.lanes), len(points), points, found)
    return found != 0


def first_bad_point(
    device: CpuDevice, group: Group, points: Words, *, subgroup: bool
) -> tuple[int, str] | None:
    """The first point that is not on the curve, or with `subgroup` not in G1 or G2, and why.

    `points` has shape (n, *group.shape) with coordinates below the modulus; infinity is in both.
    """
    count = len(points)
    found = np.zeros(count, dtype=np.uint32)
    compiled = device.compile(check_points, group=group, subgroup=subgroup)
    device.launch(compiled, -(-count // device.lanes), count, aligned(points), found)
    bad = np.flatnonzero(found)
    if not len(bad):
        return None
    reasons = {1: "is not on the curve", 2: "is not in the subgroup of prime order"}
    return int(bad[0]), reasons[int(found[bad[0]])]


def sum_of_multiples(
    device: CpuDevice, group: Group, points: Sequence[Point], scalars: Sequence[int]
) -> Point:
    """The sum of scalars[i] * points[i] for plain points and scalars below the order."""
    if len(points) > _FEW:
        return msm(
            device, group, from_points(group, points), integers_to_words(group.scalars, scalars)
        )
    law = affine_group(group)
    return functools.reduce(law.add, multiples(device, group, points, scalars), None)


def affine_group(group: Group) -> AffineGroup[Any]:
    """The group law on plain points."""
    return g1_group(group.curve) if group.degree == 1 else g2_group(group.curve)


def aligned(array: Words) -> Words:
    """The array itself, or a copy where it begins at an odd place of a file."""
    array = np.ascontiguousarray(array)
    return array.copy() if array.ctypes.data % array.itemsize else array
