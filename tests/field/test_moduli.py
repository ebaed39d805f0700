"""Moduli: named primes, and invalid values."""

from __future__ import annotations

import numpy as np
import pytest

from quod.curve.named.edwards_bls12 import EDWARDS_BLS12
from quod.errors import InputError
from quod.field.moduli import NAMED, Modulus
from quod.field.primality import is_prime


@pytest.mark.parametrize("modulus", [*NAMED.values(), EDWARDS_BLS12.fr], ids=lambda m: m.name)
def test_named_moduli_are_prime(modulus: Modulus) -> None:
    assert Modulus(modulus.name, modulus.value) == modulus


def test_modulus_names_match_their_keys() -> None:
    assert all(name == modulus.name for name, modulus in NAMED.items())


def test_small_primes() -> None:
    sieve = [n for n in range(2, 3000) if all(n % d for d in range(2, int(n**0.5) + 1))]
    assert [n for n in range(-3, 3000) if is_prime(n)] == sieve


STRONG_PSEUDOPRIMES = {
    "bases 2 to 7": 3215031751,
    "bases 2 to 31": 3825123056546413051,
    "bases 2 to 37": 318665857834031151167461,
    "bases 2 to 41": 3317044064679887385961981,
}
"""Composites that pass for the first primes as bases (Sorenson and Webster)."""

COMPOSITES = {
    **STRONG_PSEUDOPRIMES,
    "the least": 9,
    "a square": ((1 << 61) - 1) ** 2,
    "a Carmichael number": 561,
    "the product of two fields": NAMED["bn254.fr"].value * NAMED["secp256k1.fq"].value,
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_composites(name: str) -> None:
    with pytest.raises(InputError, match="composite; a field has a prime number of elements"):
        Modulus(name, COMPOSITES[name])


def test_range_limits() -> None:
    assert Modulus("least", 5).words == 1
    assert Modulus("greatest", (1 << 521) - 1).words == 18
    with pytest.raises(InputError, match=r"^the modulus of 522 bits of large is too large; take a"):
        Modulus("large", (1 << 521) + 1)


@pytest.mark.parametrize("value", [-7, 0, 1, 2, 3, 4])
def test_too_small(value: int) -> None:
    with pytest.raises(InputError, match=f"the modulus {value} of small is too small; take a prim"):
        Modulus("small", value)


@pytest.mark.parametrize("value", [6, 1 << 64, 1 << 520])
def test_even(value: int) -> None:
    with pytest.raises(InputError, match=r"of even is even; take an odd prime"):
        Modulus("even", value)


@pytest.mark.parametrize("arguments", [("f", 17.0), ("f", True), ("f", np.uint64(17)), (b"f", 17)])
def test_invalid_types_are_rejected(arguments: tuple[str, int]) -> None:
    with pytest.raises(InputError, match=r"a name \(str\) and a prime \(int\), not \w+ and \w+"):
        Modulus(*arguments)


@pytest.mark.parametrize(
    ("name", "size", "radix_bits"),
    [
        ("m31", 4, 0), ("baby_bear", 4, 32), ("koala_bear", 4, 32), ("goldilocks", 8, 0),
        ("m61", 8, 64),
        ("secp256k1.fq", 32, 256), ("pallas.fr", 32, 256), ("bls12_381.fq", 48, 384),
    ],
)  # fmt: skip
def test_memory(name: str, size: int, radix_bits: int) -> None:
    modulus = NAMED[name]
    assert (modulus.bytes, modulus.montgomery_radix) == (size, 1 << radix_bits)
    assert modulus.is_plain == (radix_bits == 0)
