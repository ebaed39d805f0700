"""Roots of unity of order 2**k in prime fields, by the conventions in use.

The field with p elements has roots of unity of orders up to 2**two_adicity, the greatest power of
two that divides p - 1. Each root here is ``g**((p - 1) / 2**k)`` for a non-residue g, so the square
of a root is the root of half its order. The choice of g is a convention, a *family*:

    snarkjs    the smallest quadratic non-residue
    arkworks   the established generator of the multiplicative group: the one of arkworks, bellman
               and Plonky3 for their fields, else the smallest one
"""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

from quod.errors import InputError
from quod.field.moduli import (
    BLS12_377_FQ,
    BLS12_377_FR,
    BLS12_381_FQ,
    BLS12_381_FR,
    BN254_FQ,
    BN254_FR,
    CURVE25519_FQ,
    PALLAS_FQ,
    PALLAS_FR,
    SECP256K1_FQ,
    SECP256K1_FR,
    Modulus,
)
from quod.wording import alternatives

RootFamily = Literal["snarkjs", "arkworks"]

PUBLISHED_GENERATORS: dict[int, int] = {
    modulus.value: generator
    for modulus, generator in (
        (BN254_FQ, 3), (BN254_FR, 5), (BLS12_381_FQ, 2), (BLS12_381_FR, 7), (BLS12_377_FQ, 15),
        (BLS12_377_FR, 22), (SECP256K1_FQ, 3), (SECP256K1_FR, 7), (PALLAS_FQ, 5), (PALLAS_FR, 5),
        (CURVE25519_FQ, 2),
    )
}  # fmt: skip
"""Generators of the multiplicative group for large primes, as in arkworks.

Small fields use the smallest generator: 7 for M31 and Goldilocks, 31 for BabyBear, 3 for KoalaBear.
"""

_TRIAL_DIVISION_LIMIT = 1 << 16
"""The limit of trial division. For p below 2**32, what it leaves of p - 1 is 1 or a prime."""


@cache
def smallest_non_residue(modulus: Modulus) -> int:
    """Return the smallest quadratic non-residue modulo p."""
    p, candidate = modulus.value, 2
    while pow(candidate, (p - 1) // 2, p) == 1:
        candidate += 1
    return candidate


@cache
def multiplicative_generator(modulus: Modulus) -> int:
    """Return the generator of the multiplicative group that the family arkworks uses.

    Raises InputError if none is published and p - 1 is too hard to factor.
    """
    p = modulus.value
    if p in PUBLISHED_GENERATORS:
        return PUBLISHED_GENERATORS[p]
    exponents = [(p - 1) // prime for prime in _prime_factors(modulus)]
    candidate = 2
    while any(pow(candidate, exponent, p) == 1 for exponent in exponents):
        candidate += 1
    return candidate


def _prime_factors(modulus: Modulus) -> list[int]:
    """Return the primes that divide p - 1; raise InputError if they are too hard to find."""
    from quod.field.primality import is_prime

    primes, cofactor, divisor = [2], (modulus.value - 1) >> modulus.two_adicity, 3
    while divisor < _TRIAL_DIVISION_LIMIT and divisor * divisor <= cofactor:
        if cofactor % divisor == 0:
            primes.append(divisor)
            while cofactor % divisor == 0:
                cofactor //= divisor
        divisor += 2
    if cofactor == 1:
        return primes
    if not is_prime(cofactor):
        raise InputError(
            f"no generator of {modulus.name} is known, and its p - 1 is too hard to factor; "
            "use the family snarkjs, or give a root"
        )
    return [*primes, cofactor]


def family_non_residue(modulus: Modulus, family: RootFamily) -> int:
    """Return the non-residue g of a family; raise InputError for an unknown family."""
    if family not in get_args(RootFamily):
        families = alternatives(get_args(RootFamily))
        raise InputError(f"the family of roots of unity must be {families}, not {family!r}")
    find_generator = smallest_non_residue if family == "snarkjs" else multiplicative_generator
    return find_generator(modulus)


@cache
def root_of_unity(modulus: Modulus, family: RootFamily, log_size: int | None = None) -> int:
    """Return the root of unity of order 2**log_size of a family.

    log_size: log2 of the order. Default: `two_adicity`, the largest possible.
    Raises InputError if the field has no root of that order.
    """
    log_size = modulus.two_adicity if log_size is None else log_size
    _check_order(modulus, log_size)
    p = modulus.value
    return pow(family_non_residue(modulus, family), (p - 1) >> log_size, p)


def check_root(modulus: Modulus, root: object, log_size: int) -> None:
    """Raise InputError unless `root` is an int below p of multiplicative order 2**log_size."""
    _check_order(modulus, log_size)
    p = modulus.value
    if type(root) is not int:
        raise InputError(f"a root of unity must be an int, not {type(root).__name__}")
    order_divides = pow(root, 1 << log_size, p) == 1
    has_smaller_order = log_size > 0 and pow(root, 1 << (log_size - 1), p) == 1
    if not 0 < root < p or not order_divides or has_smaller_order:
        raise InputError(
            f"{root} is not a root of unity of order 2^{log_size} in {modulus.name}; "
            "omit it to use the root of a family"
        )


def _check_order(modulus: Modulus, log_size: int) -> None:
    if not 0 <= log_size <= modulus.two_adicity:
        raise InputError(
            f"{modulus.name} has roots of unity of order 2^0 to 2^{modulus.two_adicity}, "
            f"not 2^{log_size}"
        )


def quotient_coset_shift(modulus: Modulus, family: RootFamily, log_size: int) -> int:
    """Return the shift of the coset on which a Groth16 prover evaluates the quotient polynomial.

    snarkjs uses the root of order 2**(log_size + 1), whose odd powers form the coset. At the
    two-adicity there is no such root, and it uses the square of the non-residue. arkworks and
    bellman use their generator.
    """
    if family == "arkworks":
        return family_non_residue(modulus, family)
    if log_size == modulus.two_adicity:
        return pow(family_non_residue(modulus, family), 2, modulus.value)
    return root_of_unity(modulus, family, log_size + 1)
