"""Digits: nodes whose weights in an equation decompose a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from quod.r1cs.determinism.arithmetic import Range, centred

MAX_WRAPS = 4
"""The number of integers with equal residues modulo p that digits may decompose."""


class Digit(NamedTuple):
    """A node with a range, and its weight as a signed integer."""

    weight: int
    node: int
    bounds: Range


def digits_of(
    nodes: Sequence[tuple[int, int, Range]], scale: int, prime: int
) -> list[Digit]:  # fmt: skip
    """Return nodes with coefficients and ranges as digits, the highest one first.

    scale: turns coefficients into weights.
    The list is empty unless each weight exceeds the sum that the lower digits reach. All digits
    may reach a small multiple of p: a number and that plus p are different decompositions then.
    """
    digits = sorted(
        [Digit(centred(k * scale, prime), node, bounds) for node, k, bounds in nodes],
        key=lambda digit: abs(digit.weight),
    )
    reach = 0
    for weight, _, (low, high) in digits:
        if abs(weight) <= reach:
            return []
        reach += abs(weight) * (high - low)
    return digits[::-1] if reach < MAX_WRAPS * prime else []


def decompositions(
    digits: Sequence[Digit], number: int, prime: int
) -> Iterator[list[tuple[int, int]]]:  # fmt: skip
    """Yield the values of all digits whose weighted sum is congruent to a number, by node."""
    if not digits:
        return
    reach, least = 0, 0
    for weight, _, (low, high) in digits:
        reach += abs(weight) * (high - low)
        least += weight * (low if weight > 0 else high)
    for sum_of_digits in range((number - least) % prime, min(reach + 1, MAX_WRAPS * prime), prime):
        remaining, values = sum_of_digits, []
        for weight, node, (low, high) in digits:
            # Digits with negative weights count down from their upper bounds.
            digit = min(remaining // abs(weight), high - low)
            remaining -= digit * abs(weight)
            values.append((node, low + digit if weight > 0 else high - digit))
        if not remaining:
            yield values
