"""The decode loop on tensor cores, with operands loaded in memory order.

A product may sum its elements in any order, as long as both factors have the same order. So an
instance reads 16 bytes of a key and uses them as its words of two products. For values, it reads 16
bytes of each of four keys and pairs their 16-bit halves, which gives its words of eight products;
the columns of a product are eight elements apart. No instance needs data that another one loaded.
"""

from __future__ import annotations

import operator
from functools import reduce

from quod.kernel import Builder, Value, f16, f32, u32
from quod.tensor.flash_attention.decode.lines import RowTile, both
from quod.tensor.flash_attention.decode.plan import CORE_KEYS, CORE_LINE, DecodePlan
from quod.tensor.flash_attention.decode.prefetch import LineAccesses, Prefetcher
from quod.tensor.flash_attention.decode.steps import InstanceLayout, KeyRange, SoftmaxState, Steps
from quod.tensor.matmul.mma_fragments import QUAD, lane_of

Values = tuple[Value, ...]

_ROWS = 8
"""The rows of an 8 x 8 matrix; an instance has one row of one or two such matrices."""
_WORDS = 4
"""Words of an access."""
_MINUS_INFINITY = 64
"""The count that stands for one minus infinity; one plus infinity counts 1.

A product sums 16 elements, so the two counts do not overlap.
"""


