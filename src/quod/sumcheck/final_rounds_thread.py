"""The final rounds of a sumcheck, or all of them, on one CPU core.

A single core has the tables in its cache and waits for no other core. Like the passes over large
tables, it evaluates folded entries while they are in registers.

Arithmetic of extensions is in functions: it appears three times, and LLVM's time rises with the
square of the length of a block of vector products (docs/design/runtime.md).
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
from quod.sumcheck.summands import Summand, evaluated, summands
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
    """Compute all rounds from `rounds_before` on, and the tables' values at the point.

    One workgroup a sumcheck. If no challenges are pending (`folds` is 0), the first round evaluates
    and folds the inputs. Folded tables have at most 2**log_capacity entries.
    """
    last = FinalRounds(k, form, sizes, memory)
    shape, folds, log_size = form.shape, form.folds, sizes.log_size
    mixed, f, running, weights = last.mixed, last.f, last.running, last.weights
    end, local, lanes, progress, one = last.end, last.local, last.lanes, last.progress, last.one
    tables = (
        Inputs(mixed, shape, inputs, sizes, last.sumcheck)
        if form.from_inputs
        else Folded(mixed, folded, sizes.batch, last.sumcheck, log_folded)
    )
    before = [progress.challenge(rounds_before - folds + number) for number in range(folds)]
    size = one << (log_size - rounds_before)

    inline = shape.field.degree == 1

    def fold_pair(_: Builder, low: Any, high: Any, challenge: Any) -> Any:
        return f.carried(fold(mixed, low, high, challenge))

    def add_summand(
        _: Builder, totals: Sequence[Any], corners: list[list[Any]], weight: Any, at_one: Any,
        scales: Sequence[Any],
    ) -> list[Any]:  # fmt: skip
        item = Summand(corners, weight)
        parts = summands(mixed, shape.polynomial, [item], 1, scales, running, at_one)
        return list(map(running.added, totals, parts))

    def input_entry(table: int, index: Value) -> Any:
        """Load an entry from device memory, folded by all pending challenges but the last."""
        early = before[:-1]
        # There are twice as many entries before the last fold.
        own_size = size << min(folds, 1)
        pieces = [tables.load(table, index + own_size * part) for part in range(1 << len(early))]
        return fold_all(mixed, pieces, early)

    def added(
        totals: Sequence[Any],
        corners: list[list[Any]],
        number: Value,
        variables: Value,
        index: Value,
    ) -> tuple[Any, ...]:
        """Add the entries at one index to a round's sums."""
        weight, at_one = None, None
        if shape.has_point:
            weight, at_one = last.eq.low(variables, index), f.is_zero(weights.coordinate(number))
        arguments = (totals, corners, weight, at_one, last.scales)
        return tuple(k.call("add_summand", add_summand, *arguments, inline=inline))

    def values(results: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            map(f.carried, last.sums.totals([running.element(total) for total in results]))
        )

    def over(count: Value, add: Callable[[Sequence[Any], Value], tuple[Any, ...]]) -> list[Any]:
        """Run `add` for all indices below a count, and return the sums.

        Full vectors are handled without masks, which take a third of the time for one-word fields.
        """
        full, sums = k.constant(0, count.type), nothing
        if lanes > 1 and shape.field.degree == 1 and shape.field.modulus.bits <= 64:
            full = count // lanes * lanes
            with k.range(0, full, lanes, carry=nothing) as loop:
                loop.next(add(loop.carried, loop.index + local))
            sums = tuple(loop.results)
        with k.range(full + local, count, lanes, carry=sums) as loop:
            loop.next(add(loop.carried, loop.index))
        return list(loop.results)

    nothing = tuple(running.zero() for _ in evaluated(shape.degree, 1))

    def evaluate(number: Value, entry: Entry) -> tuple[Any, ...]:
        """Return a round's values without folding the entries."""
        variables = log_size - 1 - number
        half = one << variables

        def add(totals: Sequence[Any], index: Value) -> tuple[Any, ...]:
            corners = [
                [entry(table, index + half * side) for side in range(2)]
                for table in range(shape.tables)
            ]
            return added(totals, corners, number, variables, index)

        return values(over(half, add))

    def fold_and_evaluate(
        number: Value, entry: Entry, count: Value, challenge: Any
    ) -> tuple[Any, ...]:
        """Fold 2 * count entries into shared memory; return the values of round `number`."""

        def folded_at(table: int, index: Value) -> Any:
            low, high = (entry(table, index + count * side) for side in range(2))
            return k.call("fold", fold_pair, low, high, challenge, inline=inline)

        half, variables = count >> 1, log_size - 1 - number

        def add(totals: Sequence[Any], index: Value) -> tuple[Any, ...]:
            places = [index, index + half]
            corners = [[folded_at(table, at) for at in places] for table in range(shape.tables)]
            for table, pair in enumerate(corners):
                for at, element in zip(places, pair, strict=True):
                    last.store(table, at, element)
            return added(totals, corners, number, variables, index)

        results = over(half, add)
        with k.if_((count == 1) & (local == 0)):
            for table in range(shape.tables):
                last.store(table, local, folded_at(table, local))
        k.barrier()
        return values(results)

    def ended(number: Value, state: Words, claim: Any, totals: Sequence[Any]) -> tuple[Any, ...]:
        """End a round; return the transcript's state, the claim and the challenge."""
        coefficients = end.coefficients(totals, claim, weights, number)
        message = end.message(coefficients)
        state, challenge = end.absorbed(state, message)
        with k.if_(local == 0):
            last.sent.set_message(number, message)
            progress.set_challenge(number, challenge)
        return state, f.carried(end.at(coefficients, challenge)), challenge

    state, claim, first, count = progress.state(end.chain), progress.claim(), rounds_before, size
    if folds:
        challenge = before[-1]
    else:
        state, claim, challenge = ended(first, state, claim, evaluate(first, input_entry))
        first, count = first + 1, size >> 1
    totals = fold_and_evaluate(first, input_entry, count, challenge)
    with k.range(first, log_size, carry=(state, claim, totals)) as rounds:
        state, claim, totals = rounds.carried
        state, claim, challenge = ended(rounds.index, state, claim, totals)
        count = one << (log_size - 1 - rounds.index)
        rounds.next(
            (state, claim, fold_and_evaluate(rounds.index + 1, last.load, count, challenge))
        )
    state, claim, _ = rounds.results
    last.finish(state, claim)
