"""Multiples of a few points of prime order, which the lanes of a vector compute together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quod.curve.array import check_points_array
from quod.curve.group import Group
from quod.curve.weierstrass.point import ExtendedPoint, PointArithmetic
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.field.array import Words
from quod.kernel import U32, U64, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder


@kernel
def subgroup_multiples(
    k: Builder,
    count: U32,
    points: Pointer[U64],
    scalars: Pointer[U32],
    out: Pointer[U64],
    *,
    group: Group,
) -> None:
    """Set out[i] = scalars[i] * points[i], affine, for points of prime order.

    The instructions and memory accesses do not depend on the scalars, which are integers below r.
    """
    curve, i = PointArithmetic(k, group), k.global_id()
    f, multiple = curve.field, multiple_of_point(k, curve, points, scalars)
    with k.if_(i < count):
        total = multiple(i)
        # Infinity has ZZZ = 0, whose inverse is 0; so its coordinates are 0 too.
        inverse = f.bounded(f.inverse(total.zzz))
        scale = f.bounded(inverse * total.zz)
        affine = (*f.to_words(total.x * f.square(scale)), *f.to_words(total.y * inverse))
        zero = k.constant(0, types.u64)
        k.store(
            out, i.cast(types.u64) * group.point_words,
            *(k.select(total.infinity, zero, word) for word in affine),
        )  # fmt: skip


def multiple_of_point(
    k: Builder, curve: PointArithmetic, points: Value, scalars: Value
) -> Callable[[Value], ExtendedPoint]:
    """Return a function of i for scalars[i] * points[i]; see `subgroup_multiples`.

    Call it at the kernel's top.
    """
    # Imported here, as only a trace needs them.
    from quod.curve.multiples.fixed_multiple import FixedMultiple
    from quod.curve.multiples.scalar_parts import scalar_decomposition
    from quod.curve.multiples.scalar_splitting import split_scalar

    times, group = FixedMultiple(k, curve, scanned=True), curve.group
    words = group.scalars.words

    def multiple(i: Value) -> ExtendedPoint:
        scalar = k.load(scalars, i.cast(types.u64) * words, words)
        digits = split_scalar(k, scalar_decomposition(group), scalar)
        return times(curve.extend(curve.load_affine(points, i)), digits)

    return multiple


def multiply_in_subgroup(device: AnyDevice, group: Group, points: Words, scalars: Words) -> Words:
    """Return scalars[i] * points[i], affine points of shape (n, *group.shape).

    scalars: integers below the order, uint32 of shape (n, words).
    """
    check_points_array(group, points)
    count, results = len(points), unwritten(*points.shape)
    lanes = device.lanes
    kernel = device.compile(subgroup_multiples, lanes=lanes, group=group)
    device.launch(kernel, -(-count // lanes), count, points, scalars, results)
    check_written(device, "multiples", results)
    return results
