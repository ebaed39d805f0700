"""Roots of unity: their orders, published values, and invalid arguments."""

from __future__ import annotations

from typing import get_args

import pytest

from quod.errors import InputError
from quod.field.moduli import (
    BABY_BEAR,
    BLS12_377_FR,
    BLS12_381_FR,
    BN254_FR,
    GOLDILOCKS,
    KOALA_BEAR,
    M31,
    NAMED,
    Modulus,
)
from quod.field.roots import (
    RootFamily,
    check_root,
    family_non_residue,
    multiplicative_generator,
    quotient_coset_shift,
    root_of_unity,
    smallest_non_residue,
)

FAMILIES: tuple[RootFamily, ...] = get_args(RootFamily)

each_field = pytest.mark.parametrize("modulus", NAMED.values(), ids=NAMED)
each_family = pytest.mark.parametrize("family", FAMILIES)


@each_field
def test_generators(modulus: Modulus) -> None:
    """The order of each generator has no small cofactor; larger factors of p - 1 are unknown."""
    p, g = modulus.value, multiplicative_generator(modulus)
    for prime in (n for n in range(2, 1 << 10) if (p - 1) % n == 0):
        assert pow(g, (p - 1) // prime, p) != 1


@pytest.mark.parametrize("prime", [5, 7, 17, 31, 97, 193])
def test_generators_of_toy_fields(prime: int) -> None:
    modulus = Modulus("toy", prime)
    g = multiplicative_generator(modulus)
    assert {pow(g, i, prime) for i in range(prime - 1)} == set(range(1, prime))
    smaller = (h for h in range(2, g))
    assert all(len({pow(h, i, prime) for i in range(prime - 1)}) < prime - 1 for h in smaller)
    squares = {x * x % prime for x in range(prime)}
    assert smallest_non_residue(modulus) == min(set(range(prime)) - squares)


def test_missing_generator_is_reported() -> None:
    # The order of the curve's subgroup of Ed25519: p - 1 is 4 * 3 * 11 and two large primes.
    modulus = Modulus("ed25519.fr", (1 << 252) + 27742317777372353535851937790883648493)
    with pytest.raises(InputError, match="use the family snarkjs, or give a root"):
        root_of_unity(modulus, "arkworks", 1)
    assert root_of_unity(modulus, "snarkjs", 1) == modulus.value - 1


@pytest.mark.parametrize(
    ("modulus", "adicity", "snarkjs", "arkworks"),
    [
        (BN254_FR, 28, 5, 5), (BLS12_381_FR, 32, 5, 7), (BLS12_377_FR, 47, 11, 22),
        (GOLDILOCKS, 32, 7, 7), (BABY_BEAR, 27, 11, 31), (KOALA_BEAR, 24, 3, 3), (M31, 1, 3, 7),
    ],
    ids=lambda value: getattr(value, "name", ""),
)  # fmt: skip
def test_generators_of_roots(modulus: Modulus, adicity: int, snarkjs: int, arkworks: int) -> None:
    assert modulus.two_adicity == adicity
    assert family_non_residue(modulus, "snarkjs") == snarkjs == smallest_non_residue(modulus)
    assert family_non_residue(modulus, "arkworks") == arkworks


def test_published_roots_of_unity() -> None:
    # halo2curves and arkworks for the generator 7 (the root of bellman), ffjavascript for 5.
    assert root_of_unity(BLS12_381_FR, "arkworks") == int(
        "16a2a19edfe81f20d09b681922c813b4b63683508c2280b93829971f439f0d2b", 16
    )
    assert f"{root_of_unity(BLS12_381_FR, 'snarkjs'):x}".startswith("212d79e5")
    assert root_of_unity(BN254_FR, "snarkjs") == root_of_unity(BN254_FR, "arkworks")
    assert root_of_unity(BN254_FR, "arkworks") == (
        19103219067921713944291392827692070036145651957329286315305642004821462161904
    )
    assert root_of_unity(BLS12_377_FR, "arkworks") == (
        8065159656716812877374967518403273466521432693661810619979959746626482506078
    )
    # Plonky2 and Plonky3.
    assert root_of_unity(GOLDILOCKS, "arkworks") == 1753635133440165772
    assert root_of_unity(BABY_BEAR, "arkworks") == 0x1A427A41
    assert root_of_unity(KOALA_BEAR, "arkworks") == 0x6AC49F88


@each_field
def test_roots_of_unity(modulus: Modulus) -> None:
    for family in FAMILIES:
        check_roots(modulus, family)


def check_roots(modulus: Modulus, family: RootFamily) -> None:
    p, s = modulus.value, modulus.two_adicity
    assert root_of_unity(modulus, family, 0) == 1
    assert root_of_unity(modulus, family, 1) == p - 1
    for log_size in range(1, s + 1):
        root = root_of_unity(modulus, family, log_size)
        assert root * root % p == root_of_unity(modulus, family, log_size - 1)
        check_root(modulus, root, log_size)
        with pytest.raises(InputError, match="not a root of unity of order"):
            check_root(modulus, root, log_size - 1)
        with pytest.raises(InputError, match=r"roots? of unity of order"):
            check_root(modulus, root, log_size + 1)
    for wrong in (-1, s + 1):
        with pytest.raises(InputError, match="roots of unity of order"):
            root_of_unity(modulus, family, wrong)


def test_invalid_roots_of_order_four_are_rejected() -> None:
    for root in (0, 1, -1, 16, 17 + 4, 4.0, True, "4"):
        with pytest.raises(InputError, match="root of unity"):
            check_root(Modulus("toy", 17), root, 2)
    check_root(Modulus("toy", 17), 4, 2)


def test_unknown_family() -> None:
    with pytest.raises(InputError, match="snarkjs or arkworks"):
        root_of_unity(BN254_FR, "gnark")  # type: ignore[arg-type]


@pytest.mark.parametrize("modulus", [BN254_FR, BLS12_381_FR, GOLDILOCKS])
@each_family
def test_quotient_coset_avoids_the_domain(modulus: Modulus, family: RootFamily) -> None:
    p, s = modulus.value, modulus.two_adicity
    for log_size in (0, 1, 5, s - 1, s):
        shift = quotient_coset_shift(modulus, family, log_size)
        assert pow(shift, 1 << log_size, p) != 1
    odd = quotient_coset_shift(modulus, "snarkjs", 4)
    assert pow(odd, 16, p) == p - 1
