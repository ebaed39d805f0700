"""Vectors over Goldilocks and its quadratic extension, in NumPy.

A vector over the prime field is uint64 of shape (n,), one over the extension F_p[x] / (x^2 - 7)
uint64 of shape (n, 2). All entries are below p = 2^64 - 2^32 + 1, so both are views of the stored
form of `quod.field`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from quod.field.array import Words
from quod.field.element_bytes import Plain
from quod.field.named_extensions import EXTENSIONS
from quod.inference.transformer.rounding import Integers

FIELD = EXTENSIONS["goldilocks.2"]
P = FIELD.modulus.value

Vector = NDArray[np.uint64]

_P = np.uint64(P)
_EPSILON = np.uint64((1 << 32) - 1)
"""2^64 is equal to this modulo p."""
_HALF = np.uint64(32)
_NON_RESIDUE = np.uint64(7)
_LIMB_BITS = 16
_LIMBS = 4
_FLOAT_BITS = 53
_CHUNK = 1 << 14
"""Products of this number of elements stay in a processor's cache."""


def _reduced(a: Vector) -> Vector:
    return np.where(a >= _P, a - _P, a)


def base_sum(a: Vector, b: Vector) -> Vector:
    """Return a + b over the prime field."""
    total = a + b
    return _reduced(np.where(total < a, total + _EPSILON, total))


def base_difference(a: Vector, b: Vector) -> Vector:
    """Return a - b over the prime field."""
    return np.where(a >= b, a - b, a + (_P - b))


