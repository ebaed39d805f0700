"""Statements of Filecoin's proofs: the public facts from which a verifier computes public inputs.

A statement has `parameters`, the parameter set of its proof; `partitions`, the number of Groth16
proofs; and `public_inputs(partition)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from quod.errors import InputError
from quod.filecoin.challenges import porep_challenges, window_challenges, winning_challenges
from quod.filecoin.nodes import node_to_element
from quod.filecoin.parameters.identifiers import ParameterSet, ProofKind
from quod.filecoin.public_inputs import porep_inputs, post_inputs, update_inputs
from quod.filecoin.records import CommitOutput
from quod.filecoin.registered_proofs import Challenges, PoRepConfig, PoStKind, PoStProof
from quod.filecoin.seal_records import PROOF_BYTES, SealRecord
from quod.filecoin.sectors import MAX_SECTOR_NUMBER, NODE_BYTES, SectorShape
from quod.filecoin.updates import k_and_h_select
from quod.frozen import frozen
from quod.validation import exact_bytes, in_order, instance, whole_number


class Statement(ABC):
    """The statement of a proof."""

    @property
    @abstractmethod
    def parameters(self) -> ParameterSet:
        """The parameters of the proof."""

    @property
    @abstractmethod
    def partitions(self) -> int:
        """The number of Groth16 proofs, of 192 bytes each."""

    @abstractmethod
    def public_inputs(self, partition: int) -> list[int]:
        """Return the public inputs of a partition, without the constant 1."""

    @property
    def proof_bytes(self) -> int:
        """The length of the proof."""
        return self.partitions * PROOF_BYTES


@frozen
class SealStatement(Statement):
    """The statement of a proof of replication.

    replica_id: follows from the prover id, the sector's number, the ticket, comm_d and the PoRep
        id (`quod.filecoin.replica_id`).
    seed: the interactive randomness.
    Raises InputError for values that are not 32 bytes, nodes that are not below the modulus, zeros
    in place of comm_d, comm_r or seed, and a non-interactive PoRep, whose proofs are aggregates.
    """

    config: PoRepConfig
    replica_id: bytes
    comm_d: bytes
    comm_r: bytes
    seed: bytes

    def __post_init__(self) -> None:
        instance("the configuration", self.config, PoRepConfig, "see SealProof.config")
        if self.config.challenges is Challenges.NON_INTERACTIVE:
            raise InputError(
                "the proof of a non-interactive PoRep is an aggregate (SnarkPack), which is not "
                "supported; interactive and synthetic PoRep are"
            )
        for name in ("replica_id", "comm_d", "comm_r"):
            node_to_element(name, getattr(self, name))
        exact_bytes("seed", self.seed, NODE_BYTES)
        for name in ("comm_d", "comm_r", "seed"):
            if getattr(self, name) == bytes(NODE_BYTES):
                raise InputError("must not be zero", section=name)

    @classmethod
    def of_output(cls, output: CommitOutput) -> SealStatement:
        """Return the statement of an output of C1; its replica id has not been checked."""
        config = output.registered_proof.config()
        return cls(config, output.replica_id, output.comm_d, output.comm_r, output.seed)

    @classmethod
    def of_record(cls, record: SealRecord) -> SealStatement:
        """Return the statement of a sealed sector."""
        return cls(record.config, record.replica_id, record.comm_d, record.comm_r, record.seed)

    @property
    def parameters(self) -> ParameterSet:
        return ParameterSet(ProofKind.POREP, self.config.sector)

    @property
    def partitions(self) -> int:
        return self.config.partitions

    def public_inputs(self, partition: int) -> list[int]:
        challenges = porep_challenges(
            self.config, self.replica_id, self.comm_r, self.seed, partition
        )
        return porep_inputs(self.config, self.replica_id, self.comm_d, self.comm_r, challenges)


@frozen
class PoStSector:
    """A sector of a proof of spacetime: its number and commitment."""

    sector_id: int
    comm_r: bytes

    def __post_init__(self) -> None:
        sector_id = whole_number("the sector number", self.sector_id, 0, MAX_SECTOR_NUMBER)
        self.__dict__["sector_id"] = sector_id
        node_to_element("comm_r", self.comm_r)


@frozen
class PoStStatement(Statement):
    """The statement of a WindowPoSt or of a WinningPoSt.

    proof: the registered proof.
    randomness: 32 bytes, of which the highest two bits are not used.
    sectors: ordered by number, as upstream's verifier orders them; one in a WinningPoSt.
    Raises InputError for values that are not 32 bytes, and for sectors in the wrong order.
    """

    proof: PoStProof
    randomness: bytes
    sectors: tuple[PoStSector, ...]

    def __post_init__(self) -> None:
        instance("the proof", self.proof, PoStProof, "see post_proof")
        exact_bytes("the randomness", self.randomness, NODE_BYTES)
        for index, sector in enumerate(in_order("the sectors", self.sectors)):
            instance(f"sectors[{index}]", sector, PoStSector, "give numbers and commitments")
        if self.proof.kind is PoStKind.WINNING and len(self.sectors) != 1:
            raise InputError(f"must have one sector, not {len(self.sectors)}", section="sectors")
        if not self.sectors:
            raise InputError("must have at least one sector", section="sectors")
        numbers = [sector.sector_id for sector in self.sectors]
        for index in range(1, len(numbers)):
            if numbers[index - 1] >= numbers[index]:
                raise InputError(
                    f"must be above {numbers[index - 1]}, the previous sector's number",
                    section=f"sectors[{index}].sector_id",
                )

    @property
    def parameters(self) -> ParameterSet:
        return ParameterSet(ProofKind(self.proof.kind.value), self.proof.sector)

    @property
    def partitions(self) -> int:
        if self.proof.kind is PoStKind.WINNING:
            return 1
        return -(-len(self.sectors) // self.proof.sector.window_sectors)

    def challenges(self, index: int) -> list[int]:
        """Return the challenged leaves of the sector of an index: 10, or 66 in a WinningPoSt."""
        proof, number = self.proof, self.sectors[index].sector_id
        if proof.kind is PoStKind.WINNING:
            return winning_challenges(proof.sector, self.randomness, number)
        return window_challenges(proof.sector, proof.api_version, self.randomness, number, index)

    def partition_sectors(self, partition: int) -> range:
        """Return the indices of a partition's sectors."""
        count = self.proof.sector.window_sectors
        partition = whole_number("the partition", partition, 0, self.partitions - 1)
        return range(partition * count, min((partition + 1) * count, len(self.sectors)))

    def public_inputs(self, partition: int) -> list[int]:
        indices = self.partition_sectors(partition)
        if self.proof.kind is PoStKind.WINNING:
            # Each challenge is a sector of the circuit.
            comm_r, challenges = self.sectors[0].comm_r, self.challenges(0)
            return post_inputs([(comm_r, [leaf]) for leaf in challenges], len(challenges))
        sectors = [(self.sectors[index].comm_r, self.challenges(index)) for index in indices]
        return post_inputs(sectors, self.proof.sector.window_sectors)


@frozen
class UpdateStatement(Statement):
    """The statement of a SnapDeals proof.

    h: the number of high bits of a challenge that choose the factor of the data; None stands for
        the number that updates use.
    Raises InputError for nodes that are not 32 bytes or not below the modulus, and for an
    impossible h.
    """

    sector: SectorShape
    comm_r_old: bytes
    comm_d_new: bytes
    comm_r_new: bytes
    h: int | None = None

    def __post_init__(self) -> None:
        instance("the sector", self.sector, SectorShape, "take it from sector_shape")
        for name in ("comm_r_old", "comm_d_new", "comm_r_new"):
            node_to_element(name, getattr(self, name))
        k_and_h_select(self.sector, 0, self.h)

    @property
    def parameters(self) -> ParameterSet:
        return ParameterSet(ProofKind.UPDATE, self.sector)

    @property
    def partitions(self) -> int:
        return self.sector.update.partitions

    def public_inputs(self, partition: int) -> list[int]:
        partition = whole_number("the partition", partition, 0, self.partitions - 1)
        commitments = self.comm_r_old, self.comm_d_new, self.comm_r_new
        return update_inputs(self.sector, partition, *commitments, h=self.h)
