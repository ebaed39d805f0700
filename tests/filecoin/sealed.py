"""A sealed sector of 2 KiB in plain Python, with vanilla proofs of each kind."""

from __future__ import annotations

import functools
import random

from quod.filecoin.challenges import winning_challenges
from quod.filecoin.records import CommitOutput, PoStSectorProof, UpdatePartitionProof
from quod.filecoin.registered_proofs import seal_proof
from quod.filecoin.sealing import SealedSector, UpdatedSector, seal, update

MINER, SECTOR = 1000, 7
TICKET, SEED, RANDOMNESS = bytes(range(32)), bytes(range(100, 132)), bytes(range(200, 232))


def random_data(nodes: int, seed: int) -> bytes:
    """Return random nodes of 254 bits."""
    generator = random.Random(seed)
    each = (generator.randbytes(31) + bytes([generator.randrange(64)]) for _ in range(nodes))
    return b"".join(each)


@functools.cache
def sealed(number: int = 5) -> SealedSector:
    """Seal random data under a registered seal proof of 2 KiB."""
    data = random_data(64, number)
    return seal(seal_proof(number), data, miner=MINER, sector_number=SECTOR, ticket=TICKET)


@functools.cache
def commit_output(number: int = 5) -> CommitOutput:
    """Return the output of C1 of the sector `sealed(number)`."""
    return sealed(number).commit_output(SEED)


def post_sector(challenges: int) -> PoStSectorProof:
    """Return the vanilla proof of spacetime of the sector, with 10 or 66 challenges."""
    nodes = winning_challenges(sealed().shape, RANDOMNESS, SECTOR)[:challenges]
    return sealed().post_proof(SECTOR, nodes)


@functools.cache
def updated() -> UpdatedSector:
    """Update the sector with random data."""
    return update(sealed(), random_data(64, 99))


def update_partition() -> tuple[UpdatePartitionProof, bytes, bytes, bytes]:
    """Return a proof of `updated`, comm_r_old, comm_d_new and comm_r_new."""
    statement = updated().statement
    commitments = statement.comm_r_old, statement.comm_d_new, statement.comm_r_new
    return updated().partition_proof(0), *commitments
