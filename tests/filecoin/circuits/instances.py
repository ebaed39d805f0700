"""Small instances of Filecoin's statements in plain integers, as inputs of the circuits.

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
from quod.filecoin.circuits.stacked import StackedCircuit
from quod.filecoin.nodes import P
from quod.hash import neptune_hash
from quod.hash.neptune import ARBITRARY_TAG
from quod.r1cs import gadgets
from quod.r1cs.inputs import Inputs

Digest = Callable[[bytes], bytes]
"""A hash from a message to 32 bytes."""

Path = list[tuple[int, list[int]]]
"""The index of a node among its siblings, and the siblings, from the leaf's level up."""

InputLists = dict[str, "int | list[int]"]


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

    def path(self, index: int) -> Path:
        """The path of a leaf."""
        path = []
        for arity, nodes in zip(self.arities, self.levels, strict=False):
            siblings = nodes[index - index % arity : index - index % arity + arity]
            index, digit = divmod(index, arity)
            path.append((digit, siblings[:digit] + siblings[digit + 1 :]))
        return path


def data_tree(leaves: Sequence[int], digest: Digest) -> Tree:
    """TreeD."""
    arities = (2,) * (len(leaves).bit_length() - 1)
    return Tree(leaves, arities, lambda pair: element_of(digest(as_bytes(*pair))))


def path_inputs(name: str, path: Path) -> InputLists:
    """The inputs of `root_of_private_path`."""
    inputs: InputLists = {}
    for level, (digit, siblings) in enumerate(path):
        inputs[f"{name}/path[{level}]/index"] = digit
        inputs[f"{name}/path[{level}]/hashes"] = siblings
    return inputs


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
    inputs: InputLists = {
        "replica_id": replica_id, "comm_d": tree_d.root, "comm_r": comm_r,
        "comm_r_last": tree_r_last.root, "comm_c": tree_c.root,
    }  # fmt: skip
    public = [replica_id, tree_d.root, comm_r]
    for index, node in enumerate(challenged):
        name = f"challenges[{index}]"
        inputs |= {f"{name}/comm_d_proofs/leaf": data[node], f"{name}/node": node}
        inputs |= path_inputs(f"{name}/comm_d_proofs", tree_d.path(node))
        inputs |= path_inputs(f"{name}/comm_r_last_proof", tree_r_last.path(node))
        inputs |= path_inputs(f"{name}/c_x/inclusion_proof", tree_c.path(node))
        for position, parent in enumerate(parents[node]):
            kind = f"drg_parents[{position}]" if position < 6 else f"exp_parents[{position - 6}]"
            inputs[f"{name}/{kind}/column"] = columns[parent]
            inputs |= path_inputs(f"{name}/{kind}/inclusion_proof", tree_c.path(parent))
        public += [node, *parents[node], node, node, node]
    return inputs, public


def post_instance(circuit: FallbackPoStCircuit, leaves: int) -> tuple[Inputs, list[int]]:
    """Inputs of random replicas, and the public values."""
    chance, inputs, public = random.Random(2), InputLists(), list[int]()
    for index in range(circuit.sectors):
        tree = Tree([chance.randrange(P) for _ in range(leaves)], circuit.arities, neptune_hash)
        comm_c, name = chance.randrange(P), f"sectors[{index}]"
        comm_r = neptune_hash([comm_c, tree.root])
        inputs |= {f"{name}/comm_r_last": tree.root, f"{name}/comm_c": comm_c}
        inputs[f"{name}/comm_r"] = comm_r
        public.append(comm_r)
        for number in range(circuit.challenges):
            challenge = chance.randrange(leaves)
            proof = f"{name}/inclusion_proofs[{number}]"
            inputs[f"{proof}/leaf"] = tree.levels[0][challenge]
            inputs |= path_inputs(proof, tree.path(challenge))
            public.append(challenge)
    return inputs, public


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
    inputs: InputLists = {
        "k_and_h_select": k_and_h_select, "comm_r_old": comm_r_old, "comm_d_new": tree_d.root,
        "comm_r_new": comm_r_new, "comm_c": comm_c, "root_r_old": tree_r_old.root,
        "root_r_new": tree_r_new.root,
        "apex_leafs": tree_d.levels[apex_level][first : first + shape.apex_leaves],
    }  # fmt: skip
    path = tree_d.path(partition << circuit.challenge_bits)
    for level, (_, siblings) in enumerate(path[circuit.challenge_bits :]):
        inputs[f"partition_path[{level}]/hashes"] = siblings
    for index, node in enumerate(update_challenges(circuit, partition, comm_r_new)):
        name = f"challenge_proofs[{index}]"
        inputs |= {f"{name}/proof_r_old/leaf": old[node], f"{name}/proof_d_new/leaf": data[node]}
        paths = {
            "proof_r_old": tree_r_old.path(node),
            "proof_r_new": tree_r_new.path(node),
            "proof_d_new": tree_d.path(node)[:apex_level],
        }
        for kind, levels in paths.items():
            for level, (_, siblings) in enumerate(levels):
                inputs[f"{name}/{kind}/path[{level}]/hashes"] = siblings
    return inputs, [k_and_h_select, comm_r_old, tree_d.root, comm_r_new]


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
