"""Products of few rows with a part of the keys, and weighted sums of values.

Weights are relative to the greatest logit so far, as in `flash_attention.kernel`. On a GPU each key
is in the registers of a few instances, which add up products by shuffles. On a CPU, where a shuffle
goes through memory, each lane then handles the logit of one key.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce

from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32
from quod.tensor.flash_attention.decode.lines import Grid, RowTile, both
from quod.tensor.flash_attention.decode.plan import DecodePlan
from quod.tensor.flash_attention.decode.prefetch import Prefetcher, Wanted
from quod.tensor.rows.exponentials import LEAST

SoftmaxState = tuple[list[Value], list[Value], Grid]
"""For each of an instance's rows: the greatest logit, the total of weights, and sums of values."""


@frozen(eq=False)
class KeyRange:
    """The keys of a part.

    begin: The first key.
    end: The key after the last.
    by_all: All rows see the keys before this one.
    seen: For each row, the number of keys that it sees; None if all rows see all keys.
    """

    begin: Value
    end: Value
    by_all: Value
    seen: list[Value] | None

    def inside(self, k: Builder, key: Value, row: int) -> Value:
        """Return true if a row sees a key of the part."""
        stop = self.end if self.seen is None else k.minimum(self.seen[row], self.end)
        return key < stop


@frozen(eq=False)
class InstanceLayout:
    """The layout of an instance's results.

    rows: The rows of the tile.
    places: The accesses of each row.
    stores: True if the instance stores sums of values.
    stores_numbers: True if the instance stores a row's greatest logit and total.
    distances: XOR distances to the instances whose results are combined with its own first.
    """

    rows: list[Value]
    places: list[Value]
    stores: Value
    stores_numbers: Value
    distances: list[int]


class Steps(ABC):
    """The loop of an instance over keys, `step` keys of the workgroup at a time."""

    _unmasked = True
    """True if a step without masks is faster than one with them."""

    def __init__(
        self, k: Builder, plan: DecodePlan, share: RowTile, tensors: tuple[Value, Value, Value],
        factor: Value,
    ) -> None:  # fmt: skip
        _, self._keys, self._values = tensors
        self._k, self._plan, self._share, self._factor = k, plan, share, factor
        self._least, self._zero = k.constant(LEAST, f32), k.constant(0.0, f32)
        self.step = plan.step(k.workgroup_size)
        """Keys that the workgroup processes at a time."""
        self._ahead: Prefetcher | None = None

    @property
    @abstractmethod
    def held(self) -> InstanceLayout:
        """The layout of the results."""

    @abstractmethod
    def _with_keys(self, first: Value, state: SoftmaxState, span: KeyRange | None) -> SoftmaxState:
        """Return the results with a step's keys added, masked if there is a span."""

    def run(self, span: KeyRange) -> SoftmaxState:
        """Return the results for the instance's share of the keys."""
        if self._ahead is not None:
            self._ahead.start(span.begin, span.end)
        state = self._over_all_keys(span)
        if self._ahead is not None:
            self._k.copy_async_wait()
        return state

    def _over_all_keys(self, span: KeyRange) -> SoftmaxState:
        held, size = self.held, self._plan.vector
        rows = len(held.rows)
        state: SoftmaxState = (
            [self._least] * rows, [self._zero] * rows,
            [[self._zero] * (len(held.places) * size) for _ in range(rows)],
        )  # fmt: skip
        middle = span.begin
        if self._unmasked:
            # Full steps of keys that all rows see need no masks.
            full_steps = (self._k.maximum(span.by_all, middle) - middle) // self.step
            middle = middle + full_steps * self.step
            state = self._loop(span.begin, middle, state, None)
        return self._loop(middle, span.end, state, span)

    def _loop(
        self, begin: Value, end: Value, state: SoftmaxState, span: KeyRange | None
    ) -> SoftmaxState:
        with self._k.range(begin, end, self.step, carry=state) as loop:
            loop.next(self._with_keys(loop.index, loop.carried, span))
        results: SoftmaxState = loop.results
        return results

    def _all(self, value: Value, combine: Callable[[Value, Value], Value], count: int) -> Value:
        """Reduce a number over `count` adjacent instances; all get the result."""
        distance = count // 2
        while distance:
            value = combine(value, self._k.shuffle(value, self._k.lane_id() ^ distance))
            distance //= 2
        return value

    def _masked(self, logit: Value, inside: Value | None) -> Value:
        return logit if inside is None else self._k.select(inside, logit, self._least)

    def _power(self, logit: Value, inside: Value | None, top: Value) -> Value:
        power = self._k.exp2(logit - top, normal=True)
        return power if inside is None else self._k.select(inside, power, self._zero)


