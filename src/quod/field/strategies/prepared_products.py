"""Products with prepared factors in 32-bit words, without Montgomery's reduction.

A factor w is prepared by the quotient w' = floor(w * R / p), with R = 2**(32 * words). Then

    q = floor(a * w' / R),    r = a*w - q*p    with 0 <= r < p + p*a/R + p

for each a below R (Shoup; see Harvey, "Faster arithmetic for number-theoretic transforms", 2014).
Only the high words of a * w' and the low words of the other products are computed: with the lowest
columns of a * w' left out, q is one too small at most. If the lowest words of p are 1 and 2**32 -
1, as in the scalar field of BLS12-381, p is P * 2**64 - 2**32 + 1, and q*p takes the products of P
alone.
"""

from __future__ import annotations

from quod.field.moduli import Modulus
from quod.field.strategies.carry_chains import CarryChains, Words
from quod.field.strategies.reduction import reduction_form
from quod.kernel.ir.value import Value

_WORD = 1 << 32


def prepared_factor(modulus: Modulus, factor: int) -> int:
    """Return the integer w + R * w' for a factor w below p."""
    bits = 32 * modulus.words
    return factor | (factor << bits) // modulus.value << bits


def prepares(modulus: Modulus) -> bool:
    """Return whether products with prepared factors fit the words of a modulus."""
    words = modulus.words
    return words > 2 and product_bound(_WORD**words, modulus.value, words) <= _WORD**words


def product_bound(a_bound: int, p: int, words: int) -> int:
    """Return the exclusive bound of a product, for numbers `a` below a bound of at most R.

    The columns that are left out are below words / 2**32 of a unit of q.
    """
    return p + (p * a_bound >> (32 * words)) + (p * words >> 32) + 3


class PreparedProducts:
    """Products modulo one prime p in one kernel."""

    def __init__(self, chains: CarryChains, p: int, words: int) -> None:
        self._chains, self._p, self._words = chains, p, words
        # Whether p is P * 2**64 - 2**32 + 1.
        self._is_short = reduction_form(p, words).adds_lowest

    def multiply(self, a: Words, factor: Words, quotient: Words) -> list[Value]:
        """Return the words of r, from those of a, w and w'."""
        chains, words = self._chains, self._words
        product = chains.low_product(a, factor, words)
        q = chains.high_product(a, quotient, words - 2)[2:]
        if not self._is_short:
            multiple = chains.low_product(q, chains.constant(self._p, words), words)
            return chains.subtract(product, multiple)[0]
        upper = (self._p + _WORD - 1) >> 64
        upper_multiple = chains.low_product(q, chains.constant(upper, words - 2), words - 2)
        remainder, _ = chains.subtract(product, q)
        top, _ = chains.subtract(remainder[2:], upper_multiple)
        shifted, _ = chains.add([remainder[1], *top], q[: words - 1])
        return [remainder[0], *shifted]
