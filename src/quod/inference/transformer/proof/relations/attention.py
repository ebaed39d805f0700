"""Attention: rotations, causal scores, weighted values and the sums of the weights.

Rows of heads are numbered layer by layer; a query head has the rows of keys and values of its
group's head.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from quod.inference.transformer.proof.context import Context, Point, require
from quod.inference.transformer.proof.layout import Term
from quod.inference.transformer.proof.vectors import (
    Vector,
    add,
    cumulative,
    dot,
    element,
    eq_at,
    eq_table,
    fold_columns,
    fold_rows,
    from_integers,
    lift,
    log2_ceil,
    multiply,
    outer,
    padded,
    scale,
    subtract,
    total,
)
from quod.inference.transformer.rounding import Integers
from quod.inference.transformer.tables import Rotations
from quod.sumcheck.polynomial import SumOfProducts

T = TypeVar("T", bound=np.generic)

_TWO_PRODUCTS = SumOfProducts(((1, (0, 1)), (1, (2, 3))))
_THREE = SumOfProducts.product(3)
_ROTATED = ("query", "key")


class Heads:
    """The numbers of heads of all layers, and the sums over the query heads of a group."""

    def __init__(self, context: Context) -> None:
        key = context.key
        self.count, self.kv_count = key.layers * key.heads, key.layers * key.kv_heads
        self.group, self.width = key.heads // key.kv_heads, key.head_width
        self.log_count, self.log_width = log2_ceil(self.count), log2_ceil(key.head_width)

    def shared(self, array: NDArray[T]) -> NDArray[T]:
        """Repeat the entries of each key head for the query heads of its group."""
        return np.repeat(array, self.group, axis=0)

    def grouped(self, weights: Vector) -> Vector:
        """Add up the weights of the query heads of each group; the last axis is the element's."""
        return total(weights.reshape(self.kv_count, self.group, *weights.shape[1:]), axis=1)


def rotated(context: Context, sums: dict[str, Vector], point: Point, positions: Vector) -> Vector:
    """Return the value of rotated queries and keys, by a sumcheck over (pair, position).

    Rotated pairs are (a C - b D, b C + a D), so that with weights u and v they add
    C (u a + v b) + D (v a - u b).
    """
    key, side = context.key, context.side
    half, size = key.head_width // 2, len(positions)
    log_half = log2_ceil(half)
    table = Rotations(key.rope[0], key.head_width, key.rope[1]).table(size).astype(np.int64)
    rows = {name: sums[f"rotated_{name}.sum"].reshape(-1, half, 2, 2) for name in _ROTATED}

    def tables() -> list[Vector]:
        by_cosine, by_sine = (np.zeros((half, size, 2), np.uint64) for _ in range(2))
        for name in _ROTATED:
            pairs = side.arrays[name].reshape(-1, half, 2, size)
            for pair in range(half):
                a, b = pairs[:, pair, 0], pairs[:, pair, 1]
                u, v = rows[name][:, pair, 0], rows[name][:, pair, 1]
                even = add(fold_rows(a, u), fold_rows(b, v))
                odd = subtract(fold_rows(a, v), fold_rows(b, u))
                by_cosine[pair], by_sine[pair] = add(by_cosine[pair], even), add(by_sine[pair], odd)
        angles = [scale(positions, table[:, :, part].T) for part in range(2)]
        return [
            padded(entries.reshape(-1, 2), log_half + len(point))
            for entries in (angles[0], by_cosine, angles[1], by_sine)
        ]

    result = side.sum(_TWO_PRODUCTS, log_half + len(point), tables)
    pair_weights = eq_table(result.point[:log_half])[:half]
    columns = eq_table(result.point[log_half:])
    both = multiply(columns, positions)
    for part, value in enumerate((result.values[0], result.values[2])):
        expected = dot(pair_weights, fold_rows(table[:, :, part], both))
        require(value, expected, "the angles of the rotary positions")
    for value, is_sine in ((result.values[1], False), (result.values[3], True)):
        terms = []
        for name in _ROTATED:
            weights = rows[name]
            if is_sine:
                weights = np.stack(
                    [weights[:, :, 1], subtract(np.zeros_like(weights[:, :, 0]), weights[:, :, 0])],
                    axis=2,
                )
            weights = multiply(weights, pair_weights[:, None])
            terms.append(Term(name, weights.reshape(-1, 2), columns))
        context.claim(value, *terms)
    return result.claim


