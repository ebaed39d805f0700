"""Kernels over columns: values of layers, and the rounds of sumchecks over the instances.

A term is a product of values below a layer, and all gates with that product share it. The weights
of terms contain the linear maps of the layer; they do not depend on the instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.gkr.prover.data_parallel.lanes import Lanes
from quod.gkr.prover.data_parallel.table import ColumnForm, Table
from quod.gkr.prover.gates import (
    Coefficients,
    GateForm,
    GateTable,
    LayerSizes,
    added_gates,
    carried,
    power,
)
from quod.gkr.prover.state import StateMemory, StateSizes
from quod.gkr.reduction import degree_by_columns
from quod.kernel import U32, Builder, Pointer, Struct, kernel, u32
from quod.kernel.ir.value import Value
from quod.layered.circuit import POWERS
from quod.sumcheck.eq_tables import Equality, at_corners
from quod.sumcheck.interpolation import INFINITY
from quod.sumcheck.memory import Progress, Weights
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.structs import SumcheckSizes
from quod.sumcheck.summands import Point, evaluated, value_at
from quod.sumcheck.workgroup_sums import WorkgroupSums

_AT_ONCE = 4
"""Products that one modular reduction adds."""

Challenge = Literal["round", "point"]
"""The source of folding challenges: the sumcheck's rounds, or the point of the instances."""


@frozen
class TermForm:
    """The static part of the kernels over the terms of a layer.

    kinds: the kinds of the terms, which are kinds of gates.
    degree: the degree of the round polynomial.
    source: the representation of the columns.
    depth: the rounds that one pass evaluates.
    narrow: see `Lanes`.
    """

    field: FieldSpec
    kinds: tuple[str, ...]
    degree: int
    source: ColumnForm
    depth: int
    narrow: bool


@frozen
class FoldForm:
    """The static part of the fold of columns.

    source: the representation of the columns.
    by: the kind of the challenges.
    folds: the number of challenges.
    narrow: see `Lanes`.
    """

    field: FieldSpec
    source: ColumnForm
    by: Challenge
    folds: int
    narrow: bool


class TermTable(Struct):
    """The terms of a layer, `count` of them, with the weights of all proofs.

    The terms of a kind lie between consecutive `bounds`. A term has two `operands`, rows among a
    proof's columns; both are the same row unless the term is a product.
    """

    count: U32
    bounds: Pointer[U32]
    operands: Pointer[U32]
    weights: Pointer[U32]


class FoldExtents(Struct):
    """The extents of a fold: a proof has `rows` columns before it and `positions` behind it.

    From one row to the next there are `stride` entries before it and `folded_stride` behind it.
    """

    positions: U32
    rows: U32
    stride: U32
    folded_stride: U32


@kernel
def column_values(
    k: Builder,
    sizes: LayerSizes,
    chunks: U32,
    stride_below: U32,
    stride: U32,
    gates: GateTable,
    below: Pointer[U32],
    values: Pointer[U32],
    *,
    form: GateForm,
    narrow: bool,
) -> None:
    """Compute the values of a layer from the values below it, a row of `stride` entries a wire."""
    coefficients = Coefficients(k, form, gates)
    mixed = coefficients.mixed
    is_base = form.below_is_base and not form.has_random
    lanes = Lanes(k, sizes.log_instances, chunks, narrow=narrow)
    size = k.constant(1, u32) << sizes.log_size
    source = Table(
        mixed, below, "base" if form.below_is_base else "extended", stride_below,
        lanes.proof << sizes.log_below,
    )  # fmt: skip
    target = Table(
        mixed, values, "base" if is_base else "extended", stride, lanes.proof << sizes.log_size
    )
    f = mixed.base if is_base else mixed.extended
    values_of = mixed.base if form.below_is_base else mixed.extended

    def part(kind: str, *row: Value) -> Any:
        *inputs, code = row
        product = coefficients.load(code, lanes.proof, lanes.entry)
        for x in inputs:
            value = power(values_of, source.load(x, lanes.entry), POWERS.get(kind, 1))
            product = carried(mixed, mixed.multiply(product, value))
        return product

    with k.range(lanes.first, size, lanes.step) as places:
        place = places.index
        total = added_gates(mixed, f, form.kinds, gates, place, size, part)
        target.store(place, lanes.entry, total)


@kernel
def term_weights(
    k: Builder,
    n: U32,
    terms: U32,
    log_size: U32,
    gates: GateTable,
    weights: Pointer[U32],
    sums: Pointer[U32],
    *,
    form: GateForm,
) -> None:
    """found[i] of n terms of all proofs: the sum over a term's gates of coefficient times weight of
    the output. Gates are rows of an output and a code, a run a term."""
    coefficients = Coefficients(k, form, gates)
    mixed, f = coefficients.mixed, coefficients.mixed.extended
    i = k.global_id()
    with k.if_(i < n):
        proof, term = i // terms, i % terms
        begin, end = k.load(gates.starts, term, 2)
        with k.range(begin, end, 2, carry=f.carried(f.zero())) as run:
            output, code = k.load(gates.gates, run.index, 2)
            weight = f.carried(f.load(weights, (proof << log_size) + output))
            coefficient = coefficients.load(code, proof, k.constant(0, u32))
            run.next(f.carried(run.carried + mixed.multiply(weight, coefficient)))
        f.store(sums, i, run.results)


