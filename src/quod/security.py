"""The minimum security level, in bits, of proof systems whose soundness error is a sum of terms.

The bits are -log2 of the probability that a single attempt at a false proof is accepted, with
random challenges. With Fiat-Shamir challenges a prover can make many attempts (grinding); the cost
of these attempts is not counted as bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from quod.errors import InputError
from quod.validation import whole_number

MIN_BITS = 100
"""The default minimum of bits, which callers lower with `allow_bits`."""

MAX_BITS = 256
"""The maximum of bits, for a proof without error terms: the size of a digest in bits."""


def bits_of(terms: Iterable[Fraction]) -> int:
    """Return -log2 of the sum of error terms, rounded down; 0 for a sum of 1 or more."""
    total = sum(terms, Fraction(0))
    if not total:
        return MAX_BITS
    # Integer arithmetic, because a small sum may underflow a float.
    return min(MAX_BITS, math.floor(1 / total).bit_length() - 1) if total < 1 else 0


def check_bits(
    what: str, terms: Mapping[str, Fraction], allow_bits: object, *, remedy: str = "pass"
) -> None:
    """Raise InputError if the error terms leave fewer bits than `allow_bits`.

    what: the subject of the message.
    remedy: the verb before the parameter that allows fewer bits.
    """
    required_bits = whole_number("allow_bits", allow_bits, 0)
    bits = bits_of(terms.values())
    if bits < required_bits:
        largest_term = max(terms, key=lambda name: terms[name], default="none")
        raise InputError(
            f"{what} shows {bits} bits, and at least {required_bits} are required (the "
            f"largest error term is {largest_term!r}); choose stronger parameters, or "
            f"{remedy} allow_bits={bits}"
        )
