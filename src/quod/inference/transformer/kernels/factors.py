"""Pairs of 16-bit integers in memory, divided into bytes for products with 16-bit integers.

Sums of products with a byte stay below 2**31 for some hundred terms.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.frozen import frozen
from quod.inference.transformer.kernels.arithmetic import Planes, is_bytewise, store_pair
from quod.kernel import Builder, Value, i32, i64, u32

_PLANES = Planes(2, 8)
Sums = tuple[Value, Value]
"""The sums of products with the low bytes and with the high ones, i32."""


@frozen(eq=False)
class Factors:
    """Pairs of factors in memory.

    words: A word for each pair if products are with bytes, otherwise a word in each of two planes.
    plane_words: The words of a plane.
    """

    words: Value
    plane_words: Value

    def store(self, k: Builder, index: Value, pair: Sequence[Value]) -> None:
        """Store two neighbouring factors, i32."""
        if not is_bytewise(k.machine):
            store_pair(k, self.words, index, self.plane_words, pair, _PLANES)
            return
        low, high = (value.cast(u32) for value in pair)
        low_bytes = (low & 0xFF) | (high & 0xFF) << 8
        self.words[index] = low_bytes | (low & 0xFF00) << 8 | (high & 0xFF00) << 16

    def load(self, k: Builder, index: Value) -> list[Value]:
        """Load the words of a pair."""
        planes = 1 if is_bytewise(k.machine) else _PLANES.count
        return [self.words[index + self.plane_words * plane] for plane in range(planes)]

    def add_products(self, k: Builder, words: Sequence[Value], pair: Value, sums: Sums) -> Sums:
        """Add the products of a loaded pair of factors and a pair of 16-bit integers to sums."""
        if is_bytewise(k.machine):
            (word,) = words
            return k.dot2_low_bytes(pair, word, sums[0]), k.dot2_high_bytes(pair, word, sums[1])
        low, high = words
        return k.dot2(low, pair, sums[0]), k.dot2(high, pair, sums[1])


def no_sums(k: Builder) -> Sums:
    """Return sums of no products."""
    return k.constant(0, i32), k.constant(0, i32)


def whole(sums: Sequence[Value]) -> Value:
    """Return the sum of products with whole factors, i64."""
    low, high = sums
    return low.cast(i64) + (high.cast(i64) << _PLANES.bits)
