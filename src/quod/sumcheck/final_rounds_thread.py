"""The final rounds of a sumcheck, or all of them, on one CPU core.

A single core has the tables in its cache and waits for no other core. Like the passes over large
tables, it evaluates folded entries while they are in registers.

Arithmetic of extensions and of primes above 64 bits is in functions: it appears three times, and
LLVM's time rises with the square of the length of a block of vector products
(docs/design/runtime.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.hash.words import Words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.sumcheck.final_rounds import FinalForm, FinalRounds
from quod.sumcheck.final_rounds_workgroup import Entry
from quod.sumcheck.structs import InputTables, SumcheckMemory, SumcheckSizes
from quod.sumcheck.summands import Summand, pass_points, summands
from quod.sumcheck.tables import Folded, Inputs, fold, fold_all


@kernel
def finish_alone(
    k: Builder,
    sizes: SumcheckSizes,
    log_folded: U32,
    rounds_before: U32,
    inputs: InputTables,
    folded: Pointer[U32],
    memory: SumcheckMemory,
    *,
    form: FinalForm,
) -> None:
    """Compute all rounds from `rounds_before` on, and the tables' values at the challenge point.

    One workgroup runs each sumcheck. A challenge is pending if the tables are not folded by it yet.
    Without pending challenges (`folds` is 0) the first round evaluates and folds the inputs. Folded
    tables have at most 2**log_capacity entries.
    """
    shape, folds, log_size = form.shape, form.folds, sizes.log_size
    size = k.constant(1, log_size.type) << (log_size - rounds_before)
    # The first fold stores this many entries of each table. Small tables are adjacent, although the
    # kernel has memory for the largest ones.
    stored_count = size if folds else size >> 1
    final = FinalRounds(k, form, sizes, memory, stride=stored_count)
    mixed, f, accumulator, point = final.mixed, final.f, final.accumulator, final.point
    end, local, lanes, progress, one = (
        final.end,
        final.local,
        final.lanes,
        final.progress,
        final.one,
    )
    tables = (
        Inputs(mixed, shape, inputs, sizes, final.sumcheck)
        if form.from_inputs
        else Folded(mixed, folded, sizes.batch, final.sumcheck, log_folded)
    )
    pending = [progress.challenge(rounds_before - folds + number) for number in range(folds)]

    is_inline = shape.field.degree == 1 and shape.field.modulus.bits <= 64

    def fold_pair(_: Builder, low: Any, high: Any, challenge: Any) -> Any:
        return f.bounded(fold(mixed, low, high, challenge))

    def add_summand(
        _: Builder, totals: Sequence[Any], corners: list[list[Any]], weight: Any, first_at_one: Any,
        scales: Sequence[Any],
    ) -> list[Any]:  # fmt: skip
        item = Summand(corners, weight)
        parts = summands(mixed, shape.polynomial, [item], 1, scales, accumulator, first_at_one)
        return list(map(accumulator.added, totals, parts))

    def input_entry(table: int, index: Value) -> Any:
        """Load an entry from device memory, folded by all pending challenges but the last one."""
        challenges = pending[:-1]
        # There are twice as many entries before the last fold.
        stride = size << min(folds, 1)
        entries = [
            tables.load(table, index + stride * folded_corner)
            for folded_corner in range(1 << len(challenges))
        ]
        return fold_all(mixed, entries, challenges)

    def add_entries(
        totals: Sequence[Any],
        corners: list[list[Any]],
        round_number: Value,
        variables: Value,
        index: Value,
    ) -> tuple[Any, ...]:
        """Add the entries at one index to a round's sums."""
        weight, first_at_one = None, None
        if shape.has_point:
            weight, first_at_one = (
                final.eq.low(variables, index),
                f.is_zero(point.coordinate(round_number)),
            )
        arguments = (totals, corners, weight, first_at_one, final.scales)
        return tuple(k.call("add_summand", add_summand, *arguments, inline=is_inline))

    def workgroup_sums(results: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            map(f.bounded, final.sums.totals([accumulator.element(total) for total in results]))
        )

    def sum_over(count: Value, add: Callable[[Sequence[Any], Value], tuple[Any, ...]]) -> list[Any]:
        """Run `add` for this instance's indices below a count, and return its sums.

        For fields of one word masks take a third of the time, so full vectors are handled without.
        """
        full_count, sums = k.constant(0, count.type), zeros
        if lanes > 1 and shape.field.degree == 1 and shape.field.modulus.bits <= 64:
            full_count = count // lanes * lanes
            with k.range(0, full_count, lanes, carry=zeros) as loop:
                loop.next(add(loop.carried, loop.index + local))
            sums = tuple(loop.results)
        with k.range(full_count + local, count, lanes, carry=sums) as loop:
            loop.next(add(loop.carried, loop.index))
        return list(loop.results)

    zeros = tuple(accumulator.zero() for _ in pass_points(shape.degree, 1))

    def evaluate(round_number: Value, entry: Entry) -> tuple[Any, ...]:
        """Return the values of a round's polynomial at `pass_points`, without changing tables."""
        variables = log_size - 1 - round_number
        half = one << variables

        def add(totals: Sequence[Any], index: Value) -> tuple[Any, ...]:
            corners = [
                [entry(table, index + half * side) for side in range(2)]
                for table in range(shape.tables)
            ]
            return add_entries(totals, corners, round_number, variables, index)

        return workgroup_sums(sum_over(half, add))

    def fold_and_evaluate(
        round_number: Value, entry: Entry, count: Value, challenge: Any
    ) -> tuple[Any, ...]:
        """Fold 2 * count entries into shared memory; return the values of round `round_number`.

        All instances must call this: it has barriers.
        """

        def folded_at(table: int, index: Value) -> Any:
            low, high = (entry(table, index + count * side) for side in range(2))
            return k.call("fold", fold_pair, low, high, challenge, inline=is_inline)

        half, variables = count >> 1, log_size - 1 - round_number

        def add(totals: Sequence[Any], index: Value) -> tuple[Any, ...]:
            indices = [index, index + half]
            corners = [
                [folded_at(table, position) for position in indices]
                for table in range(shape.tables)
            ]
            for table, pair in enumerate(corners):
                for position, element in zip(indices, pair, strict=True):
                    final.store(table, position, element)
            return add_entries(totals, corners, round_number, variables, index)

        results = sum_over(half, add)
        with k.if_((count == 1) & (local == 0)):
            for table in range(shape.tables):
                final.store(table, local, folded_at(table, local))
        k.barrier()
        return workgroup_sums(results)

    def end_round(
        round_number: Value, state: Words, claim: Any, totals: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Store a round's message; return the transcript's state, the claim and the challenge."""
        coefficients = end.coefficients(totals, claim, point, round_number)
        message = end.message(coefficients)
        state, challenge = end.absorbed(state, message)
        with k.if_(local == 0):
            final.sent.set_message(round_number, message)
            progress.set_challenge(round_number, challenge)
        return state, f.bounded(end.at(coefficients, challenge)), challenge

    state, claim, first_round, count = (
        progress.state(end.chain),
        progress.claim(),
        rounds_before,
        size,
    )
    if folds:
        challenge = pending[-1]
    else:
        state, claim, challenge = end_round(
            first_round, state, claim, evaluate(first_round, input_entry)
        )
        first_round, count = first_round + 1, stored_count
    totals = fold_and_evaluate(first_round, input_entry, count, challenge)
    with k.range(first_round, log_size, carry=(state, claim, totals)) as rounds:
        state, claim, totals = rounds.carried
        state, claim, challenge = end_round(rounds.index, state, claim, totals)
        count = one << (log_size - 1 - rounds.index)
        rounds.next(
            (state, claim, fold_and_evaluate(rounds.index + 1, final.load, count, challenge))
        )
    state, claim, _ = rounds.results
    final.finish(state, claim)
