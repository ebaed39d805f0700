"""The named curves. Everything specific to a curve is in a file of its own here.

The file `bn254.py` defines `BN254`. To add a curve, add such a file, and its name to a table below.
A file is imported when its curve is first looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from quod.curve.parameters import PairingCurve
from quod.names import unknown_name

if TYPE_CHECKING:
    from quod.curve.edwards.curve import EdwardsCurve
    from quod.curve.weierstrass.curve import Curve

C = TypeVar("C")


class NamedCurves(Mapping[str, C]):
    """Curves by name, in a fixed order; `table` is the name of the table in `quod.curve`."""

    def __init__(self, table: str, *names: str) -> None:
        self._table_name = f"quod.curve.{table}"
        self._names = names
        # A proof looks its curve up two hundred times.
        self._curves: dict[str, C] = {}

    def __getitem__(self, name: str) -> C:
        if name not in self._curves:
            if name not in self._names:
                raise unknown_name(self._table_name, "a curve", name, self._names, _lookup_hint)
            module = import_module(f"{__name__}.{name}")
            self._curves[name] = getattr(module, name.upper())
        return self._curves[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def get(self, name: str, default: Any = None) -> Any:
        """The curve, or `default` if no curve has that name."""
        return self[name] if name in self._names else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


CURVES: NamedCurves[PairingCurve] = NamedCurves("CURVES", "bn254", "bls12_381", "bls12_377")
"""The curves with a pairing."""

WEIERSTRASS: NamedCurves[Curve] = NamedCurves(
    "WEIERSTRASS", "secp256k1", "pallas", "vesta", "grumpkin"
)
"""Short Weierstrass curves without a pairing."""

EDWARDS: NamedCurves[EdwardsCurve] = NamedCurves(
    "EDWARDS", "edwards_bls12", "jubjub", "baby_jubjub"
)
"""Twisted Edwards curves."""


def _lookup_hint(name: str) -> str | None:
    tables: dict[str, Mapping[str, object]] = {
        "CURVES": CURVES,
        "WEIERSTRASS": WEIERSTRASS,
        "EDWARDS": EDWARDS,
    }
    table_name = next((table_name for table_name, table in tables.items() if name in table), None)
    return None if table_name is None else f"quod.curve.{table_name} has it"
