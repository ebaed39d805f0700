"""The equations that lookup arguments leave: weights times leaves, row by row, have a known sum."""

from __future__ import annotations

import numpy as np

from quod.frozen import frozen
from quod.inference.transformer.proof.context import Context, Point, require
from quod.inference.transformer.proof.layout import Term
from quod.inference.transformer.proof.lookups import Rows, Run, multiplicities_name
from quod.inference.transformer.proof.vectors import (
    Vector,
    add,
    element,
    eq_table,
    fold_columns,
    scale,
    subtract,
    total,
)
from quod.lookup.verifier import Reduced


@frozen(eq=False)
class Equation:
    """The equation of one element of the tuples: `value` is the sum of all terms and sums.

    sums: a weight per row of each kind of sum; their columns are weighted by eq of the last
        coordinates of `point`.
    """

    value: Vector
    terms: tuple[Term, ...]
    sums: dict[str, Vector]
    point: Point


def look_up(context: Context, run: Run) -> list[Equation]:
    """Run a lookup argument, claim its multiplicities, and return an equation for each element."""
    reduced = context.side.lookup(run)
    _check_table(run, reduced)
    counts = multiplicities_name(run.name)
    split = len(reduced.table_point) - context.columns.layout.arrays[counts].log_width
    context.claim(
        element(reduced.multiplicity),
        Term(counts, eq_table(reduced.table_point[:split]), eq_table(reduced.table_point[split:])),
    )
    rows = run.layout.rows_at(reduced.point)
    used = element(0)
    for weights in rows.values():
        used = add(used, total(weights))
    unused = subtract(element(1), used)
    equations = []
    for index, (value, fill) in enumerate(zip(reduced.columns[0], run.padding, strict=True)):
        balance = subtract(element(value), scale(unused, fill))
        terms: dict[str, Term] = {}
        sums: dict[str, Vector] = {}
        for number, leaves in enumerate(run.tuples):
            leaf, weights = leaves[index], rows[str(number)]
            columns = eq_table(reduced.point[run.layout.log2_size - leaf.shape[1] :])
            balance = subtract(balance, total(_times(weights, leaf.constant)))
            for name, coefficient in leaf.arrays:
                scaled = _times(weights, coefficient)
                if name == "residual.before":
                    # The state before the first one is zero.
                    zeros = np.zeros((context.key.width, 2), np.uint64)
                    name, scaled = "residual", np.concatenate([scaled[len(zeros) :], zeros])
                if name in terms:
                    scaled = add(terms[name].rows, scaled)
                terms[name] = Term(name, scaled, columns)
            for name, coefficient in leaf.sums:
                scaled = _times(weights, coefficient)
                sums[name] = add(sums[name], scaled) if name in sums else scaled
        equations.append(Equation(balance, tuple(terms.values()), sums, reduced.point))
    return equations


def _times(weights: Vector, coefficients: Rows) -> Vector:
    return scale(weights, np.broadcast_to(np.asarray(coefficients, np.int64), (len(weights),)))


def _check_table(run: Run, reduced: Reduced) -> None:
    """Raise VerificationError unless the values of a public table are right."""
    if run.table is None:
        return
    weights = eq_table(reduced.table_point)
    for part, value in zip(run.table, reduced.entry, strict=True):
        expected = fold_columns(part[None], weights)[0]
        require(element(value), expected, f"the entries of the table of {run.name}")
