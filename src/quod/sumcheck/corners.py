"""The polynomial eq at the corners of a cube, on plain integers."""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.plain_extension import one, product, subtract
from quod.field.spec import FieldSpec
from quod.transcript.elements import Plain


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