def scores(context: Context, rows: Vector, positions: Vector) -> tuple[Vector, Term]:
    """Return the value of the aligned scores without the maxima, and a term of the maxima.

    At query i and key j <= i an aligned score is (largest - q k) A 2^(S-s), and at later keys
    (2^m - 1) 2^S, which has the exponential 0. With weights w of rows (head, i) and eq of a point
    over j, the products add

        sum of w A 2^(S-s) Q(head, channel, i) K(head, channel, i),

    where K(.., i) is the sum over j <= i of eq(j) times the key, by a sumcheck over (head, channel,
    i).
    """
    key, side, heads = context.key, context.side, Heads(context)
    rounding, size = key.roundings["score"], len(positions)
    log = size.bit_length() - 1
    rows = rows.reshape(heads.count, size, 2)
    before = cumulative(positions)  # the weight of the keys that a query sees
    after = subtract(element(1), before)
    factors = np.array([
        constants.multiplier * factor
        for constants, factor in zip(key.constants, rounding.scales(), strict=True)
    ])  # fmt: skip
    scaled = scale(rows, np.repeat(factors, key.heads)[:, None])
    widths = np.repeat(np.array(rounding.bits, np.int64), key.heads)[:, None]
    out = scale(after, (1 << key.score_bits) - 1)
    unseen = scale(out, 1 << widths)
    constant = total(total(multiply(rows, unseen)))
    variables = heads.log_count + heads.log_width + log
    shape = 1 << heads.log_count, 1 << heads.log_width, size

    def tables() -> list[Vector]:
        queries = np.zeros(shape, np.int64)
        queries[: heads.count, : heads.width] = side.arrays["rotated_query"].reshape(
            heads.count, heads.width, size
        )
        kv = side.arrays["rotated_key"].reshape(heads.kv_count, heads.width, size)
        keys, weights = (np.zeros((*shape, 2), np.uint64) for _ in range(2))
        keys[: heads.count, : heads.width] = heads.shared(cumulative(scale(positions, kv), axis=2))
        weights[: heads.count] = scaled[:, None]
        return [weights.reshape(-1, 2), from_integers(queries.reshape(-1)), keys.reshape(-1, 2)]

    result = side.sum(_THREE, variables, tables)
    head_at = result.point[: heads.log_count]
    channel_at = result.point[heads.log_count : -log]
    head_weights = eq_table(head_at)[: heads.count]
    channels = eq_table(channel_at)[: heads.width]
    columns = eq_table(result.point[-log:])
    weight = dot(head_weights, total(multiply(scaled, columns), axis=1))
    require(result.values[0], weight, "the weights of the scores")
    query_rows = outer(head_weights, channels).reshape(-1, 2)
    context.claim(result.values[1], Term("rotated_query", query_rows, columns))
    # Key j is added for all queries from j on.
    from_key = cumulative(columns[::-1])[::-1]
    key_rows = outer(heads.grouped(head_weights), channels).reshape(-1, 2)
    context.claim(result.values[2], Term("rotated_key", key_rows, multiply(from_key, positions)))
    return (
        subtract(constant, result.claim),
        Term("largest", multiply(scaled, before), None),
    )


def mixed(context: Context, rows: Vector, point: Point, positions: Vector) -> Vector:
    """Return the value of the weighted values times the inverses of the weights' sums.

    With weights w of rows (head, channel) it is

        sum over (head, i) of eq(i) inverse(head, i) F(head, i),
        F(head, i) = sum over j of weight(head, i, j) V(head, j),

    where V(head, j) is the sum over channels of w times the value: a sumcheck over (head, i), and
    another one over (head, j) for the F that it leaves.
    """
    key, side, heads = context.key, context.side, Heads(context)
    rows = rows.reshape(heads.count, key.head_width, 2)
    log, size = len(point), len(positions)
    variables = heads.log_count + log

    def weighted_values() -> Vector:
        values = heads.shared(side.arrays["value"].reshape(heads.kv_count, heads.width, size))
        return np.stack([fold_rows(v, w) for v, w in zip(values, rows, strict=True)])

    def weights() -> Integers:
        return side.arrays["weight"].reshape(heads.count, size, size)

    def tables() -> list[Vector]:
        sums = [fold_columns(e, v) for e, v in zip(weights(), weighted_values(), strict=True)]
        repeated = np.repeat(positions[None], heads.count, axis=0).reshape(-1, 2)
        inverses = from_integers(side.arrays["inverse"].reshape(-1))
        return [padded(table, variables) for table in (repeated, inverses, np.concatenate(sums))]

    outer_sum = side.sum(_THREE, variables, tables)
    head_point, query_point = (
        outer_sum.point[: heads.log_count], outer_sum.point[heads.log_count :]
    )  # fmt: skip
    head_rows, queries = eq_table(head_point)[: heads.count], eq_table(query_point)
    require(
        outer_sum.values[0], multiply(total(head_rows), eq_at(point, query_point)),
        "the weights of the mixed values",
    )  # fmt: skip
    context.claim(outer_sum.values[1], Term("inverse", head_rows, queries))

    def inner_tables() -> list[Vector]:
        folded = np.concatenate([fold_rows(e, queries) for e in weights()])
        repeated = np.repeat(head_rows, size, axis=0)
        return [
            padded(table, variables)
            for table in (repeated, folded, weighted_values().reshape(-1, 2))
        ]

    inner = side.sum(_THREE, variables, inner_tables, outer_sum.values[2])
    head_at, key_at = inner.point[: heads.log_count], inner.point[heads.log_count :]
    inner_rows, keys = eq_table(head_at)[: heads.count], eq_table(key_at)
    require(inner.values[0], dot(inner_rows, head_rows), "the weights of the heads")
    context.claim(inner.values[1], Term("weight", outer(inner_rows, queries).reshape(-1, 2), keys))
    value_rows = heads.grouped(multiply(inner_rows[:, None], rows)).reshape(-1, 2)
    context.claim(inner.values[2], Term("value", value_rows, keys))
    return outer_sum.claim


