"""The rounds on large tables, one pass over memory for each one or two of them.

A pass folds the tables by the challenges of the rounds before it, and evaluates what it has folded,
in registers, for the rounds ahead. Variable 0, the highest bit of an entry's index, is bound first,
so that neighbours in memory stay neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.frozen import frozen
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.sumcheck.accumulators import Reduced, Running, running_sum
from quod.sumcheck.eq_tables import Equality
from quod.sumcheck.memory import Progress, Scales, Weights
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.shape import Shape
from quod.sumcheck.structs import InputTables, SumcheckSizes
from quod.sumcheck.summands import Summand, evaluated, polynomial_value, summands
from quod.sumcheck.tables import Folded, Inputs, fold_all
from quod.sumcheck.workgroup_sums import WorkgroupSums


@frozen
class PassForm:
    """The static part of the kernels of a pass, which is for `depth` rounds.

    `unrolled` entries are taken at a time, and so many times all instances divide them. `in_blocks`
    says that those of a workgroup are neighbours, at most 2**log_low; else all workgroups go over
    the entries side by side. With `even` its instances divide such a block, and count alike. The
    tables before the pass are folded by the challenges of `folds` rounds; `from_inputs` says that
    they are the inputs.
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
    """The parts of the first rounds' values, of `groups_each` workgroups a sumcheck.

    partial[(sumcheck * values + value) * groups_each + workgroup].
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
    """Folds by the challenges of the rounds before; gives parts of the values from there.

    Folded tables replace those before in `folded`, in places of 2**log_folded entries; those before
    the first fold are the inputs. The rest as in `evaluate_inputs`.
    """
    trace = _Pass(k, form, sizes, groups_each, equality, partial)
    trace.begin(round_number, form.depth)
    mixed, f, folds = trace.mixed, trace.mixed.extended, form.folds
    after = Folded(mixed, folded, sizes.batch, trace.sumcheck, log_folded)
    before = Inputs(mixed, form.shape, inputs, sizes, trace.sumcheck) if form.from_inputs else after
    sumcheck_progress = Progress(f, progress, sizes.batch, trace.sumcheck, sizes.log_size)
    challenges = [
        sumcheck_progress.challenge(round_number - folds + number) for number in range(folds)
    ]
    count = trace.count

    def corners(table: int, index: Value) -> list[Any]:
        folded_values = []
        for corner in range(1 << form.depth):
            pieces = [
                before.load(table, index + count * (corner + (piece << form.depth)))
                for piece in range(1 << folds)
            ]
            folded_values.append(fold_all(mixed, pieces, challenges))
        for corner, element in enumerate(folded_values):
            after.store(table, index + count * corner, element)
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
    """The parts of the whole sums; as `evaluate_inputs`, with one value a sumcheck."""
    trace = _Pass(k, form, sizes, groups_each, equality, partial)
    trace.begin(k.constant(0, sizes.log_size.type), 1, values=1)
    tables = Inputs(trace.mixed, form.shape, inputs, sizes, trace.sumcheck)
    trace.run_whole(tables)


class _Pass:
    """The trace of one kernel of a pass."""

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
        self._weights = Weights(f, equality, self.sumcheck, log_size)
        self._eq = Equality(f, equality, sizes, self.sumcheck)
        self._scales = Scales.of_terms(f, shape, equality, sizes, self.sumcheck)

    def begin(self, round_number: Value, depth: int, *, values: int | None = None) -> None:
        """Set the pass's first round, its depth and its number of values.

        Sets `variables`, those left after these rounds, and `count` = 2**variables.
        """
        self._round, self._depth = round_number, depth
        self.variables = self._log_size - depth - round_number
        self.count = self.k.constant(1, self.variables.type) << self.variables
        self._values = len(evaluated(self.shape.degree, depth)) if values is None else values
        self._sums = WorkgroupSums(self.k, self.mixed.extended, self._values)

    def run(self, corners: Callable[[int, Value], list[Any]], unrolled: int) -> None:
        """Add the summands of all entries; `corners` returns a table's entries for one index."""
        shape, at_one = self.shape, None
        if shape.has_point and self._depth == 1:
            at_one = self.mixed.extended.is_zero(self._weights.coordinate(self._round))

        def parts(indices: Sequence[tuple[Value, Any]]) -> list[Any]:
            items = [
                Summand([corners(table, at) for table in range(shape.tables)], weight)
                for at, weight in indices
            ]
            return summands(
                self.mixed, shape.polynomial, items, self._depth, self._scales, running, at_one
            )

        running = running_sum(self.mixed)
        self._add_up(unrolled, parts, running)

    def run_whole(self, tables: Inputs) -> None:
        """Sum the polynomial itself."""
        mixed, shape, half = self.mixed, self.shape, self.count
        weight = self._weights.coordinate(self._round) if shape.has_point else None

        def parts(indices: Sequence[tuple[Value, Any]]) -> list[Any]:
            ((index, upper),) = indices
            low, high = (
                polynomial_value(
                    mixed,
                    shape.polynomial,
                    [tables.load(table, index + half * side) for table in range(shape.tables)],
                    self._scales,
                )
                for side in range(2)
            )
            if weight is None:
                return [mixed.add(low, high)]
            both = mixed.add(mixed.multiply(1 - weight, low), mixed.multiply(weight, high))
            return [mixed.multiply(upper, both)]

        self._add_up(1, parts, Reduced(mixed))

    def _add_up(
        self, unrolled: int, parts: Callable[[Sequence[tuple[Value, Any]]], list[Any]],
        running: Running,
    ) -> None:  # fmt: skip
        """Sum `parts` over all indices, weighted by eq of the remaining variables, to `partial`.

        `parts` receives `unrolled` indices at a time, each with one factor of its weight. The other
        factor is constant in an instance: the upper one in blocks, else the lower one.
        """
        k, f = self.k, self.mixed.extended
        eq = self._eq if self.shape.has_point else None
        first_index, offset, end, stride = self._own_indices()
        start = tuple(running.zero() for _ in range(self._values))
        with k.range(first_index, end, stride * unrolled, carry=start) as loop:
            index = loop.index if offset is None else loop.index + offset
            indices = [index + stride * step for step in range(unrolled)]
            inner = None if eq is None else eq.low if self._in_blocks else eq.high
            weights = [None if inner is None else inner(self.variables, index) for index in indices]
            addends = parts(list(zip(indices, weights, strict=True)))
            loop.next(tuple(map(running.added, loop.carried, addends)))
        totals = [running.element(total) for total in loop.results]
        if eq is not None:
            outer = (
                eq.high(self.variables, end - 1)
                if self._in_blocks
                else eq.low(self.variables, first_index)
            )
            totals = [total * outer for total in totals]
        totals = self._sums.totals(totals)
        with k.if_(k.local_id() == 0):
            for value, total in enumerate(totals):
                place = (self.sumcheck * self._values + value) * self._groups_each + self._group
                f.store(self._partial, place, total)

    def _own_indices(self) -> tuple[Value, Value | None, Value, Any]:
        """Return first index, offset or None, end and stride of an instance's indices.

        With an offset the first index is the same for the whole workgroup.
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
