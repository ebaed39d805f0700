"""Merkle trees of all shapes, labels and encodings, in plain Python and on devices."""

from __future__ import annotations

import hashlib
import random
import re
from itertools import pairwise

import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import integers_to_words, random_elements, words_to_integers
from quod.field.moduli import BLS12_381_FR
from quod.filecoin.graph import StackedGraph
from quod.filecoin.labels import compute_layers, label, repeated_parents
from quod.filecoin.nodes import P, encode, trim_to_fr32
from quod.filecoin.poseidon import NodeHasher
from quod.filecoin.registered_proofs import seal_proof
from quod.filecoin.sectors import SECTORS, sector_shape
from quod.filecoin.trees import (
    encode_replica,
    nodes_to_words,
    tree_c,
    tree_d,
    tree_r_last,
    words_to_node,
)
from quod.hash import neptune_hash

SMALL = [shape for shape in SECTORS.values() if shape.nodes <= 1 << 10]


def elements(nodes: int, seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    return random_elements(BLS12_381_FR, nodes, seed)


@pytest.mark.parametrize("sector", SMALL, ids=lambda sector: sector.name)
def test_replica_trees_of_all_shapes(sector: object) -> None:
    """Each level hashes groups of its arity; a proof leads from each leaf to the root."""
    shape = sector_shape(sector.size)  # type: ignore[attr-defined]
    leaves = elements(shape.nodes, 1)
    tree = tree_r_last(shape, leaves, NodeHasher())
    numbers = [words_to_integers(BLS12_381_FR, level) for level in tree.levels]
    for arity, (children, parents) in zip(shape.arities, pairwise(numbers), strict=True):
        index = random.Random(1).randrange(len(parents))
        assert parents[index] == neptune_hash(children[index * arity : (index + 1) * arity])
    for leaf in (0, 1, shape.nodes // 2 + 3, shape.nodes - 1):
        proof = tree.proof(leaf)
        assert proof.leaf_index == leaf
        assert (len(proof.sub_proof), len(proof.top_proof)) == (
            int(shape.sub_arity > 0),
            int(shape.top_arity > 0),
        )
        node = int.from_bytes(proof.leaf, "little")
        for element in proof.path:
            group = [int.from_bytes(sibling, "little") for sibling in element.hashes]
            group.insert(element.index, node)
            node = neptune_hash(group)
        assert node.to_bytes(32, "little") == proof.root == tree.root


def test_tree_d() -> None:
    data = random.Random(2).randbytes(8 * 32)
    tree = tree_d(data)
    proof = tree.proof(5)
    node = data[5 * 32 : 6 * 32]
    assert proof.leaf == node
    for level, element in enumerate(proof.path):
        pair = (*element.hashes, node) if 5 >> level & 1 else (node, *element.hashes)
        assert element.index == 5 >> level & 1
        node = trim_to_fr32(hashlib.sha256(b"".join(pair)).digest())
    assert node == tree.root == tree_d(nodes_to_words(data)).root
    for wrong in (b"", bytes(96), bytes(33)):
        with pytest.raises(InputError, match=r"the data must be 2\^n nodes"):
            tree_d(wrong)
    with pytest.raises(InputError, match="the leaf must be a whole number from 0 to 7, not 8"):
        tree.proof(8)


def test_labels_and_columns() -> None:
    """A sector of 2 KiB, label by label."""
    proof = seal_proof(5)
    graph, replica_id = StackedGraph.of(proof.config()), bytes(range(32))
    first, second = compute_layers(graph, replica_id, 2)
    for node in (1, 2, 40, 63):
        parents = graph.parents([node])[0].tolist()
        drg = [words_to_node(first[parent]) for parent in parents[:6]]
        assert words_to_node(first[node]) == label(replica_id, 1, node, repeated_parents(drg, ()))
        drg = [words_to_node(second[parent]) for parent in parents[:6]]
        expander = [words_to_node(first[parent]) for parent in parents[6:]]
        repeated = repeated_parents(drg, expander)
        assert repeated == (*drg, *expander) * 2 + (*drg, *expander[:3])
        assert words_to_node(second[node]) == label(replica_id, 2, node, repeated)
    head = replica_id + bytes.fromhex("00000002") + bytes(8) + bytes(20)
    assert words_to_node(second[0]) == trim_to_fr32(hashlib.sha256(head).digest())
    tree = tree_c(proof.sector, (first, second), NodeHasher())
    columns = [words_to_integers(BLS12_381_FR, layer[7:8])[0] for layer in (first, second)]
    assert words_to_integers(BLS12_381_FR, tree.levels[0][7:8]) == [neptune_hash(columns)]
    with pytest.raises(InputError, match="the replica id must be 32 bytes"):
        label(b"", 1, 0, ())


def test_encoding() -> None:
    labels, data = integers_to_words(BLS12_381_FR, [P - 1, 5]), elements(2, 3)
    for encoded, key, node in zip(encode_replica(labels, data), labels, data, strict=True):
        assert words_to_node(encoded) == encode(words_to_node(key), words_to_node(node))


@pytest.mark.parametrize("arity", [2, 4, 8, 11])
def test_hashes_on_devices(device: AnyDevice, arity: int) -> None:
    groups = elements(5 * arity, 4)
    groups[:arity] = integers_to_words(BLS12_381_FR, [P - 1] * arity)
    hashes = NodeHasher(device).hash_groups(arity, groups)
    assert (hashes == NodeHasher().hash_groups(arity, groups)).all()


def test_trees_on_devices(device: AnyDevice) -> None:
    shape = sector_shape(32 << 10)
    hasher = NodeHasher(device)
    leaves = elements(shape.nodes, 5)
    tree, expected = (tree_r_last(shape, leaves, each) for each in (hasher, NodeHasher()))
    assert all((a == b).all() for a, b in zip(tree.levels, expected.levels, strict=True))
    layers = (leaves[:64], leaves[64:128])
    assert (hasher.hash_columns(layers) == NodeHasher().hash_columns(layers)).all()


def test_hashes_on_an_interpreter(gpu_device: AnyDevice) -> None:
    groups = elements(4, 6)
    hashes = NodeHasher(gpu_device).hash_groups(2, groups)
    assert (hashes == NodeHasher().hash_groups(2, groups)).all()


def test_wrong_leaves_are_refused() -> None:
    shape, hasher = sector_shape(2 << 10), NodeHasher()
    with pytest.raises(InputError, match=re.escape("63 leaves are not those of a tree")):
        tree_r_last(shape, elements(63, 7), hasher)
    leaves = elements(64, 7)
    leaves[3] = 0xFFFFFFFF
    with pytest.raises(InputError, match="element 3 is not below the modulus"):
        tree_r_last(shape, leaves, hasher)
