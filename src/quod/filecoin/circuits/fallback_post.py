"""FallbackPoStCircuit, the circuit of WindowPoSt and WinningPoSt: replicas are still stored.

A proof states, for the public comm_r and challenges of each sector:

- comm_r = Poseidon(comm_c, comm_r_last), where comm_r_last is the root of TreeRLast.
- For each challenge, a leaf with this index is in TreeRLast.

The constraints are those of `FallbackPoStCircuit` of rust-fil-proofs,
`storage-proofs-post/src/fallback/circuit.rs`.
"""

from __future__ import annotations

from quod.filecoin.circuits.elements import public_element
from quod.filecoin.circuits.trees import Arities, leaf_count, prove_inclusion, tree_r_node
from quod.filecoin.sectors import WINDOW_CHALLENGES, WINNING_CHALLENGES, SectorShape
from quod.frozen import frozen
from quod.r1cs.gadgets.neptune import neptune_hash
from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem
from quod.validation import whole_number


@frozen
class FallbackPoStCircuit:
    """The circuit of a PoSt, a function for `quod.r1cs.trace` over BLS12-381.

    arities: those of TreeRLast.
    sectors: the number of sectors: 2,349 in WindowPoSt of 32 GiB, 66 in WinningPoSt, where a sector
        occurs once for each of its challenges.
    challenges: the number of challenges for each sector: 10 in WindowPoSt, 1 in WinningPoSt.

    Public wires are, for each sector, comm_r and the challenges.
    Raises InputError for numbers that no circuit has.
    """

    arities: Arities
    sectors: int
    challenges: int

    def __post_init__(self) -> None:
        leaf_count(self.arities)
        for name in ("sectors", "challenges"):
            self.__dict__[name] = whole_number(f"the number of {name}", getattr(self, name), 1)

    @classmethod
    def window(cls, sector: SectorShape) -> FallbackPoStCircuit:
        """Return the circuit of a partition of WindowPoSt."""
        return cls(sector.arities, sector.window_sectors, WINDOW_CHALLENGES)

    @classmethod
    def winning(cls, sector: SectorShape) -> FallbackPoStCircuit:
        """Return the circuit of WinningPoSt."""
        return cls(sector.arities, WINNING_CHALLENGES, 1)

    def __call__(self, system: ConstraintSystem) -> None:
        """Add the circuit to an empty system."""
        for index in range(self.sectors):
            with system.namespace(f"sectors[{index}]"):
                system.repeat(self._sector)

    def _sector(self, system: ConstraintSystem) -> None:
        """Constrain comm_r of a sector, and a leaf of TreeRLast for each challenge."""
        comm_r_last, comm_c = system.private("comm_r_last"), system.private("comm_c")
        comm_r = public_element(system, "comm_r")
        with system.namespace("comm_r"):
            system.enforce(comm_r, system.one, neptune_hash(system, [comm_c, comm_r_last]))
        for index in range(self.challenges):
            with system.namespace(f"inclusion_proofs[{index}]"):
                system.repeat(self._prove_leaf, comm_r_last)

    def _prove_leaf(self, system: ConstraintSystem, comm_r_last: Signal) -> None:
        """Declare a leaf that is in TreeRLast."""
        leaf = system.private("leaf")
        prove_inclusion(system, leaf, self.arities, tree_r_node, comm_r_last)
