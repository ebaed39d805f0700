"""Filecoin's files, identifiers and challenges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from quod import filecoin
from quod.filecoin import files, seal_records, sealing
from quod.filecoin.challenges import leaf_challenge
from quod.filecoin.checks.circuit_inputs import checked_post_inputs, checked_update_inputs
from quod.filecoin.describe import describe_file
from quod.filecoin.parameters import file_digest, make_parameters, read_verifying_key
from quod.groth16 import VerifyingKey
from quod.hash import neptune_hash
from tests.boundaries.row import EXAMPLE, FOLDER, Row, row
from tests.filecoin.made_parameters import WINDOW as _WINDOW
from tests.filecoin.simulated import SimulatedKey

_NODE = bytes(32)


def rows() -> Iterator[tuple[str, Row]]:
    """Yield the rows of all calls that take foreign values."""
    yield from _files()
    yield from _identifiers()
    yield from _challenges()
    yield from _sealing()
    yield from _statements()
    yield from _parameters()


def _files() -> Iterator[tuple[str, Row]]:
    sector = filecoin.sector_shape(2048)
    yield "read_commit", row(filecoin.read_commit, path=EXAMPLE)
    yield "parse_commit", row(filecoin.parse_commit, data=b"{}")
    yield "parse_commit_bincode", row(files.parse_commit_bincode, data=b"")
    yield "parse_post_sector", row(
        filecoin.parse_post_sector, data=b"", sector=sector, challenges=10
    )  # fmt: skip
    yield "parse_update_partition", row(filecoin.parse_update_partition, data=b"", sector=sector)
    yield "read_statement", row(filecoin.read_statement, path=EXAMPLE)
    yield "parse_statement", row(filecoin.parse_statement, data=b"{}")
    yield "describe_file", row(describe_file, path=EXAMPLE)
    yield "read_seal_records", row(filecoin.read_seal_records, path=EXAMPLE)
    yield "parse_seal_records", row(seal_records.parse_seal_records, data=b"{}")


def _identifiers() -> Iterator[tuple[str, Row]]:
    yield "sector_shape", row(filecoin.sector_shape, size=2048)
    yield "sector_named", row(filecoin.sector_named, name="2KiB")
    yield "seal_proof", row(filecoin.seal_proof, number=1)
    yield "post_proof", row(filecoin.post_proof, number=1)
    yield "porep_id", row(filecoin.porep_id, number=1, nonce=0)
    yield "prover_id", row(filecoin.prover_id, miner=1)
    yield "replica_id", row(
        filecoin.replica_id, prover_id=_NODE, sector_number=1, ticket=_NODE, comm_d=_NODE,
        porep_id=_NODE,
    )  # fmt: skip
    yield "comm_r", row(filecoin.comm_r, comm_c=_NODE, comm_r_last=_NODE)
    yield "encode", row(filecoin.encode, label=_NODE, data=_NODE)
    yield "neptune_hash", row(neptune_hash, {"tag": "huge"}, inputs=[1, 2], tag=1)


def _challenges() -> Iterator[tuple[str, Row]]:
    sector, config = filecoin.sector_shape(2048), filecoin.seal_proof(5).config()
    yield "porep_challenges", row(
        filecoin.porep_challenges, config=config, replica_id=_NODE, comm_r=_NODE, seed=_NODE,
        partition=0,
    )  # fmt: skip
    yield "leaf_challenge", row(
        leaf_challenge, sector=sector, randomness=_NODE, number=1, index=0
    )  # fmt: skip
    yield "window_challenges", row(
        filecoin.window_challenges, sector=sector, api_version=config.api_version,
        randomness=_NODE, number=1, position=0,
    )  # fmt: skip
    yield "winning_challenges", row(
        filecoin.winning_challenges, sector=sector, randomness=_NODE, number=1
    )  # fmt: skip
    yield "winning_sector", row(
        filecoin.winning_sector, prover_id=_NODE, randomness=_NODE, count=1
    )  # fmt: skip
    yield "update_challenges", row(
        filecoin.update_challenges, sector=sector, comm_r_new=_NODE, partition=0
    )  # fmt: skip


def _sealing() -> Iterator[tuple[str, Row]]:
    sector, proof = filecoin.sector_shape(2048), filecoin.seal_proof(5)
    yield "seal", row(
        sealing.seal, proof=proof, data=bytes(2048), miner=1, sector_number=1, ticket=_NODE
    )  # fmt: skip
    yield "sparse_commit", row(
        sealing.sparse_commit, {"random_seed": "huge"}, proof=proof, miner=1, sector_number=1,
        ticket=_NODE, seed=_NODE, random_seed=1,
    )  # fmt: skip
    yield "sparse_posts", row(
        sealing.sparse_posts, {"random_seed": "huge"}, shape=sector, challenges={1: [1]},
        random_seed=1,
    )  # fmt: skip
    yield "uniform_update", row(
        sealing.uniform_update, {"random_seed": "huge"}, shape=sector, random_seed=1
    )  # fmt: skip
    sealed = sealing.seal(proof, bytes(2048), miner=1, sector_number=1, ticket=_NODE)
    yield "update", row(sealing.update, sector=sealed, data=bytes(2048))
    yield "commit_output", row(sealed.commit_output, seed=_NODE)
    yield "post_proof", row(sealed.post_proof, sector_number=1, challenges=[1])
    updated = sealing.update(sealed, bytes(2048))
    yield "partition_proof", row(updated.partition_proof, partition=0)


def _statements() -> Iterator[tuple[str, Row]]:
    config, sector = filecoin.seal_proof(5).config(), filecoin.sector_shape(2048)
    node = bytes(31) + b"\1"
    yield "SealStatement", row(
        filecoin.SealStatement, config=config, replica_id=node, comm_d=node, comm_r=node, seed=node
    )  # fmt: skip
    yield "PoStSector", row(filecoin.PoStSector, sector_id=1, comm_r=node)
    sectors = (filecoin.PoStSector(1, node),)
    yield "PoStStatement", row(
        filecoin.PoStStatement, proof=filecoin.post_proof(10), randomness=node, sectors=sectors
    )  # fmt: skip
    yield "UpdateStatement", row(
        filecoin.UpdateStatement, sector=sector, comm_r_old=node, comm_d_new=node, comm_r_new=node,
        h=1,
    )  # fmt: skip
    post = filecoin.PoStStatement(filecoin.post_proof(10), node, sectors)
    for call in (post.public_inputs, post.partition_sectors):
        yield call.__name__, row(call, partition=0)
    hostile = filecoin.PoStSectorProof(1, node, ())
    yield "check_post_sector", row(
        filecoin.check_post_sector, proof=hostile, sector=sector, challenges=[1]
    )  # fmt: skip
    yield "check_update_partition", row(
        filecoin.check_update_partition, proof=filecoin.UpdatePartitionProof(node, (), ()),
        sector=sector, partition=0, comm_r_old=node, comm_d_new=node, comm_r_new=node, h=1,
    )  # fmt: skip
    yield "checked_post_inputs", row(checked_post_inputs, statement=post, proofs=[])
    update = filecoin.UpdateStatement(sector, node, node, node)
    yield "checked_update_inputs", row(checked_update_inputs, statement=update, proofs=[])
    key = _verifying_key()
    yield "verify_proof", row(filecoin.verify_proof, key=key, statement=post, proof=bytes(192))
    yield "verify_proofs", row(filecoin.verify_proofs, key=key, claims=[])


def _verifying_key() -> VerifyingKey:
    path = Path(FOLDER.name) / "window.vk"
    SimulatedKey(_WINDOW.public).write(path)
    return read_verifying_key(_WINDOW, path, trusted=True)


def _parameters() -> Iterator[tuple[str, Row]]:
    yield "file_digest", row(file_digest, path=EXAMPLE)
    yield "read_verifying_key", row(
        read_verifying_key, parameters=_WINDOW, path=EXAMPLE, allow_insecure=True, trusted=True
    )  # fmt: skip
    yield "make_parameters", row(
        make_parameters, {"seed": "huge", "folder": "text"}, parameters=_WINDOW, folder=EXAMPLE,
        seed=1, replace=True,
    )  # fmt: skip