class _StepsOfLines(Steps):
    """Steps in which adjacent instances share a key, each with some elements of all rows."""

    def __init__(
        self, k: Builder, plan: DecodePlan, share: RowTile, tensors: tuple[Value, Value, Value],
        factor: Value,
    ) -> None:  # fmt: skip
        super().__init__(k, plan, share, tensors, factor)
        self._queries = share.queries(tensors[0])

    @property
    def held(self) -> InstanceLayout:
        k, plan, lane_index = self._k, self._plan, self._share.own
        distances, distance = [], plan.across
        while distance < min(k.subgroup_size, k.workgroup_size):
            distances.append(distance)
            distance *= 2
        return InstanceLayout(
            [k.constant(row, u32) for row in range(plan.rows)],
            [lane_index + at * plan.across for at in range(plan.accesses)],
            k.lane_id() < plan.across, k.lane_id() == 0, distances,
        )  # fmt: skip

    def _product(self, row: Sequence[Value], line: Sequence[Value]) -> Value:
        total = row[0] * line[0]
        for a, b in zip(row[1:], line[1:], strict=True):
            total = self._k.fma(a, b, total)
        return total


class StepsOfSubgroups(_StepsOfLines):
    """Steps on a GPU: a group of instances processes `batch` keys at a time."""

    def __init__(
        self, k: Builder, plan: DecodePlan, share: RowTile, tensors: tuple[Value, Value, Value],
        factor: Value,
    ) -> None:  # fmt: skip
        super().__init__(k, plan, share, tensors, factor)
        if plan.ahead:
            self._ahead = Prefetcher(
                k, plan, share, 2 * plan.batch * plan.accesses, self.step, self._wanted
            )

    def _places(self, first: Value) -> list[Value]:
        """Return the keys of an instance."""
        share = self._share
        return [first + (at * share.groups + share.group) for at in range(self._plan.batch)]

    def _wanted(self, first: Value) -> list[Wanted]:
        keys, places = self._places(first), self.held.places
        return [Wanted(each, keys, places) for each in (self._keys, self._values)]

    def _lines(self, first: Value, span: KeyRange | None) -> tuple[list[Value | None], Grid, Grid]:
        """Return whether each key's page exists (None: always), the keys and the values."""
        k, share, places = self._k, self._share, self._places(first)
        if self._ahead is not None:
            come = self._ahead.wait_for(first)
            there = [self._ahead.key(place)[1] for place in places]
            accesses = [share.accesses.load(self._ahead.room, at) for at in come]
            count = self._plan.accesses
            lines = [
                [value for access in accesses[at : at + count] for value in access]
                for at in range(0, len(accesses), count)
            ]
            return there, lines[: len(places)], lines[len(places) :]
        # Memory beyond the last key may be NaN.
        clamped_places = (
            places if span is None else [k.minimum(place, span.end - 1) for place in places]
        )
        at = [share.key(place) for place in clamped_places]
        keys = [share.load(share.at(self._keys, line)) for line, _ in at]
        values = [share.value(share.at(self._values, line), there) for line, there in at]
        return [each for _, each in at], keys, values

    def _with_keys(self, first: Value, state: SoftmaxState, span: KeyRange | None) -> SoftmaxState:
        k, places = self._k, self._places(first)
        there, keys, values = self._lines(first, span)
        tops, totals, sums = [], [], []
        for row, (query, top, total, old_sums) in enumerate(
            zip(self._queries, *state, strict=True)
        ):
            logits, seen = [], []
            for place, page_exists, key in zip(places, there, keys, strict=True):
                product = self._all(self._product(query, key), operator.add, self._plan.across)
                inside = both(page_exists, None if span is None else span.inside(k, place, row))
                seen.append(inside)
                logits.append(self._masked(product * self._factor, inside))
            tops.append(reduce(k.maximum, logits, top))
            scale = k.exp2(top - tops[-1], normal=True)
            weights = [self._power(*each, tops[-1]) for each in zip(logits, seen, strict=True)]
            totals.append(reduce(operator.add, weights, total * scale))
            # Beyond the last key, prefetched lines are zeros; other lines repeat the last key.
            differ = span is not None and (span.seen is not None or self._ahead is None)
            row_sums = []
            for number, sum_ in enumerate(old_sums):
                sum_ = sum_ * scale
                for weight, value, inside in zip(weights, values, seen, strict=True):
                    with_key = k.fma(weight, value[number], sum_)
                    # A weight of 0 does not mask a value that is NaN or infinite.
                    if differ and inside is not None:
                        with_key = k.select(inside, with_key, sum_)
                    sum_ = with_key
                row_sums.append(sum_)
            sums.append(row_sums)
        return tops, totals, sums


