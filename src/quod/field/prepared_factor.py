"""Prepared factors: a field element with a quotient that saves products by it a reduction."""

from __future__ import annotations

from quod.field.moduli import Modulus


def prepared_factor(modulus: Modulus, factor: int) -> int:
    """Return the integer w + R * floor(w * R / p) for a factor w below p, with R = 2**(32 * words).

    See `quod.field.strategies.prepared_products`.
    """
    bits = 32 * modulus.words
    return factor | (factor << bits) // modulus.value << bits
