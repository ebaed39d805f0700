"""Records of vanilla proofs, with the names of rust-fil-proofs; nodes and digests are 32 bytes."""

from __future__ import annotations

from collections.abc import Iterable

from quod.filecoin.registered_proofs import SealProof
from quod.frozen import frozen


@frozen
class PathElement:
    """A level of a Merkle path.

    hashes: the siblings in order, one fewer than the arity.
    index: the index of the path's node among its siblings.
    """

    hashes: tuple[bytes, ...]
    index: int


MerklePath = tuple[PathElement, ...]


@frozen
class MerkleProof:
    """A Merkle proof: the root, the leaf, and a path by part of the tree.

    base_proof: the path in a base tree, from the leaf.
    sub_proof, top_proof: the path's levels above the base trees; empty if the tree lacks them.
    """

    root: bytes
    leaf: bytes
    base_proof: MerklePath
    sub_proof: MerklePath = ()
    top_proof: MerklePath = ()

    @property
    def path(self) -> MerklePath:
        """All levels, from the leaf to the root."""
        return self.base_proof + self.sub_proof + self.top_proof

    @property
    def leaf_index(self) -> int:
        """The index of the leaf in the tree."""
        return path_index(self.path)


def path_index(path: Iterable[PathElement]) -> int:
    """Return the index of a path's leaf: the levels' indices are its digits, the lowest first."""
    index, weight = 0, 1
    for element in path:
        index += element.index * weight
        weight *= len(element.hashes) + 1
    return index


@frozen
class Column:
    """The labels of a node in all layers, from the first to the last."""

    index: int
    rows: tuple[bytes, ...]


@frozen
class ColumnProof:
    """A column, and the Merkle proof of its hash in TreeC."""

    column: Column
    inclusion_proof: MerkleProof


@frozen
class ReplicaColumnProof:
    """The columns of a challenged node, of its 6 DRG parents and of its 8 expander parents."""

    c_x: ColumnProof
    drg_parents: tuple[ColumnProof, ...]
    exp_parents: tuple[ColumnProof, ...]

    @property
    def columns(self) -> dict[str, ColumnProof]:
        """All columns by the name of the field and index, such as ``drg_parents[3]``."""
        columns = {"c_x": self.c_x}
        for name in ("drg_parents", "exp_parents"):
            for index, column in enumerate(getattr(self, name)):
                columns[f"{name}[{index}]"] = column
        return columns


@frozen
class LabelingProof:
    """The hashed parents of a label: 37 labels, with repetitions.

    layer_index: the layer, from 1.
    node: the node.
    """

    parents: tuple[bytes, ...]
    layer_index: int
    node: int


@frozen
class PoRepProof:
    """The vanilla proof of a challenge of a proof of replication.

    comm_d_proofs: the Merkle proof of the data node in TreeD.
    comm_r_last_proof: the Merkle proof of the replica's node in TreeRLast.
    labeling_proofs: one for each layer.
    encoding_proof: the parents of the last layer's label, which encodes the data node.
    """

    comm_d_proofs: MerkleProof
    comm_r_last_proof: MerkleProof
    replica_column_proofs: ReplicaColumnProof
    labeling_proofs: tuple[LabelingProof, ...]
    encoding_proof: LabelingProof


@frozen
class CommitOutput:
    """The output of the first phase of sealing's commit (C1), from which C2 makes the proof.

    vanilla_proofs: the proofs of each partition's challenges.
    seed: the interactive randomness.
    ticket: the randomness of the replica id.
    """

    registered_proof: SealProof
    vanilla_proofs: tuple[tuple[PoRepProof, ...], ...]
    comm_r: bytes
    comm_d: bytes
    replica_id: bytes
    seed: bytes
    ticket: bytes


@frozen
class SectorProof:
    """The vanilla proof of a sector in a proof of spacetime: paths in TreeRLast."""

    inclusion_proofs: tuple[MerkleProof, ...]
    comm_c: bytes
    comm_r_last: bytes


@frozen
class PoStSectorProof:
    """The vanilla proof of a sector with the sector's number and commitment.

    vanilla_proof: the proofs of sectors, one.
    """

    sector_id: int
    comm_r: bytes
    vanilla_proof: tuple[SectorProof, ...]


@frozen
class UpdateChallengeProof:
    """The vanilla proof of a challenge of an update: three paths to the same node."""

    proof_r_old: MerkleProof
    proof_d_new: MerkleProof
    proof_r_new: MerkleProof


@frozen
class UpdatePartitionProof:
    """The vanilla proof of a partition of an update."""

    comm_c: bytes
    apex_leafs: tuple[bytes, ...]
    challenge_proofs: tuple[UpdateChallengeProof, ...]
