"""Costs of products in a field: multiply-adds of 32-bit words in the cheapest known form.

A product of n words takes n * n multiply-adds, a square n * (n + 1) / 2. The multiply-adds of a
reduction follow from its form in `quod.field.strategies.reduction`. In the quadratic extension a
product is two sums of two products, each reduced once, and a square is two products.
"""

from __future__ import annotations

from quod.field.moduli import Modulus
from quod.field.strategies.reduction import reduction_form


def product_cost(modulus: Modulus, degree: int = 1) -> int:
    """Return the multiply-adds of a product in the prime field or its quadratic extension."""
    products = modulus.words**2
    return degree * (degree * products + _reduction_cost(modulus))


def prepared_product_cost(modulus: Modulus) -> int:
    """Return the multiply-adds of a product with a prepared factor.

    See `quod.field.strategies.prepared_products`.
    """
    words = modulus.words
    multiplied_words = words - reduction_form(modulus.value, words).first
    return words * (words + 1) + words - 1 + multiplied_words * (multiplied_words + 1) // 2


def square_cost(modulus: Modulus, degree: int = 1) -> int:
    """Return the multiply-adds of a square in the prime field or its quadratic extension."""
    words = modulus.words
    if degree == 2:
        return 2 * product_cost(modulus)
    return words * (words + 1) // 2 + _reduction_cost(modulus)


def _reduction_cost(modulus: Modulus) -> int:
    form, words = reduction_form(modulus.value, modulus.words), modulus.words
    return words * (words - form.first + (form.inverse is not None))
