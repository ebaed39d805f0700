"""Reduce bucket sums to the result on a CPU.

With b = j + 1 and j = row * 2**h + column (h is the plan's `column_bits`), the sum of b * B_b over
a window's buckets is 2**h * sum(row * R_row) + sum((column + 1) * C_column), where R and C are the
sums of the buckets' rows and columns. That takes two cheap affine additions per bucket, then sums
over far fewer points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.curve.group import Group
from quod.curve.weierstrass.point import ExtendedPoint, PointArithmetic
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, U64, Pointer, Value
from quod.msm.host.segments import NO_POINT

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder


@kernel
def list_rows_and_columns(
    k: Builder,
    rows: U32,
    columns: U32,
    points: Pointer[U32],
    entries: Pointer[U32],
    starts: Pointer[U32],
    lengths: Pointer[U32],
) -> None:
    """List the entries of every row sum and column sum of one window's buckets.

    The segments of a window are its rows, then its columns. Compiled for one lane: an instance
    handles one window.

    points: the index of each bucket's point, or NO_POINT if the bucket is empty.
    entries: receives the point indices of all segments; needs room for one more.
    """
    window = k.global_id()
    buckets = rows * columns
    first_segment = window * (rows + columns)
    with k.range(0, rows, carry=window * (buckets * 2)) as outer:
        begin = outer.carried
        with k.range(0, columns, carry=begin) as inner:
            next_index = _append(
                k, entries, points[window * buckets + outer.index * columns + inner.index],
                inner.carried,
            )  # fmt: skip
            inner.next(next_index)
        starts[first_segment + outer.index] = begin
        lengths[first_segment + outer.index] = inner.results - begin
        outer.next(inner.results)
    with k.range(0, columns, carry=outer.results) as across:
        begin = across.carried
        with k.range(0, rows, carry=begin) as down:
            next_index = _append(
                k, entries, points[window * buckets + down.index * columns + across.index],
                down.carried,
            )  # fmt: skip
            down.next(next_index)
        starts[first_segment + rows + across.index] = begin
        lengths[first_segment + rows + across.index] = down.results - begin
        across.next(down.results)


def _append(k: Builder, entries: Value, point: Value, index: Value) -> Value:
    """Write the index of a point, and return the index of the next entry.

    That is the same entry if the point is NO_POINT, so the next write overwrites it.
    """
    entries[index] = point
    return index + k.select(point != NO_POINT, k.constant(1, types.u32), 0)


@kernel
def weigh(
    k: Builder,
    count: U32,
    rows: U32,
    columns: U32,
    numbers: Pointer[U32],
    points: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
) -> None:
    """Compute the weighted sum of a window's rows (weights 0, 1, ...) or columns (1, 2, ...).

    Instance 2w computes the rows of window w, 2w + 1 its columns; `out` holds extended points.

    numbers: the index in `points` of each row's and column's sum, or NO_POINT.
    """
    arithmetic = PointArithmetic(k, group)
    i = k.global_id()
    with k.if_(i < count):
        window, is_column = i // 2, (i % 2) == 1
        length = k.select(is_column, columns, rows)
        first = window * (rows + columns) + k.select(is_column, rows, 0)
        # A row of weight 0 is left out, so rows run down to index 1 and columns to index 0.
        lowest = k.select(is_column, k.constant(0, types.u32), 1)
        infinity = arithmetic.infinity()
        with k.range(lowest, length, carry=(infinity, infinity)) as loop:
            running, total = loop.carried
            point_index = numbers[first + (length - 1 - (loop.index - lowest))]
            with k.if_(point_index != NO_POINT) as branch:
                point = arithmetic.load_affine(points, point_index)
                branch.yield_(arithmetic.add_affine(running, point))
            with branch.otherwise():
                branch.yield_(running)
            running = branch.results
            loop.next((running, arithmetic.add(total, running)))
        arithmetic.store_extended(out, i, loop.results[1])


@kernel
def combine(
    k: Builder,
    windows: U32,
    window_bits: U32,
    column_bits: U32,
    sums: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
) -> None:
    """Combine the weighted sums of all windows by Horner's rule.

    Instance i computes affine result i from windows i * windows to (i + 1) * windows - 1.
    """
    arithmetic = PointArithmetic(k, group)
    instance = k.global_id()
    with k.range(0, windows, carry=arithmetic.infinity()) as loop:
        window = (instance + 1) * windows - 1 - loop.index
        shifted = _double_times(k, arithmetic, loop.carried, window_bits - column_bits)
        with_rows = arithmetic.add(shifted, arithmetic.load_extended(sums, window * 2))
        shifted = _double_times(k, arithmetic, with_rows, column_bits)
        loop.next(arithmetic.add(shifted, arithmetic.load_extended(sums, window * 2 + 1)))
    words = arithmetic.to_affine_words(loop.results)
    k.store(out, instance * group.point_words, *words)


def _double_times(
    k: Builder, arithmetic: PointArithmetic, p: ExtendedPoint, count: Value
) -> ExtendedPoint:
    with k.range(0, count, carry=p) as loop:
        loop.next(arithmetic.double(loop.carried))
    result: ExtendedPoint = loop.results
    return result
