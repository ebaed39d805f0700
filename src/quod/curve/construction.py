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


EquationAndGenerator = tuple[int, int, tuple[int, int]]
"""The two coefficients of a curve's equation, and its affine generator."""


class _BuildableCurve(_Curve, Protocol):
    def _set(self, first: int, second: int, generator: tuple[int, int], /) -> None: ...


C = TypeVar("C", bound=_BuildableCurve)


def unchecked(
    kind: type[C],
    name: str,
    fq: Modulus,
    fr: Modulus,
    parameters: EquationAndGenerator,
    cofactor: int,
) -> C:
    """Return a curve of class `kind` without checking its parameters.

    parameters: the coefficients of the equation and the generator.
    """
    curve = object.__new__(kind)
    curve.__dict__.update(name=name, fq=fq, fr=fr, cofactor=cofactor)
    curve._set(*parameters)
    return curve


def check_prime_field(name: str, fq: Modulus) -> None:
    """Raise InputError if a coordinate needs less than one 64-bit word in memory."""
    if fq.words == 1:
        raise InputError(
            f"the coordinates of {name} have {fq.bits} bits, but points in memory need whole "
            "64-bit words; use a field of 33 bits or more"
        )


def check_order(curve: _Curve, cofactor: int, *, has_order: bool) -> None:
    """Raise InputError unless the order of the curve and of its generator are possible.

    has_order: whether the generator has order r = `curve.fr`. The number of points, r * cofactor,
    must be within Hasse's bound.
    """
    name, q, r = curve.name, curve.fq.value, curve.fr.value
    if not has_order:
        raise InputError(
            f"the generator of {name} does not have the order r, {curve.fr.name}: give another "
            "generator, or its order as fr"
        )
    points = r * cofactor
    # |points - q - 1| <= 2*sqrt(q), after Hasse.
    if cofactor < 1 or (points - q - 1) ** 2 > 4 * q:
        fewest, most = q + 1 - isqrt(4 * q), q + 1 + isqrt(4 * q)
        raise InputError(
            f"the cofactor of {name} cannot be {cofactor}: by Hasse's bound, curves over this "
            f"field have {fewest} to {most} points"
        )
