"""SnapDeals: the encoding of new data into the nodes of a sealed sector (FIP-0019)."""

from __future__ import annotations

from quod.errors import InputError
from quod.filecoin.nodes import P, element_to_node, node_to_element
from quod.filecoin.sectors import SectorShape
from quod.hash import neptune_hash
from quod.hash.neptune import ARBITRARY_TAG
from quod.validation import shown, whole_number


def phi(comm_d_new: bytes, comm_r_old: bytes) -> int:
    """Return the randomness of an update: the hash of the new data's root and the old comm_r."""
    inputs = (
        node_to_element("comm_d_new", comm_d_new),
        node_to_element("comm_r_old", comm_r_old),
    )
    return neptune_hash(inputs, tag=ARBITRARY_TAG)


def rho(randomness: int, high_bits: int) -> int:
    """Return the factor of the data in all nodes whose index has the same h high bits.

    randomness: see `phi`.
    """
    return neptune_hash((randomness, high_bits), tag=ARBITRARY_TAG)


def encode_update(old: bytes, data: bytes, factor: int) -> bytes:
    """Return a node of the new replica: the old node plus the factor times the new data node.

    factor: see `rho`.
    """
    value = node_to_element("an old node", old) + node_to_element("a data node", data) * factor
    return element_to_node(value % P)


def k_and_h_select(sector: SectorShape, partition: int, h: int | None = None) -> int:
    """Return the first public input: the partition, and above its bits the one-hot choice of h.

    h: one of the sector's possible numbers of high bits; by default the number that updates use.
    Raises InputError for a partition that the proof lacks, and for an impossible h.
    """
    shape = sector.update
    partition = whole_number("the partition", partition, 0, shape.partitions - 1)
    h = shape.default_h if h is None else h
    if h not in shape.possible_h:
        raise InputError(f"h must be one of {shape.possible_h}, not {shown(h)}")
    # Small sectors have one value of h, in all positions; upstream selects the first.
    h_select = 1 << shape.possible_h.index(h)
    return partition | h_select << (shape.partitions.bit_length() - 1)
