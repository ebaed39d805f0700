"""Products of few rows with keys on tensor cores, with factors loaded in memory order.

The order of elements within a product is free if both factors agree: an instance reads 16 bytes of
a key, and uses them as its words of two products. Of values it reads 16 bytes of four keys; pairs
of their halves are its words of eight products, whose columns are eight elements apart. No instance
needs data that another one read.
"""

from __future__ import annotations

import operator
from functools import reduce

from quod.kernel import Builder, Value, f16, f32, u32
from quod.tensor.flash_attention.decode.lines import RowTile, both
from quod.tensor.flash_attention.decode.plan import CORE_KEYS, CORE_LINE, DecodePlan
from quod.tensor.flash_attention.decode.prefetch import Prefetcher, Wanted
from quod.tensor.flash_attention.decode.steps import InstanceLayout, KeyRange, SoftmaxState, Steps
from quod.tensor.matmul.mma_fragments import QUAD, lane_of

Values = tuple[Value, ...]

_ROWS = 8
"""The rows of an 8 x 8 matrix; an instance has one row, or that and the one 8 further."""
_WORDS = 4
"""Words of an access."""
_MINUS = 64
"""The count of one minus infinity among elements that are not finite.

Plus infinity counts 1, and a product has at most 16 of them.
"""


class StepsOfCores(Steps):
    """Steps on tensor cores: a subgroup multiplies 8 or 16 rows with 16 keys."""

    def __init__(
        self, k: Builder, plan: DecodePlan, share: RowTile, tensors: tuple[Value, Value, Value],
        factor: Value,
    ) -> None:  # fmt: skip
        super().__init__(k, plan, share, tensors, factor)
        self._own, self._beside = lane_of(k) >> 2, lane_of(k) & (QUAD - 1)
        self._halves = plan.rows // _ROWS
        self._lines = plan.accesses * CORE_LINE // (QUAD * plan.vector)
        accesses = 2 * (self._lines + 2 * plan.accesses)
        self._ahead = self._ring = Prefetcher(k, plan, share, accesses, self.step, self._wanted)
        none = (k.constant(0, u32),) * _WORDS
        rows = [
            share.line(tensors[0], share.row(self._own + _ROWS * half))
            for half in range(self._halves)
        ]
        query_words = [
            [self._words(row, self._beside + QUAD * at) for row in rows]
            for at in range(self._lines)
        ]
        self._queries = [[*each, none][:2] for each in query_words]

    @property
    def held(self) -> InstanceLayout:
        plan = self._plan
        columns = CORE_LINE // plan.vector
        return InstanceLayout(
            [self._own + _ROWS * half for half in range(self._halves)],
            [
                self._beside * 2 + (at * columns + half)
                for at in range(plan.accesses) for half in range(2)
            ],
            self._beside < QUAD, self._beside == 0, [],
        )  # fmt: skip

    def run(self, span: KeyRange) -> SoftmaxState:
        """Return the results for the keys, with totals added over the instances of a row."""
        tops, totals, sums = super().run(span)
        return tops, [self._all(total, operator.add, QUAD) for total in totals], sums

    def _words(self, line: Value, place: Value) -> Values:
        """Load 16 bytes of a line, padded with zeros."""
        k, there = self._k, None
        if not self._plan.full:
            there, place = place < self._share.width, k.minimum(place, self._share.width - 1)
        words = k.load(line, place * _WORDS, _WORDS)
        return words if there is None else tuple(k.select(there, word, 0) for word in words)

    def _wanted(self, step: Value) -> list[Wanted]:
        first = self._first(step)
        return [
            Wanted(
                self._keys, [first + (self._own + _ROWS * half) for half in range(2)],
                [self._beside + QUAD * at for at in range(self._lines)],
            ),
            Wanted(
                self._values, self._weighed_keys(first),
                [self._own + _ROWS * at for at in range(self._plan.accesses)],
            ),
        ]  # fmt: skip

    def _first(self, step: Value) -> Value:
        """Return the first key of the subgroup."""
        return step + (self._k.local_id() >> 5) * CORE_KEYS

    def _weighed_keys(self, first: Value) -> list[Value]:
        """Return the four keys whose products the instance has: two in each eight."""
        return [first + (self._beside * 2 + (_ROWS * (at // 2) + at % 2)) for at in range(4)]

    def _with_keys(self, first: Value, state: SoftmaxState, span: KeyRange | None) -> SoftmaxState:
        k = self._k
        come = [k.load(self._ring.room, at * _WORDS, _WORDS) for at in self._ring.wait_for(first)]
        keys = [come[at : at + self._lines] for at in (0, self._lines)]
        value_accesses = come[2 * self._lines :]
        # Indexed by accesses of a line, then by keys.
        values = [value_accesses[at :: self._plan.accesses] for at in range(self._plan.accesses)]
        places = self._weighed_keys(self._first(first))
        there = [self._ring.key(place)[1] for place in places]
        products = [self._products(of_keys) for of_keys in keys]
        tops, totals, scales, weighed, counted = [], [], [], [], []
        for half, (top, total) in enumerate(zip(*state[:2], strict=True)):
            # The products with four keys: two of each block of eight.
            row_products = [block[2 * half + at] for block in products for at in range(2)]
            inside = [
                both(each, None if span is None else span.inside(k, place, half))
                for place, each in zip(places, there, strict=True)
            ]
            logits = [
                self._masked(value * self._factor, seen)
                for value, seen in zip(row_products, inside, strict=True)
            ]
            tops.append(self._all(reduce(k.maximum, logits, top), k.maximum, QUAD))
            scales.append(k.exp2(top - tops[-1], normal=True))
            weights = [self._power(*each, tops[-1]) for each in zip(logits, inside, strict=True)]
            totals.append(reduce(operator.add, weights, total * scales[-1]))
            weighed.append(weights)
            counted.append(inside)
        if span is None or span.seen is None:
            return tops, totals, self._added(state[2], scales, weighed, values)
        return tops, totals, self._masked_sums(state[2], scales, weighed, values, counted)

    def _masked_sums(
        self, sums: list[list[Value]], scales: list[Value], weighed: list[list[Value]],
        values: list[list[Values]], counted: list[list[Value | None]],
    ) -> list[list[Value]]:  # fmt: skip
        """Return sums with values added where rows do not see all keys.

        A weight of 0 does not mask NaN or infinity. So the sums take finite elements only, and
        separate products count the other elements that a row sees. Only the last few keys of a
        sequence are masked.
        """
        k, zero, infinity = self._k, self._zero, self._k.constant(float("inf"), f32)
        unit = k.constant(1.0, f32)
        parts = [[[self._parts(word) for word in line] for line in lines] for lines in values]
        finite, others = (
            [[tuple(word[at] for word in line) for line in lines] for lines in parts]
            for at in range(2)
        )
        seen = [
            [unit if inside is None else k.select(inside, unit, zero) for inside in row]
            for row in counted
        ]
        none = [[zero] * len(row) for row in sums]
        counts = self._added(none, [unit] * len(scales), seen, others)
        finite_sums = self._added(sums, scales, weighed, finite)

        def corrected(value: Value, count: Value) -> Value:
            number = count.cast(u32)
            above = k.select((number & (_MINUS - 1)) != 0, infinity, zero)
            return value + above - k.select(number >= _MINUS, infinity, zero)

        return [
            [corrected(*each) for each in zip(*rows, strict=True)]
            for rows in zip(finite_sums, counts, strict=True)
        ]

    def _parts(self, word: Value) -> Values:
        """Split a word into its finite elements, and counts of the others as numbers of the type.

        Infinity counts 1, minus infinity `_MINUS`, and NaN their sum.
        """
        k, half = self._k, self._share.accesses.element is f16
        exponent = 0x7C00 if half else 0x7F80
        plus, minus, both_ = (0x3C00, 0x5400, 0x5410) if half else (0x3F80, 0x4280, 0x4282)
        none, parts = k.constant(0, u32), []
        for shift in (0, 16):
            bits = word >> shift & 0xFFFF
            finite = (bits & exponent) != exponent
            sign = k.select((bits & 0x8000) != 0, k.constant(minus, u32), plus)
            other = k.select((bits & (0x7FFF ^ exponent)) != 0, k.constant(both_, u32), sign)
            parts.append((k.select(finite, bits, none), k.select(finite, none, other)))
        return tuple(low | (high << 16) for low, high in zip(*parts, strict=True))

    def _products(self, keys: list[Values]) -> Values:
        """Multiply the rows with eight keys."""
        sums: Values = (self._zero,) * 4
        for (low, high), words in zip(self._queries, keys, strict=True):
            for at in (0, 2):
                query_words = (low[at], high[at], low[at + 1], high[at + 1])
                sums = self._multiply(query_words, words[at : at + 2], sums)
        return sums

    def _multiply(self, left: Values, right: Values, sums: Values) -> Values:
        return self._k.mma(self._share.accesses.element, left, right, sums)

    def _added(
        self, sums: list[list[Value]], scales: list[Value], weighed: list[list[Value]],
        values: list[list[Values]],
    ) -> list[list[Value]]:  # fmt: skip
        """Return scaled sums plus weighted values."""
        k, zero = self._k, self._zero
        pack = k.pack_f16 if self._share.accesses.element is f16 else k.pack_bf16
        of_rows = [[pack(*row[:2]), pack(*row[2:])] for row in weighed]
        low, high = [*of_rows, [k.constant(0, u32)] * 2][:2]
        left = (low[0], high[0], low[1], high[1])
        new_sums: list[list[Value]] = [list(row) for row in sums]
        for number, lines in enumerate(values):
            for element in range(self._plan.vector):
                right = [
                    self._pair(lines[at][element // 2], lines[at + 1][element // 2], element % 2)
                    for at in (0, 2)
                ]
                # A column of a product is an access; the product's index is the element.
                places = [2 * number * self._plan.vector + element + at for at in (0, 8)]
                scaled_sums = [
                    row[place] * scale
                    for row, scale in zip(sums, scales, strict=True)
                    for place in places
                ]
                products = self._multiply(left, tuple(right), tuple([*scaled_sums, zero, zero][:4]))
                for half, row in enumerate(new_sums):
                    for at, place in enumerate(places):
                        row[place] = products[2 * half + at]
        return new_sums

    def _pair(self, first: Value, other: Value, half: int) -> Value:
        """Pack the high halves of two words if `half` is 1, the low halves if it is 0."""
        if half:
            return (first >> 16) | (other & 0xFFFF0000)
        return (first & 0xFFFF) | (other << 16)