class StepsOfVectors(_StepsOfLines):
    """Steps on a CPU: each lane has some elements of all keys, then the logit of one key.

    The lanes store their partial products in shared memory, and each lane adds those of its key, so
    that one exponential serves a vector of keys.
    """

    _unmasked = False

    def __init__(
        self, k: Builder, plan: DecodePlan, share: RowTile, tensors: tuple[Value, Value, Value],
        factor: Value,
    ) -> None:  # fmt: skip
        super().__init__(k, plan, share, tensors, factor)
        self.step = self._lanes = k.workgroup_size
        self._products = k.shared(f32, plan.rows * self._lanes * self._lanes)
        self._weights = k.shared(f32, plan.rows * self._lanes)

    def run(self, span: KeyRange) -> SoftmaxState:
        tops, totals, sums = super().run(span)
        return tops, [self._all(each, operator.add, self._lanes) for each in totals], sums

    def _with_keys(self, first: Value, state: SoftmaxState, span: KeyRange | None) -> SoftmaxState:
        k, share, lanes, zero = self._k, self._share, self._lanes, self._k.constant(0, u32)
        assert span is not None
        count = k.minimum(span.end - first, lanes)
        k.barrier()
        with k.range(zero, count) as loop:
            line, _ = share.key(first + loop.index)
            key = share.load(share.at(self._keys, line))
            for row, query in enumerate(self._queries):
                place = (loop.index + row * lanes) * lanes + k.local_id()
                self._products[place] = self._product(query, key)
        k.barrier()
        # Clamped to the last key.
        key_index = k.minimum(k.local_id(), count - 1)
        _, there = share.key(first + key_index, per_instance=True)
        tops, totals, scales = [], [], []
        for row, (top, total) in enumerate(zip(*state[:2], strict=True)):
            inside = both(there, span.inside(k, first + k.local_id(), row))
            begin = (key_index + row * lanes) * lanes
            product = reduce(operator.add, [self._products[begin + at] for at in range(lanes)])
            logit = self._masked(product * self._factor, inside)
            tops.append(k.maximum(top, self._all(logit, k.maximum, lanes)))
            scales.append(k.exp2(top - tops[-1], normal=True))
            weight = self._power(logit, inside, tops[-1])
            totals.append(total * scales[-1] + weight)
            self._weights[k.local_id() + row * lanes] = weight
        k.barrier()
        sums = [
            [value * scale for value in row] for row, scale in zip(state[2], scales, strict=True)
        ]
        by_all = count
        if span.seen is not None:
            by_all = k.minimum(k.maximum(span.by_all, first) - first, count)
        sums = self._added(first, (zero, by_all), sums, None)
        if span.seen is not None:
            sums = self._added(first, (by_all, count), sums, span)
        return tops, totals, sums

    def _added(
        self, first: Value, keys: tuple[Value, Value], sums: Grid, span: KeyRange | None
    ) -> Grid:  # fmt: skip
        """Return sums with the weighted values of keys added.

        With a span, a key does not change rows that do not see it, even if its value is NaN.
        """
        k, share = self._k, self._share
        with k.range(*keys, carry=sums) as loop:
            line, there = share.key(first + loop.index)
            values = share.value(share.at(self._values, line), there)
            new_sums = []
            for row, sums_ in enumerate(loop.carried):
                weight = self._weights[loop.index + row * self._lanes]
                added = [
                    k.fma(weight, value, sum_) for value, sum_ in zip(values, sums_, strict=True)
                ]
                if span is not None:
                    inside = span.inside(k, first + loop.index, row)
                    added = [
                        k.select(inside, new, old) for new, old in zip(added, sums_, strict=True)
                    ]
                new_sums.append(added)
            loop.next(new_sums)
        results: Grid = loop.results
        return results
