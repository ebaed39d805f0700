"""The prime p = 2**61 - 1 in one 64-bit word: its reduction takes no product.

Montgomery's radix 2**64 is 8 modulo p, and dividing by 8 rotates 61 bits by three. So with the
words high and low of a product,

    a*b / 2**64 = high + low / 8 = high + (low >> 3) + ((low mod 8) << 58)    modulo p.

`Word64`, for other primes of this size, takes two more products.
"""

from __future__ import annotations

from quod.field.element import Element
from quod.field.moduli import M61, Modulus
from quod.field.strategies.one_word import Word64
from quod.field.strategies.word import lessened
from quod.field.strategy import Strategy
from quod.kernel.ir.value import Value
from quod.kernel.machine import Machine

_P = M61.value
_MAX_ROTATED = _P + (7 << 58)


class Mersenne61(Word64):
    """Elements of the field of 2**61 - 1."""

    def _holds(self, modulus: Modulus) -> bool:
        return modulus.value == _P

    @property
    def standard_bound(self) -> int:
        """Four times p: products of such elements are within this bound without a reduction."""
        return 4 * _P

    def _product_word(self, a: Element, b: Element) -> tuple[Value, int]:
        word, bound = super()._product_word(a, b)
        # The highest high word does not occur with the highest low word: products of canonical
        # factors are below 2p, which saves a step in their canonical form.
        high, low = divmod((a.bound - 1) * (b.bound - 1), self.room)
        largest_sum = max((low >> 3) + ((low & 7) << 58), (low >> 3) - 1 + (7 << 58))
        return word, min(bound, high + max(_MAX_ROTATED - 1, largest_sum) + 1)

    def _reduce_halves(self, low: Value, high: Value, max_high: int) -> tuple[Value, int]:
        rotated = (low >> 3) + ((low << 61) >> 3)
        # If the factors fill their words, the high word has no room for the sum.
        high, bound = lessened(self.k, high, max_high + 1, self.room - _MAX_ROTATED, _P)
        return high + rotated, bound + _MAX_ROTATED


def _suits(machine: Machine, modulus: Modulus) -> float | str:
    return 1 if modulus.value == _P else "it supports 2**61 - 1 only"


STRATEGY = Strategy(_suits, Mersenne61)
