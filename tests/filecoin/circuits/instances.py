"""Small instances of Filecoin's statements, as vanilla proofs and inputs of the circuits.

The parents of challenged nodes are arbitrary: the circuits do not know the graph. The hash in the
place of SHA-256 is an argument, because its constraints take most of the time.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence

from quod import r1cs
from quod.filecoin.circuits.empty_sector_update import EmptySectorUpdateCircuit
from quod.filecoin.circuits.fallback_post import FallbackPoStCircuit
from quod.filecoin.circuits.private_inputs import (
    porep_private_inputs,
    post_private_inputs,
    update_private_inputs,
)
from quod.filecoin.circuits.stacked import StackedCircuit
from quod.filecoin.circuits.trees import leaf_count
from quod.filecoin.nodes import P
from quod.filecoin.records import (
    Column,
    ColumnProof,
    CommitOutput,
    LabelingProof,
    MerkleProof,
    PathElement,
    PoRepProof,
    PoStSectorProof,
    ReplicaColumnProof,
    SectorProof,
    UpdateChallengeProof,
    UpdatePartitionProof,
)
from quod.filecoin.registered_proofs import seal_proof
from quod.hash import neptune_hash
from quod.hash.neptune import ARBITRARY_TAG
from quod.r1cs import gadgets
from quod.r1cs.inputs import Inputs

Digest = Callable[[bytes], bytes]
"""A hash from a message to 32 bytes."""


def sha256(message: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(message).digest()


def fold(message: bytes) -> bytes:
    """A stand-in for SHA-256: the exclusive or of blocks of 32 bytes, each rotated by its index.

    The rotation is to the left, of the block as a big-endian number.
    """
    total = 0
    for index in range(len(message) // 32):
        number = int.from_bytes(message[32 * index : 32 * index + 32], "big")
        shift = index % 256
        total ^= (number << shift | number >> 256 - shift) & (1 << 256) - 1
    return total.to_bytes(32, "big")


def fold_gadget(system: r1cs.ConstraintSystem, message: Sequence[r1cs.Signal]) -> list[r1cs.Signal]:
    """`fold` in a circuit, in the place of `bellman.sha256`."""
    total = [system.zero] * 256
    for index in range(len(message) // 256):
        block = list(message[256 * index : 256 * index + 256])
        shift = index % 256
        rotated = block[shift:] + block[:shift]
        total = [
            gadgets.exclusive_or(system, bit, other)
            for bit, other in zip(total, rotated, strict=True)
        ]
    return total


def element_of(digest: bytes) -> int:
    """The element of a digest: the lowest 254 bits of its little-endian number."""
    return int.from_bytes(digest, "little") % (1 << 254)


def as_bytes(*elements: int) -> bytes:
    return b"".join(element.to_bytes(32, "little") for element in elements)


class Tree:
    """A Merkle tree; `levels` has the nodes from the leaves to the root."""

    def __init__(
        self, leaves: Sequence[int], arities: Sequence[int], parent: Callable[[list[int]], int]
    ) -> None:
        self.arities, self.levels = arities, [list(leaves)]
        for arity in arities:
            nodes = self.levels[-1]
            starts = range(0, len(nodes), arity)
            self.levels.append([parent(nodes[start : start + arity]) for start in starts])
        (self.root,) = self.levels[-1]

    def proof(self, index: int) -> MerkleProof:
        """The Merkle proof of a leaf, with all levels as those of a base tree."""
        leaf, path = self.levels[0][index], []
        for arity, nodes in zip(self.arities, self.levels, strict=False):
            siblings = [as_bytes(node) for node in nodes[index - index % arity :][:arity]]
            index, digit = divmod(index, arity)
            del siblings[digit]
            path.append(PathElement(tuple(siblings), digit))
        return MerkleProof(as_bytes(self.root), as_bytes(leaf), tuple(path))


def data_tree(leaves: Sequence[int], digest: Digest) -> Tree:
    """TreeD."""
    arities = (2,) * (len(leaves).bit_length() - 1)
    return Tree(leaves, arities, lambda pair: element_of(digest(as_bytes(*pair))))


def label(digest: Digest, replica_id: int, layer: int, node: int, parents: Sequence[int]) -> int:
    """The label of a node: a hash of 1,248 bytes."""
    repeated = (list(parents) * 7)[:37]
    head = as_bytes(replica_id) + layer.to_bytes(4, "big") + node.to_bytes(8, "big") + bytes(20)
    return element_of(digest(head + as_bytes(*repeated)))


def stacked_instance(circuit: StackedCircuit, digest: Digest) -> tuple[Inputs, list[int]]:
    """Inputs of a sector whose last nodes are challenged, and the public values."""
    chance, nodes, layers = random.Random(1), circuit.nodes, circuit.layers
    replica_id = chance.getrandbits(254)
    data = [chance.getrandbits(254) for _ in range(nodes)]
    columns = [[chance.getrandbits(254) for _ in range(layers)] for _ in range(nodes)]
    challenged = range(nodes - circuit.challenges, nodes)
    parents = {node: chance.choices(range(nodes - circuit.challenges), k=14) for node in challenged}
    for node in challenged:
        drg, exp = parents[node][:6], parents[node][6:]
        for layer in range(1, layers + 1):
            labels = [columns[parent][layer - 1] for parent in drg]
            if layer > 1:
                labels += [columns[parent][layer - 2] for parent in exp]
            columns[node][layer - 1] = label(digest, replica_id, layer, node, labels)
    tree_d = data_tree(data, digest)
    tree_c = Tree([neptune_hash(column) for column in columns], circuit.arities, neptune_hash)
    replica = [(column[-1] + node) % P for column, node in zip(columns, data, strict=True)]
    tree_r_last = Tree(replica, circuit.arities, neptune_hash)
    comm_r = neptune_hash([tree_c.root, tree_r_last.root])

    def column_proof(node: int) -> ColumnProof:
        rows = tuple(as_bytes(row) for row in columns[node])
        return ColumnProof(Column(node, rows), tree_c.proof(node))

    proofs = []
    public = [replica_id, tree_d.root, comm_r]
    for node in challenged:
        parent_proofs = tuple(column_proof(parent) for parent in parents[node])
        column_proofs = ReplicaColumnProof(column_proof(node), parent_proofs[:6], parent_proofs[6:])
        # The circuit computes labels from the columns of the parents.
        no_labels = LabelingProof((), layers, node)
        proofs.append(
            PoRepProof(tree_d.proof(node), tree_r_last.proof(node), column_proofs, (), no_labels)
        )
        public += [node, *parents[node], node, node, node]
    output = CommitOutput(
        seal_proof(5), (tuple(proofs),), as_bytes(comm_r), as_bytes(tree_d.root),
        as_bytes(replica_id), bytes(32), bytes(32),
    )  # fmt: skip
    return porep_private_inputs(output, 0), public


def post_instance(
    circuit: FallbackPoStCircuit, sectors: int, challenges: int
) -> tuple[Inputs, list[int]]:
    """Inputs of random replicas, and the public values without those of repeated sectors.

    challenges: the number of challenges of a replica.
    """
    chance, leaves, proofs, public = random.Random(2), leaf_count(circuit.arities), [], []
    for index in range(sectors):
        tree = Tree([chance.randrange(P) for _ in range(leaves)], circuit.arities, neptune_hash)
        comm_c = chance.randrange(P)
        comm_r = neptune_hash([comm_c, tree.root])
        nodes = [chance.randrange(leaves) for _ in range(challenges)]
        paths = tuple(tree.proof(node) for node in nodes)
        sector = SectorProof(paths, as_bytes(comm_c), as_bytes(tree.root))
        proofs.append(PoStSectorProof(index, as_bytes(comm_r), (sector,)))
        for start in range(0, challenges, circuit.challenges):
            public += [comm_r, *nodes[start : start + circuit.challenges]]
    return post_private_inputs(circuit, proofs), public


def update_instance(
    circuit: EmptySectorUpdateCircuit, partition: int, choice: int, digest: Digest
) -> tuple[Inputs, list[int]]:
    """Inputs of an update of a random replica, and the public values.

    choice: the index of h in the possible values.
    """
    chance, shape, node_bits = random.Random(3), circuit.shape, circuit.index_bits
    h = shape.possible_h[choice]
    nodes = 1 << node_bits
    old, data = ([chance.getrandbits(254) for _ in range(nodes)] for _ in range(2))
    comm_c = chance.randrange(P)
    tree_r_old, tree_d = Tree(old, circuit.arities, neptune_hash), data_tree(data, digest)
    comm_r_old = neptune_hash([comm_c, tree_r_old.root])
    phi = neptune_hash([tree_d.root, comm_r_old], tag=ARBITRARY_TAG)
    rhos = [neptune_hash([phi, high], tag=ARBITRARY_TAG) for high in range(1 << h)]
    new = [
        (node + word * rhos[index >> node_bits - h]) % P
        for index, (node, word) in enumerate(zip(old, data, strict=True))
    ]
    tree_r_new = Tree(new, circuit.arities, neptune_hash)
    comm_r_new = neptune_hash([comm_c, tree_r_new.root])
    k_and_h_select = partition | (1 << choice) << circuit.partition_bits
    apex_level = circuit.challenge_bits - (shape.apex_leaves.bit_length() - 1)
    first = partition * shape.apex_leaves
    apex_leaves = tree_d.levels[apex_level][first : first + shape.apex_leaves]
    proof = UpdatePartitionProof(
        as_bytes(comm_c),
        tuple(as_bytes(leaf) for leaf in apex_leaves),
        tuple(
            UpdateChallengeProof(tree_r_old.proof(node), tree_d.proof(node), tree_r_new.proof(node))
            for node in update_challenges(circuit, partition, comm_r_new)
        ),
    )
    public = [k_and_h_select, comm_r_old, tree_d.root, comm_r_new]
    comm_r_old_bytes, comm_d_new, comm_r_new_bytes = (as_bytes(value) for value in public[1:])
    inputs = update_private_inputs(
        circuit, proof, k_and_h_select, comm_r_old_bytes, comm_d_new, comm_r_new_bytes
    )
    return inputs, public


def update_challenges(
    circuit: EmptySectorUpdateCircuit, partition: int, comm_r_new: int
) -> list[int]:
    """The challenged nodes of a partition."""
    bits, challenges = circuit.challenge_bits, circuit.shape.challenges
    per_digest = 254 // bits
    digests = -(-challenges // per_digest)
    nodes = []
    for index in range(partition * digests, (partition + 1) * digests):
        digest = neptune_hash([comm_r_new, index], tag=ARBITRARY_TAG)
        low = [digest >> bits * place & (1 << bits) - 1 for place in range(per_digest)]
        nodes += [partition << bits | number for number in low]
    return nodes[:challenges]
