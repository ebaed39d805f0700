"""The product of the activated gate and `up`."""

from __future__ import annotations

from quod.inference.transformer.proof.context import Context, Point, require
from quod.inference.transformer.proof.layout import Term
from quod.inference.transformer.proof.vectors import (
    Vector,
    dot,
    eq_at,
    eq_table,
    from_integers,
    log2_ceil,
    multiply,
    outer,
    padded,
)
from quod.sumcheck.polynomial import SumOfProducts


def gated(context: Context, rows: Vector, point: Point, positions: Vector) -> Vector:
    """Return the value of the products, by a sumcheck over (layer and channel, position)."""
    side, names = context.side, ("activated", "up")
    log_rows = log2_ceil(len(rows))

    def tables() -> list[Vector]:
        weights = outer(rows, positions).reshape(-1, 2)
        columns = [from_integers(side.arrays[name].reshape(-1)) for name in names]
        return [padded(table, log_rows + len(point)) for table in (weights, *columns)]

    result = side.sum(SumOfProducts.product(3), log_rows + len(point), tables)
    row_weights = eq_table(result.point[:log_rows])[: len(rows)]
    position_point = result.point[log_rows:]
    expected = multiply(dot(row_weights, rows), eq_at(point, position_point))
    require(result.values[0], expected, "the weights of the gated products")
    columns = eq_table(position_point)
    for value, name in zip(result.values[1:], names, strict=True):
        context.claim(value, Term(name, row_weights, columns))
    return result.claim
