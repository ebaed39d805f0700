"""Evaluations of a polynomial and its even and odd parts at r, -r and r^2, for HyperKZG.

Elements are integers below the prime p.
"""

from __future__ import annotations

from quod.field.spec import FieldSpec
from quod.transcript.transcript import Transcript


def drawn_point(transcript: Transcript, field: FieldSpec) -> int:
    """Draw the challenge r: the first one for which r, -r and r^2 are distinct."""
    while True:
        (r,) = transcript.challenge(field)
        if r * (r * r - 1) % field.modulus.value:
            return r


def folded_value(p: int, r: int, x: int, values: tuple[int, int]) -> int:
    """Return the value at r^2 of the fold (1 - x) * even + x * odd of a polynomial.

    values: the values of the polynomial even(X^2) + X * odd(X^2) at r and at -r.
    """
    even, odd = _even_and_odd(p, r, *values)
    return (even + x * (odd - even)) % p


def _even_and_odd(p: int, r: int, at_r: int, at_minus_r: int) -> tuple[int, int]:
    half = (p + 1) // 2
    return (at_r + at_minus_r) * half % p, (at_r - at_minus_r) * pow(2 * r, -1, p) % p


def interpolated(
    p: int, r: int, at_r: int, at_minus_r: int, at_square: int
) -> tuple[int, int, int]:
    """Return the coefficients of the quadratic polynomial with these values, constant first.

    The values are those at r, at -r and at r^2.
    """
    even, linear = _even_and_odd(p, r, at_r, at_minus_r)
    s = r * r % p
    quadratic = (at_square - linear * s - even) * pow(s * (s - 1), -1, p) % p
    return (even - quadratic * s) % p, linear, quadratic