@kernel
def evaluate_columns(
    k: Builder,
    sizes: SumcheckSizes,
    chunks: U32,
    round_number: U32,
    stride: U32,
    rows: U32,
    terms: TermTable,
    columns: Pointer[U32],
    equality: Pointer[U32],
    partial: Pointer[U32],
    *,
    form: TermForm,
) -> None:
    """Compute partial sums of the values of one or two rounds, for `quod.sumcheck.finish`.

    A proof has `rows` columns.
    """
    mixed = MixedField(k, form.field)
    f, points = mixed.extended, evaluated(form.degree, form.depth)
    sums = WorkgroupSums(k, f, len(points))
    variables = sizes.log_size - round_number - form.depth
    lanes = Lanes(k, variables, chunks, narrow=form.narrow)
    table = Table(mixed, columns, form.source, stride, lanes.proof * rows)
    coordinate = Weights(f, equality, lanes.proof, sizes.log_size).coordinate(round_number)
    at_one = f.is_zero(coordinate) if form.depth == 1 else None
    totals = [f.carried(f.zero())] * len(points)

    def corners(row: Value) -> list[Any]:
        return [
            table.load(row, lanes.entry + lanes.count * corner) for corner in range(1 << form.depth)
        ]

    def value(kind: str, factors: Sequence[list[Any]], point: Point) -> Any:
        values = [value_at(mixed, point, factor, at_one) for factor in factors]
        fields = [
            mixed.extended if mixed.is_extended(factor_value) else mixed.base
            for factor_value in values
        ]
        values = [arithmetic.carried(each) for arithmetic, each in zip(fields, values, strict=True)]
        if kind == "multiply":
            return mixed.multiply(*values)
        return power(fields[0], values[0], POWERS.get(kind, 1))

    for number, kind in enumerate(form.kinds):
        begin, end = k.load(terms.bounds, number, 2)
        # What is of a lower degree adds nothing to the leading coefficient.
        is_whole = degree_by_columns(frozenset((kind,))) == form.degree
        own_points = [at for at, point in enumerate(points) if is_whole or INFINITY not in point]
        start = tuple(totals[at] for at in own_points)
        with k.range(begin + lanes.first, end, lanes.step * _AT_ONCE, carry=start) as loop:
            products: list[list[tuple[Any, Any]]] = [[] for _ in own_points]
            for ahead in range(_AT_ONCE):
                term = loop.index + lanes.step * ahead
                is_there = term < end
                term = k.select(is_there, term, begin)
                weight = f.carried(f.load(terms.weights, lanes.proof * terms.count + term))
                weight = f.select(is_there, weight, f.carried(f.zero()))
                operand = k.load(terms.operands, term * 2, 2)
                rows_of = operand if kind == "multiply" else operand[:1]
                factors = [corners(row) for row in rows_of]
                for point_products, at in zip(products, own_points, strict=True):
                    point_products.append((weight, value(kind, factors, points[at])))
            loop.next(
                tuple(
                    f.carried(mixed.add(total, mixed.sum_of_products(point_products)))
                    for total, point_products in zip(loop.carried, products, strict=True)
                )
            )
        for at, total in zip(own_points, loop.results, strict=True):
            totals[at] = total

    eq = Equality(f, equality, sizes, lanes.proof)
    share = f.carried(eq.low(variables, lanes.entry) * eq.high(variables, lanes.entry))
    point_totals = sums.totals([f.carried(total * share) for total in totals])
    with k.if_(k.local_id() == 0):
        for at, total in enumerate(point_totals):
            first = (lanes.proof * len(points) + at) * lanes.groups
            f.store(partial, first + lanes.group, total)


@kernel
def fold_columns(
    k: Builder,
    sizes: StateSizes,
    log_count: U32,
    chunks: U32,
    number: U32,
    extents: FoldExtents,
    taken: Pointer[U32],
    columns: Pointer[U32],
    challenges: Pointer[U32],
    folded: Pointer[U32],
    *,
    form: FoldForm,
) -> None:
    """Fold columns to 2**log_count entries by `form.folds` challenges.

    Columns of a layer's values are the wires in `taken`. `challenges` has the challenges from round
    `number` on (`Progress`), or the coordinates from `number` on of the point of the instances
    (`StateLayout`).
    """
    mixed = MixedField(k, form.field)
    f = mixed.extended
    lanes = Lanes(k, log_count, chunks, narrow=form.narrow)
    values = Table(mixed, columns, form.source, extents.stride, lanes.proof * extents.rows)
    target = Table(mixed, folded, "planes", extents.folded_stride, lanes.proof * extents.positions)
    fold_challenges: list[Any] = []
    for ahead in range(form.folds):
        if form.by == "round":
            progress = Progress(f, challenges, sizes.batch, lanes.proof, sizes.log_instances)
            fold_challenges.append(progress.challenge(number + ahead))
        else:
            prover_state = StateMemory(f, challenges, lanes.proof, sizes)
            fold_challenges.append(prover_state.load(prover_state.across + number + ahead))
    shares = at_corners(f, f.carried(f.one()), fold_challenges)
    with k.range(lanes.first, extents.positions, lanes.step) as loop:
        row = loop.index if form.source == "planes" else k.load(taken, loop.index)[0]
        corners = [
            values.load(row, lanes.entry + lanes.count * corner)
            for corner in range(1 << form.folds)
        ]
        if form.folds == 0:
            result = mixed.embedded(corners[0])
        elif form.folds == 1:
            low, high = corners
            own_field = mixed.extended if mixed.is_extended(low) else mixed.base
            slope = own_field.carried(high - low)
            result = mixed.add(mixed.multiply(fold_challenges[0], slope), low)
        else:
            result = mixed.sum_of_products(list(zip(shares, corners, strict=True)))
        target.store(loop.index, lanes.entry, f.carried(result))
