"""All products with matrices, of all layers, by one sumcheck over their inputs.

A sum of row j is the sum over k of W(j, k) x(k). Weighted by w(j) and by eq(t, position), all sums
together are

    sum over inputs k of X(k) A(k),   A(k) = sum over rows j of w(j) W(j, k),

where X(k) is an input's value at the point t of positions. The sumcheck leaves one claim about
inputs and one about weights.
"""

from __future__ import annotations

import numpy as np

from quod.inference.transformer.proof.context import Context, require
from quod.inference.transformer.proof.layout import Array, Layout, Term
from quod.inference.transformer.proof.vectors import (
    Vector,
    add,
    element,
    eq_table,
    fold_columns,
    fold_rows,
    from_integers,
    log2_ceil,
    multiply,
    scatter,
    total,
)
from quod.sumcheck.polynomial import SumOfProducts

PRODUCT = SumOfProducts.product(2)

_INPUTS = {
    "query": "normed", "key": "normed", "value": "normed", "output": "mixed", "gate": "normed",
    "up": "normed", "down": "hidden",
}  # fmt: skip


class MatrixRows:
    """The weights of rows of each kind of matrix, (layers * rows, 2)."""

    def __init__(self, context: Context, sums: dict[str, Vector]) -> None:
        key = context.key
        self.weights = {
            name: sums[f"{name}.sum"] for name in ("query", "key", "value", "gate", "up")
        }
        states = sums["residual.sum"].reshape(key.norms, key.width, 2)
        self.weights["output"] = states[1::2].reshape(-1, 2)
        self.weights["down"] = states[2::2].reshape(-1, 2)
        self.embedding = states[0]


def matrix_products(
    context: Context, rows: MatrixRows, positions: Vector, head_rows: Vector, head_positions: Vector
) -> Vector:
    """Return the value of all products, with biases.

    positions, head_positions: the weights of positions, of all products and of the head.
    head_rows: the weights of the head's rows.
    """
    key, side = context.key, context.side
    inputs = Layout([
        Array("normed", key.norms, log2_ceil(key.width)),
        Array("mixed", key.layers, log2_ceil(key.query_width)),
        Array("hidden", key.layers, log2_ceil(key.hidden)),
    ])  # fmt: skip

    def tables() -> list[Vector]:
        values, weights = (np.zeros((1 << inputs.log2_size, 2), np.uint64) for _ in range(2))
        for name, array in inputs.arrays.items():
            count = len(side.arrays[name]) // array.rows
            folded = fold_columns(side.arrays[name], positions)
            if name == "normed":
                folded[-count:] = fold_columns(side.arrays[name][-count:], head_positions)
            for row, channels in enumerate(folded.reshape(array.rows, count, 2)):
                start = inputs.starts[name] + (row << array.log_width)
                values[start : start + count] = channels
        for (kind, index), (source, layer, matrix_rows) in _blocks(
            context, rows, head_rows
        ).items():
            start = inputs.starts[source] + (layer << inputs.arrays[source].log_width)
            matrix = side.weights(kind)
            count = len(matrix_rows)
            folded = fold_rows(matrix[index * count : (index + 1) * count], matrix_rows)
            weights[start : start + len(folded)] = add(weights[start : start + len(folded)], folded)
        return [values, weights]

    result = side.sum(PRODUCT, inputs.log2_size, tables)
    input_rows = inputs.rows_at(result.point)
    terms, matrix_terms = [], []
    for name, array in inputs.arrays.items():
        channels = eq_table(inputs.columns_at(result.point, name))
        count = context.columns.shapes[name][0] // array.rows
        weights = multiply(input_rows[name][:, None], channels[:count])
        if name == "normed":
            # The last norm's outputs are the head's inputs, at the positions of choices.
            last = np.zeros_like(weights)
            last[-1], weights[-1] = weights[-1], 0
            terms.append(Term(name, last.reshape(-1, 2), head_positions))
        terms.append(Term(name, weights.reshape(-1, 2), positions))
    by_kind: dict[str, list[Vector]] = {}
    for (kind, _), (source, layer, matrix_rows) in _blocks(context, rows, head_rows).items():
        by_kind.setdefault(kind, []).append(multiply(matrix_rows, input_rows[source][layer]))
    for kind, parts in by_kind.items():
        columns = key.matrices()[kind][2]
        source = _INPUTS.get(kind, "normed")
        channels = eq_table(inputs.columns_at(result.point, source))[:columns]
        matrix_terms += context.matrix_terms(kind, np.concatenate(parts), channels)
    context.claim(result.values[0], *terms)
    context.claim_weights(result.values[1], *matrix_terms)
    return add(result.claim, _biases(context, rows))


