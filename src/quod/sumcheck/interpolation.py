"""Evaluation points of a round's polynomial, and interpolation from its values there.

The value at infinity is the leading coefficient. Small integers are the cheapest other points: a
multilinear polynomial's value there is one subtraction of small multiples of its values at 0 and 1.
"""

from __future__ import annotations

import functools
from typing import Any

from quod.errors import InputError
from quod.field.moduli import Modulus

INFINITY = None

EvaluationPoint = int | None
"""An evaluation point: a small integer, or `INFINITY`."""

_POINTS: tuple[EvaluationPoint, ...] = (0, 1, INFINITY, -1, 2, -2, 3)


def evaluation_points(degree: int) -> tuple[EvaluationPoint, ...]:
    """Return the degree + 1 evaluation points of a polynomial of a round.

    The prover evaluates all but one of them: the claim gives the value at 0 or 1.
    """
    return _POINTS[: degree + 1]


def check_degree(modulus: Modulus, degree: int) -> None:
    """Raise InputError if a field has too few elements for distinct evaluation points."""
    integers = [point for point in evaluation_points(degree) if point is not INFINITY]
    if len({point % modulus.value for point in integers}) < len(integers):
        raise InputError(
            f"{modulus.name} has too few elements for products of {degree} factors; use a larger "
            "field"
        )


def at_point(low: Any, high: Any, point: EvaluationPoint) -> Any:
    """Return the value at `point` of the linear polynomial with values low at 0 and high at 1."""
    if point is INFINITY:
        return high - low
    if point in (0, 1):
        return high if point else low
    # low + point * (high - low), arranged so that all factors are positive: no negations.
    return _times(high, point) - _times(low, point - 1) if point > 0 else (
        _times(low, 1 - point) - _times(high, -point)
    )  # fmt: skip


def _times(value: Any, factor: int) -> Any:
    return value if factor == 1 else value * factor


@functools.cache
def coefficient_rows(modulus: Modulus, degree: int) -> tuple[tuple[int, ...], ...]:
    """Return a matrix: row i has the weights of the values at `evaluation_points` in coefficient i.

    The weights are centred: from -p/2 to p/2.
    """
    p = modulus.value
    # The Vandermonde matrix: row j has the powers of point j. Its inverse is returned.
    rows = []
    for point in evaluation_points(degree):
        if point is INFINITY:
            powers = [int(i == degree) for i in range(degree + 1)]
        else:
            powers = [pow(point, i, p) for i in range(degree + 1)]
        rows.append(powers)
    return tuple(tuple(map(modulus.centred, row)) for row in _inverse(rows, p))


def _inverse(matrix: list[list[int]], p: int) -> list[list[int]]:
    """Invert a matrix modulo p by Gaussian elimination."""
    size = len(matrix)
    rows = [row + [int(i == j) for j in range(size)] for i, row in enumerate(matrix)]
    for column in range(size):
        pivot = next(i for i in range(column, size) if rows[i][column] % p)
        rows[column], rows[pivot] = rows[pivot], rows[column]
        scale = pow(rows[column][column], -1, p)
        rows[column] = [entry * scale % p for entry in rows[column]]
        for i in range(size):
            if i != column and rows[i][column]:
                factor = rows[i][column]
                rows[i] = [(a - factor * b) % p for a, b in zip(rows[i], rows[column], strict=True)]
    return [row[size:] for row in rows]
