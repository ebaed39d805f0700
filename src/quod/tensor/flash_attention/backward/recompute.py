"""Recompute gradients of attention that are NaN over the unmasked pairs.

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

    heads: The heads of queries, of their results' gradients, of keys and of values.
    numbers: For the line of a query, the logarithm to base 2 of its sum, and its sum of products.
    factor: The factor of logits.
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
        """The head of the gradients of queries' results."""
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
    """Return sums of ds k for queries `row` and `row + 8`, over the keys that they see."""

    def pairs(query: Value) -> RowPairs:
        count = sequence.seen(query)
        log, product = operands.numbers(k.minimum(query, sequence.queries - 1))

        def pair(key: Value) -> tuple[Value, Value]:
            return _weight_and_gradient(k, plain, operands, (query, key), log, product)[
                1
            ], plain.line(operands.keys, key)

        # If the sum of products is NaN, a key that the query sees has a NaN.
        there = (query < sequence.queries) & ((product == product) | (count == 0))
        return RowPairs(there, count, pair)

    return plain.corrected(sums, [pairs(row + below) for below in (0, 8)])


def corrected_keys(
    k: Builder, plain: PlainSums, sums: tuple[Sequence[Value], Sequence[Value]],
    rows: tuple[Value, Value], shared_by: Value, sequence: AttentionSequence, operands: Operands,
) -> tuple[list[Value], list[Value]]:  # fmt: skip
    """Return sums of ds^T q and of p^T dy for a key and the key 8 further, over unmasked queries.

    rows: The index of the first key, and the number of keys.
    shared_by: The number of heads that share the keys; their queries follow each other.
    """
    first, keys = rows

    def pairs(key: Value, *, values: bool) -> RowPairs:
        begin = sequence.first_that_sees(key)
        count = sequence.queries - begin
        divisor = k.maximum(count, 1)

        def pair(index: Value) -> tuple[Value, Value]:
            query = index // divisor * sequence.queries + begin + index % divisor
            weight, change = _weight_and_gradient(
                k, plain, operands, (query, key), *operands.numbers(query)
            )
            if values:
                return weight, plain.line(operands.gradient, query)
            return change, plain.line(operands.q, query)

        return RowPairs(key < keys, count * shared_by, pair)

    of_keys, of_values = (
        plain.corrected(each, [pairs(first + below, values=values) for below in (0, 8)])
        for each, values in zip(sums, (False, True), strict=True)
    )
    return of_keys, of_values


def _weight_and_gradient(
    k: Builder, plain: PlainSums, operands: Operands, pair: tuple[Value, Value], log: Value,
    product: Value,
) -> tuple[Value, Value]:  # fmt: skip
    """Return the weight of a query and a key, and the gradient of their logit."""
    query, key = pair
    logit = plain.product(plain.line(operands.q, query), plain.line(operands.keys, key))
    slope = plain.product(plain.line(operands.gradient, query), plain.line(operands.values, key))
    weight = k.exp2(k.fma(logit, operands.factor, -log))
    return weight, weight * (slope - product)
