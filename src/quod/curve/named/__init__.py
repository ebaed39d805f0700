"""The named curves, one file each, which is all that Quod is told of a curve.

A file has the curve under the name of its file in capitals; a name here is all that a new one needs
besides. They load when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from quod.curve.parameters import PairingCurve

if TYPE_CHECKING:
    from quod.curve.edwards_curve import EdwardsCurve
    from quod.curve.weierstrass import Curve

C = TypeVar("C")


class NamedCurves(Mapping[str, C]):
    """Curves by name, in a fixed order."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __getitem__(self, name: str) -> C:
        if name not in self._names:
            raise KeyError(name)
        curve: C = getattr(import_module(f"{__name__}.{name}"), name.upper())
        return curve

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


CURVES: NamedCurves[PairingCurve] = NamedCurves("bn254", "bls12_381", "bls12_377")
"""The curves with a pairing."""

WEIERSTRASS: NamedCurves[Curve] = NamedCurves("secp256k1", "pallas", "vesta", "grumpkin")
"""Short Weierstrass curves without one."""

EDWARDS: NamedCurves[EdwardsCurve] = NamedCurves("edwards_bls12", "jubjub", "baby_jubjub")
"""Twisted Edwards curves."""
