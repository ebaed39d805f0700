"""The protocol, in its order, for both sides: docs/design/verified-transformer.md."""

from __future__ import annotations

import numpy as np

from quod.inference.transformer.proof.context import Context, Party
from quod.inference.transformer.proof.equations import Equation, look_up
from quod.inference.transformer.proof.key import Key
from quod.inference.transformer.proof.layout import Term
from quod.inference.transformer.proof.lookups import Columns
from quod.inference.transformer.proof.relations import attention
from quod.inference.transformer.proof.relations.feed_forward import gated
from quod.inference.transformer.proof.relations.norms import norms
from quod.inference.transformer.proof.relations.products import (
    MatrixRows,
    chosen_logits,
    embedded_tokens,
    matrix_products,
)
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.proof.vectors import (
    Vector,
    add,
    cumulative,
    element,
    eq_table,
    multiply,
    scale,
    scatter,
    subtract,
    total,
)


def run_protocol(side: Party, key: Key, statement: Statement, columns: Columns) -> None:
    """Run the protocol; VerificationError unless it proves the statement."""
    context = Context(side, key, statement, columns)
    side.commit()
    for lookup in columns.runs.values():
        for equation in look_up(context, lookup):
            terms, value = equation.terms, equation.value
            if equation.sums:
                more_terms, sums = _sums(context, equation)
                terms, value = (*terms, *more_terms), subtract(value, sums)
            context.claim(value, *terms)
    attention.largest_scores(context)
    side.open_columns(context.claims)
    for name, claims in context.weight_claims.items():
        side.open_weights(name, claims)


def _sums(context: Context, equation: Equation) -> tuple[list[Term], Vector]:
    """Prove the value of all weighted sums of an equation, but for the terms that are returned."""
    sums, statement = equation.sums, context.statement
    point = equation.point[len(equation.point) - statement.log_positions :]
    positions = eq_table(point)
    choices = _choices(equation, statement)
    head_rows = subtract(np.zeros_like(sums["margin"]), sums["margin"])
    choice_positions = statement.positions()
    head_positions = scatter(choices[: len(choice_positions)], choice_positions, len(positions))
    rows = MatrixRows(context, sums)
    score_value, largest = attention.scores(context, sums["score.sum"], positions)
    inverse_value, weight = attention.inverses(context, sums, point, positions)
    values = [
        matrix_products(context, rows, positions, head_rows, head_positions),
        embedded_tokens(context, rows, positions),
        norms(context, sums, point, positions),
        attention.rotated(context, sums, point, positions),
        score_value,
        attention.mixed(context, sums["mixed.sum"], point, positions),
        inverse_value,
        gated(context, sums["hidden.sum"], point, positions),
        chosen_logits(context, total(sums["margin"]), choices, statement.log_chosen),
        _ties(sums["margin"], choices, statement),
    ]
    value = element(0)
    for part in values:
        value = add(value, part)
    # The outputs of norms are rounded from the channels times public gains.
    gained = Term("unit", scale(sums["normed.sum"], context.key.gains.reshape(-1)), positions)
    return [largest, weight, gained], value


def _choices(equation: Equation, statement: Statement) -> Vector:
    """Return the weights of the choices, zero beyond the last one."""
    choices = eq_table(equation.point[len(equation.point) - statement.log_chosen :])
    choices[len(statement.chosen) :] = 0
    return choices


def _ties(rows: Vector, choices: Vector, statement: Statement) -> Vector:
    """Return the value of -[v < token]: of equal logits that of the lowest token is the largest."""
    zero = np.zeros((1, 2), np.uint64)
    below = np.concatenate([zero, cumulative(rows)])[np.array(statement.chosen)]
    weights = choices[: len(statement.chosen)]
    return subtract(element(0), total(multiply(weights, below)))
