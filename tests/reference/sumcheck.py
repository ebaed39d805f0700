"""Sumcheck on plain integers: dense tables, every value summed anew, nothing folded cleverly.

Elements are tuples of coefficients. It shares with Quod the bytes of the transcript and nothing of
how a message is computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from quod.field.plain_extension import product
from quod.field.spec import FieldSpec

Plain = tuple[int, ...]
Terms = Sequence[tuple[int, Sequence[int]]]


def embed(field: FieldSpec, number: int) -> Plain:
    return (number % field.modulus.value, *([0] * (field.degree - 1)))


def add(field: FieldSpec, *elements: Plain) -> Plain:
    return tuple(sum(column) % field.modulus.value for column in zip(*elements, strict=True))


def negate(field: FieldSpec, a: Plain) -> Plain:
    return tuple(-c % field.modulus.value for c in a)


def multilinear(field: FieldSpec, table: Sequence[Plain], point: Sequence[Plain]) -> Plain:
    """The multilinear polynomial of a table at a point, by its definition."""
    total = embed(field, 0)
    for corner, value in zip(itertools.product((0, 1), repeat=len(point)), table, strict=True):
        total = add(field, total, product(field, equality(field, point, corner), value))
    return total


def equality(field: FieldSpec, point: Sequence[Plain], corner: Sequence[int]) -> Plain:
    """eq of a point and a corner of the cube."""
    result = embed(field, 1)
    for w, bit in zip(point, corner, strict=True):
        factor = w if bit else add(field, embed(field, 1), negate(field, w))
        result = product(field, result, factor)
    return result


def evaluate(field: FieldSpec, terms: Terms, values: Sequence[Plain]) -> Plain:
    total = embed(field, 0)
    for coefficient, tables in terms:
        part = embed(field, coefficient)
        for table in tables:
            part = product(field, part, values[table])
        total = add(field, total, part)
    return total


def whole_sum(
    field: FieldSpec, terms: Terms, tables: Sequence[Sequence[Plain]], point: Sequence[Plain] | None
) -> Plain:
    """The sum over all corners, weighted by eq of a point if there is one."""
    variables = len(tables[0]).bit_length() - 1
    total = embed(field, 0)
    for index, corner in enumerate(itertools.product((0, 1), repeat=variables)):
        value = evaluate(field, terms, [table[index] for table in tables])
        if point is not None:
            value = product(field, equality(field, point, corner), value)
        total = add(field, total, value)
    return total


def coefficients(
    field: FieldSpec,
    terms: Terms,
    tables: Sequence[Sequence[Plain]],
    tail_point: Sequence[Plain] | None,
) -> list[Plain]:
    """Those of the first round's polynomial, from that of 1 upwards, by multiplying it out.

    `tail_point` is the point behind the first coordinate.
    """
    half = len(tables[0]) // 2
    degree = max(len(factors) for _, factors in terms)
    total = [embed(field, 0)] * (degree + 1)
    corners = itertools.product((0, 1), repeat=half.bit_length() - 1)
    for index, corner in enumerate(corners):
        weight = embed(field, 1) if tail_point is None else equality(field, tail_point, corner)
        for coefficient, factors in terms:
            polynomial = [product(field, weight, embed(field, coefficient))]
            for table in factors:
                low, high = tables[table][index], tables[table][index + half]
                slope = add(field, high, negate(field, low))
                longer = [embed(field, 0)] * (len(polynomial) + 1)
                for place, c in enumerate(polynomial):
                    longer[place] = add(field, longer[place], product(field, c, low))
                    longer[place + 1] = add(field, longer[place + 1], product(field, c, slope))
                polynomial = longer
            for place, c in enumerate(polynomial):
                total[place] = add(field, total[place], c)
    return total


def prove(
    field: FieldSpec,
    terms: Terms,
    tables: Sequence[Sequence[Plain]],
    point: Sequence[Plain] | None,
    challenge: Callable[[list[Plain]], Plain],
) -> tuple[list[list[Plain]], list[Plain], list[Plain]]:
    """The messages, the challenges, and the tables' values there; `challenge` answers a message."""
    messages: list[list[Plain]] = []
    challenges: list[Plain] = []
    tables = [list(table) for table in tables]
    while len(tables[0]) > 1:
        tail_point = None if point is None else point[len(challenges) + 1 :]
        message = coefficients(field, terms, tables, tail_point)[1:]
        r = challenge(message)
        messages.append(message)
        challenges.append(r)
        half = len(tables[0]) // 2
        tables = [
            [
                add(field, low, product(field, r, add(field, high, negate(field, low))))
                for low, high in zip(table[:half], table[half:], strict=True)
            ]
            for table in tables
        ]
    return messages, challenges, [table[0] for table in tables]