def base_product(a: Vector, b: Vector | np.uint64) -> Vector:
    """Return a * b over the prime field; shapes broadcast."""
    shape = np.broadcast_shapes(np.shape(a), np.shape(b))
    if np.prod(shape) <= _CHUNK:
        return _small_product(a, b)
    left, right = (np.broadcast_to(x, shape).reshape(-1) for x in (a, b))
    product = np.empty(len(left), np.uint64)
    for start in range(0, len(product), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        product[chunk] = _small_product(left[chunk], right[chunk])
    return product.reshape(shape)


def _small_product(a: Vector, b: Vector | np.uint64) -> Vector:
    low_a, high_a, low_b, high_b = a & _EPSILON, a >> _HALF, b & _EPSILON, b >> _HALF
    low, cross_a, cross_b = low_a * low_b, high_a * low_b, low_a * high_b
    middle = (low >> _HALF) + (cross_a & _EPSILON) + (cross_b & _EPSILON)
    high = high_a * high_b + (cross_a >> _HALF) + (cross_b >> _HALF) + (middle >> _HALF)
    low = (low & _EPSILON) | (middle << _HALF)
    # 2^64 is 2^32 - 1 modulo p, and 2^96 is -1.
    top, next_to_top = high >> _HALF, high & _EPSILON
    with np.errstate(over="ignore"):  # of single elements; arrays wrap silently
        difference = low - top
        difference = np.where(low < top, difference - _EPSILON, difference)
    product = next_to_top * _EPSILON
    total = difference + product
    return _reduced(np.where(total < product, total + _EPSILON, total))


def from_integers(values: Integers) -> Vector:
    """Return int64 of any shape as elements of the prime field."""
    return np.where(values < 0, values.astype(np.uint64) + _P, values.astype(np.uint64))


def element(value: int | Plain) -> Vector:
    """Return an element of the extension, of shape (2,), from an integer or its coefficients."""
    coefficients = value if isinstance(value, tuple) else (value % P, 0)
    return np.array(coefficients, np.uint64)


def elements(values: Iterable[Plain]) -> Vector:
    """Return a vector over the extension."""
    return np.array(list(values), np.uint64).reshape(-1, 2)


def plain(value: Vector) -> Plain:
    """Return an element of the extension, of shape (2,), as its coefficients."""
    return int(value[0]), int(value[1])


def lift(a: Vector) -> Vector:
    """Return elements of the prime field as elements of the extension."""
    return np.stack([a, np.zeros_like(a)], axis=-1)


def add(a: Vector, b: Vector) -> Vector:
    """Return a + b; shapes (..., 2) broadcast."""
    return base_sum(a, b)


def subtract(a: Vector, b: Vector) -> Vector:
    """Return a - b; shapes (..., 2) broadcast."""
    return base_difference(a, b)


def multiply(a: Vector, b: Vector) -> Vector:
    """Return a * b over the extension; shapes (..., 2) broadcast."""
    a, b = np.broadcast_arrays(a, b)
    a0, a1, b0, b1 = a[..., 0], a[..., 1], b[..., 0], b[..., 1]
    constant = base_sum(base_product(a0, b0), base_product(base_product(a1, b1), _NON_RESIDUE))
    linear = base_sum(base_product(a0, b1), base_product(a1, b0))
    return np.stack([constant, linear], axis=-1)


def scale(a: Vector, factors: Integers | int) -> Vector:
    """Return elements times integers, which broadcast over all axes but the last."""
    residues = np.asarray(from_integers(np.asarray(factors, np.int64)))
    return base_product(a, residues[..., None])


def total(a: Vector, axis: int = 0) -> Vector:
    """Return the sum over an axis, of fewer than 2^31 elements."""
    low = (a & _EPSILON).sum(axis=axis, dtype=np.uint64)
    high = (a >> _HALF).sum(axis=axis, dtype=np.uint64)
    # The high half counts multiples of 2^32.
    shifted = base_product(_reduced(high), np.uint64(1 << 32))
    return base_sum(_reduced(low), shifted)


def dot(a: Vector, b: Vector) -> Vector:
    """Return the sum of products of two vectors over the extension, of shape (2,)."""
    return total(multiply(a, b))


def eq_table(point: Sequence[Plain]) -> Vector:
    """Return eq of a point at all hypercube points; the first variable is the highest bit."""
    table = element(1)[None]
    for coordinate in point:
        upper = multiply(table, element(coordinate))
        table = np.stack([subtract(table, upper), upper], axis=1).reshape(-1, 2)
    return table


def eq_at(a: Sequence[Plain], b: Sequence[Plain]) -> Vector:
    """Return eq of two points, of shape (2,)."""
    value, unit = element(1), element(1)
    for left, right in zip(a, b, strict=True):
        x, y = element(left), element(right)
        both = multiply(x, y)
        value = multiply(value, add(add(both, both), subtract(subtract(unit, x), y)))
    return value


def powers(base: Plain, count: int) -> list[Vector]:
    """Return the first powers of an element, from its power 0."""
    values = [element(1)]
    while len(values) < count:
        values.append(multiply(values[-1], element(base)))
    return values


def fold_columns(values: Integers, weights: Vector) -> Vector:
    """Return the products of a matrix of integers with a vector over the extension.

    values: int64 of shape (rows, columns), each of at most 48 bits.
    weights: shape (columns, 2). Returns shape (rows, 2).
    The products are exact in floats of 64 bits: integers and weights are cut into limbs.
    """
    rows, columns = values.shape
    pieces = (
        np.stack(
            [
                (weights >> np.uint64(_LIMB_BITS * limb)) & np.uint64(0xFFFF)
                for limb in range(_LIMBS)
            ],
            axis=2,
        )
        .reshape(columns, 2 * _LIMBS)
        .astype(np.float64)
    )
    largest = int(np.abs(values).max(initial=0))
    room = _FLOAT_BITS - _LIMB_BITS - 1 - max(columns - 1, 1).bit_length()
    result = np.zeros((rows, 2), np.uint64)
    shift = 0
    while True:
        if largest >> room:
            limb = values & ((1 << room) - 1)
            values, largest = values >> room, max(1, largest >> room)
        else:
            limb, largest = values, 0
        sums = (limb.astype(np.float64) @ pieces).astype(np.int64).reshape(rows, 2, _LIMBS)
        for index in range(_LIMBS):
            weight = np.uint64(pow(2, shift + _LIMB_BITS * index, P))
            result = base_sum(result, base_product(from_integers(sums[..., index]), weight))
        shift += room
        if not largest:
            return result


def fold_rows(values: Integers, weights: Vector) -> Vector:
    """Return a vector over the extension times a matrix of integers, of shape (columns, 2)."""
    return fold_columns(values.T, weights)


def words(a: Vector) -> Words:
    """Return elements in the stored form of `quod.field`: uint32, a row per element."""
    flat = np.ascontiguousarray(a)
    width = 4 if flat.ndim == 2 else 2
    return flat.view(np.uint32).reshape(-1, width)


def padded(a: Vector, log2_size: int) -> Vector:
    """Return a vector with zeros up to 2**log2_size entries."""
    result = np.zeros((1 << log2_size, *a.shape[1:]), np.uint64)
    result[: len(a)] = a
    return result


def log2_ceil(count: int) -> int:
    """Return the least n with 2**n >= count."""
    return max(count - 1, 0).bit_length()


def cumulative(a: Vector, axis: int = 0) -> Vector:
    """Return the sums of all elements up to each one, over an axis of fewer than 2^31."""
    low = (a & _EPSILON).cumsum(axis=axis, dtype=np.uint64)
    high = (a >> _HALF).cumsum(axis=axis, dtype=np.uint64)
    return base_sum(_reduced(low), base_product(_reduced(high), np.uint64(1 << 32)))


def outer(rows: Vector, columns: Vector) -> Vector:
    """Return the products of all pairs of elements of two vectors, of shape (rows, columns, 2)."""
    return multiply(rows[:, None], columns)


def scatter(weights: Vector, indices: Integers, size: int) -> Vector:
    """Return a vector of `size` elements: at each index the sum of the weights that it has."""
    order = np.argsort(indices, kind="stable")
    bounds = np.searchsorted(indices[order], np.arange(size + 1))
    sums = np.concatenate([np.zeros((1, 2), np.uint64), cumulative(weights[order])])
    return subtract(sums[bounds[1:]], sums[bounds[:-1]])
