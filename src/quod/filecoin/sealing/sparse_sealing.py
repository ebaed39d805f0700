"""Vanilla proofs of large sectors for tests, without the sectors.

Only the nodes that the proofs contain exist. The labels, columns, paths and commitments are
consistent, so the proofs satisfy the circuits; all other nodes are random. The sectors do not
exist: use the proofs only to test or benchmark provers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import Words, check_seed
from quod.filecoin.challenges import porep_challenges
from quod.filecoin.graph import DRG_PARENTS, StackedGraph
from quod.filecoin.labels import label
from quod.filecoin.nodes import encode, replica_id
from quod.filecoin.poseidon import NodeHasher
from quod.filecoin.records import CommitOutput, PoStSectorProof
from quod.filecoin.registered_proofs import Challenges, PoRepConfig, SealProof, prover_id
from quod.filecoin.sealing.partial_trees import (
    Draw,
    RunLengthTree,
    node_source,
    run_length_tree,
    sparse_tree,
)
from quod.filecoin.sealing.sealed_sector import SealedSector, parent_labels, post_sector_proof
from quod.filecoin.sectors import NODE_BYTES, SectorShape
from quod.filecoin.trees import nodes_to_words, sha256_level, words_to_node
from quod.validation import in_order, instance, whole_number


def sparse_commit(
    proof: SealProof, *, miner: int, sector_number: int, ticket: bytes, seed: bytes,
    random_seed: int = 0, device: AnyDevice | None = None,
) -> CommitOutput:  # fmt: skip
    """Return an output of C1 of a sector that does not exist, which `check_commit` accepts.

    The data are zeros. The labels of challenged nodes are computed from those of their parents. The
    labels of parents that are not challenged are random.
    proof: an interactive one, as the challenges of other proofs depend on the trees.
    ticket, seed: the randomness of the replica id and of the challenges, 32 bytes each.
    random_seed: the seed of all random nodes.
    device: computes the Poseidon hashes; None stands for pure Python, in which a sector of 32 GiB
        takes half a minute.
    Raises InputError for a proof that is not interactive.
    """
    instance("the registered proof", proof, SealProof, "see seal_proof")
    if proof.challenges is not Challenges.INTERACTIVE:
        raise InputError(
            f"the challenges of {proof.name} depend on all nodes; choose an interactive proof, "
            "such as StackedDrg32GiBV1_1"
        )
    check_seed(random_seed)
    shape, config, draw = proof.sector, proof.config(), node_source(random_seed)
    tree_d = data_tree(shape, bytes(NODE_BYTES))
    identity = replica_id(prover_id(miner), sector_number, ticket, tree_d.root, config.porep_id)
    challenges = sorted(
        # Interactive challenges do not depend on comm_r.
        set(chain(*(porep_challenges(config, identity, bytes(NODE_BYTES), seed, partition)
                    for partition in range(config.partitions))))
    )  # fmt: skip
    columns = _columns(config, identity, challenges, draw)
    hasher = NodeHasher(device)
    rows = nodes_to_words(b"".join(chain(*columns.values())))
    hashes = hasher.hash_groups(shape.layers, rows)
    column_hashes = dict(zip(columns, map(words_to_node, hashes), strict=True))
    replica = {node: encode(columns[node][-1], tree_d.node(0, node)) for node in challenges}
    tree_c, tree_r_last = (
        sparse_tree(shape.arities, shape.base_levels, leaves, hasher.hash_groups, draw)
        for leaves in (column_hashes, replica)
    )
    sector = SealedSector(
        proof, identity, ticket, tree_d, tree_c, tree_r_last, lambda node: tuple(columns[node])
    )
    return sector.commit_output(seed)


def sparse_posts(
    shape: SectorShape, challenges: Mapping[int, Sequence[int]], *, random_seed: int = 0,
    device: AnyDevice | None = None,
) -> list[PoStSectorProof]:  # fmt: skip
    """Return vanilla proofs of spacetime of sectors that do not exist; their replicas are equal.

    challenges: the challenged leaves, of `window_challenges` or `winning_challenges`, by the
        sector's number.
    random_seed: the seed of all random nodes.
    device: see `sparse_commit`.
    Raises InputError for a leaf that the sector lacks.
    """
    instance("the sector", shape, SectorShape, "take it from sector_shape")
    instance("the challenges", challenges, Mapping, "map a sector's number to its leaves")  # type: ignore[type-abstract]
    check_seed(random_seed)
    draw, hasher = node_source(random_seed), NodeHasher(device)
    leaves_of = {
        number: [
            whole_number("a challenge", leaf, 0, shape.nodes - 1)
            for leaf in in_order("the challenges of a sector", leaves)
        ]
        for number, leaves in challenges.items()
    }
    nodes = {leaf: words_to_node(draw(1)[0]) for leaf in chain(*leaves_of.values())}
    if not nodes:
        raise InputError("there must be at least one challenge")
    tree = sparse_tree(shape.arities, shape.base_levels, nodes, hasher.hash_groups, draw)
    comm_c = words_to_node(draw(1)[0])
    return [post_sector_proof(number, comm_c, tree, each) for number, each in leaves_of.items()]


def data_tree(shape: SectorShape, node: bytes) -> RunLengthTree:
    """Return TreeD of a sector whose data nodes are all equal to a node."""
    return run_length_tree(shape.data_arities, shape.node_bits, nodes_to_words(node), _sha256_pairs)


def _sha256_pairs(arity: int, nodes: Words) -> Words:
    return nodes_to_words(sha256_level(nodes.tobytes()))


def _columns(
    config: PoRepConfig, identity: bytes, challenges: Sequence[int], draw: Draw
) -> dict[int, list[bytes]]:
    """Return the labels of challenged nodes, in ascending order, and of their parents."""
    layers = config.sector.layers
    parents = StackedGraph.of(config).parents(challenges)
    nodes = sorted({*challenges, *parents.reshape(-1).tolist()})
    random_labels = draw(layers * len(nodes)).reshape(len(nodes), layers, -1)
    columns = {
        node: [words_to_node(words) for words in rows]
        for node, rows in zip(nodes, random_labels, strict=True)
    }
    # A label depends on smaller nodes in its layer, and on all nodes in the preceding layer.
    for layer in range(1, layers + 1):
        for node, row in zip(challenges, parents.tolist(), strict=True):
            drg, expander = row[:DRG_PARENTS], row[DRG_PARENTS:]
            hashed = parent_labels(lambda parent: tuple(columns[parent]), drg, expander, layer)
            columns[node][layer - 1] = label(identity, layer, node, hashed)
    return columns