def inverses(
    context: Context, sums: dict[str, Vector], point: Point, positions: Vector
) -> tuple[Vector, Term]:
    """Return the value of the inverses times the sums of weights, and a term of the sums alone."""
    side, heads = context.side, Heads(context)
    rows, size = sums["inverse.sum"], len(positions)
    variables = heads.log_count + len(point)
    ones = np.repeat(element(1)[None], size, axis=0)

    def tables() -> list[Vector]:
        columns = [
            from_integers(array.reshape(-1))
            for array in (side.arrays["inverse"], side.derived["total.sum"])
        ]
        weights = outer(rows, positions).reshape(-1, 2)
        return [padded(table, variables) for table in (weights, *columns)]

    result = side.sum(_THREE, variables, tables)
    head_rows = eq_table(result.point[: heads.log_count])[: heads.count]
    query_point = result.point[heads.log_count :]
    queries = eq_table(query_point)
    expected = multiply(dot(head_rows, rows), eq_at(point, query_point))
    require(result.values[0], expected, "the weights of the inverses")
    context.claim(result.values[1], Term("inverse", head_rows, queries))
    context.claim(result.values[2], Term("weight", outer(head_rows, queries).reshape(-1, 2), ones))
    total_rows = outer(sums["total.sum"], positions).reshape(-1, 2)
    return result.claim, Term("weight", total_rows, ones)


def largest_scores(context: Context) -> None:
    """Prove that each row's largest score is one of its scores, at a key that the query sees.

    Two rows of bits, `high` and `low`, choose a key j: all entries are 0 or 1, and each row has the
    sum 1. For a random point r of rows (head, i), the sums over (head, i, j) of

        eq(r, (head, i)) [j <= i] high low           and
        eq(r, (head, i)) [j <= i] high low (largest - score)

    are the sum of eq over all rows, and 0. The range of scores shows that none is larger.
    """
    side, heads = context.side, Heads(context)
    log = context.statement.log_positions
    size, log_low = 1 << log, log // 2
    log_high = log - log_low
    variables = heads.log_count + log
    for name, log_width in (("largest.high", log_high), ("largest.low", log_low)):
        _one_hot(context, name, log_width, variables)
    row_point = context.challenge(variables)
    (mu,) = context.challenge(1)
    head_weights = eq_table(row_point[: heads.log_count])[: heads.count]
    queries = eq_table(row_point[heads.log_count :])
    # The tables are eq times the causal mask, both one-hot halves, and largest - score + mu; mu
    # combines both claims.
    claim = multiply(element(mu), total(head_weights))

    def tables() -> list[Vector]:
        shape = heads.count, size, size
        mask = np.tri(size, dtype=np.int64)
        weights = scale(outer(head_weights, queries)[:, :, None], mask)
        high, low = (
            np.broadcast_to(
                side.arrays[name].reshape(heads.count, size, *sizes),
                (heads.count, size, 1 << log_high, 1 << log_low),
            ).reshape(shape)
            for name, sizes in (
                ("largest.high", (1 << log_high, 1)), ("largest.low", (1, 1 << log_low)),
            )
        )  # fmt: skip
        largest = np.broadcast_to(side.arrays["largest"].reshape(heads.count, size, 1), shape)
        products = side.derived["products"].reshape(shape)
        shifted = add(
            lift(from_integers(largest - products)), np.broadcast_to(element(mu), (*shape, 2))
        )
        return [
            padded(weights.reshape(-1, 2), variables + log),
            *(padded(from_integers(bits.reshape(-1)), variables + log) for bits in (high, low)),
            padded(shifted.reshape(-1, 2), variables + log),
        ]

    result = side.sum(SumOfProducts.product(4), variables + log, tables, claim)
    head_at = result.point[: heads.log_count]
    query_at, key_at = result.point[heads.log_count : -log], result.point[-log:]
    rows_at, queries_at, keys_at = (
        eq_table(head_at)[: heads.count],
        eq_table(query_at),
        eq_table(key_at),
    )
    visible = dot(multiply(queries, queries_at), cumulative(keys_at))
    require(
        result.values[0], multiply(dot(rows_at, head_weights), visible), "the weights of maxima"
    )
    one_hot_rows = outer(rows_at, queries_at).reshape(-1, 2)
    for value, name, part in (
        (result.values[1], "largest.high", key_at[:log_high]),
        (result.values[2], "largest.low", key_at[log_high:]),
    ):
        context.claim(value, Term(name, one_hot_rows, eq_table(part)))
    # The last table is largest - score + mu in all rows of heads.
    offset = multiply(total(rows_at), element(mu))
    _difference(context, subtract(result.values[3], offset), rows_at, queries_at, keys_at)


