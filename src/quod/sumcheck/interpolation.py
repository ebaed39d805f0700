"""Evaluation points of a round's polynomial, and interpolation from its values there.

The value at infinity is the leading coefficient. Small integers are the cheapest other points: a
multilinear polynomial's value there takes one or two additions of its values at 0 and 1.
"""

from __future__ import annotations

import functools
from typing import Any

from quod.errors import InputError
from quod.field.moduli import Modulus

INFINITY = None

Place = int | None
"""An evaluation point: a small integer, or `INFINITY`."""

_PLACES: tuple[Place, ...] = (0, 1, INFINITY, -1, 2, -2, 3)


def places(degree: int) -> tuple[Place, ...]:
    """Return the degree + 1 evaluation points of a polynomial of a round.

    The prover evaluates all but one of them: the claim gives the value at 0 or 1.
    """
    return _PLACES[: degree + 1]


def check_degree(modulus: Modulus, degree: int) -> None:
    """Raise InputError if a field has too few elements for distinct evaluation points."""
    integers = [place for place in places(degree) if place is not INFINITY]
    if len({place % modulus.value for place in integers}) < len(integers):
        raise InputError(
            f"{modulus.name} has too few elements for products of {degree} factors; use a larger "
            "field"
        )


def at_place(low: Any, high: Any, place: Place) -> Any:
    """Return the value at `place` of the linear polynomial with values low at 0 and high at 1."""
    if place is INFINITY:
        return high - low
    if place in (0, 1):
        return high if place else low
    # low + place * (high - low), arranged so that all factors are positive: no negations.
    return _times(high, place) - _times(low, place - 1) if place > 0 else (
        _times(low, 1 - place) - _times(high, -place)
    )  # fmt: skip


def _times(value: Any, factor: int) -> Any:
    return value if factor == 1 else value * factor


@functools.cache
def coefficient_rows(modulus: Modulus, degree: int) -> tuple[tuple[int, ...], ...]:
    """Return rows[i]: the weights by which the values at `places` add up to coefficient i.

    The weights are centred: from -p/2 to p/2.
    """
    p = modulus.value
    rows = []
    for place in places(degree):
        if place is INFINITY:
            powers = [int(i == degree) for i in range(degree + 1)]
        else:
            powers = [pow(place, i, p) for i in range(degree + 1)]
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
