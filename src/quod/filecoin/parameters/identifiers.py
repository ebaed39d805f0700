"""Parameter sets: a circuit's name in the cache of rust-fil-proofs, and its public inputs.

A file name is ``v28-PREFIX-HASH.params`` (or ``.vk``, ``.meta``): the hash is the SHA-256 of a text
that describes the public parameters (rust-fil-proofs, storage-proofs-core/src/parameter_cache.rs).
"""

from __future__ import annotations

import hashlib
from enum import Enum
from typing import Literal

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.filecoin.graph import DRG_PARENTS, EXPANDER_PARENTS
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
_LARGEST_LISTED = {
    "porep": 1 << 30, "window": 1 << 30, "winning": max(SECTORS), "update": 16 << 20,
}  # fmt: skip
"""The largest sector size whose constraints can be listed one by one, by kind of proof.

Keys of larger circuits exist in a GPU's memory only (`quod.groth16.device_key`).
"""

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

    def check_device(self, device: DeviceChoice) -> AnyDevice:
        """Return the device; raise InputError if keys of this size need CUDA and it is another."""
        target, largest = resolve_device(device), _LARGEST_LISTED[self.kind.value]
        if self.sector.size > largest and not self.uses_device_key(target):
            raise InputError(
                f"proofs of the kind {self.kind.value} for sectors of {self.sector.name} need a "
                f"CUDA device; {target.name} proves sectors of up to {SECTORS[largest].name}"
            )
        return target

    def uses_device_key(self, device: AnyDevice) -> bool:
        """Return whether keys are in the device's memory alone (`quod.groth16.device_key`).

        So they are on CUDA, except for WinningPoSt, which has few constraints and must be fast.
        """
        return (
            self.kind is not ProofKind.WINNING
            and not device.host_memory
            and not device.single_queue
        )

    def circuit(self) -> Circuit:
        """Return the circuit, traced or from the cache; the largest take 20 s to trace."""
        return builtin_circuit(_MODULE, f"{self.kind.value}_{self.sector.name.lower()}", CURVE)
