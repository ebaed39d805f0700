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
from quod.sumcheck.summands import Summand, evaluated, summands
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
    """Compute all rounds from `rounds_before` on, and the tables' values at the point.

    One workgroup a sumcheck. There is at least one round, on at most 2**log_capacity entries. With
    `in_place` there may be twice as many, which the first round reads twice in device memory: to
    evaluate them, and to fold them into shared memory.
    """
    last = FinalRounds(k, form, sizes, memory)
    shape, folds, log_size = form.shape, form.folds, sizes.log_size
    mixed, f, running, end, local = last.mixed, last.f, last.running, last.end, last.local
    sumcheck, lanes, one, progress = last.sumcheck, last.lanes, last.one, last.progress

    size = one << (log_size - rounds_before)
    tables = (
        Inputs(mixed, shape, inputs, sizes, sumcheck)
        if form.from_inputs
        else Folded(mixed, folded, sizes.batch, sumcheck, log_folded)
    )
    before = [progress.challenge(rounds_before - folds + number) for number in range(folds)]

    def input_entry(table: int, index: Value) -> Any:
        pieces = [tables.load(table, index + size * part) for part in range(1 << folds)]
        return fold_all(mixed, pieces, before)

    def round_of(number: Value, state: Words, claim: Any, entry: Entry) -> tuple[Words, Any]:
        """Run a round on entries of `entry`; stores the folded half in shared memory."""
        variables = log_size - 1 - number
        half = one << variables
        at_one = f.is_zero(last.weights.coordinate(number)) if shape.has_point else None
        start = tuple(running.zero() for _ in evaluated(shape.degree, 1))
        with k.range(local, half, lanes, carry=start) as loop:
            corners = [
                [entry(table, loop.index + half * side) for side in range(2)]
                for table in range(shape.tables)
            ]
            weight = last.eq.low(variables, loop.index) if shape.has_point else None
            items = [Summand(corners, weight)]
            parts = summands(
                mixed, shape.polynomial, items, 1, last.scales, running, at_one
            )  # fmt: skip
            loop.next(tuple(map(running.added, loop.carried, parts)))
        totals = last.sums.totals([running.element(total) for total in loop.results])
        # Every instance computes the message redundantly, and one stores it.
        coefficients = end.coefficients(totals, claim, last.weights, number)
        message = end.message(coefficients)
        state, challenge = end.absorbed(state, message)
        claim = f.carried(end.at(coefficients, challenge))
        with k.if_(local == 0):
            last.sent.set_message(number, message)
            progress.set_challenge(number, challenge)
        with k.range(local, half, lanes) as loop:
            for table in range(shape.tables):
                low, high = (entry(table, loop.index + half * side) for side in range(2))
                place = last.place(table, loop.index)
                f.store(last.shared, place, fold(mixed, low, high, challenge))
        k.barrier()
        return state, claim

    state, claim, first = progress.state(end.chain), progress.claim(), rounds_before
    if form.in_place:
        state, claim = round_of(rounds_before, state, claim, input_entry)
        first = rounds_before + 1
    else:
        with k.range(local, size, lanes) as loop:
            for table in range(shape.tables):
                place = last.place(table, loop.index)
                f.store(last.shared, place, mixed.embedded(input_entry(table, loop.index)))
        k.barrier()
    with k.range(first, log_size, carry=(state, claim)) as rounds:
        state, claim = rounds.carried
        rounds.next(round_of(rounds.index, state, claim, last.load))
    last.finish(*rounds.results)
