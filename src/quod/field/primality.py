"""The primality test of Miller and Rabin.

Rabin, "Probabilistic algorithm for testing primality", 1980. With the first twelve primes as bases
the test is exact below 318665857834031151167461 (Sorenson and Webster, "Strong pseudoprimes to
twelve prime bases", 2017), which is above 2**64. Larger numbers must also pass random bases: any
composite, even an adversarial one, passes each base with a probability of at most one in four.
"""

from __future__ import annotations

import os

_FIXED_BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
_EXACT_BELOW = 318665857834031151167461
_RANDOM_BASES = 32
"""The number of random bases; a composite passes all with a probability of at most 2**-64."""


def is_prime(number: int) -> bool:
    """Test whether a number is prime; exact below 2**78, else wrong with probability 2**-64."""
    if number < 2:
        return False
    for base in _FIXED_BASES:
        if number % base == 0:
            return number == base
    if not all(_passes(number, base) for base in _FIXED_BASES):
        return False
    if number < _EXACT_BELOW:
        return True
    size = -(-number.bit_length() // 8) + 8
    integers = (int.from_bytes(os.urandom(size), "little") for _ in range(_RANDOM_BASES))
    return all(_passes(number, 2 + base % (number - 3)) for base in integers)


def _passes(number: int, base: int) -> bool:
    """Test whether an odd number is a strong probable prime to a base from 2 to number - 2."""
    halvings = ((number - 1) & (1 - number)).bit_length() - 1
    power = pow(base, number >> halvings, number)
    if power in (1, number - 1):
        return True
    for _ in range(halvings - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False
