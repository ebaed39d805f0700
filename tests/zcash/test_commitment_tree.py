"""Trees that grow: zcashd's vectors of depth 4, mainnet's first blocks, and direct hashing."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from quod import zcash
from quod.curve import EDWARDS
from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError, MismatchError
from quod.r1cs import reference
from quod.zcash.tree import CommitmentTree, MerklePath, empty_root
from quod.zcash.tree.frontier import Frontier, encode_frontier, encode_node
from quod.zcash.tree.node_batches import hash_pairs
from quod.zcash.tree.nodes import parents
from quod.zcash.tree.path import root_of_path

P = EDWARDS["jubjub"].fq.value
DEPTH = 4


def number(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "little")


def zcashd_vectors(folder: Path, name: str) -> list[str]:
    path = folder / "zcash" / "test-vectors" / f"merkle_{name}_sapling.json"
    vectors: list[str] = json.loads(path.read_text())
    return vectors


def root_by_hand(leaves: list[int], depth: int) -> int:
    """Hash all nodes of a tree, empty leaves too, with Sapling's generators."""
    level_nodes = [*leaves, *[1] * ((1 << depth) - len(leaves))]
    for level in range(depth):
        level_nodes = [
            reference.sapling_node(level, *level_nodes[index : index + 2])
            for index in range(0, len(level_nodes), 2)
        ]
    (root,) = level_nodes
    return root


def random_leaves(count: int, seed: int = 1) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(P) for _ in range(count)]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8])
def test_roots_by_direct_hashing(size: int) -> None:
    leaves = random_leaves(size)
    tree = CommitmentTree(depth=3)
    tree.extend(leaves)
    assert (tree.size, tree.root()) == (size, root_by_hand(leaves, 3))


def test_every_split_of_the_leaves_grows_the_same_tree() -> None:
    """Paths of marked leaves lead to the root after each extension, whatever its length."""
    leaves = random_leaves(16)
    states: dict[int, tuple[int, bytes, dict[int, list[int]]]] = {}
    source = random.Random(7)
    for _ in range(12):
        tree = CommitmentTree(depth=DEPTH)
        while tree.size < len(leaves):
            stop = source.randint(tree.size + 1, len(leaves))
            tree.extend(leaves[tree.size : stop], range(tree.size, stop))
            paths = {position: tree.siblings(position) for position in range(tree.size)}
            state = (tree.root(), tree.to_bytes(), paths)
            for position, siblings in paths.items():
                leaf = leaves[position]
                assert root_of_path(leaf, position, siblings, zcash.SAPLING) == state[0]
            assert states.setdefault(tree.size, state) == state
    assert states[16][0] == root_by_hand(leaves, DEPTH)


@pytest.mark.parametrize("protocol", [zcash.SAPLING, zcash.MASP])
def test_nodes_of_a_kernel(protocol: zcash.Protocol) -> None:
    device = resolve_device("cpu")
    nodes = [0, 1, P - 1, P - 2, 1 << 254, (1 << 255) % P, *random_leaves(34)]
    for level in (0, 1, 31):
        assert hash_pairs(device, level, nodes, protocol) == [
            reference.sapling_node(level, nodes[index], nodes[index + 1], protocol.pedersen)
            for index in range(0, len(nodes), 2)
        ]


def test_nodes_of_a_kernel_on_a_gpu(gpu_device: AnyDevice) -> None:
    nodes = random_leaves(4)
    expected = [reference.sapling_node(3, *nodes[:2]), reference.sapling_node(3, *nodes[2:])]
    assert hash_pairs(gpu_device, 3, nodes, zcash.SAPLING) == expected


