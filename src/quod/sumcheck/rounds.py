"""The rounds on large tables: each pass over memory is for one or two rounds.

A pass folds the tables by the challenges of the previous pass. While the folded entries are in
registers, it evaluates the polynomials of its own rounds. Variable 0, the highest bit of an
entry's index, is bound first, so adjacent entries stay adjacent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.frozen import frozen
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.sumcheck.accumulators import Accumulator, Reduced, accumulator_for
from quod.sumcheck.eq_tables import Equality
from quod.sumcheck.memory import PointCoordinates, ProverState, TermCoefficients
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.shape import Shape
from quod.sumcheck.structs import InputTables, SumcheckSizes
from quod.sumcheck.summands import Summand, evaluated, polynomial_value, summands
from quod.sumcheck.tables import Folded, Inputs, fold_all
from quod.sumcheck.workgroup_sums import WorkgroupSums


@frozen
class PassForm:
    """The static parameters of the kernels of a pass.

    depth: the number of rounds that the pass evaluates.
    unrolled: entries per iteration of an instance; `unrolled` times the instances of a sumcheck
        divides the number of entries.
    in_blocks: the entries of a workgroup are contiguous, at most 2**log_low of them; otherwise
        consecutive entries go to consecutive instances of all workgroups.
    even: the workgroup size times `unrolled` divides the length of a block, so all instances have
        the same number of iterations.
    folds: the number of challenges by which the pass folds the tables first.
    from_inputs: the tables before the pass are the inputs.
    """

    shape: Shape
    depth: int
    unrolled: int
    in_blocks: bool
    even: bool = False
    folds: int = 0
    from_inputs: bool = True


@kernel
def evaluate_inputs(
    k: Builder,
    sizes: SumcheckSizes,
    groups_each: U32,
    inputs: InputTables,
    equality: Pointer[U32],
    partial: Pointer[U32],
    *,
    form: PassForm,
) -> None:
    """Write the partial sums of the first rounds' values, of `groups_each` workgroups per sumcheck.

    The index in `partial` is (sumcheck * values + value) * groups_each + workgroup; `values` is the
    length of `evaluated`.
    """
    trace = _Pass(k, form, sizes, groups_each, equality, partial)
    trace.begin(k.constant(0, sizes.log_size.type), form.depth)
    tables = Inputs(trace.mixed, form.shape, inputs, sizes, trace.sumcheck)
    count = trace.count

    def corners(table: int, index: Value) -> list[Any]:
        return [tables.load(table, index + count * corner) for corner in range(1 << form.depth)]

    trace.run(corners, form.unrolled)


@kernel
def fold_and_evaluate(
    k: Builder,
    sizes: SumcheckSizes,
    log_folded: U32,
    groups_each: U32,
    round_number: U32,
    inputs: InputTables,
    folded: Pointer[U32],
    progress: Pointer[U32],
    equality: Pointer[U32],
    partial: Pointer[U32],
    *,
    form: PassForm,
) -> None:
    """Fold the tables by the previous challenges; write the partial sums of the next values.

    The folded tables overwrite the previous ones in `folded`, at strides of 2**log_folded entries.
    The first fold reads the inputs. See `evaluate_inputs` for `partial`.
    """
    trace = _Pass(k, form, sizes, groups_each, equality, partial)
    trace.begin(round_number, form.depth)
    mixed, f, folds = trace.mixed, trace.mixed.extended, form.folds
    target = Folded(mixed, folded, sizes.batch, trace.sumcheck, log_folded)
    source = (
        Inputs(mixed, form.shape, inputs, sizes, trace.sumcheck) if form.from_inputs else target
    )
    sumcheck_progress = ProverState(f, progress, sizes.batch, trace.sumcheck, sizes.log_size)
    challenges = [
        sumcheck_progress.challenge(round_number - folds + number) for number in range(folds)
    ]
    count = trace.count

    def corners(table: int, index: Value) -> list[Any]:
        folded_values = []
        for corner in range(1 << form.depth):
            entries = [
                source.load(table, index + count * (corner + (block << form.depth)))
                for block in range(1 << folds)
            ]
            folded_values.append(fold_all(mixed, entries, challenges))
        for corner, element in enumerate(folded_values):
            target.store(table, index + count * corner, element)
        return folded_values

    trace.run(corners, form.unrolled)


@kernel
def sum_inputs(
    k: Builder,
    sizes: SumcheckSizes,
    groups_each: U32,
    inputs: InputTables,
    equality: Pointer[U32],
    partial: Pointer[U32],
    *,
    form: PassForm,
) -> None:
    """Write the partial sums of the sum over the hypercube, one value per sumcheck.

    See `evaluate_inputs` for `partial`.
    """
    trace = _Pass(k, form, sizes, groups_each, equality, partial)
    trace.begin(k.constant(0, sizes.log_size.type), 1, values=1)
    tables = Inputs(trace.mixed, form.shape, inputs, sizes, trace.sumcheck)
    trace.sum_hypercube(tables)


class _Pass:
    """The code that the kernels of passes share, while one of them is traced."""

    variables: Value
    count: Value

    def __init__(
        self, k: Builder, form: PassForm, sizes: SumcheckSizes, groups_each: Value,
        equality: Value, partial: Value,
    ) -> None:  # fmt: skip
        self.k, self._in_blocks, self._even = k, form.in_blocks, form.even
        self.shape = shape = form.shape
        self.mixed = MixedField(k, shape.field)
        self._log_size = log_size = sizes.log_size
        self._groups_each, self._partial = groups_each, partial
        self.sumcheck = k.workgroup_id() // groups_each
        self._group = k.workgroup_id() % groups_each
        f = self.mixed.extended
        self._weights = PointCoordinates(f, equality, self.sumcheck, log_size)
        self._eq = Equality(f, equality, sizes, self.sumcheck)
        self._scales = TermCoefficients.load(f, shape, equality, sizes, self.sumcheck)

    def begin(self, round_number: Value, depth: int, *, values: int | None = None) -> None:
        """Set the pass's first round, its depth and its number of values.

        Sets `variables`, the number of variables after these rounds, and `count` = 2**variables.
        """
        self._round, self._depth = round_number, depth
        self.variables = self._log_size - depth - round_number
        self.count = self.k.constant(1, self.variables.type) << self.variables
        self._values = len(evaluated(self.shape.degree, depth)) if values is None else values
        self._sums = WorkgroupSums(self.k, self.mixed.extended, self._values)

    def run(self, corners: Callable[[int, Value], list[Any]], unrolled: int) -> None:
        """Sum the values of the pass's rounds over all entries, and write the partial sums.

        corners: returns the entries of a table at the 2**depth hypercube points of the pass's
            variables, for one index of the remaining variables.
        """
        shape, at_one = self.shape, None
        if shape.has_point and self._depth == 1:
            at_one = self.mixed.extended.is_zero(self._weights.coordinate(self._round))

        def parts(indices: Sequence[tuple[Value, Any]]) -> list[Any]:
            items = [
                Summand([corners(table, index) for table in range(shape.tables)], weight)
                for index, weight in indices
            ]
            return summands(
                self.mixed, shape.polynomial, items, self._depth, self._scales, accumulator, at_one
            )

        accumulator = accumulator_for(self.mixed)
        self._add_up(unrolled, parts, accumulator)

    def sum_hypercube(self, tables: Inputs) -> None:
        """Sum the polynomial over the hypercube, and write the partial sums."""
        mixed, shape, half = self.mixed, self.shape, self.count
        coordinate = self._weights.coordinate(self._round) if shape.has_point else None

        def parts(indices: Sequence[tuple[Value, Any]]) -> list[Any]:
            ((index, eq_factor),) = indices
            low, high = (
                polynomial_value(
                    mixed,
                    shape.polynomial,
                    [tables.load(table, index + half * side) for table in range(shape.tables)],
                    self._scales,
                )
                for side in range(2)
            )
            if coordinate is None:
                return [mixed.add(low, high)]
            sum_over_variable = mixed.add(
                mixed.multiply(1 - coordinate, low), mixed.multiply(coordinate, high)
            )
            return [mixed.multiply(eq_factor, sum_over_variable)]

        self._add_up(1, parts, Reduced(mixed))

    def _add_up(
        self, unrolled: int, parts: Callable[[Sequence[tuple[Value, Any]]], list[Any]],
        accumulator: Accumulator,
    ) -> None:  # fmt: skip
        """Sum `parts` over all indices, weighted by eq of the remaining variables, to `partial`.

        `parts` receives `unrolled` indices at a time, each with one of the two factors of its eq
        weight. The other factor is constant in an instance, so it multiplies the instance's sum. It
        comes from the upper eq table with blocks, else from the lower one.
        """
        k, f = self.k, self.mixed.extended
        eq = self._eq if self.shape.has_point else None
        first_index, offset, end, stride = self._instance_indices()
        zeros = tuple(accumulator.zero() for _ in range(self._values))
        with k.range(first_index, end, stride * unrolled, carry=zeros) as loop:
            index = loop.index if offset is None else loop.index + offset
            indices = [index + stride * step for step in range(unrolled)]
            inner_factor = None if eq is None else eq.low if self._in_blocks else eq.high
            weights = [
                None if inner_factor is None else inner_factor(self.variables, index)
                for index in indices
            ]
            addends = parts(list(zip(indices, weights, strict=True)))
            loop.next(tuple(map(accumulator.added, loop.carried, addends)))
        totals = [accumulator.element(total) for total in loop.results]
        if eq is not None:
            outer_factor = (
                eq.high(self.variables, end - 1)
                if self._in_blocks
                else eq.low(self.variables, first_index)
            )
            totals = [total * outer_factor for total in totals]
        totals = self._sums.totals(totals)
        with k.if_(k.local_id() == 0):
            for value, total in enumerate(totals):
                partial_index = (
                    self.sumcheck * self._values + value
                ) * self._groups_each + self._group
                f.store(self._partial, partial_index, total)

    def _instance_indices(self) -> tuple[Value, Value | None, Value, Any]:
        """Return first index, offset or None, end and stride of an instance's indices.

        The first index with an offset is the same in the whole workgroup.
        """
        k = self.k
        if self._in_blocks:
            block = self.count // self._groups_each
            first = self._group * block
            if self._even:
                return first, k.local_id(), first + block, k.workgroup_size
            return first + k.local_id(), None, first + block, k.workgroup_size
        index = self._group * k.workgroup_size + k.local_id()
        return index, None, self.count, self._groups_each * k.workgroup_size
