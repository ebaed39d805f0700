"""Elements of `goldilocks.2` as pairs of Python integers, arrays in one table, linear claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from quod.errors import VerificationError
from quod.field import EXTENSIONS

FIELD = EXTENSIONS["goldilocks.2"]
P = FIELD.modulus.value

Element = tuple[int, int]
"""a + b x with x^2 = 7."""

Vector = list[Element]

ZERO, ONE = (0, 0), (1, 0)


def plus(*elements: Element) -> Element:
    return sum(a for a, _ in elements) % P, sum(b for _, b in elements) % P


def minus(x: Element, y: Element) -> Element:
    return (x[0] - y[0]) % P, (x[1] - y[1]) % P


def times(x: Element, y: Element) -> Element:
    return (x[0] * y[0] + 7 * x[1] * y[1]) % P, (x[0] * y[1] + x[1] * y[0]) % P


def scaled(x: Element, factor: int) -> Element:
    return x[0] * factor % P, x[1] * factor % P


def dot(xs: Iterable[Element], ys: Iterable[Element]) -> Element:
    first = second = 0
    for (a, b), (c, d) in zip(xs, ys, strict=True):
        first += a * c + 7 * b * d
        second += a * d + b * c
    return first % P, second % P


def dot_integers(xs: Sequence[Element], integers: Sequence[int]) -> Element:
    pairs = list(zip(xs, integers, strict=True))
    return sum(a * n for (a, _), n in pairs) % P, sum(b * n for (_, b), n in pairs) % P


def eq_table(point: Sequence[Element]) -> Vector:
    table = [ONE]
    for coordinate in point:
        highs = [times(entry, coordinate) for entry in table]
        table = [e for entry, high in zip(table, highs) for e in (minus(entry, high), high)]
    return table


def eq(xs: Sequence[Element], ys: Sequence[Element]) -> Element:
    value = ONE
    for x, y in zip(xs, ys, strict=True):
        both = times(x, y)
        value = times(value, plus(ONE, scaled(both, 2), minus(ZERO, x), minus(ZERO, y)))
    return value


def prefix_sums(xs: Vector) -> Vector:
    """Entry i is the sum of entries 0 to i."""
    sums, total = [], ZERO
    for x in xs:
        total = plus(total, x)
        sums.append(total)
    return sums


def log2_ceil(number: int) -> int:
    return (number - 1).bit_length()


class Packing:
    """Arrays in one table: by descending width, in their order, without gaps."""

    def __init__(self, arrays: Iterable[tuple[str, int, int]]) -> None:
        self.arrays = {name: (rows, width) for name, rows, width in arrays}
        self.first_row: dict[str, int] = {}
        end = 0
        for name, (rows, width) in sorted(self.arrays.items(), key=lambda item: -item[1][1]):
            self.first_row[name] = end >> width
            end += rows << width
        self.variables = max(1, log2_ceil(end))


Term = tuple[str, list[Any], Vector | None]
"""An array, weights of its rows and of its columns; or of its entries, row by row, and None."""


class LinearClaims:
    """Linear claims about a commitment."""

    def __init__(self) -> None:
        self.values: Vector = []
        self.terms: list[list[Term]] = []

    def add(self, value: Element, *terms: Term) -> None:
        self.values.append(value)
        self.terms.append(list(terms))


def outer(xs: Sequence[Element], ys: Sequence[Element]) -> Vector:
    return [times(x, y) for x in xs for y in ys]


def pair(coefficients: tuple[int, ...]) -> Element:
    first, second = coefficients
    return first, second


def column_blocks(columns: int) -> list[tuple[int, int]]:
    """Return the start and the base-2 logarithm of each block of columns, the largest first."""
    blocks, start = [], 0
    while start < columns:
        width = (columns - start).bit_length() - 1
        blocks.append((start, width))
        start += 1 << width
    return blocks


def split(values: Vector, count: int) -> list[Vector]:
    length = len(values) // count
    return [values[index * length : (index + 1) * length] for index in range(count)]


def commitment_of(matrix: str) -> str:
    return "tokens" if matrix in ("embedding", "head") else "layers"


def require(holds: bool, what: str) -> None:
    if not holds:
        raise VerificationError(f"wrong: {what}")
