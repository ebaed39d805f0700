"""Updated sectors for tests (SnapDeals), and their vanilla proofs."""

from __future__ import annotations

from functools import cached_property

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import Words, check_canonical, check_seed, integers_to_words
from quod.field.moduli import BLS12_381_FR
from quod.filecoin.challenges import update_challenges
from quod.filecoin.nodes import P, comm_r, node_to_element
from quod.filecoin.poseidon import NodeHasher
from quod.filecoin.records import UpdateChallengeProof, UpdatePartitionProof
from quod.filecoin.sealing.partial_trees import node_source, run_length_tree
from quod.filecoin.sealing.sealed_sector import SealedSector
from quod.filecoin.sealing.sparse_sealing import data_tree
from quod.filecoin.sectors import SectorShape
from quod.filecoin.statements import UpdateStatement
from quod.filecoin.trees import MerkleTree, Tree, tree_d, tree_r_last, words_to_node
from quod.filecoin.updates import phi, rho
from quod.frozen import frozen
from quod.validation import exact_bytes, instance


@frozen(eq=False)
class UpdatedSector:
    """A sector before and after an update.

    comm_c: the root of TreeC, which an update does not change.
    tree_r_old, tree_r_new: TreeRLast before and after.
    tree_d_new: TreeD of the new data.
    """

    shape: SectorShape
    comm_c: bytes
    tree_r_old: Tree
    tree_d_new: Tree
    tree_r_new: Tree

    @cached_property
    def statement(self) -> UpdateStatement:
        """The statement of the update, with the number of high bits that updates use."""
        old, new = (comm_r(self.comm_c, tree.root) for tree in (self.tree_r_old, self.tree_r_new))
        return UpdateStatement(self.shape, old, self.tree_d_new.root, new)

    def partition_proof(self, partition: int) -> UpdatePartitionProof:
        """Return the vanilla proof of a partition."""
        nodes = update_challenges(self.shape, self.statement.comm_r_new, partition)
        proofs = tuple(
            UpdateChallengeProof(
                self.tree_r_old.proof(node), self.tree_d_new.proof(node),
                self.tree_r_new.proof(node),
            )
            for node in nodes
        )  # fmt: skip
        update = self.shape.update
        count = update.apex_leaves
        level = self.shape.node_bits - (update.partitions * count).bit_length() + 1
        apex_leaves = range(partition * count, (partition + 1) * count)
        return UpdatePartitionProof(
            self.comm_c, tuple(self.tree_d_new.node(level, index) for index in apex_leaves), proofs
        )

    @property
    def partition_proofs(self) -> list[UpdatePartitionProof]:
        """The vanilla proofs of all partitions."""
        return [self.partition_proof(each) for each in range(self.shape.update.partitions)]


def update(sector: SealedSector, data: bytes, *, device: AnyDevice | None = None) -> UpdatedSector:
    """Update a sector of `seal` with new data.

    data: the nodes of the sector, each below the modulus.
    device: computes the Poseidon hashes; None stands for pure Python, a millisecond a hash.
    Raises InputError for data whose size is not that of the sector.
    """
    shape, old = sector.shape, sector.tree_r_last
    if not isinstance(old, MerkleTree):
        raise InputError("the sector lacks most of its nodes; update a sector of `seal`")
    new_data = tree_d(exact_bytes("the data", data, shape.size))
    check_canonical(BLS12_381_FR, new_data.levels[0])
    randomness = phi(new_data.root, sector.comm_r)
    shift = shape.node_bits - shape.update.default_h
    factors = [rho(randomness, high) for high in range(shape.nodes >> shift)]
    elements = [
        (_element(old, node) + _element(new_data, node) * factors[node >> shift]) % P
        for node in range(shape.nodes)
    ]
    replica = integers_to_words(BLS12_381_FR, elements)
    new = tree_r_last(shape, replica, NodeHasher(device))
    return UpdatedSector(shape, sector.tree_c.root, old, new_data, new)


def _element(tree: Tree, leaf: int) -> int:
    return node_to_element("a node", tree.node(0, leaf))


def uniform_update(
    shape: SectorShape, *, random_seed: int = 0, device: AnyDevice | None = None
) -> UpdatedSector:
    """Return an update of a sector of equal nodes with new data of equal nodes.

    The new replica then has a single node for each value of the high bits of an index, so its trees
    need few hashes, and the sector can have any size. It does not exist: use the proofs only to
    test or benchmark provers.
    random_seed: the seed of the old node, the new data node and comm_c.
    """
    instance("the sector", shape, SectorShape, "take it from sector_shape")
    check_seed(random_seed)
    hasher, (old_node, data_node, comm_c) = NodeHasher(device), node_source(random_seed)(3)

    def tree_of(leaves: Words) -> Tree:
        return run_length_tree(shape.arities, shape.base_levels, leaves, hasher.hash_groups)

    old, data = tree_of(old_node[None]), data_tree(shape, words_to_node(data_node))
    commitment = words_to_node(comm_c)
    randomness = phi(data.root, comm_r(commitment, old.root))
    old_element, data_element = _element(old, 0), _element(data, 0)
    elements = [
        (old_element + data_element * rho(randomness, high)) % P
        for high in range(1 << shape.update.default_h)
    ]
    new = tree_of(integers_to_words(BLS12_381_FR, elements))
    return UpdatedSector(shape, commitment, old, data, new)
