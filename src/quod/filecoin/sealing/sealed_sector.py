"""Sealed sectors for tests, and their vanilla proofs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import check_canonical
from quod.field.moduli import BLS12_381_FR
from quod.filecoin.challenges import porep_challenges
from quod.filecoin.graph import DRG_PARENTS, StackedGraph
from quod.filecoin.labels import compute_layers, repeated_parents
from quod.filecoin.nodes import comm_r, replica_id
from quod.filecoin.poseidon import NodeHasher
from quod.filecoin.records import (
    Column,
    ColumnProof,
    CommitOutput,
    LabelingProof,
    PoRepProof,
    PoStSectorProof,
    ReplicaColumnProof,
    SectorProof,
)
from quod.filecoin.registered_proofs import SealProof, prover_id
from quod.filecoin.sectors import MAX_SECTOR_NUMBER, SectorShape, sector_shape
from quod.filecoin.trees import (
    Tree,
    encode_replica,
    tree_c,
    tree_d,
    tree_r_last,
    words_to_node,
)
from quod.frozen import frozen
from quod.validation import exact_bytes, in_order, instance, whole_number

MAX_SECTOR = sector_shape(8 << 20)
"""The largest sector that `seal` accepts: labels are computed in Python, about 4 us each."""

Labels = Callable[[int], tuple[bytes, ...]]
"""A function from a node to its labels in all layers."""


@frozen(eq=False)
class SealedSector:
    """A sealed sector: all nodes of it from `seal`, or some of them from `sparse_commit`.

    labels: the labels of a node.
    """

    registered_proof: SealProof
    replica_id: bytes
    ticket: bytes
    tree_d: Tree
    tree_c: Tree
    tree_r_last: Tree
    labels: Labels

    @property
    def shape(self) -> SectorShape:
        """The shape of the sector."""
        return self.registered_proof.sector

    @property
    def comm_d(self) -> bytes:
        """The commitment to the data."""
        return self.tree_d.root

    @cached_property
    def comm_r(self) -> bytes:
        """The commitment to the replica."""
        return comm_r(self.tree_c.root, self.tree_r_last.root)

    def commit_output(self, seed: bytes) -> CommitOutput:
        """Return the output of C1 for an interactive randomness of 32 bytes."""
        config = self.registered_proof.config()
        partitions = []
        for partition in range(config.partitions):
            nodes = porep_challenges(config, self.replica_id, self.comm_r, seed, partition)
            partitions.append(tuple(self._porep_proofs(nodes)))
        return CommitOutput(
            self.registered_proof, tuple(partitions), self.comm_r, self.comm_d, self.replica_id,
            seed, self.ticket,
        )  # fmt: skip

    def post_proof(self, sector_number: int, challenges: Sequence[int]) -> PoStSectorProof:
        """Return the vanilla proof of spacetime for challenged leaves.

        challenges: of `window_challenges` or `winning_challenges`.
        """
        return post_sector_proof(sector_number, self.tree_c.root, self.tree_r_last, challenges)

    def _porep_proofs(self, nodes: Sequence[int]) -> Iterator[PoRepProof]:
        """Yield the vanilla proof of each challenged node."""
        parents = StackedGraph.of(self.registered_proof.config()).parents(nodes).tolist()
        for node, row in zip(nodes, parents, strict=True):
            drg, expander = row[:DRG_PARENTS], row[DRG_PARENTS:]
            labeling_proofs = tuple(
                LabelingProof(parent_labels(self.labels, drg, expander, layer), layer, node)
                for layer in range(1, self.shape.layers + 1)
            )
            columns = ReplicaColumnProof(
                self._column(node),
                tuple(self._column(parent) for parent in drg),
                tuple(self._column(parent) for parent in expander),
            )
            yield PoRepProof(
                self.tree_d.proof(node), self.tree_r_last.proof(node), columns, labeling_proofs,
                labeling_proofs[-1],
            )  # fmt: skip

    def _column(self, node: int) -> ColumnProof:
        return ColumnProof(Column(node, self.labels(node)), self.tree_c.proof(node))


def parent_labels(
    labels: Labels, drg: Sequence[int], expander: Sequence[int], layer: int
) -> tuple[bytes, ...]:
    """Return the 37 labels of which the label of a node in a layer, from 1, is the hash."""
    preceding = [labels(parent)[layer - 2] for parent in expander] if layer > 1 else []
    return repeated_parents([labels(parent)[layer - 1] for parent in drg], preceding)


def post_sector_proof(
    sector_number: int, comm_c: bytes, tree_r_last: Tree, challenges: Sequence[int]
) -> PoStSectorProof:
    """Return the vanilla proof of spacetime of a sector for challenged leaves.

    Raises InputError for a leaf that the tree lacks.
    """
    number = whole_number("the sector number", sector_number, 0, MAX_SECTOR_NUMBER)
    paths = tuple(tree_r_last.proof(leaf) for leaf in in_order("the challenges", challenges))
    sector = SectorProof(paths, comm_c, tree_r_last.root)
    return PoStSectorProof(number, comm_r(comm_c, tree_r_last.root), (sector,))


def check_sealable(shape: SectorShape) -> None:
    """Raise InputError for a sector that is too large for `seal`."""
    if shape.size > MAX_SECTOR.size:
        raise InputError(
            f"sectors of up to {MAX_SECTOR.name} can be sealed, not of {shape.name}; sparse_commit "
            "makes outputs of C1 of all sizes"
        )


def seal(
    proof: SealProof, data: bytes, *, miner: int, sector_number: int, ticket: bytes,
    device: AnyDevice | None = None,
) -> SealedSector:  # fmt: skip
    """Seal a sector of at most 8 MiB for tests; all nodes are in memory.

    data: the nodes of the sector, each below the modulus.
    ticket: the randomness of the replica id, 32 bytes.
    device: computes the Poseidon hashes; None stands for pure Python, a millisecond a hash.
    Raises InputError for a larger sector, and for data whose size is not that of the sector.
    """
    shape = instance("the registered proof", proof, SealProof, "see seal_proof").sector
    check_sealable(shape)
    tree = tree_d(exact_bytes("the data", data, shape.size))
    check_canonical(BLS12_381_FR, tree.levels[0])
    config, hasher = proof.config(), NodeHasher(device)
    identity = replica_id(prover_id(miner), sector_number, ticket, tree.root, config.porep_id)
    layers = compute_layers(StackedGraph.of(config), identity, shape.layers)
    replica = encode_replica(layers[-1], tree.levels[0])

    def labels(node: int) -> tuple[bytes, ...]:
        return tuple(words_to_node(layer[node]) for layer in layers)

    return SealedSector(
        proof, identity, ticket, tree, tree_c(shape, layers, hasher),
        tree_r_last(shape, replica, hasher), labels,
    )  # fmt: skip