def test_many_leaves_grow_the_same_tree() -> None:
    """Leaves by hundreds, hashed by a kernel, and by few, hashed in Python."""
    leaves = random_leaves(300)
    tree, twin = CommitmentTree(), CommitmentTree()
    tree.extend(leaves[:7], [3])
    tree.extend(leaves[7:], [150, 299])
    for start in range(0, 300, 50):
        stop = start + 50
        marked = [position for position in (3, 150, 299) if start <= position < stop]
        twin.extend(leaves[start:stop], marked)
    assert tree.to_bytes() == twin.to_bytes()
    assert tree.root() == twin.root()
    for position in tree.marked:
        assert tree.path(position) == twin.path(position)
        assert tree.path(position).root(leaves[position]) == tree.root()


def test_marks_of_the_last_leaf() -> None:
    leaves = random_leaves(7)
    tree, twin = CommitmentTree(depth=DEPTH), CommitmentTree(depth=DEPTH)
    for position, leaf in enumerate(leaves):
        tree.append(leaf)
        assert tree.mark() == position
        assert twin.append(leaf, mark=True) == position
    assert tree.marked == twin.marked == [*range(7)]
    assert [tree.siblings(at) for at in range(7)] == [twin.siblings(at) for at in range(7)]
    tree.unmark(3)
    assert tree.marked == [0, 1, 2, 4, 5, 6]
    with pytest.raises(MismatchError, match="position 3 is not marked"):
        tree.siblings(3)


@pytest.mark.parametrize("protocol", [zcash.SAPLING, zcash.MASP])
def test_proofs_have_paths_of_depth_32(protocol: zcash.Protocol) -> None:
    leaves = random_leaves(5)
    tree = CommitmentTree(protocol)
    tree.extend(leaves, [2])
    path = tree.path(2)
    assert path.root(leaves[2], protocol) == tree.root()
    with pytest.raises(InputError, match="a path has 32 siblings, not 4"):
        shallow = CommitmentTree(protocol, DEPTH)
        shallow.append(1)
        shallow.path(shallow.mark())


def test_the_last_leaves_of_a_full_tree() -> None:
    """A tree of 2**32 - 3 leaves, of any siblings, takes three leaves and no fourth."""
    last = (1 << 32) - 4
    nodes = b"".join(b"\1" + level.to_bytes(32, "little") for level in range(2, 32))
    tree = CommitmentTree.from_bytes(b"\1" + bytes(32) + b"\0" + bytes([31]) + b"\0" + nodes)
    assert tree.size == last + 1
    tree.extend([5, 6, 7], [last + 2])
    assert tree.size == 1 << 32
    siblings = [7, reference.sapling_node(0, 0, 5), *range(2, 32)]
    assert tree.path(last + 2) == MerklePath(siblings, last + 2)
    assert tree.path(last + 2).root(6) == tree.root()
    with pytest.raises(InputError, match=f"tree of {1 << 32} leaves has room for 0, not 1"):
        tree.append(8)


def test_encodings_by_hand() -> None:
    for size, text in enumerate(
        ("000000", f"01aa{'00' * 31}0000", f"01aa{'00' * 31}01ab{'00' * 31}00")
    ):
        tree = CommitmentTree()
        tree.extend([0xAA, 0xAB][:size])
        assert tree.to_bytes().hex() == text
        assert CommitmentTree.from_bytes(bytes.fromhex(text)).root() == tree.root()


def test_malformed_encodings() -> None:
    leaf = b"\1" + bytes(32)
    for data, message in (
        (b"", "offset 0: the encoding of the tree is truncated"),
        (b"\2", "offset 0: an optional value begins with 0 or 1, not 2"),
        (b"\1" + P.to_bytes(32, "little"), "offset 1: a node is not below the modulus"),
        (b"\0" + leaf + b"\0", "offset 0: a tree without a left leaf"),
        (b"\0\0\1" + leaf, "offset 0: a tree without a left leaf"),
        (leaf + b"\0\x20", "offset 34: the tree has more than 31 parents"),
        (leaf + b"\0\xfd", "offset 34: the tree has more than 31 parents"),
        (leaf + b"\0\1\1" + bytes(31), "offset 36: the encoding of the tree is truncated"),
        (leaf + b"\0\0\0", "offset 35: 1 bytes follow the tree"),
    ):
        with pytest.raises(InputError, match=message):
            CommitmentTree.from_bytes(data)
    with pytest.raises(InputError, match="must be bytes, not a str"):
        CommitmentTree.from_bytes("00")  # type: ignore[arg-type]


