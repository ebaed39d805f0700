"""The circuits of Filecoin's proofs by name, such as ``porep_32gib`` and ``window_2kib``.

`quod.r1cs.cached_circuits` keeps the traced circuits in the user's cache under these names.
"""

from __future__ import annotations

from collections.abc import Callable

from quod.filecoin.circuits.empty_sector_update import EmptySectorUpdateCircuit
from quod.filecoin.circuits.fallback_post import FallbackPoStCircuit
from quod.filecoin.circuits.stacked import StackedCircuit
from quod.filecoin.sectors import SECTORS, SectorShape
from quod.r1cs.system import ConstraintSystem

_CIRCUITS: dict[str, Callable[[SectorShape], Callable[[ConstraintSystem], None]]] = {
    "porep": StackedCircuit.of,
    "window": FallbackPoStCircuit.window,
    "winning": FallbackPoStCircuit.winning,
    "update": EmptySectorUpdateCircuit.of,
}


def __getattr__(name: str) -> Callable[[ConstraintSystem], None]:
    kind, _, size = name.partition("_")
    for sector in SECTORS.values():
        if kind in _CIRCUITS and sector.name.lower() == size:
            return _CIRCUITS[kind](sector)
    raise AttributeError(f"module {__name__} has no circuit {name}")
