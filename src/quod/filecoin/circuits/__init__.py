"""The circuits of Filecoin's proofs: PoRep, WindowPoSt and WinningPoSt, SnapDeals.

Each file states what its proof means, and adds the constraints of rust-fil-proofs in their order.
The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.filecoin.circuits.empty_sector_update import (
        EmptySectorUpdateCircuit as EmptySectorUpdateCircuit,
    )
    from quod.filecoin.circuits.fallback_post import FallbackPoStCircuit as FallbackPoStCircuit
    from quod.filecoin.circuits.stacked import StackedCircuit as StackedCircuit
else:
    __getattr__, __dir__ = lazy_names(__name__)
