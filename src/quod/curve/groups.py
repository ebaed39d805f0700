"""The groups of the curves with a pairing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from quod.curve.group import Group
from quod.curve.named import CURVES, EDWARDS, WEIERSTRASS
from quod.curve.parameters import G1Parameters, G2Parameters, PairingCurve
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.names import NameTable


@frozen
class PairingGroup(Group):
    """The subgroup of order r of E(Fq) (``g1``) or of its twist over Fq2 (``g2``)."""

    curve_name: str
    degree: int

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """``curve.g1`` or ``curve.g2``."""
        return f"{self.curve_name}.g{self.degree}"

    @property
    def curve(self) -> PairingCurve:
        """The curve with its pairing."""
        return CURVES[self.curve_name]

    @property
    def coordinates(self) -> Modulus:
        return self.curve.fq

    @property
    def scalars(self) -> Modulus:
        return self.curve.fr

    @property
    def parameters(self) -> G1Parameters | G2Parameters:
        return self.curve.g1 if self.degree == 1 else self.curve.g2

    @cached_property
    def field(self) -> FieldSpec:
        return self.coordinates if self.degree == 1 else self.curve.tower.fq2


def _lookup_hint(name: str) -> str | None:
    if name in CURVES:
        return f"the curve has two, {name}.g1 and {name}.g2"
    tables: dict[str, Mapping[str, object]] = {"WEIERSTRASS": WEIERSTRASS, "EDWARDS": EDWARDS}
    table = next((key for key, curves in tables.items() if name in curves), None)
    return None if table is None else f"that curve is a group itself: quod.curve.{table}[{name!r}]"


_PAIRING_GROUPS = [PairingGroup(name, degree) for name in CURVES for degree in (1, 2)]

GROUPS: dict[str, PairingGroup] = NameTable(
    "quod.curve.GROUPS", "a group", {group.name: group for group in _PAIRING_GROUPS}, _lookup_hint
)
