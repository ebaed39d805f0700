"""Scalars into parts within kernels: what `ScalarParts.words` does, for scalars that are secret.

No branch and no address depends on the scalar.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.multiples.scalar_parts import ScalarParts
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

_BITS = 32
_MASK = (1 << _BITS) - 1


def split_scalar(k: Builder, parts: ScalarParts, scalar: Sequence[Value]) -> list[list[Value]]:
    """For each part the 32-bit words of its digits, of the 32-bit words of a scalar below r."""
    # Whole words more than the scalar has: less than 2**-32 of a row is lost by rounding.
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
    for at in range(parts.count):
        terms = [
            (quotient, (-row[at] if factor > 0 else row[at]) % modulus)
            for quotient, factor, row in zip(rounded, factors, parts.basis, strict=True)
        ]
        scalar_term = [(wide, 1)] if at == 0 else []
        words = _sum(k, scalar_term + terms, parts.offset, count)
        digit_words.append([word.cast(types.u32) for word in words])
    return digit_words


def _sum(
    k: Builder, terms: Sequence[tuple[Sequence[Value], int]], constant: int, length: int
) -> list[Value]:
    """The lowest 32-bit words, in 64-bit ones, of a constant and products with constants."""
    zero = k.constant(0, types.u64)
    columns = [
        k.constant(constant >> (_BITS * at) & _MASK, types.u64) for at in range(length)
    ]  # fmt: skip
    for words, factor in terms:
        for place in range(-(-factor.bit_length() // _BITS)):
            digit = k.constant(factor >> (_BITS * place) & _MASK, types.u64)
            for at, word in enumerate(words[: max(length - place, 0)], place):
                product = word * digit
                columns[at] = columns[at] + (product & _MASK)
                if at + 1 < length:
                    columns[at + 1] = columns[at + 1] + (product >> _BITS)
    carry, low_words = zero, []
    for column in columns:
        total = column + carry
        low_words.append(total & _MASK)
        carry = total >> _BITS
    return low_words