def _blocks(
    context: Context, rows: MatrixRows, head_rows: Vector
) -> dict[tuple[str, int], tuple[str, int, Vector]]:
    """Return for each matrix its array of inputs, their index, and the weights of its rows."""
    key = context.key
    blocks: dict[tuple[str, int], tuple[str, int, Vector]] = {}
    for kind, source in _INPUTS.items():
        weights = rows.weights[kind].reshape(key.layers, -1, 2)
        for layer in range(key.layers):
            index = layer
            if source == "normed":
                index = 2 * layer + (kind in ("gate", "up"))
            blocks[kind, layer] = source, index, weights[layer]
    blocks[key.head, 0] = "normed", 2 * key.layers, head_rows
    return blocks


def _biases(context: Context, rows: MatrixRows) -> Vector:
    """Return the value of all biases; eq of a point sums to 1 over the positions."""
    value, layers = element(0), context.key.layers
    for kind in _INPUTS:
        weights = rows.weights[kind].reshape(layers, -1, 2)
        for layer, constants in enumerate(context.key.constants):
            bias = constants.biases.get(kind)
            if bias is not None:
                value = add(value, fold_columns(bias[None], weights[layer])[0])
    return value


def embedded_tokens(context: Context, rows: MatrixRows, positions: Vector) -> Vector:
    """Return the value of the embedding's rows of all inputs: a linear claim about the weights."""
    key, tokens = context.key, context.statement.inputs
    token_rows = scatter(positions, tokens, key.vocabulary)

    def value() -> Vector:
        used = np.unique(tokens)
        folded = fold_columns(context.side.weights("embedding")[used], rows.embedding)
        return total(multiply(token_rows[used], folded))

    claim = context.side.value(value)
    context.claim_weights(claim, *context.matrix_terms("embedding", token_rows, rows.embedding))
    return claim


def chosen_logits(
    context: Context, factor: Vector, choices: Vector, point_variables: int
) -> Vector:
    """Return factor times the sum over choices g of weights times the chosen token's logit.

    A logit is the sum over channels k of n(k, position of g) W(token of g, k): a sumcheck over
    (g, k).
    choices: the weights of the choices, (2**point_variables, 2), zero beyond the last one.
    """
    key, statement, side = context.key, context.statement, context.side
    log_width = log2_ceil(key.width)
    chosen, choice_positions = np.array(statement.chosen), statement.positions()
    weighted = multiply(choices, factor)
    shape = (len(choices), 1 << log_width)

    def tables() -> list[Vector]:
        normed, rows = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        channels = side.arrays["normed"][-key.width :]
        normed[: len(chosen), : key.width] = channels[:, choice_positions].T
        rows[: len(chosen), : key.width] = side.weights(key.head)[chosen]
        repeated = np.repeat(weighted[:, None], shape[1], axis=1)
        return [
            repeated.reshape(-1, 2),
            from_integers(normed.reshape(-1)),
            from_integers(rows.reshape(-1)),
        ]

    result = side.sum(SumOfProducts.product(3), point_variables + log_width, tables)
    choice_weights = eq_table(result.point[:point_variables])
    channels = eq_table(result.point[point_variables:])[: key.width]
    require(
        result.values[0], total(multiply(choice_weights, weighted)), "the weights of the choices"
    )
    real = choice_weights[: len(chosen)]
    last = np.zeros((key.norms * key.width, 2), np.uint64)
    last[-key.width :] = channels
    at_positions = scatter(real, choice_positions, len(statement.inputs))
    context.claim(result.values[1], Term("normed", last, at_positions))
    context.claim_weights(
        result.values[2],
        *context.matrix_terms(key.head, scatter(real, chosen, key.vocabulary), channels),
    )
    return result.claim