def test_malformed_leaves_change_nothing() -> None:
    tree = CommitmentTree(depth=2)
    tree.append(3, mark=True)
    before = (tree.to_bytes(), tree.marked)
    attempts: list[tuple[Any, Any, str]] = [
        ([P], [], "a leaf is not below the modulus"),
        ([1, -1], [], "a leaf must be a whole number"),
        ([1, 2, 3, 4], [], "has room for 3, not 4"),
        ([1], [0], "a marked position must be"),
        ([1], [1, 2], "a marked position must be"),
        (5, [], "a leaf must be a list"),
        ([1], 1, "marked positions must be a list"),
    ]
    for leaves, marked, message in attempts:
        with pytest.raises(InputError, match=message):
            tree.extend(leaves, marked)
        assert (tree.to_bytes(), tree.marked) == before
    with pytest.raises(InputError, match="the tree is empty"):
        CommitmentTree().mark()
    with pytest.raises(InputError, match="the depth of a tree"):
        CommitmentTree(depth=33)


def test_witnesses_of_other_trees() -> None:
    tree, other = CommitmentTree(depth=DEPTH), CommitmentTree(depth=DEPTH)
    tree.extend(random_leaves(6), [1])
    other.extend(random_leaves(6, seed=2), [1])
    witness = other.witness_to_bytes(1)
    for target in (tree, CommitmentTree(depth=DEPTH)):
        with pytest.raises(MismatchError, match="position 1 does not lead to the root"):
            target.mark_witness(witness)
    tree.unmark(1)
    with pytest.raises(MismatchError, match="position 1 is not marked"):
        tree.witness_to_bytes(1)
    with pytest.raises(InputError, match="the witness has no leaf"):
        tree.mark_witness(bytes(5))
    for size in range(len(witness)):
        with pytest.raises(InputError, match="truncated"):
            other.mark_witness(witness[:size])
    with pytest.raises(InputError, match="bytes follow the tree"):
        other.mark_witness(witness + b"\0")


@pytest.mark.fixtures
def test_trees_of_zcashd(shared_fixtures: Path) -> None:
    """Roots, encodings and paths of zcashd after each of 16 leaves, in a tree of depth 4."""
    # Leaves are in the order of block explorers, which is reversed.
    leaves = [
        int(text, 16) for text in zcashd_vectors(shared_fixtures, "commitments")
    ]  # fmt: skip
    roots = zcashd_vectors(shared_fixtures, "roots")
    encodings = zcashd_vectors(shared_fixtures, "serialization")
    paths = iter(zcashd_vectors(shared_fixtures, "path"))
    witnesses = iter(zcashd_vectors(shared_fixtures, "witness_serialization"))
    tree, checked = CommitmentTree(depth=DEPTH), 0
    for size, (leaf, root, encoding) in enumerate(zip(leaves, roots, encodings, strict=True), 1):
        tree.append(leaf, mark=True)
        assert tree.root() == number(root)
        assert tree.to_bytes().hex() == encoding
        decoded = CommitmentTree.from_bytes(bytes.fromhex(encoding), depth=DEPTH)
        assert (decoded.size, decoded.root()) == (size, tree.root())
        # zcashd begins a witness before each leaf; it follows the leaf before.
        for position in range(-1, size - 1):
            witness = next(witnesses)
            if position < 0:
                continue
            assert tree.witness_to_bytes(position).hex() == witness
            assert decoded.mark_witness(bytes.fromhex(witness)) == position
            assert decoded.siblings(position) == tree.siblings(position)
            assert path_encoding(tree, position) == next(paths)
            checked += 1
    assert (checked, next(paths, None), next(witnesses, None)) == (120, None, None)
    # Encodings with missing nodes at the end, such as Zebra's, have the same tree.
    padded = bytearray.fromhex(encodings[0])
    padded[-1] = DEPTH - 1
    padded += bytes(DEPTH - 1)
    assert CommitmentTree.from_bytes(bytes(padded), depth=DEPTH).root() == number(roots[0])


