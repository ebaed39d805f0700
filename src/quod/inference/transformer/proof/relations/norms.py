"""RMS norms: sums of squares, inverse roots, and channels times these."""

from __future__ import annotations

import numpy as np

from quod.inference.transformer.proof.context import Context, Point, require
from quod.inference.transformer.proof.layout import Term
from quod.inference.transformer.proof.vectors import (
    Vector,
    dot,
    eq_at,
    eq_table,
    fold_columns,
    fold_rows,
    from_integers,
    log2_ceil,
    multiply,
    outer,
    padded,
    subtract,
    total,
)
from quod.sumcheck.polynomial import SumOfProducts

_COMMITTED = ("multiple", "mantissa", "power", "small", "root", "scale")
_ALL = SumOfProducts((
    # eq and the weights of five sums (0 to 5); then the committed columns (6 to 11), the sums of
    # squares (12) and the weighted channels (13).
    (1, (0, 10, 11, 13)), (1, (1, 12, 6)), (1, (2, 7, 8)), (1, (3, 12, 9)), (1, (4, 10, 10, 7)),
    (1, (5, 10, 7)),
))  # fmt: skip
_SUMS = ("norm.scaled.sum", "norm.floor.sum", "norm.checked.sum", "norm.cube.sum", "norm.cross.sum")
_SQUARE = SumOfProducts(((1, (0, 1, 1)),))


def norms(context: Context, sums: dict[str, Vector], point: Point, positions: Vector) -> Vector:
    """Return the value of all sums of norms, by a sumcheck over (norm, position)."""
    key, side = context.key, context.side
    log_norms, size = log2_ceil(key.norms), len(positions)
    unit_weights = sums["unit.sum"]

    def tables() -> list[Vector]:
        real = [np.repeat(positions[None], key.norms, axis=0)]
        real += [outer(sums[name], positions) for name in _SUMS]
        channels = np.stack([
            fold_rows(part, weights) for part, weights in zip(
                side.arrays["residual"].reshape(key.norms, key.width, size),
                unit_weights.reshape(key.norms, key.width, 2), strict=True,
            )
        ])  # fmt: skip
        columns = [from_integers(side.arrays[f"norm.{name}"]) for name in _COMMITTED]
        columns.append(from_integers(side.derived["squares"]))
        return [
            padded(table.reshape(-1, *table.shape[2:]), log_norms + len(point))
            for table in (*real, *columns, channels)
        ]

    result = side.sum(_ALL, log_norms + len(point), tables)
    norm_point, position_point = result.point[:log_norms], result.point[log_norms:]
    norm_rows = eq_table(norm_point)[: key.norms]
    at_position = eq_at(point, position_point)
    ones = multiply(total(norm_rows), at_position)
    require(result.values[0], ones, "the weights of the norms")
    for value, name in zip(result.values[1:6], _SUMS, strict=True):
        expected = multiply(dot(norm_rows, sums[name]), at_position)
        require(value, expected, "the weights of the norms")
    columns = eq_table(position_point)
    for value, name in zip(result.values[6:12], _COMMITTED, strict=True):
        context.claim(value, Term(f"norm.{name}", norm_rows, columns))
    channel_rows = multiply(norm_rows[:, None], unit_weights.reshape(key.norms, key.width, 2))
    context.claim(result.values[13], Term("residual", channel_rows.reshape(-1, 2), columns))
    _squares(context, result.values[12], norm_rows, norm_point, position_point)
    return result.claim


def _squares(
    context: Context, value: Vector, norm_rows: Vector, norm_point: Point, position_point: Point
) -> None:
    """Reduce a value of the sums of squares to the residual stream."""
    key, side = context.key, context.side
    epsilons = np.array(key.epsilons, np.int64)
    value = subtract(value, fold_columns(epsilons[None], norm_rows)[0])
    log_norms, log_width = len(norm_point), log2_ceil(key.width)
    shape = 1 << log_norms, 1 << log_width, 1 << len(position_point)

    def tables() -> list[Vector]:
        channels = np.zeros(shape, np.int64)
        channels[: key.norms, : key.width] = side.arrays["residual"].reshape(
            key.norms, key.width, shape[2]
        )
        weights = np.repeat(
            outer(eq_table(norm_point), eq_table(position_point))[:, None], shape[1], axis=1
        )
        return [weights.reshape(-1, 2), from_integers(channels.reshape(-1))]

    result = side.sum(_SQUARE, log_norms + log_width + len(position_point), tables, value)
    norm_at, channel_at = result.point[:log_norms], result.point[log_norms : log_norms + log_width]
    position_at = result.point[log_norms + log_width :]
    expected = multiply(eq_at(norm_point, norm_at), eq_at(position_point, position_at))
    require(result.values[0], expected, "the weights of the squares")
    rows = outer(eq_table(norm_at)[: key.norms], eq_table(channel_at)[: key.width])
    context.claim(result.values[1], Term("residual", rows.reshape(-1, 2), eq_table(position_at)))
