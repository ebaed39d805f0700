"""Montgomery arithmetic on plain integers (Montgomery, Math. Comp. 44, 1985), for any word size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def split(value: int, word_bits: int, words: int) -> list[int]:
    """The little-endian words of a non-negative value; ValueError if it does not fit."""
    if value < 0 or value >> (word_bits * words):
        raise ValueError(f"{value:#x} does not fit {words} words of {word_bits} bits")
    return [value >> (word_bits * i) & ((1 << word_bits) - 1) for i in range(words)]


def join(words: list[int], word_bits: int) -> int:
    """The value of little-endian words, which may be wider than `word_bits` or negative."""
    return sum(word << (word_bits * i) for i, word in enumerate(words))


def reduce(value: int, p: int, radix_bits: int) -> int:
    """value / 2^radix_bits mod p, fully reduced."""
    return value * pow(1 << radix_bits, -1, p) % p


def product(a: int, b: int, p: int, radix_bits: int) -> int:
    """The Montgomery product a*b / 2^radix_bits mod p, fully reduced."""
    return reduce(a * b, p, radix_bits)


def product_by_words(a: int, b: int, p: int, word_bits: int, words: int) -> int:
    """Multiply by interleaved word reduction, before the final subtraction: below 2p for a, b < p.

    Models what a kernel computes: with a, b < 2^(word_bits*words) the result is below
    (a*b)/R + p, whose bits a lazily reduced field must have room for.
    """
    mask = (1 << word_bits) - 1
    negated_inverse = -pow(p, -1, 1 << word_bits) & mask
    accumulator = 0
    for word in split(a, word_bits, words):
        accumulator += word * b
        accumulator += ((accumulator & mask) * negated_inverse & mask) * p
        if accumulator & mask:
            raise AssertionError("the low word must vanish")
        accumulator >>= word_bits
    return accumulator


def words_array(values: list[int], words: int) -> NDArray[np.uint32]:
    """Values as they lie in memory: shape (len(values), words), little-endian 32-bit words."""
    rows = b"".join(value.to_bytes(4 * words, "little") for value in values)
    return np.frombuffer(rows, dtype="<u4").reshape(len(values), words).copy()


def array_words(array: NDArray[np.uint32]) -> list[int]:
    """The inverse of `words_array`."""
    return [int.from_bytes(row.astype("<u4").tobytes(), "little") for row in array]
