"""The rounds on large tables: each pass over memory is for one or two rounds.

A pass folds the tables by the challenges of the previous pass. While the folded entries are in
registers, it evaluates the polynomials of its own rounds. Variable 0, the highest bit of an
entry's index, is bound first, so adjacent entries stay adjacent. The kernel instances of a
sumcheck divide the indices in the remaining variables; at each index a pass reads 2**(depth +
folds) entries of every table. `quod.sumcheck.memory` describes the buffers, such as `equality`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.frozen import frozen
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.sumcheck.accumulators import Accumulator, Reduced, accumulator_for
from quod.sumcheck.eq_tables import Equality
from quod.sumcheck.memory import PointCoordinates, SumcheckProgress, TermScales
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.shape import Shape
from quod.sumcheck.structs import InputTables, SumcheckSizes
from quod.sumcheck.summands import Summand, pass_points, polynomial_value, summands
from quod.sumcheck.tables import Folded, Inputs, fold_all
from quod.sumcheck.workgroup_sums import WorkgroupSums

_RESIDENT_LANES = 512
"""The instances of passes over short fields that should be resident on a multiprocessor."""


@frozen
class PassForm:
    """The static parameters of the kernels of a pass.

    depth: the number of rounds that the pass evaluates.
    unrolled: indices per iteration of an instance; if above 1, `unrolled` times the number of
        instances of a sumcheck divides the number of indices.
    in_blocks: the indices of a workgroup are a contiguous block; if there is a point, at most
        2**`SumcheckSizes.log_low` of them. Otherwise consecutive indices go to consecutive
        instances of all workgroups.
    equal_iterations: the workgroup size times `unrolled` divides the length of a block, so all
        instances have the same number of iterations.
    folds: the number of challenges by which the pass folds the tables first.
    from_inputs: the tables before the pass are the inputs.
    """

    shape: Shape
    depth: int
    unrolled: int
    in_blocks: bool
    equal_iterations: bool = False
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

    The values are those of the rounds' polynomials at `pass_points`. The index in `partial` is
    (sumcheck * number of points + point) * groups_each + workgroup.
    """
    pass_ = _Pass(k, form, sizes, groups_each, equality, partial)
    pass_.begin(k.constant(0, sizes.log_size.type), form.depth)
    tables = Inputs(pass_.mixed, form.shape, inputs, sizes, pass_.sumcheck)
    count = pass_.count

    def corners(table: int, index: Value) -> list[Any]:
        return [tables.load(table, index + count * corner) for corner in range(1 << form.depth)]

    pass_.run(corners, form.unrolled)


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
    """Fold the tables by the previous challenges; write the partial sums of the pass's values.

    The folded tables overwrite the previous ones in `folded`, at strides of 2**log_folded entries.
    The first fold reads the inputs. See `evaluate_inputs` for `partial`.
    """
    pass_ = _Pass(k, form, sizes, groups_each, equality, partial)
    pass_.begin(round_number, form.depth)
    mixed, f, folds = pass_.mixed, pass_.mixed.extended, form.folds
    target = Folded(mixed, folded, sizes.batch, pass_.sumcheck, log_folded)
    source = (
        Inputs(mixed, form.shape, inputs, sizes, pass_.sumcheck) if form.from_inputs else target
    )
    sumcheck_progress = SumcheckProgress(f, progress, sizes.batch, pass_.sumcheck, sizes.log_size)
    challenges = [
        sumcheck_progress.challenge(round_number - folds + number) for number in range(folds)
    ]
    count = pass_.count

    def corners(table: int, index: Value) -> list[Any]:
        folded_values = []
        for corner in range(1 << form.depth):
            entries = [
                source.load(table, index + count * (corner + (folded_corner << form.depth)))
                for folded_corner in range(1 << folds)
            ]
            folded_values.append(fold_all(mixed, entries, challenges))
        for corner, element in enumerate(folded_values):
            target.store(table, index + count * corner, element)
        return folded_values

    pass_.run(corners, form.unrolled)


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
    pass_ = _Pass(k, form, sizes, groups_each, equality, partial)
    pass_.begin(k.constant(0, sizes.log_size.type), 1, value_count=1)
    tables = Inputs(pass_.mixed, form.shape, inputs, sizes, pass_.sumcheck)
    pass_.sum_hypercube(tables)


