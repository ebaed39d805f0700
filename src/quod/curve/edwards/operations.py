"""Operations on host arrays of points of a twisted Edwards curve, by a device.

An array of n points is uint32 of shape (n, 2, words): affine x and y in Montgomery form; the
neutral element is (0, 1), in Montgomery form as well. Every function is right for every point of
the curve. All functions raise InputError for arrays of other shapes or types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.curve.affine_law import plain_point
from quod.curve.array import widened_scalars
from quod.curve.edwards.curve import EdwardsCurve
from quod.curve.edwards.point import EdwardsArithmetic
from quod.curve.edwards.weierstrass_model import WeierstrassModel, edwards_to_model
from quod.curve.multiples.instance_table import InstanceTable, digit_bits
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.errors import InputError
from quod.field import array as elements
from quod.field.array import Words
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.validation import plain_array

# Points per instance, which share one inversion, where there are enough points.
_SHARING = 64


@kernel
def edwards_add(
    k: Builder, count: U32, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], *,
    curve: EdwardsCurve,
) -> None:  # fmt: skip
    """out[i] = a[i] + b[i]."""
    law, i = EdwardsArithmetic(k, curve), k.global_id()
    with k.if_(i < count):
        law.store(out, i, law.add(law.load(a, i), law.load(b, i)))


@kernel
def edwards_double(
    k: Builder, count: U32, a: Pointer[U64], out: Pointer[U64], *, curve: EdwardsCurve
) -> None:
    """out[i] = 2 * a[i]."""
    law, i = EdwardsArithmetic(k, curve), k.global_id()
    with k.if_(i < count):
        law.store(out, i, law.double(law.load(a, i)))


@kernel
def edwards_negate(
    k: Builder, count: U32, a: Pointer[U64], out: Pointer[U64], *, curve: EdwardsCurve
) -> None:
    """out[i] = -a[i]."""
    f, i = EdwardsArithmetic(k, curve).field, k.global_id()
    with k.if_(i < count):
        x_index = i.cast(types.u64) * 2
        f.store(out, x_index, -f.load(a, x_index, linear=True))
        f.store_words_at(
            out,
            (x_index + 1) * f.word_count,
            f.load_words_at(a, (x_index + 1) * f.word_count),
        )


@kernel
def edwards_multiply(
    k: Builder, count: U32, points: Pointer[U64], scalars: Pointer[U64], out: Pointer[U64], *,
    curve: EdwardsCurve, scalar_words: int,
) -> None:  # fmt: skip
    """out[i] = scalars[i] * points[i] for integers of `scalar_words` 64-bit words.

    Each instance has a table of multiples of its point in shared memory, as in `curve_multiply`.
    """
    law, i = EdwardsArithmetic(k, curve), k.global_id()
    window = digit_bits(k, law.neutral())
    size, digits_per_word = 1 << window, 64 // window
    table = InstanceTable(k, law.neutral(), size) if window > 1 else None
    with k.if_(i < count):
        if table is not None:
            point = law.load(points, i)
            with k.range(0, size, carry=law.neutral()) as filling:
                table.store(filling.index, filling.carried)
                filling.next(law.bounded(law.add(filling.carried, point)))
        with k.range(0, scalar_words * digits_per_word, carry=law.neutral()) as loop:
            digit_index = (scalar_words * digits_per_word - 1) - loop.index
            word = scalars[
                i.cast(types.u64) * scalar_words + (digit_index // digits_per_word).cast(types.u64)
            ]  # fmt: skip
            shift = ((digit_index % digits_per_word) * window).cast(types.u64)
            total = loop.carried
            for _ in range(window):
                total = law.double(total)
            digit = (word >> shift & (size - 1)).cast(types.u32)
            if table is not None:
                loop.next(law.bounded(law.add(total, table.load(digit))))
            else:
                with k.if_(digit != 0) as branch:
                    branch.yield_(law.bounded(law.add(total, law.load(points, i))))
                with branch.otherwise():
                    branch.yield_(law.bounded(total))
                loop.next(branch.results)
        law.store(out, i, loop.results)


@kernel
def edwards_check(
    k: Builder, count: U32, points: Pointer[U64], verdicts: Pointer[U32], *, curve: EdwardsCurve
) -> None:
    """verdicts[i] = 1 if a*x^2 + y^2 = 1 + d*x^2*y^2, else 0; coordinates are below the modulus."""
    law, i = EdwardsArithmetic(k, curve), k.global_id()
    f = law.field
    with k.if_(i < count):
        x_index = i.cast(types.u64) * 2
        x2, y2 = (
            f.square(f.load(points, x_index)),
            f.square(f.load(points, x_index + 1)),
        )
        conic = y2 - x2 if curve.a == -1 else y2 + law.a_times(x2)
        difference = conic - f.one() - x2 * y2 * f.constant(curve.d)
        verdicts[i] = k.select(f.is_zero(difference), k.constant(1, types.u32), 0)


# --- on the host


def from_edwards_points(curve: EdwardsCurve, points: Iterable[tuple[int, int]]) -> Words:
    """Return the array of affine points (x, y) of int, whose coordinates are reduced modulo q.

    Raises InputError for anything else, including None: the curve has no point at infinity.
    """

    def coordinates() -> Iterable[int]:
        for position, value in enumerate(points):
            point = plain_point(value, 1, "point", position)
            if point is None:
                raise InputError(
                    f"point {position} is None, but {curve.name} has no point at infinity; its "
                    "neutral element is (0, 1)"
                )
            yield from point

    flat = elements.from_integers(curve.fq, coordinates())
    return flat.reshape(-1, 2, curve.fq.words)


def to_edwards_points(curve: EdwardsCurve, array: Words) -> list[tuple[int, int]]:
    """Return the points of an array as pairs of plain integers."""
    flat = elements.to_integers(curve.fq, _points(curve, array))
    return list(zip(flat[::2], flat[1::2], strict=True))


def add(device: AnyDevice, curve: EdwardsCurve, a: Words, b: Words) -> Words:
    """a[i] + b[i]."""
    a, b = _points(curve, a), _points(curve, b)
    if len(a) != len(b):
        raise InputError(f"{len(a)} points cannot be added to {len(b)}")
    out = unwritten(*a.shape)
    _launch(device, device.compile(edwards_add, curve=curve), len(a), a, b, out)
    check_written(device, "points", out)
    return out


def double(device: AnyDevice, curve: EdwardsCurve, points: Words) -> Words:
    """2 * points[i]."""
    points = _points(curve, points)
    out = unwritten(*points.shape)
    _launch(device, device.compile(edwards_double, curve=curve), len(points), points, out)
    check_written(device, "points", out)
    return out


def negate(device: AnyDevice, curve: EdwardsCurve, points: Words) -> Words:
    """-points[i]."""
    points = _points(curve, points)
    out = unwritten(*points.shape)
    _launch(device, device.compile(edwards_negate, curve=curve), len(points), points, out)
    check_written(device, "points", out)
    return out


def multiply(device: AnyDevice, curve: EdwardsCurve, points: Words, scalars: Words) -> Words:
    """scalars[i] * points[i].

    scalars: uint32 of shape (n, words), or (1, words) for one scalar that all points share. They
    are integers of any size and are not reduced, so points need not be in the subgroup.
    """
    points = _points(curve, points)
    padded = widened_scalars(scalars, len(points))
    out = unwritten(*points.shape)
    kernel = device.compile(edwards_multiply, curve=curve, scalar_words=padded.shape[1] // 2)
    _launch(device, kernel, len(points), points, padded, out)
    check_written(device, "points", out)
    return out


def sum_points(device: AnyDevice, curve: EdwardsCurve, points: Words) -> Words:
    """The sum of all points, of shape (2, words)."""
    points = _points(curve, points)
    neutral = from_edwards_points(curve, [(0, 1)])
    while len(points) != 1:
        if len(points) % 2 or not len(points):
            points = np.concatenate([points, neutral])
            continue
        half = len(points) // 2
        points = add(device, curve, points[:half], points[half:])
    total: Words = points[0]
    return total


def is_on_curve(device: AnyDevice, curve: EdwardsCurve, points: Words) -> NDArray[np.bool_]:
    """Return whether each point is on the curve, with coordinates below the modulus."""
    points = _points(curve, points)
    answers = unwritten(len(points), 1)
    _launch(device, device.compile(edwards_check, curve=curve), len(points), points, answers)
    check_written(device, "which points are on the curve", answers)
    is_canonical = elements.canonical(curve.fq, points).reshape(len(points), 2).all(axis=1)
    result: NDArray[np.bool_] = (answers[:, 0] == 1) & is_canonical
    return result


def is_in_subgroup(device: AnyDevice, curve: EdwardsCurve, points: Words) -> NDArray[np.bool_]:
    """Return for each point whether it is on the curve and r * P is the neutral element."""
    order = np.frombuffer(curve.fr.value.to_bytes(curve.fr.bytes, "little"), "<u4")
    product = multiply(device, curve, points, order.astype(np.uint32)[None])
    neutral = from_edwards_points(curve, [(0, 1)])
    is_neutral = (product == neutral).all(axis=(1, 2))
    result: NDArray[np.bool_] = is_on_curve(device, curve, points) & is_neutral
    return result


def to_model(device: AnyDevice, model: WeierstrassModel, points: Words) -> Words:
    """Map points of the Edwards curve to its Weierstrass model: uint32 of (n, *model.shape)."""
    points = _points(model.edwards, points)
    count = len(points)
    out = unwritten(count, *model.shape)
    if not count:
        return out
    instances = min(count, max(device.resident_lanes, count // _SHARING))
    prefixes = np.empty((count, model.edwards.fq.words), np.uint32)
    kernel = device.compile(edwards_to_model, model=model)
    device.launch(
        kernel, -(-instances // device.lanes), instances, count, points, prefixes, out
    )  # fmt: skip
    check_written(device, "points of the model", out)
    return out


def _points(curve: EdwardsCurve, points: Words) -> Words:
    """Check an array of points, and return it contiguous and aligned."""
    points = plain_array("points", points)
    if points.dtype != np.uint32 or points.shape[1:] != (2, curve.fq.words):
        raise InputError(
            f"points of {curve.name} are uint32 words of shape (n, 2, {curve.fq.words}), "
            f"not {points.dtype} of {points.shape}"
        )
    return np.require(points, requirements=("C", "A"))


def _launch(device: AnyDevice, kernel: Any, count: int, *arrays: Words) -> None:
    device.launch(kernel, -(-count // device.lanes), count, *arrays)
