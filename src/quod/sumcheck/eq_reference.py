"""The polynomial eq at points and on the hypercube, on Python integers."""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.element_bytes import Plain
from quod.field.plain_element import PlainElement
from quod.field.spec import FieldSpec


def equalities(field: FieldSpec, point: Sequence[Plain]) -> list[PlainElement]:
    """Return the eq table of a point: eq at every hypercube point, first coordinate highest."""
    table = [PlainElement.one(field)]
    for coordinate in PlainElement.from_coefficients(field, point):
        table = [
            entry
            for parent in table
            for high in (parent * coordinate,)
            for entry in (parent - high, high)
        ]
    return table


def equality(field: FieldSpec, a: Sequence[Plain], b: Sequence[Plain]) -> PlainElement:
    """Return eq of two points: the product of a*b + (1 - a)*(1 - b) over their coordinates.

    Raises ValueError for points of different lengths.
    """
    unit = total = PlainElement.one(field)
    for x, y in zip(
        PlainElement.from_coefficients(field, a),
        PlainElement.from_coefficients(field, b),
        strict=True,
    ):
        total *= x * y + (unit - x) * (unit - y)
    return total
