"""Nodes of 32 bytes: canonical little-endian elements of BLS12-381's scalar field."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from quod.errors import InputError
from quod.field.moduli import BLS12_381_FR
from quod.filecoin.sectors import NODE_BYTES
from quod.hash import neptune_hash
from quod.validation import exact_bytes, whole_number

P = BLS12_381_FR.value
TOP_BYTE_MASK = 0x3F
"""Bits of a digest's last byte that remain in a node, of 254 bits."""


def trim_to_fr32(digest: bytes) -> bytes:
    """Return the node of a digest of 32 bytes: without the two highest bits of its last byte."""
    return digest[:-1] + bytes([digest[-1] & TOP_BYTE_MASK])


def sha256_node(*chunks: bytes) -> bytes:
    """Return the node of the SHA-256 digest of the chunks, one after the other."""
    return trim_to_fr32(hashlib.sha256(b"".join(chunks)).digest())


def node_to_element(name: str, node: bytes) -> int:
    """Return the element of a node.

    Raises InputError for a node that is not 32 bytes or not below p.
    """
    value = int.from_bytes(exact_bytes(name, node, NODE_BYTES), "little")
    if value >= P:
        raise InputError(f"{name} is not below the modulus of {BLS12_381_FR.name}")
    return value


def elements_of_nodes(nodes: Sequence[bytes]) -> list[int] | None:
    """Return the elements of nodes; None if one is not 32 bytes or not below p."""
    if {*map(type, nodes)} != {bytes} or {*map(len, nodes)} != {NODE_BYTES}:
        return None
    elements = [int.from_bytes(node, "little") for node in nodes]
    return elements if max(elements) < P else None


def element_to_node(element: int) -> bytes:
    """Return the node of an element below p."""
    return element.to_bytes(NODE_BYTES, "little")


def poseidon_node(name: str, nodes: Iterable[bytes]) -> bytes:
    """Return the Poseidon hash of nodes with the tag of Merkle trees.

    name: what the nodes are, for errors.
    Raises InputError for a number of nodes that is no arity of Poseidon.
    """
    return element_to_node(neptune_hash([node_to_element(name, node) for node in nodes]))


def comm_r(comm_c: bytes, comm_r_last: bytes) -> bytes:
    """Return the commitment to a replica: the hash of the roots of TreeC and TreeRLast."""
    return poseidon_node("a root", (comm_c, comm_r_last))


def replica_id(
    prover_id: bytes, sector_number: int, ticket: bytes, comm_d: bytes, porep_id: bytes
) -> bytes:
    """Return the replica id: the hash of the prover, the sector, the ticket and the data.

    All arguments except the sector's number are 32 bytes. The number is below 2**64: records of
    rust-fil-proofs have numbers above `MAX_SECTOR_NUMBER`.
    """
    number = whole_number("the sector number", sector_number, 0, (1 << 64) - 1)
    return sha256_node(
        exact_bytes("the prover id", prover_id, NODE_BYTES),
        number.to_bytes(8, "big"),
        exact_bytes("the ticket", ticket, NODE_BYTES),
        exact_bytes("comm_d", comm_d, NODE_BYTES),
        exact_bytes("the PoRep id", porep_id, NODE_BYTES),
    )


def encode(label: bytes, data: bytes) -> bytes:
    """Return a node of the replica: the sum of a label of the last layer and a node of the data."""
    key = node_to_element("a label", label)
    return element_to_node((key + node_to_element("a data node", data)) % P)
