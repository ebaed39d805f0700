"""The final rounds of a sumcheck in one workgroup, with its tables in shared memory.

Each round waits only for the hash of the round before, not for the host or another launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quod.hash.words import Words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.sumcheck.final_rounds import FinalForm, FinalRounds
from quod.sumcheck.structs import InputTables, SumcheckMemory, SumcheckSizes
from quod.sumcheck.summands import Summand, pass_points, summands
from quod.sumcheck.tables import Folded, Inputs, fold, fold_all

Entry = Callable[[int, Value], Any]
"""A function that loads an entry of a table by its index."""


@kernel
def finish_sumcheck(
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

    One workgroup runs each sumcheck. There is at least one round, on at most 2**log_capacity
    entries of each table. With `in_place` the first round may have twice as many. It then reads
    them twice in device memory: to evaluate them, and to fold them into shared memory.
    """
    final = FinalRounds(k, form, sizes, memory)
    shape, folds, log_size = form.shape, form.folds, sizes.log_size
    mixed, f, accumulator, end, local = (
        final.mixed,
        final.f,
        final.accumulator,
        final.end,
        final.local,
    )
    sumcheck, lanes, one, progress = final.sumcheck, final.lanes, final.one, final.progress

    size = one << (log_size - rounds_before)
    tables = (
        Inputs(mixed, shape, inputs, sizes, sumcheck)
        if form.from_inputs
        else Folded(mixed, folded, sizes.batch, sumcheck, log_folded)
    )
    pending = [progress.challenge(rounds_before - folds + number) for number in range(folds)]

    def input_entry(table: int, index: Value) -> Any:
        entries = [
            tables.load(table, index + size * folded_corner) for folded_corner in range(1 << folds)
        ]
        return fold_all(mixed, entries, pending)

    def run_round(round_number: Value, state: Words, claim: Any, entry: Entry) -> tuple[Words, Any]:
        """Run a round on the entries that `entry` loads; store the folded half in shared memory.

        Returns the transcript's state and the next claim. All instances must call this: it has
        barriers.
        """
        variables = log_size - 1 - round_number
        half = one << variables
        first_at_one = f.is_zero(final.point.coordinate(round_number)) if shape.has_point else None
        start = tuple(accumulator.zero() for _ in pass_points(shape.degree, 1))
        with k.range(local, half, lanes, carry=start) as loop:
            corners = [
                [entry(table, loop.index + half * side) for side in range(2)]
                for table in range(shape.tables)
            ]
            weight = final.eq.low(variables, loop.index) if shape.has_point else None
            items = [Summand(corners, weight)]
            parts = summands(
                mixed, shape.polynomial, items, 1, final.scales, accumulator, first_at_one
            )  # fmt: skip
            loop.next(tuple(map(accumulator.added, loop.carried, parts)))
        totals = final.sums.totals([accumulator.element(total) for total in loop.results])
        # Every instance computes the message, and one stores it.
        coefficients = end.coefficients(totals, claim, final.point, round_number)
        message = end.message(coefficients)
        state, challenge = end.absorbed(state, message)
        claim = f.bounded(end.at(coefficients, challenge))
        with k.if_(local == 0):
            final.sent.set_message(round_number, message)
            progress.set_challenge(round_number, challenge)
        with k.range(local, half, lanes) as loop:
            for table in range(shape.tables):
                low, high = (entry(table, loop.index + half * side) for side in range(2))
                position = final.place(table, loop.index)
                f.store(final.shared, position, fold(mixed, low, high, challenge))
        k.barrier()
        return state, claim

    state, claim, first_round = progress.state(end.chain), progress.claim(), rounds_before
    if form.in_place:
        state, claim = run_round(rounds_before, state, claim, input_entry)
        first_round = rounds_before + 1
    else:
        with k.range(local, size, lanes) as loop:
            for table in range(shape.tables):
                position = final.place(table, loop.index)
                f.store(final.shared, position, mixed.embedded(input_entry(table, loop.index)))
        k.barrier()
    with k.range(first_round, log_size, carry=(state, claim)) as rounds:
        state, claim = rounds.carried
        rounds.next(run_round(rounds.index, state, claim, final.load))
    final.finish(*rounds.results)
