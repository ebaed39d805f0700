"""The circuits of published parameters that are small enough to be traced constraint by constraint.

`quod.r1cs.cached_circuits` keeps the traced circuits in the user's cache, under the names here.
"""

from __future__ import annotations

from quod.filecoin.circuits.empty_sector_update import EmptySectorUpdateCircuit
from quod.filecoin.circuits.fallback_post import FallbackPoStCircuit
from quod.filecoin.circuits.stacked import StackedCircuit
from quod.filecoin.sectors import sector_shape

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_2KIB, _8MIB, _512MIB = (sector_shape(size) for size in (2 * _KIB, 8 * _MIB, 512 * _MIB))
_32GIB, _64GIB = (sector_shape(size) for size in (32 * _GIB, 64 * _GIB))

porep_2kib = StackedCircuit.of(_2KIB)
porep_8mib = StackedCircuit.of(_8MIB)
porep_512mib = StackedCircuit.of(_512MIB)

window_2kib = FallbackPoStCircuit.window(_2KIB)
window_8mib = FallbackPoStCircuit.window(_8MIB)
window_512mib = FallbackPoStCircuit.window(_512MIB)

winning_2kib = FallbackPoStCircuit.winning(_2KIB)
winning_8mib = FallbackPoStCircuit.winning(_8MIB)
winning_512mib = FallbackPoStCircuit.winning(_512MIB)
winning_32gib = FallbackPoStCircuit.winning(_32GIB)
winning_64gib = FallbackPoStCircuit.winning(_64GIB)

update_2kib = EmptySectorUpdateCircuit.of(_2KIB)
