"""Splitting of secret scalars into parts inside kernels, as `ScalarDecomposition.words` does.

No branch and no address depends on the scalar.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.multiples.scalar_parts import ScalarDecomposition
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

_BITS = 32
_MASK = (1 << _BITS) - 1


def split_scalar(
    k: Builder, parts: ScalarDecomposition, scalar: Sequence[Value]
) -> list[list[Value]]:
    """Return, for each part, the 32-bit words of its digits; `scalar` has 32-bit words, below r."""
    # One word more than the scalar has, so rounding loses less than 2**-32 of a row.
    shift = len(scalar) + 1
    factors = parts.reciprocals(_BITS * shift)
    wide = [word.cast(types.u64) for word in scalar]
    half = 1 << (_BITS * shift - 1)
    rounded = []
    for factor in factors:
        length = shift + -(-factor.bit_length() // _BITS)
        rounded.append(_sum(k, [(wide, abs(factor))], half, length + 1)[shift:])
    count, modulus = parts.part_words, 1 << (_BITS * parts.part_words)
    digit_words = []
    for part_index in range(parts.count):
        terms = [
            (quotient, (-row[part_index] if factor > 0 else row[part_index]) % modulus)
            for quotient, factor, row in zip(rounded, factors, parts.basis, strict=True)
        ]
        scalar_term = [(wide, 1)] if part_index == 0 else []
        words = _sum(k, scalar_term + terms, parts.offset, count)
        digit_words.append([word.cast(types.u32) for word in words])
    return digit_words


def _sum(
    k: Builder, terms: Sequence[tuple[Sequence[Value], int]], constant: int, length: int
) -> list[Value]:
    """Return the lowest `length` 32-bit words of constant + the sum of words * factor.

    Each 32-bit word is in a 64-bit word.
    """
    zero = k.constant(0, types.u64)
    columns = [
        k.constant(constant >> (_BITS * column_index) & _MASK, types.u64)
        for column_index in range(length)
    ]  # fmt: skip
    for words, factor in terms:
        for shift in range(-(-factor.bit_length() // _BITS)):
            digit = k.constant(factor >> (_BITS * shift) & _MASK, types.u64)
            for column_index, word in enumerate(words[: max(length - shift, 0)], shift):
                product = word * digit
                columns[column_index] = columns[column_index] + (product & _MASK)
                if column_index + 1 < length:
                    columns[column_index + 1] = columns[column_index + 1] + (product >> _BITS)
    carry, low_words = zero, []
    for column in columns:
        total = column + carry
        low_words.append(total & _MASK)
        carry = total >> _BITS
    return low_words
