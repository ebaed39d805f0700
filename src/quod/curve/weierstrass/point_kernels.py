"""Kernels over arrays of points of a short Weierstrass group, one point per instance.

Arrays hold affine points (`quod.curve.array`) or extended points, X, Y, ZZ and ZZZ as
`quod.curve.weierstrass.point` stores them. Sums and multiples are extended points, which
`curve_normalise` converts to affine ones in batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quod.curve.group import Group
from quod.curve.multiples.instance_table import InstanceTable, digit_bits
from quod.curve.weierstrass.point import ExtendedPoint, PointArithmetic
from quod.curve.weierstrass.shared_inversion import share_inversion
from quod.frozen import replace
from quod.kernel import U32, U64, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder


@kernel
def curve_add(
    k: Builder, count: U32, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], *, group: Group
) -> None:
    """out[i] = a[i] + b[i], from affine to extended points."""
    curve, i = PointArithmetic(k, group), k.global_id()
    with k.if_(i < count):
        summand = curve.extend(curve.load_affine(a, i))
        curve.store_extended(out, i, curve.add_affine(summand, curve.load_affine(b, i)))


@kernel
def curve_double(
    k: Builder, count: U32, a: Pointer[U64], out: Pointer[U64], *, group: Group
) -> None:
    """out[i] = 2 * a[i], from affine to extended points."""
    curve, i = PointArithmetic(k, group), k.global_id()
    with k.if_(i < count):
        curve.store_extended(out, i, curve.double(curve.extend(curve.load_affine(a, i))))


@kernel
def curve_negate(
    k: Builder, count: U32, a: Pointer[U64], out: Pointer[U64], *, group: Group
) -> None:
    """out[i] = -a[i], affine."""
    curve, i = PointArithmetic(k, group), k.global_id()
    f = curve.field
    with k.if_(i < count):
        offset = i.cast(types.u64) * group.point_words
        y_offset = offset + group.coordinate_words
        f.store_words_at(out, offset, f.load_words_at(a, offset))
        y = f.from_words(f.load_words_at(a, y_offset), linear=True)
        f.store_words_at(out, y_offset, f.to_words(-y))


@kernel
def curve_multiply(
    k: Builder,
    count: U32,
    points: Pointer[U64],
    scalars: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    scalar_words: int,
) -> None:
    """out[i] = scalars[i] * points[i], from affine to extended points.

    A scalar is any integer of `scalar_words` 64-bit words. `digit_bits` gives the window width. For
    windows of several bits each instance has a table of multiples of its point in shared memory;
    for windows of one bit it loads the point again for each addition.
    """
    curve, i = PointArithmetic(k, group), k.global_id()
    infinity = curve.bounded(curve.infinity())
    window = digit_bits(k, infinity)
    mask = (1 << window) - 1
    # The multiples 1 to `mask`.
    table = InstanceTable(k, infinity, mask) if window > 1 else None
    digits_per_word = 64 // window
    with k.if_(i < count):
        if table is not None:
            point = curve.load_affine(points, i)
            with k.range(0, mask, carry=infinity) as fill_loop:
                multiple = curve.bounded(curve.add_affine(fill_loop.carried, point))
                table.store(fill_loop.index, multiple)
                fill_loop.next(multiple)
        with k.range(0, scalar_words * digits_per_word, carry=infinity) as loop:
            digit_index = (scalar_words * digits_per_word - 1) - loop.index
            word = scalars[
                i.cast(types.u64) * scalar_words + (digit_index // digits_per_word).cast(types.u64)
            ]  # fmt: skip
            shift = ((digit_index % digits_per_word) * window).cast(types.u64)
            digit = (word >> shift & mask).cast(types.u32)
            total = loop.carried
            for _ in range(window):
                total = curve.double(total)
            if table is not None:
                entry: ExtendedPoint = table.load(k.maximum(digit, 1) - 1)
                entry = replace(entry, infinity=entry.infinity | (digit == 0))
                total = curve.add(total, entry)
            else:
                term = curve.load_affine(points, i)
                term = replace(term, infinity=term.infinity | (digit == 0))
                total = curve.add_affine(total, term)
            loop.next(curve.bounded(total))
        curve.store_extended(out, i, loop.results)


@kernel
def curve_sum(
    k: Builder,
    instances: U32,
    count: U32,
    points: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    extended: bool,
) -> None:
    """out[i] = the sum of points i, i + instances, i + 2 * instances, ... as an extended point."""
    curve, i = PointArithmetic(k, group), k.global_id()
    with k.if_(i < instances):
        infinity = curve.bounded(curve.infinity())
        with k.range(0, (count - i + (instances - 1)) // instances, carry=infinity) as loop:
            index = i + loop.index * instances
            if extended:
                total = curve.add(loop.carried, curve.load_extended(points, index))
            else:
                total = curve.add_affine(loop.carried, curve.load_affine(points, index))
            loop.next(curve.bounded(total))
        curve.store_extended(out, i, loop.results)


@kernel
def curve_normalise(
    k: Builder,
    instances: U32,
    count: U32,
    points: Pointer[U64],
    prefixes: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
) -> None:
    """out[i] = points[i], from extended to affine points, with one inversion per instance.

    This is Montgomery's trick. Instance i converts points i, i + instances, ...; `prefixes` is
    overwritten and has one coordinate per point.
    """
    curve = PointArithmetic(k, group)
    f = curve.field

    def load(index: Value) -> ExtendedPoint:
        return curve.load_extended(points, index)

    def zzz_or_one(point: ExtendedPoint) -> Any:
        """Return ZZZ of a point, and 1 for infinity, so that the product can be inverted."""
        return f.select(point.infinity, f.bounded(f.one()), f.bounded(point.zzz))

    def store(index: Value, point: ExtendedPoint, inverse: Any) -> None:
        scale = inverse * point.zz
        words = (*f.to_words(point.x * f.square(scale)), *f.to_words(point.y * inverse))
        zero = k.constant(0, types.u64)
        f.k.store(
            out,
            index.cast(types.u64) * group.point_words,
            *(k.select(point.infinity, zero, word) for word in words),
        )

    share_inversion(k, f, instances, count, prefixes, load, zzz_or_one, store)
