"""Checks of many Merkle proofs at a time: a level of all paths is one batch of hashes."""

from __future__ import annotations

from collections.abc import Sequence

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.filecoin.nodes import sha256_node
from quod.filecoin.poseidon import NodeHasher
from quod.filecoin.records import ColumnProof, MerklePath, MerkleProof
from quod.filecoin.sectors import SectorShape
from quod.filecoin.trees import nodes_to_words, words_to_node


class PathChecker:
    """Collects the Merkle proofs and columns of a sector, and then checks all of them.

    device: computes the Poseidon hashes; None stands for pure Python.
    """

    def __init__(self, sector: SectorShape, device: AnyDevice | None = None) -> None:
        self._sector, self._hasher = sector, NodeHasher(device)
        self._proofs: list[tuple[str, MerkleProof]] = []
        self._columns: list[tuple[str, ColumnProof]] = []
        self._pairs: list[tuple[str, tuple[bytes, bytes], bytes]] = []

    def add(self, section: str, proof: MerkleProof, leaf: int, root: bytes, name: str) -> None:
        """Add a proof in TreeC or TreeRLast, whose hashes `check` computes.

        section: the field of the proof, for errors.
        leaf: the index of its leaf.
        root: the commitment that its root must be.
        name: the name of the commitment.
        """
        _check_path(section, proof, self._sector.arities, leaf)
        _check_root(section, proof, root, name)
        self._proofs.append((section, proof))

    def add_column(
        self, section: str, column: ColumnProof, node: int, root: bytes, name: str
    ) -> None:
        """Add a column of a node and its proof in TreeC."""
        self._columns.append((section, column))
        self.add(f"{section}.inclusion_proof", column.inclusion_proof, node, root, name)

    def check_data_path(
        self, section: str, proof: MerkleProof, leaf: int, root: bytes, name: str
    ) -> None:
        """Check a proof in TreeD immediately, not in `check`."""
        _check_path(section, proof, self._sector.data_arities, leaf)
        _check_root(section, proof, root, name)
        _check_end(section, proof, data_root(proof.leaf, proof.path))

    def check(self, *, paths: bool = True) -> None:
        """Check everything that was added: columns, then paths, then commitments.

        paths: False omits paths and commitments, whose hashes the circuits compute, too.
        Raises InputError for the first one that is wrong.
        """
        if self._columns:
            rows = b"".join(b"".join(column.column.rows) for _, column in self._columns)
            for (section, column), node in zip(
                self._columns, self._hashes(self._sector.layers, rows), strict=True
            ):
                if node != column.inclusion_proof.leaf:
                    raise InputError(
                        "is not the hash of the column's rows",
                        section=f"{section}.inclusion_proof.leaf",
                    )
        if paths:
            self._check_paths()
            self._check_pairs()

    def _check_paths(self) -> None:
        nodes = [proof.leaf for _, proof in self._proofs]
        paths = [proof.path for _, proof in self._proofs]
        for level, arity in enumerate(self._sector.arities):
            groups = [_group(path, level, node) for path, node in zip(paths, nodes, strict=True)]
            nodes = self._hashes(arity, b"".join(groups))
        for (section, proof), node in zip(self._proofs, nodes, strict=True):
            _check_end(section, proof, node)

    def add_pair(self, section: str, roots: tuple[bytes, bytes], commitment: bytes) -> None:
        """Add a commitment to a replica, the hash of the roots of TreeC and TreeRLast."""
        self._pairs.append((section, roots, commitment))

    def _check_pairs(self) -> None:
        if self._pairs:
            nodes = b"".join(b"".join(roots) for _, roots, _ in self._pairs)
            for (section, _, commitment), node in zip(
                self._pairs, self._hashes(2, nodes), strict=True
            ):
                if node != commitment:
                    raise InputError("is not the hash of comm_c and comm_r_last", section=section)

    def _hashes(self, arity: int, nodes: bytes) -> list[bytes]:
        hashes = self._hasher.hash_groups(arity, nodes_to_words(nodes))
        return [words_to_node(row) for row in hashes]


def data_root(node: bytes, path: MerklePath) -> bytes:
    """Return the node to which a path in TreeD leads."""
    for element in path:
        (sibling,) = element.hashes
        node = sha256_node(sibling, node) if element.index else sha256_node(node, sibling)
    return node


def _group(path: MerklePath, level: int, node: bytes) -> bytes:
    """Return the siblings of a path's level with the node of the path among them."""
    hashes, index = path[level].hashes, path[level].index
    return b"".join((*hashes[:index], node, *hashes[index:]))


def _check_path(section: str, proof: MerkleProof, arities: Sequence[int], leaf: int) -> None:
    actual = tuple(len(element.hashes) + 1 for element in proof.path)
    if actual != tuple(arities):
        raise InputError(
            f"has levels of the arities {actual}; the sector's tree has {arities}", section=section
        )
    if proof.leaf_index != leaf:
        raise InputError(
            f"is a path to leaf {proof.leaf_index}; expected leaf {leaf}",
            section=section,
        )


def _check_root(section: str, proof: MerkleProof, root: bytes, name: str) -> None:
    if proof.root != root:
        raise InputError(f"is not {name}, {root.hex()}", section=f"{section}.root")


def _check_end(section: str, proof: MerkleProof, node: bytes) -> None:
    if node != proof.root:
        raise InputError(
            f"is a path to {node.hex()}, but its root is {proof.root.hex()}", section=section
        )
