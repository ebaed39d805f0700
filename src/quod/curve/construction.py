"""Construction of curves, with or without checks of their parameters."""

from __future__ import annotations

from math import isqrt
from typing import Protocol, TypeVar

from quod.errors import InputError
from quod.field.moduli import Modulus


class _Curve(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def fq(self) -> Modulus: ...
    @property
    def fr(self) -> Modulus: ...


Numbers = tuple[int, int, tuple[int, int]]
"""The two of the equation, and the generator."""


class _BuildableCurve(_Curve, Protocol):
    def _set(self, first: int, second: int, generator: tuple[int, int], /) -> None: ...


C = TypeVar("C", bound=_BuildableCurve)


def unchecked(
    kind: type[C], name: str, fq: Modulus, fr: Modulus, numbers: Numbers, cofactor: int
) -> C:
    """A curve of these fields that is not checked."""
    curve = object.__new__(kind)
    curve.__dict__.update(name=name, fq=fq, fr=fr, cofactor=cofactor)
    curve._set(*numbers)
    return curve


def check_prime_field(name: str, fq: Modulus) -> None:
    """Raise InputError for coordinates that are less than a 64-bit word in memory."""
    if fq.words == 1:
        raise InputError(
            f"the coordinates of {name} have {fq.bits} bits; points in memory are whole 64-bit "
            "words, so take a field of 33 bits or more"
        )


def check_order(curve: _Curve, cofactor: int, *, has_order: bool) -> None:
    """InputError unless the generator has order r, and as many points as r * cofactor can be."""
    name, q, r = curve.name, curve.fq.value, curve.fr.value
    if not has_order:
        raise InputError(
            f"the generator of {name} has not the order r, {curve.fr.name}: take another point for "
            "it, or the order that it has"
        )
    points = r * cofactor
    # |points - q - 1| <= 2*sqrt(q), after Hasse.
    if cofactor < 1 or (points - q - 1) ** 2 > 4 * q:
        first, last = q + 1 - isqrt(4 * q), q + 1 + isqrt(4 * q)
        raise InputError(
            f"the cofactor of {name} is not {cofactor}: curves over this field have {first} to "
            f"{last} points, after Hasse"
        )
