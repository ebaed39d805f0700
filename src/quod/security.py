"""The minimum security level of all provers and verifiers with error terms.

The bits are -log2 of the probability that one attempt at a false proof is accepted, with random
challenges. A prover that derives its own challenges from a hash can make as many attempts as it
pays for. The work of these attempts (grinding) adds no bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from quod.errors import InputError
from quod.validation import whole_number

LEAST_BITS = 100
"""The default minimum, which callers lower with `allow_bits`."""

MOST_BITS = 256
"""The bits of a proof without error terms: the size of a digest."""


def bits_of(terms: Iterable[Fraction]) -> int:
    """Return -log2 of the sum of error terms, rounded down; 0 for a sum of 1 or more."""
    total = sum(terms, Fraction(0))
    if not total:
        return MOST_BITS
    # Computed in integers, as small sums may underflow floats.
    return min(MOST_BITS, math.floor(1 / total).bit_length() - 1) if total < 1 else 0


def check_bits(
    what: str, terms: Mapping[str, Fraction], allow_bits: object, *, remedy: str = "pass"
) -> None:
    """Raise InputError if the error terms leave fewer bits than `allow_bits`.

    what: the subject of the message.
    remedy: the verb before the parameter that allows fewer bits.
    """
    asked_for = whole_number("allow_bits", allow_bits, 0)
    bits = bits_of(terms.values())
    if bits < asked_for:
        largest = max(terms, key=lambda name: terms[name], default="none")
        raise InputError(
            f"{what} shows {bits} bits, and at least {asked_for} are required (the "
            f"largest error term is {largest!r}); choose stronger parameters, or "
            f"{remedy} allow_bits={bits}"
        )