class StepsOfCores(Steps):
    """Steps on tensor cores: a subgroup multiplies 8 or 16 rows with 16 keys."""

    def __init__(
        self, k: Builder, plan: DecodePlan, row_tile: RowTile, tensors: tuple[Value, Value, Value],
        factor: Value,
    ) -> None:  # fmt: skip
        super().__init__(k, plan, row_tile, tensors, factor)
        # The row of an MMA fragment that the instance has a part of, and the index of that part.
        self._row_slot, self._column_slot = lane_of(k) >> 2, lane_of(k) & (QUAD - 1)
        self._row_blocks = plan.rows // _ROWS
        self._key_accesses = plan.accesses * CORE_LINE // (QUAD * plan.vector)
        accesses = 2 * (self._key_accesses + 2 * plan.accesses)
        self._prefetcher = self._ring = Prefetcher(
            k, plan, row_tile, accesses, self.step, self._prefetched_lines
        )
        zero_words = (k.constant(0, u32),) * _WORDS
        rows = [
            row_tile.line(tensors[0], row_tile.row(self._row_slot + _ROWS * row_block))
            for row_block in range(self._row_blocks)
        ]
        query_words = [
            [self._load_words(row, self._column_slot + QUAD * access) for row in rows]
            for access in range(self._key_accesses)
        ]
        self._queries = [[*words, zero_words][:2] for words in query_words]

    @property
    def held(self) -> InstanceLayout:
        plan = self._plan
        columns = CORE_LINE // plan.vector
        return InstanceLayout(
            [self._row_slot + _ROWS * half for half in range(self._row_blocks)],
            [
                self._column_slot * 2 + (access * columns + half)
                for access in range(plan.accesses) for half in range(2)
            ],
            self._column_slot < QUAD, self._column_slot == 0, [],
        )  # fmt: skip

    def run(self, span: KeyRange) -> SoftmaxState:
        """Return the results for the keys, with denominators summed over the lanes of a row."""
        maxima, denominators, value_sums = super().run(span)
        return (
            maxima,
            [self._reduce_lanes(denominator, operator.add, QUAD) for denominator in denominators],
            value_sums,
        )

    def _load_words(self, line: Value, access: Value) -> Values:
        """Load 16 bytes of a line, padded with zeros."""
        k, in_range = self._k, None
        if not self._plan.full:
            in_range, access = (
                access < self._row_tile.width,
                k.minimum(access, self._row_tile.width - 1),
            )
        words = k.load(line, access * _WORDS, _WORDS)
        return words if in_range is None else tuple(k.select(in_range, word, 0) for word in words)

    def _prefetched_lines(self, step: Value) -> list[LineAccesses]:
        first_key = self._first_key(step)
        return [
            LineAccesses(
                self._keys,
                [first_key + (self._row_slot + _ROWS * key_block) for key_block in range(2)],
                [self._column_slot + QUAD * access for access in range(self._key_accesses)],
            ),
            LineAccesses(
                self._values, self._keys_of_products(first_key),
                [self._row_slot + _ROWS * access for access in range(self._plan.accesses)],
            ),
        ]  # fmt: skip

    def _first_key(self, step: Value) -> Value:
        """Return the first key of the subgroup."""
        return step + (self._k.local_id() >> 5) * CORE_KEYS

    def _keys_of_products(self, first_key: Value) -> list[Value]:
        """Return the four keys whose products this instance has: two of each eight keys."""
        return [
            first_key + (self._column_slot * 2 + (_ROWS * (product // 2) + product % 2))
            for product in range(4)
        ]

    def _add_keys(
        self, first_key: Value, state: SoftmaxState, span: KeyRange | None
    ) -> SoftmaxState:
        k = self._k
        accesses = [
            k.load(self._ring.buffer, access * _WORDS, _WORDS)
            for access in self._ring.wait_for(first_key)
        ]
        keys = [accesses[start : start + self._key_accesses] for start in (0, self._key_accesses)]
        value_accesses = accesses[2 * self._key_accesses :]
        # Indexed by accesses of a line, then by keys.
        values = [
            value_accesses[start :: self._plan.accesses] for start in range(self._plan.accesses)
        ]
        key_indices = self._keys_of_products(self._first_key(first_key))
        pages_exist = [self._ring.key(key_index)[1] for key_index in key_indices]
        products = [self._multiply_keys(key_words) for key_words in keys]
        maxima, denominators, scales, weight_rows, masks = [], [], [], [], []
        for row_index, (maximum, denominator) in enumerate(zip(*state[:2], strict=True)):
            # The products with four keys: two of each block of eight.
            row_products = [
                block[2 * row_index + column] for block in products for column in range(2)
            ]
            mask = [
                both(exists, None if span is None else span.inside(k, key_index, row_index))
                for key_index, exists in zip(key_indices, pages_exist, strict=True)
            ]
            logits = [
                self._mask_logit(value * self._factor, seen)
                for value, seen in zip(row_products, mask, strict=True)
            ]
            maxima.append(self._reduce_lanes(reduce(k.maximum, logits, maximum), k.maximum, QUAD))
            scales.append(k.exp2(maximum - maxima[-1], flush_subnormals=True))
            weights = [
                self._weight(*logit_mask, maxima[-1])
                for logit_mask in zip(logits, mask, strict=True)
            ]
            denominators.append(reduce(operator.add, weights, denominator * scales[-1]))
            weight_rows.append(weights)
            masks.append(mask)
        if span is None or span.seen is None:
            return maxima, denominators, self._add_values(state[2], scales, weight_rows, values)
        return (
            maxima,
            denominators,
            self._add_masked_values(state[2], scales, weight_rows, values, masks),
        )

    def _add_masked_values(
        self, sums: list[list[Value]], scales: list[Value], weight_rows: list[list[Value]],
        values: list[list[Values]], masks: list[list[Value | None]],
    ) -> list[list[Value]]:  # fmt: skip
        """Return the sums with weighted values added, for rows that do not see all keys.

        A weight of 0 does not mask NaN or infinity. So the sums include finite elements only, and
        separate products count the infinite and NaN elements that a row sees. Only the last few
        keys of a sequence are masked.
        """
        k, zero, infinity = self._k, self._zero, self._k.constant(float("inf"), f32)
        unit = k.constant(1.0, f32)
        split_words = [
            [[self._split_finite(word) for word in line] for line in lines] for lines in values
        ]
        finite, nonfinite = (
            [[tuple(word[part] for word in line) for line in lines] for lines in split_words]
            for part in range(2)
        )
        seen = [
            [unit if visible is None else k.select(visible, unit, zero) for visible in row]
            for row in masks
        ]
        zero_sums = [[zero] * len(row) for row in sums]
        counts = self._add_values(zero_sums, [unit] * len(scales), seen, nonfinite)
        finite_sums = self._add_values(sums, scales, weight_rows, finite)

        def with_nonfinite(value: Value, count: Value) -> Value:
            number = count.cast(u32)
            plus_infinity = k.select((number & (_MINUS_INFINITY - 1)) != 0, infinity, zero)
            return value + plus_infinity - k.select(number >= _MINUS_INFINITY, infinity, zero)

        return [
            [with_nonfinite(*pair) for pair in zip(*rows, strict=True)]
            for rows in zip(finite_sums, counts, strict=True)
        ]

    def _split_finite(self, word: Value) -> Values:
        """Split a word of two elements into a word of finite elements and a word of counts.

        A count is a number of the element type: 0 for a finite element, 1 for infinity,
        `_MINUS_INFINITY` for minus infinity, and their sum for NaN.
        """
        k, is_f16 = self._k, self._row_tile.accesses.element is f16
        exponent = 0x7C00 if is_f16 else 0x7F80
        # The bits of 1, 64 and 65 as elements.
        plus_count, minus_count, nan_count = (
            (0x3C00, 0x5400, 0x5410) if is_f16 else (0x3F80, 0x4280, 0x4282)
        )
        zero, halves = k.constant(0, u32), []
        for shift in (0, 16):
            bits = word >> shift & 0xFFFF
            finite = (bits & exponent) != exponent
            sign = k.select((bits & 0x8000) != 0, k.constant(minus_count, u32), plus_count)
            count = k.select((bits & (0x7FFF ^ exponent)) != 0, k.constant(nan_count, u32), sign)
            halves.append((k.select(finite, bits, zero), k.select(finite, zero, count)))
        return tuple(low | (high << 16) for low, high in zip(*halves, strict=True))

    def _multiply_keys(self, keys: list[Values]) -> Values:
        """Multiply the rows of queries with eight keys."""
        sums: Values = (self._zero,) * 4
        for (upper_rows, lower_rows), words in zip(self._queries, keys, strict=True):
            for word in (0, 2):
                query_words = (
                    upper_rows[word],
                    lower_rows[word],
                    upper_rows[word + 1],
                    lower_rows[word + 1],
                )
                sums = self._multiply(query_words, words[word : word + 2], sums)
        return sums

    def _multiply(self, left: Values, right: Values, sums: Values) -> Values:
        return self._k.mma(self._row_tile.accesses.element, left, right, sums)

    def _add_values(
        self, sums: list[list[Value]], scales: list[Value], weight_rows: list[list[Value]],
        values: list[list[Values]],
    ) -> list[list[Value]]:  # fmt: skip
        """Return `sums` times `scales`, plus the values times their weights."""
        k, zero = self._k, self._zero
        pack = k.pack_f16 if self._row_tile.accesses.element is f16 else k.pack_bf16
        row_words = [[pack(*row[:2]), pack(*row[2:])] for row in weight_rows]
        upper_rows, lower_rows = [*row_words, [k.constant(0, u32)] * 2][:2]
        left = (upper_rows[0], lower_rows[0], upper_rows[1], lower_rows[1])
        new_sums: list[list[Value]] = [list(row) for row in sums]
        for access, lines in enumerate(values):
            for element in range(self._plan.vector):
                right = [
                    self._pack_halves(
                        lines[key][element // 2], lines[key + 1][element // 2], element % 2
                    )
                    for key in (0, 2)
                ]
                # A column of a product is an access; the product's index is the element.
                sum_indices = [
                    2 * access * self._plan.vector + element + offset for offset in (0, 8)
                ]
                scaled_sums = [
                    row[sum_index] * scale
                    for row, scale in zip(sums, scales, strict=True)
                    for sum_index in sum_indices
                ]
                products = self._multiply(left, tuple(right), tuple([*scaled_sums, zero, zero][:4]))
                for row_index, row in enumerate(new_sums):
                    for column, sum_index in enumerate(sum_indices):
                        row[sum_index] = products[2 * row_index + column]
        return new_sums

    def _pack_halves(self, low_word: Value, high_word: Value, half: int) -> Value:
        """Pack the high halves of two words if `half` is 1, the low halves if it is 0."""
        if half:
            return (low_word >> 16) | (high_word & 0xFFFF0000)
        return (low_word & 0xFFFF) | (high_word << 16)
