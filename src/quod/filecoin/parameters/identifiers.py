"""Parameter sets: a circuit's name in the cache of rust-fil-proofs, and its public inputs.

A file name is ``v28-PREFIX-HASH.params`` (or ``.vk``, ``.meta``): the hash is the SHA-256 of a text
that describes the public parameters (rust-fil-proofs, storage-proofs-core/src/parameter_cache.rs).
"""

from __future__ import annotations

import hashlib
from enum import Enum
from typing import Literal

from quod.errors import InputError
from quod.filecoin.graph import DRG_PARENTS, EXPANDER_PARENTS
from quod.filecoin.registered_proofs import REGISTERED_SIZES
from quod.filecoin.sectors import (
    BASE_ARITY,
    SECTORS,
    WINDOW_CHALLENGES,
    WINNING_CHALLENGES,
    SectorShape,
)
from quod.frozen import frozen
from quod.r1cs.cached_circuits import builtin_circuit
from quod.r1cs.circuit import Circuit
from quod.validation import instance

VERSION = 28
"""The version of the circuits in file names."""

CURVE = "bls12_381"
_MODULE = "quod.filecoin.circuits.builtin"
_TRACED_SIZES = {
    "porep": REGISTERED_SIZES[:3],
    "window": REGISTERED_SIZES[:3],
    "winning": REGISTERED_SIZES,
    "update": REGISTERED_SIZES[:1],
}
"""The sector sizes whose circuits `quod.filecoin.circuits.builtin` has, by kind of proof."""

Suffix = Literal["params", "vk", "meta"]


class ProofKind(Enum):
    """A kind of proof with parameters of its own."""

    POREP = "porep"
    WINDOW = "window"
    WINNING = "winning"
    UPDATE = "update"


@frozen
class ParameterSet:
    """The parameters of a kind of proof for a sector size.

    Raises InputError for other types.
    """

    kind: ProofKind
    sector: SectorShape

    def __post_init__(self) -> None:
        instance("the kind of proof", self.kind, ProofKind, "take a member of ProofKind")
        instance("the sector", self.sector, SectorShape, "take it from sector_shape")

    @property
    def name(self) -> str:
        """The kind and the sector size, such as ``window-2KiB``, for messages."""
        return f"{self.kind.value}-{self.sector.name}"

    @property
    def public(self) -> int:
        """The number of public inputs of the circuit."""
        if self.kind is ProofKind.POREP:
            # The path to the data, the parents, the label's node, the replica's node, the column.
            return 3 + self.sector.challenges * (1 + DRG_PARENTS + EXPANDER_PARENTS + 3)
        if self.kind is ProofKind.WINDOW:
            return self.sector.window_sectors * (1 + WINDOW_CHALLENGES)
        return 2 * WINNING_CHALLENGES if self.kind is ProofKind.WINNING else 4

    @property
    def description(self) -> str:
        """The text whose hash is part of the cache id."""
        sector = self.sector
        if self.kind is ProofKind.POREP:
            return (
                "layered_drgporep::PublicParams{ graph: stacked_graph::StackedGraph{"
                f"expansion_degree: {EXPANDER_PARENTS} base_graph: drgraph::BucketGraph{{size: "
                f"{sector.nodes}; degree: {DRG_PARENTS}; hasher: poseidon_hasher}} }}, challenges: "
                f"LayerChallenges {{ layers: {sector.layers}, max_count: {sector.challenges} }}, "
                f"tree: {self._tree} }}"
            )
        if self.kind is ProofKind.UPDATE:
            return f"empty_sector_update::PublicParams{{ sector_nodes: {sector.nodes} }}"
        challenges, sectors = WINDOW_CHALLENGES, sector.window_sectors
        if self.kind is ProofKind.WINNING:
            challenges, sectors = 1, WINNING_CHALLENGES
        return (
            f"FallbackPoSt::PublicParams{{sector_size: {sector.size}, challenge_count: "
            f"{challenges}, sector_count: {sectors}}}"
        )

    @property
    def cache_id(self) -> str:
        """The name of the set in the cache of rust-fil-proofs, without version and suffix."""
        prefix = {
            ProofKind.POREP: f"stacked-proof-of-replication-{self._tree}-sha256_hasher",
            ProofKind.UPDATE: f"empty-sector-update-{self._tree}",
        }.get(self.kind, f"proof-of-spacetime-fallback-{self._tree}")
        return f"{prefix}-{hashlib.sha256(self.description.encode()).hexdigest()}"

    def file_name(self, suffix: Suffix) -> str:
        """Return the name of the parameters, of the verifying key (vk) or of the metadata."""
        return f"v{VERSION}-{self.cache_id}.{suffix}"

    @property
    def _tree(self) -> str:
        sector = self.sector
        return f"merkletree-poseidon_hasher-{BASE_ARITY}-{sector.sub_arity}-{sector.top_arity}"

    def check_traced(self) -> None:
        """Raise InputError if the circuit is too large to be traced, or has no published set."""
        sizes = _TRACED_SIZES[self.kind.value]
        if self.sector.size not in sizes:
            names = ", ".join(SECTORS[size].name for size in sizes)
            raise InputError(
                f"proofs of the kind {self.kind.value} are supported for sectors of {names}, not "
                f"of {self.sector.name}"
            )

    def circuit(self) -> Circuit:
        """Return the circuit, traced or from the cache.

        Raises InputError as `check_traced`. PoRep of 2 KiB, 2.7 million constraints, takes minutes
        to trace.
        """
        self.check_traced()
        return builtin_circuit(_MODULE, f"{self.kind.value}_{self.sector.name.lower()}", CURVE)
