"""Challenges of PoRep, the proofs of spacetime and SnapDeals against upstream's vectors."""

from __future__ import annotations

import hashlib

import pytest

from quod.errors import InputError
from quod.filecoin.challenges import (
    leaf_challenge,
    porep_challenges,
    post_randomness,
    selected_synthetic,
    synthetic_challenges,
    synthetic_count,
    update_challenges,
    window_challenges,
    winning_challenges,
    winning_sector,
)
from quod.filecoin.nodes import P, element_to_node, node_to_element
from quod.filecoin.registered_proofs import ApiVersion, prover_id, seal_proof
from quod.filecoin.sectors import sector_shape
from quod.filecoin.updates import encode_update, k_and_h_select, phi, rho

SYNTHETIC = [
    178, 297, 869, 211, 875, 477, 94, 781, 124, 332, 856, 801, 176, 692, 429, 691, 290, 204, 986,
    210, 973,
]  # fmt: skip
"""The first synthetic challenges of 2**10 nodes, replica id 55 and comm_r 101."""

UPDATE_COMM_R = 0x6C0740D6EDB22EB13054F4587D6D2DCBC688F796C303C7044F60429C4BBE1C10

UPDATES = {
    (2 << 10, 0): [53, 51, 56, 3, 0],
    (16 << 10, 1): [286, 308, 493, 510, 508],
    (32 << 10, 1): [542, 666, 955, 927, 911],
    (8 << 20, 1): [78878, 130797, 112892, 93994, 78379],
    (16 << 20, 1): [209950, 163702, 175679, 224741, 197410],
    (512 << 20, 14): [15212432, 15665918, 15015423, 15012912, 15495223],
    (32 << 30, 15): [1038629497, 1053983614, 1030421316, 1027373887, 1068685433],
    (64 << 30, 14): [1997053129, 1920414070, 2003609080, 1900492803, 1963254685],
}
"""First challenges by size and partition (storage-proofs-update/src/challenges.rs)."""


def node(value: int) -> bytes:
    return value.to_bytes(32, "little")


def test_interactive_vectors() -> None:
    """The two challenges of the real sector of `test_commit_check`."""
    config = seal_proof(6).config()
    replica_id = bytes.fromhex("a99e9e0a4f8f09ee1b49cd3d0d6a3a4b" * 2)
    seed = bytes(range(32))
    expected = [
        int.from_bytes(
            hashlib.sha256(replica_id + seed + index.to_bytes(4, "little")).digest(), "little"
        )
        % ((1 << 18) - 1)
        + 1
        for index in range(2)
    ]
    assert porep_challenges(config, replica_id, bytes(32), seed, 0) == expected
    large = seal_proof(8).config()
    challenges = {
        challenge
        for partition in range(10)
        for challenge in porep_challenges(large, replica_id, bytes(32), seed, partition)
    }
    assert len(challenges) == 180
    with pytest.raises(InputError, match="the partition must be a whole number from 0 to 9"):
        porep_challenges(large, replica_id, bytes(32), seed, 10)
    with pytest.raises(InputError, match="the seed must be 32 bytes"):
        porep_challenges(large, replica_id, bytes(32), b"", 0)


def test_synthetic_vectors() -> None:
    """Upstream selects from 21 challenges there; a sector has 2**18, or one for each node."""
    nodes = 1 << 10
    assert synthetic_challenges(nodes, node(55), node(101), range(21)) == SYNTHETIC
    assert synthetic_challenges(nodes, node(55), node(101), [20, 3, 3]) == [973, 211, 211]
    picks = selected_synthetic(1 << 10, node(55), b"\1" * 32, range(10))
    assert all(pick < synthetic_count(nodes) for pick in picks)
    selection = selected_synthetic(21, node(55), b"\1" * 32, range(10))
    assert [SYNTHETIC[pick] for pick in selection] == [
        176, 781, 801, 986, 290, 211, 692, 856, 986, 332,
    ]  # fmt: skip
    config = seal_proof(10).config()
    picks = selected_synthetic(64, node(55), b"\1" * 32, range(2))
    expected = synthetic_challenges(64, node(55), node(101), picks)
    assert porep_challenges(config, node(55), node(101), b"\1" * 32, 0) == expected
    assert synthetic_count(1 << 30) == 1 << 18


def test_non_interactive_challenges() -> None:
    config = seal_proof(15).config()
    prefix = b"filecoin.io|PoRep|1|NonInteractive|1" + node(55) + node(101)
    expected = [
        int.from_bytes(hashlib.sha256(prefix + index.to_bytes(4, "little")).digest(), "little") % 63
        + 1
        for index in range(24, 26)
    ]
    assert porep_challenges(config, node(55), node(101), bytes(32), 12) == expected
    assert porep_challenges(config, node(55), node(101), b"\1" * 32, 12) == expected


def test_leaf_challenges() -> None:
    """Versions before 1.2 count challenges over all sectors; randomness has 254 bits."""
    sector = sector_shape(32 << 30)
    randomness = b"\xff" * 32
    assert post_randomness(randomness) == b"\xff" * 31 + b"\x3f"
    each = [leaf_challenge(sector, randomness, 7, index) for index in range(40)]
    assert window_challenges(sector, ApiVersion.V1_2, randomness, 7, 3) == each[:10]
    assert window_challenges(sector, ApiVersion.V1_0, randomness, 7, 3) == each[30:]
    assert window_challenges(sector, ApiVersion.V1_0, randomness, 7, 0) == each[:10]
    assert winning_challenges(sector, randomness, 7)[:40] == each
    assert len(winning_challenges(sector, randomness, 7)) == 66
    message = bytes(32) + (7).to_bytes(8, "little") + bytes(8)
    first = int.from_bytes(hashlib.sha256(message).digest()[:8], "little")
    assert leaf_challenge(sector, bytes(32), 7, 0) == first % (1 << 30)
    assert 0 <= winning_sector(prover_id(1000), randomness, 5) < 5
    with pytest.raises(InputError, match="the randomness must be 32 bytes"):
        winning_challenges(sector, b"", 7)
    with pytest.raises(InputError, match="eligible sectors"):
        winning_sector(prover_id(1000), randomness, 0)


@pytest.mark.parametrize(("size", "partition"), UPDATES)
def test_update_vectors(size: int, partition: int) -> None:
    sector = sector_shape(size)
    challenges = update_challenges(sector, element_to_node(UPDATE_COMM_R), partition)
    assert challenges[:5] == UPDATES[size, partition]
    assert len(challenges) == sector.update.challenges
    first = sector.nodes // sector.update.partitions * partition
    assert all(first <= node < first + sector.nodes for node in challenges)


def test_update_encoding() -> None:
    factor = rho(phi(node(1), node(2)), 3)
    assert 0 < factor < P
    encoded = node_to_element("", encode_update(node(5), node(7), factor))
    assert encoded == (5 + 7 * factor) % P
    large, small = sector_shape(32 << 30), sector_shape(2 << 10)
    assert k_and_h_select(large, 5) == 5 | 0b1000 << 4
    assert k_and_h_select(large, 5, 12) == 5 | 0b100000 << 4
    assert k_and_h_select(small, 0) == 1
    with pytest.raises(InputError, match="h must be one of"):
        k_and_h_select(large, 5, 6)
    with pytest.raises(InputError, match="the partition must be"):
        k_and_h_select(large, 16)
    with pytest.raises(InputError, match="comm_r_new is not below the modulus"):
        update_challenges(small, P.to_bytes(32, "little"), 0)
    with pytest.raises(InputError, match="the partition"):
        update_challenges(small, node(1), 1)
