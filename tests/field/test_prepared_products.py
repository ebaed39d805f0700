"""Products with prepared factors, against integers, for hostile and random numbers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from quod.codegen.ptx.machine import ptx_machine
from quod.field.element import Element
from quod.field.moduli import MODULI, Modulus
from quod.field.strategies.limbs32 import Limbs32
from quod.field.strategies.prepared_products import prepared_factor, prepares, product_bound
from quod.field.strategy import strategy_for
from quod.kernel import U64, Builder, Pointer, kernel
from quod.kernel.interpreter.interpreter import interpret
from tests.field.test_limbs32 import decode, encode, hostile

LANES = 64
MACHINE = ptx_machine(LANES)
# Moduli whose lowest words are any, 1, and 1 and 2**32 - 1.
PREPARED = [MODULI[name] for name in ("bn254.fr", "bls12_381.fq", "bls12_377.fr", "bls12_381.fr")]


@kernel
def prepared_product(
    k: Builder, a: Pointer[U64], factors: Pointer[U64], out: Pointer[U64], *, modulus: Modulus
) -> None:
    """out[i] = the limbs of a[i] * factors[i], for any numbers a[i] in the words of an element."""
    f, i, size = Limbs32(k, modulus), k.global_id(), modulus.words // 2
    assert f.prepares_factors
    limbs = f._halves(k.load(a, i * size, size))
    element = Element(
        f, tuple(limbs), 1 << f.native_exponent, f._full_maxima(1 << f.native_exponent),
        f.native_exponent,
    )  # fmt: skip
    product = f.multiply_prepared(element, k.load(factors, i * (2 * size), 2 * size))
    k.store(out, i * size, *f._join(product.limbs))


@pytest.mark.parametrize("modulus", PREPARED, ids=lambda modulus: modulus.name)
def test_prepared_products(modulus: Modulus) -> None:
    p, words, rng = modulus.value, modulus.words, random.Random(7)
    limit = 1 << (32 * words)
    numbers = [*hostile(modulus), limit - 1, limit - 2, limit - (1 << 32), p, 2 * p - 1]
    pairs = [(x, w) for x in numbers for w in hostile(modulus)]
    # The largest remainders of w * R by p make the quotient the least exact.
    radix_inverse = pow(limit, -1, p)
    pairs += [(limit - 1, -d * radix_inverse % p) for d in range(1, 40)]
    pairs += [(rng.randrange(limit), rng.randrange(p)) for _ in range(400)]
    pairs += [(1, 1)] * (-len(pairs) % LANES)
    a = encode([x for x, _ in pairs], words)
    factors = encode([prepared_factor(modulus, w) for _, w in pairs], 2 * words)
    out = np.zeros(len(a), np.uint64)
    interpret(
        prepared_product.trace(MACHINE, modulus=modulus), len(pairs) // LANES, [a, factors, out]
    )
    for (x, w), product in zip(pairs, decode(out, words), strict=True):
        assert product % p == x * w % p
        assert product < product_bound(x + 1, p, words)


def test_moduli_without_a_spare_bit_are_not_prepared() -> None:
    """A product is up to twice the modulus, which does not fit the words of these primes."""
    largest = Modulus("largest of 256 bits", 2**256 - 189)
    assert not prepares(largest)
    assert not strategy_for(MACHINE, largest).prepares(largest)
    assert all(strategy_for(MACHINE, modulus).prepares(modulus) for modulus in PREPARED)
