"""Arithmetic modulo a prime: signed representatives, roots of polynomials, ranges of residues.

A range (low, high) of two integers contains a residue if it is that of an integer between them.
"""

from __future__ import annotations

from functools import lru_cache

from quod.curve.coordinates import FqCoordinates

Range = tuple[int, int]


def centred(number: int, prime: int) -> int:
    """Return the representative of a residue between -prime/2 and prime/2."""
    number %= prime
    return number - prime if number > prime >> 1 else number


def contains(bounds: Range, value: int, prime: int) -> bool:
    """Return whether a range contains the residue of a value."""
    low, high = bounds
    return (value - low) % prime <= high - low


def narrowed(bounds: Range | None, derived: Range, prime: int) -> Range:
    """Return the residues of both ranges as a range, or the smaller range if they are not one.

    Disjoint ranges, which only contradictory constraints have, leave the first as it is.
    """
    if bounds is None:
        return derived
    overlaps = []
    for shift in (-prime, 0, prime):
        low, high = max(bounds[0], derived[0] + shift), min(bounds[1], derived[1] + shift)
        if low <= high:
            overlaps.append((low, high))
    if len(overlaps) == 1:
        return overlaps[0]
    smaller = derived[1] - derived[0] < bounds[1] - bounds[0]
    return derived if smaller and overlaps else bounds


@lru_cache(maxsize=1 << 14)
def inverse(number: int, prime: int) -> int:
    """Return the inverse of a residue; circuits have few different coefficients."""
    return pow(number, -1, prime)


def quadratic_roots(a: int, b: int, c: int, prime: int) -> list[int] | None:
    """Return the distinct roots of a·x² + b·x + c; None if every residue is a root."""
    roots = _roots(a % prime, b % prime, c % prime, prime)
    return None if roots is None else list(roots)


@lru_cache(maxsize=1 << 12)
def _roots(a: int, b: int, c: int, prime: int) -> tuple[int, ...] | None:
    if not a:
        if not b:
            return () if c else None
        return (-c * inverse(b, prime) % prime,)
    if prime == 2:
        return tuple(x for x in (0, 1) if not (a * x + b * x + c) % 2)
    root = _field(prime).square_root((b * b - 4 * a * c) % prime)
    if root is None:
        return ()
    half = inverse(2 * a % prime, prime)
    return tuple(dict.fromkeys([(-b + root) * half % prime, (-b - root) * half % prime]))


@lru_cache(maxsize=16)
def _field(prime: int) -> FqCoordinates:
    return FqCoordinates(prime)
