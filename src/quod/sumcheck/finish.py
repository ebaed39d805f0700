"""The end of a round: compute its message from the values, absorb it, derive the challenge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.field.any_field import field_arithmetic
from quod.hash.words import Words, message_words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability
from quod.sumcheck.interpolation import coefficient_rows
from quod.sumcheck.memory import PointCoordinates, Proof, SumcheckProgress
from quod.sumcheck.shape import Shape
from quod.sumcheck.structs import SumcheckMemory
from quod.sumcheck.summands import pass_points
from quod.sumcheck.workgroup_sums import WorkgroupSums
from quod.transcript.chain import Chain, challenge
from quod.transcript.labels import Label

_MAX_LOADS = 4


class RoundEnd:
    """The end of a prover's round in a kernel; create it at the kernel's top."""

    def __init__(self, k: Builder, f: Any, shape: Shape) -> None:
        self._k, self._f, self._shape = k, f, shape
        self.chain = Chain(k, shape.hash)

    def coefficients(
        self, values: Sequence[Any], claim: Any, point: PointCoordinates, round_number: Value
    ) -> list[Any]:
        """Return the coefficients of a round's polynomial without eq's factor, constant term first.

        values: the values at the points of `pass_points`; the first is at 1 instead of 0 if the
            coordinate of the point in the round's variable is 0.
        """
        f, shape = self._f, self._shape
        first, *others = values
        if shape.has_point:
            coordinate, inverse = point.coordinate(round_number), point.inverse(round_number)
            # The claim is (1 - w) * t(0) + w * t(1). It gives t(1), or t(0) = claim if w is 0.
            first_at_one = f.is_zero(coordinate)
            value_from_claim = f.bounded((claim - (1 - coordinate) * first) * inverse)
            first, claim = f.bounded(first), f.bounded(claim)
            value_at_zero, value_at_one = (
                f.select(first_at_one, claim, first),
                f.select(first_at_one, first, value_from_claim),
            )
        else:
            value_at_zero, value_at_one = first, claim - first
        return self.all_coefficients(
            [f.bounded(value) for value in (value_at_zero, value_at_one, *others)]
        )

    def first_of_two(
        self, grid: Sequence[Sequence[Any]], point: PointCoordinates, round_number: Value
    ) -> list[Any]:
        """Return the coefficients of the first of two rounds; grid[a][b] is the value at a and b.

        The second variable is summed over 0 and 1, weighted by eq.
        """
        f = self._f
        if not self._shape.has_point:
            return self.all_coefficients([f.bounded(row[0] + row[1]) for row in grid])
        coordinate = point.coordinate(round_number + 1)
        sums = [f.bounded(row[0] + coordinate * (row[1] - row[0])) for row in grid]
        return self.all_coefficients(sums)

    def second_of_two(self, grid: Sequence[Sequence[Any]], challenge: Any) -> list[Any]:
        """Return the coefficients of the second of two rounds, after the first challenge.

        grid: as of `first_of_two`.
        """
        columns = [self.all_coefficients(column) for column in zip(*grid, strict=True)]
        return self.all_coefficients([self.at(column, challenge) for column in columns])

    def all_coefficients(self, values: Sequence[Any]) -> list[Any]:
        """Interpolate the coefficients from the values at all evaluation points."""
        if not self._k.machine.has(Capability.VECTOR_LANES):
            return self._interpolate(self._k, values)
        # On CPUs a function, as its inline copies would take long to compile.
        return list(self._k.call("interpolate", self._interpolate, values))

    def _interpolate(self, _: Builder, values: Sequence[Any]) -> list[Any]:
        rows = coefficient_rows(self._f.modulus, self._shape.degree)
        return [self._linear_combination(row, values) for row in rows]

    def _linear_combination(self, row: Sequence[int], values: Sequence[Any]) -> Any:
        products = [value * weight for weight, value in zip(row, values, strict=True) if weight]
        total = products[0]
        for product in products[1:]:
            total = self._f.bounded(total + product)
        return self._f.bounded(total)

    def message(self, coefficients: Sequence[Any]) -> Words:
        """Return a round's message: all coefficients but the first, which the claim determines."""
        words: list[Value] = []
        for coefficient in coefficients[1:]:
            words += message_words(self._f, coefficient)
        return tuple(words)

    def absorbed(self, state: Words, message: Words) -> tuple[Words, Any]:
        """Absorb a message; return the state and the challenge."""
        state = self.chain.absorbed(state, Label.ROUND, message)
        return state, self._f.bounded(challenge(self._f, self._shape.field, state))

    def at(self, coefficients: Sequence[Any], challenge: Any) -> Any:
        """Return the value at a challenge of a polynomial without eq's factor: the next claim."""
        *lower, total = coefficients
        for coefficient in reversed(lower):
            total = self._f.bounded(total * challenge + coefficient)
        return total


