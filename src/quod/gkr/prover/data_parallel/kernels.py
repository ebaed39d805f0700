"""Kernels over columns: values of layers, and the rounds of sumchecks over the instances.

A column has the values of one wire in all instances. A term is a product of values below a layer;
all gates with that product share the term. Its weight is the sum over these gates of coefficient
times weight of the output, so the weights contain the layer's linear maps. They do not depend on
the instance.
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
    bounded,
    power,
)
from quod.gkr.prover.state import StateMemory, StateSizes
from quod.gkr.reduction import degree_by_columns
from quod.kernel import U32, Builder, Pointer, Struct, kernel, u32
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability
from quod.layered.circuit import POWERS
from quod.sumcheck.eq_tables import Equality, scaled_eq_table
from quod.sumcheck.interpolation import INFINITY
from quod.sumcheck.memory import PointCoordinates, SumcheckProgress
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.structs import SumcheckSizes
from quod.sumcheck.summands import Point, pass_points, value_at
from quod.sumcheck.workgroup_sums import WorkgroupSums

_TERMS_PER_REDUCTION = 4
"""The number of products that share one modular reduction."""

Challenge = Literal["round", "point"]
"""The source of folding challenges: the sumcheck's rounds, or the point of the instances."""


@frozen
class TermForm:
    """The static parameters of the kernels over the terms of a layer.

    kinds: the kinds of the terms, which are kinds of gates.
    degree: the degree of the round polynomial.
    source: the representation of the columns.
    depth: the number of rounds that one pass evaluates.
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
    """The static parameters of the fold of columns.

    source: the representation of the columns.
    by: the source of the challenges.
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

    bounds: the terms of kind i are those from bounds[i] to bounds[i + 1].
    operands: two column indices per term; they are equal unless the term multiplies two wires.
    weights: `count` elements per proof.
    """

    count: U32
    bounds: Pointer[U32]
    operands: Pointer[U32]
    weights: Pointer[U32]


class FoldExtents(Struct):
    """The extents of a fold of columns.

    positions: the number of columns per proof after the fold.
    rows: the number of columns per proof before the fold.
    stride, folded_stride: entries from one column to the next, before and after the fold.
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
    """Compute the values of a layer from the values below it, `stride` entries per wire.

    stride_below: entries from one wire below to the next.
    chunks: see `Lanes`.
    """
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

    def gate_term(kind: str, *row: Value) -> Any:
        *inputs, code = row
        product = coefficients.load(code, lanes.proof, lanes.entry)
        for x in inputs:
            value = power(values_of, source.load(x, lanes.entry), POWERS.get(kind, 1))
            product = bounded(mixed, mixed.multiply(product, value))
        return product

    with k.range(lanes.first, size, lanes.step) as wires:
        wire = wires.index
        total = added_gates(mixed, f, form.kinds, gates, wire, size, gate_term)
        target.store(wire, lanes.entry, total)


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
    """Compute sums[i] for n terms of all proofs: the weight of a term.

    It is the sum over the term's gates of coefficient times weight of the output. The gates of a
    term are a run of pairs: an output and a coefficient's code.
    """
    coefficients = Coefficients(k, form, gates)
    mixed, f = coefficients.mixed, coefficients.mixed.extended
    i = k.global_id()
    with k.if_(i < n):
        proof, term = i // terms, i % terms
        start, end = k.load(gates.starts, term, 2)
        with k.range(start, end, 2, carry=f.bounded(f.zero())) as loop:
            output, code = k.load(gates.gates, loop.index, 2)
            weight = f.bounded(f.load(weights, (proof << log_size) + output))
            coefficient = coefficients.load(code, proof, k.constant(0, u32))
            loop.next(f.bounded(loop.carried + mixed.multiply(weight, coefficient)))
        f.store(sums, i, loop.results)


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

    rows: the number of columns per proof.
    stride: entries from one column to the next.
    """
    mixed = MixedField(k, form.field)
    f, points = mixed.extended, pass_points(form.degree, form.depth)
    sums = WorkgroupSums(k, f, len(points))
    variables = sizes.log_size - round_number - form.depth
    lanes = Lanes(k, variables, chunks, narrow=form.narrow)
    table = Table(mixed, columns, form.source, stride, lanes.proof * rows)
    # In a single round the first point is 1 instead of 0 if eq's coordinate is 0 (`RoundEnd`).
    coordinate = PointCoordinates(f, equality, lanes.proof, sizes.log_size).coordinate(round_number)
    first_at_one = f.is_zero(coordinate) if form.depth == 1 else None
    totals = [f.bounded(f.zero())] * len(points)

    def corners(row: Value) -> list[Any]:
        return [
            table.load(row, lanes.entry + lanes.count * corner) for corner in range(1 << form.depth)
        ]

    def value(kind: str, factors: Sequence[list[Any]], point: Point) -> Any:
        values = [value_at(mixed, point, factor, first_at_one) for factor in factors]
        fields = [
            mixed.extended if mixed.is_extended(factor_value) else mixed.base
            for factor_value in values
        ]
        values = [
            arithmetic.bounded(element) for arithmetic, element in zip(fields, values, strict=True)
        ]
        if kind == "multiply":
            return mixed.multiply(*values)
        exponent = POWERS.get(kind, 1)
        if exponent < 3 or not k.machine.has(Capability.VECTOR_LANES):
            return power(fields[0], values[0], exponent)

        def raised(_: Builder, base: Any) -> Any:
            return power(fields[0], base, exponent)

        # On CPUs a function, as its inline copies would take long to compile.
        return k.call(kind, raised, values[0], key=exponent)

    for kind_index, kind in enumerate(form.kinds):
        first_term, end_term = k.load(terms.bounds, kind_index, 2)
        # Terms of lower degree add nothing to the leading coefficient.
        has_full_degree = degree_by_columns(frozenset((kind,))) == form.degree
        point_indices = [
            index for index, point in enumerate(points) if has_full_degree or INFINITY not in point
        ]
        start = tuple(totals[index] for index in point_indices)
        with k.range(
            first_term + lanes.first, end_term, lanes.step * _TERMS_PER_REDUCTION, carry=start
        ) as loop:
            products: list[list[tuple[Any, Any]]] = [[] for _ in point_indices]
            for step in range(_TERMS_PER_REDUCTION):
                term = loop.index + lanes.step * step
                # Past the last term, load the first one with weight 0.
                exists = term < end_term
                term = k.select(exists, term, first_term)
                weight = f.bounded(f.load(terms.weights, lanes.proof * terms.count + term))
                weight = f.select(exists, weight, f.bounded(f.zero()))
                operand = k.load(terms.operands, term * 2, 2)
                operand_rows = operand if kind == "multiply" else operand[:1]
                factors = [corners(row) for row in operand_rows]
                for point_products, index in zip(products, point_indices, strict=True):
                    point_products.append((weight, value(kind, factors, points[index])))
            loop.next(
                tuple(
                    f.bounded(mixed.add(total, mixed.sum_of_products(point_products)))
                    for total, point_products in zip(loop.carried, products, strict=True)
                )
            )
        for index, total in zip(point_indices, loop.results, strict=True):
            totals[index] = total

    eq = Equality(f, equality, sizes, lanes.proof)
    eq_weight = f.bounded(eq.low(variables, lanes.entry) * eq.high(variables, lanes.entry))
    workgroup_totals = sums.totals([f.bounded(total * eq_weight) for total in totals])
    with k.if_(k.local_id() == 0):
        for index, total in enumerate(workgroup_totals):
            first = (lanes.proof * len(points) + index) * lanes.groups
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

    taken: the wires whose columns are folded, if the source is a layer's values.
    challenges: the buffer of `SumcheckProgress`, whose challenges from round `number` on are used,
        or of `StateLayout`, whose point of the instances is used from coordinate `number` on.
    """
    mixed = MixedField(k, form.field)
    f = mixed.extended
    lanes = Lanes(k, log_count, chunks, narrow=form.narrow)
    values = Table(mixed, columns, form.source, extents.stride, lanes.proof * extents.rows)
    target = Table(mixed, folded, "planes", extents.folded_stride, lanes.proof * extents.positions)
    fold_challenges: list[Any] = []
    for offset in range(form.folds):
        if form.by == "round":
            sumcheck_progress = SumcheckProgress(
                f, challenges, sizes.batch, lanes.proof, sizes.log_instances
            )
            fold_challenges.append(sumcheck_progress.challenge(number + offset))
        else:
            prover_state = StateMemory(f, challenges, lanes.proof, sizes)
            fold_challenges.append(prover_state.load(prover_state.instance_point + number + offset))
    eq_weights = scaled_eq_table(f, f.bounded(f.one()), fold_challenges)
    with k.range(lanes.first, extents.positions, lanes.step) as loop:
        row = loop.index if form.source == "planes" else k.load(taken, loop.index)[0]
        entries = [
            values.load(row, lanes.entry + lanes.count * corner)
            for corner in range(1 << form.folds)
        ]
        if form.folds == 0:
            result = mixed.embedded(entries[0])
        elif form.folds == 1:
            low, high = entries
            entry_field = mixed.extended if mixed.is_extended(low) else mixed.base
            slope = entry_field.bounded(high - low)
            result = mixed.add(mixed.multiply(fold_challenges[0], slope), low)
        else:
            result = mixed.sum_of_products(list(zip(eq_weights, entries, strict=True)))
        target.store(loop.index, lanes.entry, f.bounded(result))
