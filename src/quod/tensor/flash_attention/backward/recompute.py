"""Recompute, over the unmasked pairs alone, gradients of attention that are NaN.

See `flash_attention.recompute`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.frozen import frozen
from quod.kernel import Builder, Value
from quod.tensor.flash_attention.kernel import Sequence as AttentionSequence
from quod.tensor.flash_attention.recompute import PlainSums, RowPairs


@frozen(eq=False)
class Operands:
    """The operands of a backward pass.

    heads: The pointers to the heads of q, dy, keys and values.
    numbers: Given a query, returns the statistics of its row: the base-2 logarithm of the softmax
        denominator, and sum(dy * y).
    factor: scale * log2(e), the factor of logits.
    """

    heads: Sequence[Value]
    numbers: Callable[[Value], tuple[Value, Value]]
    factor: Value

    @property
    def q(self) -> Value:
        """The head of queries."""
        return self.heads[0]

    @property
    def gradient(self) -> Value:
        """The head of dy, the gradient of the results."""
        return self.heads[1]

    @property
    def keys(self) -> Value:
        """The head of keys."""
        return self.heads[2]

    @property
    def values(self) -> Value:
        """The head of values."""
        return self.heads[3]


def corrected_queries(
    k: Builder,
    plain: PlainSums,
    sums: Sequence[Value],
    row: Value,
    sequence: AttentionSequence,
    operands: Operands,
) -> list[Value]:
    """Return the sums of ds k for queries `row` and `row + 8`, with NaN recomputed.

    They are the gradients of these queries, without the factor `scale`. Each is a sum over the keys
    that the query sees.

    sums: The sums of both queries, alternating in pairs (`PlainSums.corrected`).
    """

    def pairs(query: Value) -> RowPairs:
        count = sequence.seen(query)
        log, product = operands.numbers(k.minimum(query, sequence.queries - 1))

        def pair(key: Value) -> tuple[Value, Value]:
            return _weight_and_gradient(k, plain, operands, (query, key), log, product)[
                1
            ], plain.line(operands.keys, key)

        # If sum(dy * y) is NaN, so is an operand that is not masked, and the gradient stays NaN. If
        # the query sees no key, no operand counts, and a gradient that is NaN becomes 0.
        needs_check = (query < sequence.queries) & ((product == product) | (count == 0))
        return RowPairs(needs_check, count, pair)

    return plain.corrected(sums, [pairs(row + row_offset) for row_offset in (0, 8)])


def corrected_keys(
    k: Builder, plain: PlainSums, sums: tuple[Sequence[Value], Sequence[Value]],
    rows: tuple[Value, Value], shared_by: Value, sequence: AttentionSequence, operands: Operands,
) -> tuple[list[Value], list[Value]]:  # fmt: skip
    """Return the sums of ds^T q and of p^T dy for two keys, with NaN recomputed.

    They are the gradients of the keys, without the factor `scale`, and of the values. Each is a sum
    over the queries that see the key.

    sums: The sums of ds^T q and of p^T dy; in each those of the two keys alternate in pairs.
    rows: The index of the first key, and the number of keys. The second key is 8 further.
    shared_by: The number of query heads that share the keys; their queries are contiguous.
    """
    first_key, keys = rows

    def pairs(key: Value, *, values: bool) -> RowPairs:
        first_query = sequence.first_that_sees(key)
        count = sequence.queries - first_query
        divisor = k.maximum(count, 1)

        def pair(index: Value) -> tuple[Value, Value]:
            query = index // divisor * sequence.queries + first_query + index % divisor
            # This slope is the gradient of the logit, ds.
            weight, slope = _weight_and_gradient(
                k, plain, operands, (query, key), *operands.numbers(query)
            )
            if values:
                return weight, plain.line(operands.gradient, query)
            return slope, plain.line(operands.q, query)

        return RowPairs(key < keys, count * shared_by, pair)

    of_keys, of_values = (
        plain.corrected(
            sums_array, [pairs(first_key + row_offset, values=values) for row_offset in (0, 8)]
        )
        for sums_array, values in zip(sums, (False, True), strict=True)
    )
    return of_keys, of_values


def _weight_and_gradient(
    k: Builder, plain: PlainSums, operands: Operands, pair: tuple[Value, Value], log: Value,
    product: Value,
) -> tuple[Value, Value]:  # fmt: skip
    """Return the weight of a query and a key, and the gradient of their logit.

    log, product: The statistics of the query (`Operands.numbers`).
    """
    query, key = pair
    logit = plain.product(plain.line(operands.q, query), plain.line(operands.keys, key))
    # This slope is the gradient of the weight.
    slope = plain.product(plain.line(operands.gradient, query), plain.line(operands.values, key))
    weight = k.exp2(k.fma(logit, operands.factor, -log))
    return weight, weight * (slope - product)