def path_encoding(tree: CommitmentTree, position: int) -> str:
    """A path as zcashd writes it: the siblings from the root's side, and the position."""
    siblings = [
        f"20{sibling.to_bytes(32, 'little').hex()}" for sibling in tree.siblings(position)
    ]  # fmt: skip
    return f"{DEPTH:02x}{''.join(reversed(siblings))}{position.to_bytes(8, 'little').hex()}"


@pytest.mark.fixtures
def test_the_first_blocks_of_mainnet(shared_fixtures: Path) -> None:
    """Anchors after blocks, and a path that follows the next block."""
    text = (shared_fixtures / "zcash" / "mainnet_sapling_tree_419202.json").read_text()
    document = json.loads(text)
    leaves, roots = [number(leaf) for leaf in document["leaves"]], document["roots"]
    tree = CommitmentTree()
    assert tree.root() == number(roots["419200"])
    tree.extend(leaves[:5], [3])
    assert tree.root() == number(roots["419201"])
    assert tree.path(3).root(leaves[3]) == tree.root()
    restored = CommitmentTree.from_bytes(tree.to_bytes())
    restored.mark_witness(tree.witness_to_bytes(3))
    for candidate in (tree, restored):
        candidate.extend(leaves[5:])
        assert candidate.root() == number(roots["419202"])
        assert candidate.path(3).root(leaves[3]) == candidate.root()


@pytest.mark.fixtures
def test_roots_of_empty_subtrees(shared_fixtures: Path) -> None:
    for name, protocol in (("sapling", zcash.SAPLING), ("masp", zcash.MASP)):
        document = json.loads((shared_fixtures / "zcash" / f"{name}_empty_roots.json").read_text())
        texts = document if isinstance(document, list) else document["empty_roots"]
        assert [empty_root(level, protocol) for level in range(33)] == [*map(number, texts)]
        assert CommitmentTree(protocol).root() == number(texts[32])


def test_a_witness_with_roots_of_incomplete_subtrees() -> None:
    """Such a witness leads to the root now; its siblings must not be those of later paths."""
    tree = CommitmentTree()
    tree.extend([10])
    nodes = b"".join(encode_node(empty_root(level)) for level in range(32))
    data = encode_frontier(Frontier(0, 10, {})) + bytes([32]) + nodes + b"\0"
    assert tree.mark_witness(data) == 0
    tree.extend([1, 2, 3, 4, 5])
    assert tree.path(0).root(10) == tree.root()


def test_a_witness_of_a_marked_leaf_changes_nothing() -> None:
    tree = CommitmentTree()
    tree.extend([10, 11, 12], [1])
    tree.extend(range(5))
    witness = tree.witness_to_bytes(1)
    assert tree.mark_witness(witness) == 1
    assert tree.witness_to_bytes(1) == witness
    tree.extend(range(9))
    assert tree.path(1).root(11) == tree.root()


def test_a_failed_append_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = CommitmentTree()
    tree.extend([9, 10], [1])
    expected = tree.to_bytes(), tree.witness_to_bytes(1)
    for leaves in (range(200), [5]):
        with pytest.raises(DeviceError):
            tree.extend(leaves, [2], device="bogus")
    calls = []

    def fails(level: int, *arguments: object) -> list[int]:
        calls.append(level)
        if level:
            raise DeviceError("lost")
        return parents(level, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("quod.zcash.tree.commitment_tree.parents", fails)
    with pytest.raises(DeviceError, match="lost"):
        tree.extend([5, 6, 7, 8], [3])
    assert calls == [0, 1]
    assert (tree.to_bytes(), tree.witness_to_bytes(1), tree.marked) == (*expected, [1])
