"""A sealed sector of 2 KiB in plain Python, with vanilla proofs of each kind."""

from __future__ import annotations

import functools
import random
from typing import NamedTuple

from quod.filecoin.challenges import porep_challenges, update_challenges, winning_challenges
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
    UpdateChallengeProof,
    UpdatePartitionProof,
)
from quod.filecoin.registered_proofs import SealProof, prover_id, seal_proof
from quod.filecoin.trees import (
    MerkleTree,
    encode_replica,
    nodes_to_words,
    tree_c,
    tree_d,
    tree_r_last,
    words_to_node,
)
from quod.filecoin.updates import encode_update, phi, rho

MINER, SECTOR = 1000, 7
TICKET, SEED, RANDOMNESS = bytes(range(32)), bytes(range(100, 132)), bytes(range(200, 232))


class Sealed(NamedTuple):
    """A sector's trees, and the labels of its nodes by layer."""

    proof: SealProof
    replica_id: bytes
    tree_d: MerkleTree
    tree_c: MerkleTree
    tree_r: MerkleTree
    labels: list[list[bytes]]

    @property
    def comm_r(self) -> bytes:
        return comm_r(self.tree_c.root, self.tree_r.root)


@functools.cache
def sealed(number: int = 5) -> Sealed:
    """Seal random data under a registered seal proof of 2 KiB."""
    proof, hasher = seal_proof(number), NodeHasher()
    generator = random.Random(number)
    nodes = [generator.randbytes(31) + bytes([generator.randrange(64)]) for _ in range(64)]
    data = tree_d(b"".join(nodes))
    config = proof.config()
    identity = replica_id(prover_id(MINER), SECTOR, TICKET, data.root, config.porep_id)
    layers = compute_layers(StackedGraph.of(config), identity, proof.sector.layers)
    replica = encode_replica(layers[-1], data.levels[0])
    columns = tree_c(proof.sector, layers, hasher)
    labels = [[words_to_node(row) for row in layer] for layer in layers]
    tree_r = tree_r_last(proof.sector, replica, hasher)
    return Sealed(proof, identity, data, columns, tree_r, labels)


def commit_output(number: int = 5) -> CommitOutput:
    """Return the output of C1 of the sector `sealed(number)`."""
    sector = sealed(number)
    config = sector.proof.config()
    partitions = []
    for partition in range(config.partitions):
        nodes = porep_challenges(config, sector.replica_id, sector.comm_r, SEED, partition)
        partitions.append(tuple(_porep_proof(sector, node) for node in nodes))
    return CommitOutput(
        sector.proof, tuple(partitions), sector.comm_r, sector.tree_d.root, sector.replica_id,
        SEED, TICKET,
    )  # fmt: skip


def _porep_proof(sector: Sealed, node: int) -> PoRepProof:
    parents = StackedGraph.of(sector.proof.config()).parents([node])[0].tolist()
    drg, expander = parents[:DRG_PARENTS], parents[DRG_PARENTS:]
    labeling_proofs = []
    for layer, labels in enumerate(sector.labels, 1):
        below = [sector.labels[layer - 2][parent] for parent in expander] if layer > 1 else []
        repeated = repeated_parents([labels[parent] for parent in drg], below)
        labeling_proofs.append(LabelingProof(repeated, layer, node))
    columns = ReplicaColumnProof(
        _column(sector, node),
        tuple(_column(sector, parent) for parent in drg),
        tuple(_column(sector, parent) for parent in expander),
    )
    return PoRepProof(
        sector.tree_d.proof(node), sector.tree_r.proof(node), columns, tuple(labeling_proofs),
        labeling_proofs[-1],
    )  # fmt: skip


def _column(sector: Sealed, node: int) -> ColumnProof:
    rows = tuple(labels[node] for labels in sector.labels)
    return ColumnProof(Column(node, rows), sector.tree_c.proof(node))


def post_sector(challenges: int) -> PoStSectorProof:
    """Return the vanilla proof of spacetime of the sector, with 10 or 66 challenges."""
    sector = sealed()
    nodes = winning_challenges(sector.proof.sector, RANDOMNESS, SECTOR)[:challenges]
    paths = tuple(sector.tree_r.proof(node) for node in nodes)
    vanilla_proof = SectorProof(paths, sector.tree_c.root, sector.tree_r.root)
    return PoStSectorProof(SECTOR, sector.comm_r, (vanilla_proof,))


@functools.cache
def update_partition() -> tuple[UpdatePartitionProof, bytes, bytes, bytes]:
    """Update the sector; return the proof, comm_r_old, comm_d_new and comm_r_new."""
    sector = sealed()
    shape = sector.proof.sector
    generator = random.Random(99)
    data = [generator.randbytes(31) + bytes([generator.randrange(64)]) for _ in range(shape.nodes)]
    new_tree_d = tree_d(b"".join(data))
    randomness = phi(new_tree_d.root, sector.comm_r)
    shift = shape.node_bits - shape.update.default_h
    factors = [rho(randomness, high) for high in range(shape.nodes >> shift)]
    replica = b"".join(
        encode_update(sector.tree_r.node(0, node), data[node], factors[node >> shift])
        for node in range(shape.nodes)
    )
    new_tree_r = tree_r_last(shape, nodes_to_words(replica), NodeHasher())
    comm_r_new = comm_r(sector.tree_c.root, new_tree_r.root)
    proofs = tuple(
        UpdateChallengeProof(
            sector.tree_r.proof(node), new_tree_d.proof(node), new_tree_r.proof(node)
        )
        for node in update_challenges(shape, comm_r_new, 0)
    )
    level = shape.node_bits - (shape.update.apex_leaves.bit_length() - 1)
    apex = tuple(new_tree_d.node(level, index) for index in range(shape.update.apex_leaves))
    proof = UpdatePartitionProof(sector.tree_c.root, apex, proofs)
    return proof, sector.comm_r, new_tree_d.root, comm_r_new
