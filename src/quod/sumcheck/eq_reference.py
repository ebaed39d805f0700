"""The polynomial eq at points and at the corners of a cube, on plain integers."""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.element_bytes import Plain
from quod.field.plain_extension import add, one, product, subtract
from quod.field.spec import FieldSpec


def equalities(field: FieldSpec, point: Sequence[Plain]) -> list[Plain]:
    """eq of a point at every corner, the first coordinate's bit the highest."""
    table = [one(field)]
    for coordinate in point:
        table = [
            part
            for entry in table
            for high in (product(field, entry, coordinate),)
            for part in (subtract(field, entry, high), high)
        ]
    return table


def equality(field: FieldSpec, a: Sequence[Plain], b: Sequence[Plain]) -> Plain:
    """eq of two points: the product of a*b + (1 - a)*(1 - b) over their coordinates."""
    total, unit = one(field), one(field)
    for left, right in zip(a, b, strict=True):
        both = product(field, left, right)
        neither = product(field, subtract(field, unit, left), subtract(field, unit, right))
        total = product(field, total, add(field, both, neither))
    return total
