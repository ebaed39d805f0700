"""Products of few rows with a part of the keys, and sums of values that they weigh.

Powers are of what was the greatest so far, as in `attention_kernel`. On a GPU each key is in the
registers of a few instances, whose products are added up by shuffles; nothing goes through shared
memory. On a processor, where a shuffle goes through memory, a lane then has a key of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce

from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32
from quod.tensor.attention_decode_lines import Grid, Share
from quod.tensor.attention_decode_plan import DecodePlan
from quod.tensor.powers import LEAST

Found = tuple[list[Value], list[Value], Grid]
"""Of an instance's rows: the greatest products, totals of weights, and sums of values."""


@frozen(eq=False)
class Span:
    """The keys of a part: from `begin` on and below `end`, of which all rows see those below
    `by_all`, and each of them so many; with None all."""

    begin: Value
    end: Value
    by_all: Value
    seen: list[Value] | None

    def inside(self, k: Builder, key: Value, row: int) -> Value:
        """Whether a row sees a key of the part."""
        stop = self.end if self.seen is None else k.minimum(self.seen[row], self.end)
        return key < stop


class _Steps:
    """Rows and keys of an instance, `step` keys of the workgroup at a time."""

    def __init__(
        self, k: Builder, plan: DecodePlan, share: Share, tensors: tuple[Value, Value, Value],
        factor: Value,
    ) -> None:  # fmt: skip
        q, self._keys, self._values = tensors
        self._k, self._plan, self._share, self._factor = k, plan, share, factor
        self._queries = share.queries(q)
        self._least = k.constant(LEAST, f32)
        self.step = share.groups * plan.batch

    def run(self, span: Span) -> Found:
        """What the instance finds of its keys."""
        k, plan, zero = self._k, self._plan, self._k.constant(0.0, f32)
        found: Found = (
            [self._least] * plan.rows, [zero] * plan.rows, [[zero] * plan.elements] * plan.rows,
        )  # fmt: skip
        # Keys that all rows see need no masks, up to a step that is not full.
        whole = (k.maximum(span.by_all, span.begin) - span.begin) // self.step
        middle = span.begin + whole * self.step
        for begin, end, masked in ((span.begin, middle, False), (middle, span.end, True)):
            with k.range(begin, end, self.step, carry=found) as loop:
                loop.next(self._taken(loop.index, loop.carried, span if masked else None, span.end))
            found = loop.results
        return found

    def _taken(self, first: Value, found: Found, span: Span | None, end: Value) -> Found:
        raise NotImplementedError

    def _from(self, value: Value, distance: int) -> Value:
        return self._k.shuffle(value, self._k.lane_id() ^ distance)

    def _all(
        self, value: Value, combine: Callable[[Value, Value], Value], count: int
    ) -> Value:
        """One number of those of so many instances, the same in each."""
        distance = count // 2
        while distance:
            value = combine(value, self._from(value, distance))
            distance //= 2
        return value

    def _product(self, row: Sequence[Value], line: Sequence[Value]) -> Value:
        total = row[0] * line[0]
        for a, b in zip(row[1:], line[1:], strict=True):
            total = self._k.fma(a, b, total)
        return total

    def _power(self, logit: Value, top: Value, inside: Value | None) -> Value:
        power = self._k.exp2(logit - top, normal=True)
        return power if inside is None else self._k.select(inside, power, 0.0)