def _one_hot(context: Context, name: str, log_width: int, variables: int) -> None:
    """Prove that all entries are 0 or 1, and that each row has the sum 1."""
    side, heads = context.side, Heads(context)
    point = context.challenge(variables + log_width)

    def tables() -> list[Vector]:
        weights = eq_table(point)
        bits = from_integers(side.arrays[name].reshape(-1))
        return [weights, padded(bits, variables + log_width)]

    # eq times (bit^2 - bit) adds to zero.
    polynomial = SumOfProducts(((1, (0, 1, 1)), (-1, (0, 1))))
    result = side.sum(polynomial, variables + log_width, tables, element(0))
    require(result.values[0], eq_at(point, result.point), "the weights of one-hot rows")
    rows = _rows_of_queries(heads, result.point[:variables])
    context.claim(result.values[1], Term(name, rows, eq_table(result.point[variables:])))
    random_rows = _rows_of_queries(heads, context.challenge(variables))
    ones = np.repeat(element(1)[None], 1 << log_width, axis=0)
    context.claim(total(random_rows), Term(name, random_rows, ones))


def _rows_of_queries(heads: Heads, point: Point) -> Vector:
    """Return eq of a point over (head, query), without the padding of heads."""
    queries = eq_table(point[heads.log_count :])
    return outer(eq_table(point[: heads.log_count])[: heads.count], queries).reshape(-1, 2)


def _difference(
    context: Context, value: Vector, head_rows: Vector, queries: Vector, keys: Vector
) -> None:
    """Claim the value of largest - score at a point, by a sumcheck over (head, channel)."""
    side, heads = context.side, Heads(context)
    variables = heads.log_count + heads.log_width

    def tables() -> list[Vector]:
        shape = 1 << heads.log_count, 1 << heads.log_width, 2
        weights, left, right = (np.zeros(shape, np.uint64) for _ in range(3))
        weights[: heads.count] = head_rows[:, None]
        folded = fold_columns(side.arrays["rotated_query"], queries)
        left[: heads.count, : heads.width] = folded.reshape(heads.count, heads.width, 2)
        folded = fold_columns(side.arrays["rotated_key"], keys)
        right[: heads.count, : heads.width] = heads.shared(
            folded.reshape(heads.kv_count, heads.width, 2)
        )
        return [table.reshape(-1, 2) for table in (weights, left, right)]

    result = side.sum(_THREE, variables, tables)
    head_at = eq_table(result.point[: heads.log_count])[: heads.count]
    channels = eq_table(result.point[heads.log_count :])[: heads.width]
    # The weights do not depend on the channel.
    require(result.values[0], dot(head_at, head_rows), "the weights of the products")
    context.claim(
        result.values[1], Term("rotated_query", outer(head_at, channels).reshape(-1, 2), queries)
    )
    key_rows = outer(heads.grouped(head_at), channels).reshape(-1, 2)
    context.claim(result.values[2], Term("rotated_key", key_rows, keys))
    context.claim(add(value, result.claim), Term("largest", head_rows, queries))
