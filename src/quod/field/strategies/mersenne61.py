"""The prime p = 2**61 - 1 in one 64-bit word: its reduction takes no product.

Montgomery's radix is 2**64, which is 8 modulo p, and to divide the low word of a product by it is
to rotate it by three places among 61. So with the words of a product, high and low,

    a*b / 2**64 = high + low / 8 = high + (low >> 3) + ((low mod 8) << 58)    modulo p,

where `Word64` takes two products more.
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
_MOST_ROTATED = _P + (7 << 58)


class Mersenne61(Word64):
    """Elements of the field of 2**61 - 1."""

    def _holds(self, modulus: Modulus) -> bool:
        return modulus.value == _P

    @property
    def carried_bound(self) -> int:
        """Four times p: a product of two such elements is one again, with nothing to take off."""
        return 4 * _P

    def _multiplied(self, a: Element, b: Element) -> tuple[Value, int]:
        word, bound = super()._multiplied(a, b)
        # Beside the greatest high word the low one is not the greatest: canonical factors have a
        # product below 2p, which takes one step less to be canonical.
        high, low = divmod((a.bound - 1) * (b.bound - 1), self.room)
        beside = max((low >> 3) + ((low & 7) << 58), (low >> 3) - 1 + (7 << 58))
        return word, min(bound, high + max(_MOST_ROTATED - 1, beside) + 1)

    def _halved(self, low: Value, high: Value, most: int) -> tuple[Value, int]:
        rotated = (low >> 3) + ((low << 61) >> 3)
        # Factors that fill their words leave no room above the high one.
        high, bound = lessened(self.k, high, most + 1, self.room - _MOST_ROTATED, _P)
        return high + rotated, bound + _MOST_ROTATED


def _suits(machine: Machine, modulus: Modulus) -> float | str:
    return 1 if modulus.value == _P else "it is for 2**61 - 1 alone"


STRATEGY = Strategy(_suits, Mersenne61)
