"""EmptySectorUpdateCircuit, the circuit of SnapDeals: a replica of zeros now encodes data.

A proof of one partition states, for public comm_r_old, comm_d_new, comm_r_new, a partition k and a
choice of h:

- comm_r_old = Poseidon(comm_c, root_r_old) and comm_r_new = Poseidon(comm_c, root_r_new), with the
  same comm_c: the labels have not changed.
- The apex leaves of the partition, nodes of the new TreeD, lead to comm_d_new.
- For each challenge, derived from comm_r_new by Poseidon: the old node is in the old TreeRLast, the
  new one in the new TreeRLast, and the data in the new TreeD, below an apex leaf. The new node is
  the old one plus data * rho, where rho = Poseidon(phi, the h highest bits of the node's index) and
  phi = Poseidon(comm_d_new, comm_r_old).

The constraints are those of `EmptySectorUpdateCircuit` of rust-fil-proofs,
`storage-proofs-update/src/{circuit,gadgets}.rs`. FIP-0019.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.filecoin.circuits.elements import public_element
from quod.filecoin.circuits.trees import Arities, leaf_count, tree_d_node, tree_r_node
from quod.filecoin.sectors import SectorShape, UpdateShape
from quod.frozen import frozen, replace
from quod.hash.neptune import ARBITRARY_TAG
from quod.r1cs.gadgets.bellman.packing import packed
from quod.r1cs.gadgets.inclusion import HashChildren, root_of_path
from quod.r1cs.gadgets.insertion import select
from quod.r1cs.gadgets.neptune import neptune_hash
from quod.r1cs.names import name_here
from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem
from quod.validation import whole_number

_DIGEST_BITS = 254
"""Bits of a digest from which challenges are cut."""


@frozen
class EmptySectorUpdateCircuit:
    """The circuit of one partition of SnapDeals, a function for `quod.r1cs.trace` over BLS12-381.

    arities: those of TreeRLast; their product is the number of nodes of a sector.
    shape: the numbers of partitions and of apex leaves, powers of two, and of challenges.

    Public wires are k + h_select * partitions, where bit i of h_select chooses shape.possible_h[i],
    and comm_r_old, comm_d_new and comm_r_new.
    Raises InputError for numbers that no circuit has.
    """

    arities: Arities
    shape: UpdateShape

    def __post_init__(self) -> None:
        nodes, shape = leaf_count(self.arities), self.shape
        challenges = whole_number("the number of challenges", shape.challenges, 1)
        for name, count in (("partitions", shape.partitions), ("apex leaves", shape.apex_leaves)):
            count = whole_number(f"the number of {name}", count, 1)
            if count & count - 1:
                raise InputError(f"the number of {name} must be a power of two, not {count}")
        if shape.partitions * shape.apex_leaves >= nodes:
            raise InputError(
                f"{shape.partitions} partitions of {shape.apex_leaves} apex leaves must be fewer "
                f"than the {nodes} nodes of a sector"
            )
        index_bits = nodes.bit_length() - 1
        possible_h = tuple(whole_number("a value of h", h, 0, index_bits) for h in shape.possible_h)
        self.__dict__["shape"] = replace(shape, challenges=challenges, possible_h=possible_h)

    @classmethod
    def of(cls, sector: SectorShape) -> EmptySectorUpdateCircuit:
        """Return the circuit of a sector size."""
        return cls(sector.arities, sector.update)

    @property
    def index_bits(self) -> int:
        """Bits of the index of a node."""
        return leaf_count(self.arities).bit_length() - 1

    @property
    def partition_bits(self) -> int:
        """Bits of the index of a partition, the highest bits of a node's index."""
        return self.shape.partitions.bit_length() - 1

    @property
    def challenge_bits(self) -> int:
        """Bits of the index of a node within a partition, which come from the digests."""
        return self.index_bits - self.partition_bits

    def __call__(self, system: ConstraintSystem) -> None:
        """Add the circuit to an empty system."""
        k_and_h_select = public_element(system, "k_and_h_select")
        select_bits = system.bits(k_and_h_select, self.partition_bits + len(self.shape.possible_h))
        partition_bits = select_bits[: self.partition_bits]
        h_select = select_bits[self.partition_bits :]
        partition = packed(system, partition_bits)
        comm_r_old = public_element(system, "comm_r_old")
        comm_d_new = public_element(system, "comm_d_new")
        comm_r_new = public_element(system, "comm_r_new")
        with system.namespace("phi"):
            phi = neptune_hash(system, [comm_d_new, comm_r_old], tag=ARBITRARY_TAG)
        comm_c = system.private("comm_c")
        root_r_old, root_r_new = system.private("root_r_old"), system.private("root_r_new")
        apex_leaves = system.private("apex_leafs", self.shape.apex_leaves)
        partition_path = _private_siblings(system, "partition_path", (2,) * self.partition_bits)
        with system.namespace("comm_r_old"):
            system.assert_equal(neptune_hash(system, [comm_c, root_r_old]), comm_r_old)
        with system.namespace("comm_r_new"):
            system.assert_equal(neptune_hash(system, [comm_c, root_r_new]), comm_r_new)
        with system.namespace("apex"):
            apex_root = _root_of_leaves(system, apex_leaves)
            _prove_inclusion(
                system, apex_root, partition_bits, partition_path, tree_d_node, comm_d_new
            )
        for index, drawn_bits in enumerate(self._draw_challenges(system, partition, comm_r_new)):
            with system.namespace(f"challenge_proofs[{index}]"):
                node = [*drawn_bits, *partition_bits]
                system.repeat(
                    self._challenge, node, phi, h_select, root_r_old, root_r_new, apex_leaves
                )

    def _draw_challenges(
        self, system: ConstraintSystem, partition: Signal, comm_r_new: Signal
    ) -> list[list[Signal]]:
        """Return the bits of each challenge, least significant first, cut from digests.

        A digest is Poseidon(comm_r_new, index), where the indices of partitions do not overlap.
        """
        size = self.challenge_bits
        challenges_per_digest = _DIGEST_BITS // size
        digests = -(-self.shape.challenges // challenges_per_digest)
        challenges: list[list[Signal]] = []
        for index in range(digests):
            with system.namespace(f"digests[{index}]"):
                digest_index = system.wire()
                system.enforce(partition.scaled(digests) + index, system.one, digest_index)
                digest = neptune_hash(system, [comm_r_new, digest_index], tag=ARBITRARY_TAG)
                bits = _digest_bits(system, digest)
            starts = range(0, challenges_per_digest * size, size)
            challenges += [bits[start : start + size] for start in starts]
        return challenges[: self.shape.challenges]

    def _rho(
        self, system: ConstraintSystem, phi: Signal, node: list[Signal], h_select: list[Signal]
    ) -> Signal:
        """Return rho of a node: Poseidon of phi and the h highest bits of its index."""
        with system.namespace("rho"):
            candidates = []
            for h, chosen in zip(self.shape.possible_h, h_select, strict=True):
                high_bits = packed(system, node[self.index_bits - h :])
                candidates.append(system.multiply(high_bits, chosen))
            high = system.wire()
            system.enforce(system.sum(candidates), system.one, high)
            return neptune_hash(system, [phi, high], tag=ARBITRARY_TAG)

    def _challenge(
        self, system: ConstraintSystem, node: list[Signal], phi: Signal, h_select: list[Signal],
        root_r_old: Signal, root_r_new: Signal, apex_leaves: list[Signal],
    ) -> None:  # fmt: skip
        """Constrain the old node, the data and the new node of a challenge.

        node: the bits of its index.
        """
        rho = self._rho(system, phi, node, h_select)
        old_node = system.private(name_here(system, "proof_r_old/leaf"))
        data = system.private(name_here(system, "proof_d_new/leaf"))
        encoded_data = system.multiply(data, rho)
        new_node = system.wire("proof_r_new/leaf")
        system.enforce(old_node + encoded_data, system.one, new_node)
        replicas = (("proof_r_old", old_node, root_r_old), ("proof_r_new", new_node, root_r_new))
        for name, leaf, root in replicas:
            with system.namespace(name):
                path = _private_siblings(system, name_here(system, "path"), self.arities)
                _prove_inclusion(system, leaf, node, path, tree_r_node, root)
        apex_bits = self.shape.apex_leaves.bit_length() - 1
        depth = self.challenge_bits - apex_bits
        with system.namespace("proof_d_new"):
            apex_leaf = select(system, apex_leaves, node[depth : self.challenge_bits])
            path = _private_siblings(system, name_here(system, "path"), (2,) * depth)
            _prove_inclusion(system, data, node[:depth], path, tree_d_node, apex_leaf)


def _private_siblings(system: ConstraintSystem, name: str, arities: Arities) -> list[list[Signal]]:
    """Declare the siblings of each level of a path, ``name[level]/hashes``."""
    return [
        system.private(f"{name}[{level}]/hashes", arity - 1) for level, arity in enumerate(arities)
    ]


def _prove_inclusion(
    system: ConstraintSystem, leaf: Signal, index: Sequence[Signal],
    siblings: Sequence[Sequence[Signal]], hash_children: HashChildren, root: Signal,
) -> None:  # fmt: skip
    """Constrain a leaf to be in the tree with a root, at the index with these bits."""
    computed_root = root_of_path(system, leaf, index, siblings, hash_children)
    system.enforce(computed_root, system.one, root)


def _root_of_leaves(system: ConstraintSystem, leaves: list[Signal]) -> Signal:
    """Compute the root of a whole binary tree of SHA-256, level by level."""
    nodes, level = leaves, 0
    while len(nodes) > 1:
        with system.namespace(f"level[{level}]"):
            pairs = zip(nodes[::2], nodes[1::2], strict=True)
            nodes = [tree_d_node(system, pair) for pair in pairs]
        level += 1
    return nodes[0]


def _digest_bits(system: ConstraintSystem, digest: Signal) -> list[Signal]:
    """Return the 255 bits of a digest, least significant first; 256 constraints.

    As for `element_bits`, nothing excludes the bits of digest + p; only the constraint of the sum
    has another form.
    """
    bits = []
    for position in range(system.prime.bit_length()):
        bits.append(system.hint_bit(digest, position))
        system.boolean(bits[-1])
    system.enforce(system.pack(bits), system.one, digest)
    return bits