class StepsOfSubgroups(_Steps):
    """Of a GPU: an instance has `batch` keys at a time, and no other group has them."""

    def _taken(self, first: Value, found: Found, span: Span | None, end: Value) -> Found:
        k, share = self._k, self._share
        places = [first + (at * share.groups + share.group) for at in range(self._plan.batch)]
        # What is beyond the last key may be no number.
        known = places if span is None else [k.minimum(place, end - 1) for place in places]
        at = [share.key(place) for place in known]
        keys = [share.load(share.line(self._keys, line)) for line, _ in at]
        values = [share.value(share.line(self._values, line), there) for line, there in at]
        tops, totals, sums = [], [], []
        for row, (query, top, total, own) in enumerate(
            zip(self._queries, *found, strict=True)
        ):
            logits, seen = [], []
            for place, (_, there), key in zip(places, at, keys, strict=True):
                product = self._all(self._product(query, key), operator.add, self._plan.across)
                inside = there
                if span is not None:
                    below = span.inside(k, place, row)
                    inside = below if there is None else below & there
                logit = product * self._factor
                seen.append(inside)
                logits.append(logit if inside is None else k.select(inside, logit, self._least))
            tops.append(reduce(k.maximum, logits, top))
            scale = k.exp2(top - tops[-1], normal=True)
            weights = [self._power(each, tops[-1], inside) for each, inside in zip(logits, seen, strict=True)]
            totals.append(reduce(operator.add, weights, total * scale))
            made = []
            for number, sum_ in enumerate(own):
                sum_ = sum_ * scale
                for weight, value in zip(weights, values, strict=True):
                    sum_ = k.fma(weight, value[number], sum_)
                made.append(sum_)
            sums.append(made)
        return tops, totals, sums


class StepsOfVectors(_Steps):
    """Of a processor: a lane has elements of all keys, and the logits of one key at a time.

    What lanes have of the products of a row goes to shared memory, by keys, and each lane adds up
    that of its key. So there is one power for a vector of keys.
    """

    def __init__(
        self, k: Builder, plan: DecodePlan, share: Share, tensors: tuple[Value, Value, Value],
        factor: Value,
    ) -> None:  # fmt: skip
        super().__init__(k, plan, share, tensors, factor)
        self.step = self._lanes = k.workgroup_size
        self._products = k.shared(f32, plan.rows * self._lanes * self._lanes)
        self._weights = k.shared(f32, plan.rows * self._lanes)

    def run(self, span: Span) -> Found:
        tops, totals, sums = super().run(span)
        return tops, [self._all(each, operator.add, self._lanes) for each in totals], sums

    def _taken(self, first: Value, found: Found, span: Span | None, end: Value) -> Found:
        k, share, lanes, zero = self._k, self._share, self._lanes, self._k.constant(0, u32)
        count = k.constant(lanes, u32) if span is None else k.minimum(end - first, lanes)
        k.barrier()
        with k.range(zero, count) as loop:
            line, _ = share.key(first + loop.index)
            key = share.load(share.line(self._keys, line))
            for row, query in enumerate(self._queries):
                place = (loop.index + row * lanes) * lanes + k.local_id()
                self._products[place] = self._product(query, key)
        k.barrier()
        own = k.minimum(first + k.local_id(), end - 1)
        _, there = share.key(own, own=True)
        tops, totals, scales = [], [], []
        for row, (top, total) in enumerate(zip(*found[:2], strict=True)):
            inside = there
            if span is not None:
                below = span.inside(k, first + k.local_id(), row)
                inside = below if there is None else below & there
            # Of a key that is not there, this is that of another.
            begin = (k.minimum(k.local_id(), count - 1) + row * lanes) * lanes
            logit = reduce(
                operator.add, [self._products[begin + at] for at in range(lanes)]
            ) * self._factor
            if inside is not None:
                logit = k.select(inside, logit, self._least)
            tops.append(k.maximum(top, self._all(logit, k.maximum, lanes)))
            scales.append(k.exp2(top - tops[-1], normal=True))
            weight = self._power(logit, tops[-1], inside)
            totals.append(total * scales[-1] + weight)
            self._weights[k.local_id() + row * lanes] = weight
        k.barrier()
        sums = [
            [value * scale for value in row]
            for row, scale in zip(found[2], scales, strict=True)
        ]
        with k.range(zero, count, carry=sums) as loop:
            line, there = share.key(first + loop.index)
            values = share.value(share.line(self._values, line), there)
            made = []
            for row, sums_ in enumerate(loop.carried):
                weight = self._weights[loop.index + row * lanes]
                made.append(
                    [k.fma(weight, value, sum_) for value, sum_ in zip(values, sums_, strict=True)]
                )
            loop.next(made)
        return tops, totals, loop.results