class _Pass:
    """A pass while its kernel is traced: the code that the kernels of passes share."""

    variables: Value
    count: Value

    def __init__(
        self, k: Builder, form: PassForm, sizes: SumcheckSizes, groups_each: Value,
        equality: Value, partial: Value,
    ) -> None:  # fmt: skip
        self.k, self._in_blocks, self._equal_iterations = k, form.in_blocks, form.equal_iterations
        self.shape = shape = form.shape
        if shape.field.modulus.bits <= 64 and k.workgroup_size < _RESIDENT_LANES:
            # 128 registers suffice for the products of such fields: without the hint kernels take
            # up to 194, and half as many workgroups are resident.
            k.resident_workgroups(_RESIDENT_LANES // k.workgroup_size)
        self.mixed = MixedField(k, shape.field)
        self._log_size = log_size = sizes.log_size
        self._groups_each, self._partial = groups_each, partial
        self.sumcheck = k.workgroup_id() // groups_each
        self._group = k.workgroup_id() % groups_each
        f = self.mixed.extended
        self._point = PointCoordinates(f, equality, self.sumcheck, log_size)
        self._eq = Equality(f, equality, sizes, self.sumcheck)
        self._scales = TermScales.load(f, shape, equality, sizes, self.sumcheck)

    def begin(self, round_number: Value, depth: int, *, value_count: int | None = None) -> None:
        """Set the pass's first round, its depth and its number of values.

        Sets `variables`, the number of variables after these rounds, and `count` = 2**variables,
        the number of indices.
        """
        self._round, self._depth = round_number, depth
        self.variables = self._log_size - depth - round_number
        self.count = self.k.constant(1, self.variables.type) << self.variables
        if value_count is None:
            value_count = len(pass_points(self.shape.degree, depth))
        self._value_count = value_count
        self._sums = WorkgroupSums(self.k, self.mixed.extended, self._value_count)

    def run(self, corners: Callable[[int, Value], list[Any]], unrolled: int) -> None:
        """Sum the values of the pass's rounds over all indices, and write the partial sums.

        corners: returns the entries of a table at the 2**depth hypercube points of the pass's
            variables, for one index of the remaining variables.
        """
        shape, first_at_one = self.shape, None
        if shape.has_point and self._depth == 1:
            # If eq's coordinate is 0, the claim is the value at 0 (`RoundEnd.coefficients`).
            first_at_one = self.mixed.extended.is_zero(self._point.coordinate(self._round))

        def addends_of(indices: Sequence[tuple[Value, Any]]) -> list[Any]:
            items = [
                Summand([corners(table, index) for table in range(shape.tables)], weight)
                for index, weight in indices
            ]
            return summands(
                self.mixed,
                shape.polynomial,
                items,
                self._depth,
                self._scales,
                accumulator,
                first_at_one,
            )

        accumulator = accumulator_for(self.mixed)
        self._add_up(unrolled, addends_of, accumulator)

    def sum_hypercube(self, tables: Inputs) -> None:
        """Sum the polynomial over the hypercube, and write the partial sums."""
        mixed, shape, half = self.mixed, self.shape, self.count
        coordinate = self._point.coordinate(self._round) if shape.has_point else None

        def addends_of(indices: Sequence[tuple[Value, Any]]) -> list[Any]:
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

        self._add_up(1, addends_of, Reduced(mixed))

    def _add_up(
        self, unrolled: int, addends_of: Callable[[Sequence[tuple[Value, Any]]], list[Any]],
        accumulator: Accumulator,
    ) -> None:  # fmt: skip
        """Sum over all indices, weighted by eq, and write the workgroup's sums to `partial`.

        addends_of: returns the sums of each value over `unrolled` indices. It receives each index
            with a factor of its eq weight, from the low eq table with blocks, else from the high
            one. The factor from the other table is the same for all indices of an instance, so it
            multiplies the instance's sums.
        """
        k, f = self.k, self.mixed.extended
        eq = self._eq if self.shape.has_point else None
        first_index, offset, end, stride = self._instance_indices()
        zeros = tuple(accumulator.zero() for _ in range(self._value_count))
        with k.range(first_index, end, stride * unrolled, carry=zeros) as loop:
            index = loop.index if offset is None else loop.index + offset
            indices = [index + stride * step for step in range(unrolled)]
            inner_factor = None if eq is None else eq.low if self._in_blocks else eq.high
            weights = [
                None if inner_factor is None else inner_factor(self.variables, index)
                for index in indices
            ]
            addends = addends_of(list(zip(indices, weights, strict=True)))
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
            for value_index, total in enumerate(totals):
                partial_index = (
                    self.sumcheck * self._value_count + value_index
                ) * self._groups_each + self._group
                f.store(self._partial, partial_index, total)

    def _instance_indices(self) -> tuple[Value, Value | None, Value, Any]:
        """Return first index, offset or None, end and stride of an instance's indices.

        With an offset, to be added to each index, the first index is uniform in the workgroup.
        """
        k = self.k
        if self._in_blocks:
            block = self.count // self._groups_each
            first = self._group * block
            if self._equal_iterations:
                return first, k.local_id(), first + block, k.workgroup_size
            return first + k.local_id(), None, first + block, k.workgroup_size
        index = self._group * k.workgroup_size + k.local_id()
        return index, None, self.count, self._groups_each * k.workgroup_size
