"""The challenged nodes of PoRep, of both proofs of spacetime, and of SnapDeals.

rust-fil-proofs: storage-proofs-porep/src/stacked/vanilla/challenges.rs,
storage-proofs-post/src/fallback/vanilla.rs, storage-proofs-update/src/challenges.rs; FIP-0019,
FIP-0059 (synthetic), FIP-0092 (non-interactive).
"""

from __future__ import annotations

import hashlib

import numpy as np

from quod.field.moduli import BLS12_381_FR
from quod.filecoin.chacha import chacha20_stream
from quod.filecoin.nodes import node_to_element, trim_to_fr32
from quod.filecoin.registered_proofs import ApiVersion, Challenges, PoRepConfig
from quod.filecoin.sectors import NODE_BYTES, WINDOW_CHALLENGES, WINNING_CHALLENGES, SectorShape
from quod.hash import neptune_hash
from quod.hash.neptune import ARBITRARY_TAG
from quod.validation import exact_bytes, whole_number

MAX_SYNTHETIC_CHALLENGES = 1 << 18

_POREP = b"filecoin.io|PoRep|1|"
_SYNTHETIC_NONCE = b"synth-porep\0"
_INDEX_BYTES = 4
_MAX_U64 = (1 << 64) - 1
_UPDATE_DIGEST_BITS = BLS12_381_FR.bits - 1


def porep_challenges(
    config: PoRepConfig, replica_id: bytes, comm_r: bytes, seed: bytes, partition: int
) -> list[int]:
    """Return the challenged nodes of a partition, from 1 to nodes - 1.

    replica_id, comm_r, seed: 32 bytes each; a non-interactive proof has no seed and ignores it.
    Raises InputError for values of another length than 32 bytes, and for a partition that the proof
    lacks.
    """
    partition = whole_number("the partition", partition, 0, config.partitions - 1)
    for name, value in (("the replica id", replica_id), ("comm_r", comm_r), ("the seed", seed)):
        exact_bytes(name, value, NODE_BYTES)
    nodes, count = config.sector.nodes, config.sector.challenges
    indices = range(partition * count, (partition + 1) * count)
    if config.challenges is Challenges.SYNTHETIC:
        picks = selected_synthetic(nodes, replica_id, seed, indices)
        return synthetic_challenges(nodes, replica_id, comm_r, picks)
    if config.challenges is Challenges.NON_INTERACTIVE:
        prefix = _POREP + b"NonInteractive|1" + replica_id + comm_r
    else:
        prefix = replica_id + seed
    digests = [hashlib.sha256(prefix + index.to_bytes(4, "little")).digest() for index in indices]
    return [_challenge(nodes, digest) for digest in digests]


def synthetic_challenges(
    nodes: int, replica_id: bytes, comm_r: bytes, indices: list[int] | range
) -> list[int]:
    """Return the synthetic challenges of some indices below `synthetic_count`."""
    key = _blake2b(_POREP + b"Synthetic|1|Generation", replica_id + comm_r)
    offsets = NODE_BYTES * np.array(indices, np.int64)
    stream = chacha20_stream(key, _SYNTHETIC_NONCE, offsets, NODE_BYTES)
    return [_challenge(nodes, row.tobytes()) for row in stream]


def selected_synthetic(nodes: int, replica_id: bytes, seed: bytes, indices: range) -> list[int]:
    """Return the index of the synthetic challenge that a proof has for each of some indices."""
    key = _blake2b(_POREP + b"Synthetic|1|Selection", replica_id + seed)
    offsets = _INDEX_BYTES * np.array(indices, np.int64)
    stream = chacha20_stream(key, _SYNTHETIC_NONCE, offsets, _INDEX_BYTES)
    count = synthetic_count(nodes)
    return [int.from_bytes(row.tobytes(), "little") % count for row in stream]


def synthetic_count(nodes: int) -> int:
    """Return the number of synthetic challenges of a sector."""
    return min(nodes, MAX_SYNTHETIC_CHALLENGES)


def _challenge(nodes: int, digest: bytes) -> int:
    """Return the node of a little-endian digest; node 0, without parents, is never challenged."""
    return int.from_bytes(digest, "little") % (nodes - 1) + 1


def _blake2b(key: bytes, message: bytes) -> bytes:
    return hashlib.blake2b(message, key=key, digest_size=32).digest()


# --- proofs of spacetime


def post_randomness(randomness: bytes) -> bytes:
    """Return the randomness of a proof of spacetime as a node: 254 bits."""
    return trim_to_fr32(exact_bytes("the randomness", randomness, NODE_BYTES))


def leaf_challenge(sector: SectorShape, randomness: bytes, number: int, index: int) -> int:
    """Return the leaf of a sector that a challenge selects.

    number: the sector's number; index: the index of the challenge.
    """
    number = whole_number("the sector number", number, 0, _MAX_U64)
    index = whole_number("the index of a challenge", index, 0, _MAX_U64)
    message = number.to_bytes(8, "little") + index.to_bytes(8, "little")
    return _first_word(post_randomness(randomness) + message) % sector.nodes


def window_challenges(
    sector: SectorShape, api_version: ApiVersion, randomness: bytes, number: int, position: int
) -> list[int]:
    """Return the challenged leaves of a sector in a WindowPoSt.

    number: the sector's number.
    position: the sector's index among all sectors of the proof, on which versions before 1.2
        depend.
    """
    position = whole_number("the position of the sector", position, 0, 1 << 32)
    first = 0 if api_version is ApiVersion.V1_2 else position * WINDOW_CHALLENGES
    indices = range(first, first + WINDOW_CHALLENGES)
    return [leaf_challenge(sector, randomness, number, index) for index in indices]


def winning_challenges(sector: SectorShape, randomness: bytes, number: int) -> list[int]:
    """Return the challenged leaves of a WinningPoSt; `number` is the sector's number."""
    indices = range(WINNING_CHALLENGES)
    return [leaf_challenge(sector, randomness, number, index) for index in indices]


def winning_sector(prover_id: bytes, randomness: bytes, count: int) -> int:
    """Return the index of the sector of a WinningPoSt among `count` eligible sectors."""
    prover = exact_bytes("the prover id", prover_id, NODE_BYTES)
    count = whole_number("the number of eligible sectors", count, 1, _MAX_U64)
    return _first_word(prover + post_randomness(randomness) + bytes(8)) % count


def _first_word(message: bytes) -> int:
    return int.from_bytes(hashlib.sha256(message).digest()[:8], "little")


# --- SnapDeals


def update_challenges(sector: SectorShape, comm_r_new: bytes, partition: int) -> list[int]:
    """Return the challenged nodes of a partition of a SnapDeals proof.

    The highest bits of the nodes of partition k are k. The other bits come from digests, each of
    which has those of as many challenges as fit into 254 bits. Raises InputError for a partition
    that the proof lacks, and for a comm_r_new that is not a node.
    """
    shape = sector.update
    partition = whole_number("the partition", partition, 0, shape.partitions - 1)
    bits = sector.node_bits - (shape.partitions.bit_length() - 1)
    challenges_per_digest = _UPDATE_DIGEST_BITS // bits
    digest_count = -(-shape.challenges // challenges_per_digest)
    element = node_to_element("comm_r_new", comm_r_new)
    challenges: list[int] = []
    for index in range(partition * digest_count, (partition + 1) * digest_count):
        digest = neptune_hash((element, index), tag=ARBITRARY_TAG)
        challenges += [
            partition << bits | digest >> number * bits & (1 << bits) - 1
            for number in range(challenges_per_digest)
        ]
    return challenges[: shape.challenges]