@kernel
def finish_rounds(
    k: Builder,
    batch: U32,
    log_size: U32,
    round_number: U32,
    groups_each: U32,
    partial: Pointer[U32],
    memory: SumcheckMemory,
    *,
    shape: Shape,
    depth: int,
    at_once: int,
) -> None:
    """Compute messages and challenges of the `depth` rounds of one pass.

    One workgroup runs each sumcheck.
    groups_each: number of workgroups of the pass per sumcheck.
    partial: their partial sums, laid out as `quod.sumcheck.rounds.evaluate_inputs` writes them.
    at_once: partial sums of a value that an instance loads at a time (`parts_at_once`).
    """
    f = field_arithmetic(k, shape.field, inlined=True)
    value_count = len(pass_points(shape.degree, depth))
    sums, end = WorkgroupSums(k, f, value_count), RoundEnd(k, f, shape)
    sumcheck, local = k.workgroup_id(), k.local_id()
    progress = SumcheckProgress(f, memory.progress, batch, sumcheck, log_size)
    # Load before the sums, to overlap the latencies, and before instance 0 overwrites the values.
    claim, state = progress.claim(), progress.state(end.chain)
    totals = sums.totals(
        added_parts(f, partial, sumcheck * value_count, value_count, groups_each, at_once)
    )
    # Every instance computes the messages, and one stores them.
    point = PointCoordinates(f, memory.equality, sumcheck, log_size)
    if depth == 1:
        coefficients = end.coefficients(totals, claim, point, round_number)
    else:
        width = shape.degree + 1
        grid = [totals[start : start + width] for start in range(0, value_count, width)]
        coefficients = end.first_of_two(grid, point, round_number)
    message = end.message(coefficients)
    state, challenge = end.absorbed(state, message)
    rounds = [(message, challenge)]
    if depth == 2:
        coefficients = end.second_of_two(grid, challenge)
        message = end.message(coefficients)
        state, challenge = end.absorbed(state, message)
        rounds.append((message, challenge))
    claim = end.at(coefficients, challenge)
    k.barrier()
    with k.if_(local == 0):
        out = Proof(f, memory.proof, batch, sumcheck, log_size, shape.degree)
        for offset, (message, challenge) in enumerate(rounds):
            out.set_message(round_number + offset, message)
            progress.set_challenge(round_number + offset, challenge)
        progress.set_state(end.chain, state)
        progress.set_claim(claim)


def parts_at_once(groups_each: int, lanes: int) -> int:
    """Return the number of partial sums of a value that an instance loads before it adds them."""
    return min(_MAX_LOADS, -(-groups_each // lanes))


def added_parts(
    f: Any, partial: Value, first: Value, value_count: int, groups_each: Value, at_once: int
) -> list[Any]:
    """Return for each value the sum of the partial sums that one instance loads.

    All instances of the workgroup must call this; together they load all partial sums once.
    first: index in `partial`, in values, of the first value; each has `groups_each` partial sums.
    """
    k = f.k
    starts = [(first + value_index) * groups_each for value_index in range(value_count)]
    zeros = tuple(f.bounded(f.zero()) for _ in starts)
    with k.range(0, groups_each, k.workgroup_size * at_once, carry=zeros) as loop:
        # All loads come before the first addition, so that their latencies overlap.
        part_rows = []
        for offset in range(at_once):
            index = loop.index + k.local_id() + k.workgroup_size * offset
            part_rows.append([_part(f, partial, start, index, groups_each) for start in starts])
        totals = loop.carried
        for row in part_rows:
            totals = tuple(f.bounded(a + b) for a, b in zip(totals, row, strict=True))
        loop.next(totals)
    return list(loop.results)


def _part(f: Any, partial: Value, start: Value, index: Value, count: Value) -> Any:
    """Load partial sum `index` of a value, or 0 if `index` is not below `count`."""
    k = f.k
    element = f.load(partial, start + k.minimum(index, count - 1))
    return f.select(index < count, f.bounded(element), f.bounded(f.zero()))
