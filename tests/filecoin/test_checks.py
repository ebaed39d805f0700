"""Checks of vanilla proofs: real ones pass, and each change is refused by the name of its field."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quod.device.protocol import AnyDevice
from quod.errors import InputError, MismatchError
from quod.filecoin.challenges import window_challenges, winning_challenges
from quod.filecoin.checks import check_commit, check_post_sector, check_update_partition
from quod.filecoin.files import commit_to_bincode, commit_to_json, parse_commit, parse_post_sector
from quod.filecoin.records import PoStSectorProof
from quod.filecoin.registered_proofs import ApiVersion
from quod.filecoin.sectors import sector_shape
from quod.frozen import replace
from tests.filecoin.sealed import (
    MINER,
    RANDOMNESS,
    SECTOR,
    commit_output,
    post_sector,
    update_partition,
)
from tests.support.thorough import one_and_others

SMALL = sector_shape(2 << 10)


@pytest.mark.parametrize("number", [0, 5, 10, 15])
def test_sealed_sectors(number: int) -> None:
    """Both API versions, synthetic challenges, and 13 partitions without interaction."""
    check_commit(commit_output(number), miner=MINER, sector_number=SECTOR)


def test_a_sealed_sector_on_devices(device: AnyDevice) -> None:
    check_commit(commit_output(), miner=MINER, sector_number=SECTOR, device=device)


def test_the_replica_id_is_checked_with_both_numbers() -> None:
    """One of miner and sector number alone would check nothing."""
    check_commit(commit_output())
    with pytest.raises(InputError, match="needs both miner and sector_number"):
        check_commit(commit_output(), miner=MINER)
    with pytest.raises(InputError, match="needs both miner and sector_number"):
        check_commit(commit_output(), sector_number=SECTOR)


@pytest.mark.fixtures
def test_the_real_output_of_c1(shared_fixtures: Path) -> None:
    data = (shared_fixtures / "filecoin" / "c2-input-8MiB.bincode").read_bytes()[4:-40]
    output = parse_commit(data).output
    check_commit(output, miner=1006, sector_number=1498)
    with pytest.raises(MismatchError, match="replica_id: is not that of miner 1006 and sector 1"):
        check_commit(output, miner=1006, sector_number=1)


@pytest.mark.fixtures
def test_the_real_proof_of_spacetime(shared_fixtures: Path) -> None:
    folder, sector = shared_fixtures / "filecoin", sector_shape(32 << 30)
    assert json.loads((folder / "postpub.json").read_text())["Prover"] == 1000
    proof = parse_post_sector((folder / "post.vproof").read_bytes(), sector, 10)
    challenges = window_challenges(sector, ApiVersion.V1_2, bytes(32), proof.sector_id, 0)
    check_post_sector(proof, sector, challenges)
    other = window_challenges(sector, ApiVersion.V1_2, b"\1" * 32, proof.sector_id, 0)
    with pytest.raises(InputError, match=r"inclusion_proofs\[0\]: is a path to leaf 707914199"):
        check_post_sector(proof, sector, other)


Change = Callable[[dict[str, Any]], object]


def flip(values: list[int], index: int = 0) -> None:
    values[index] ^= 1


def columns_of(document: dict[str, Any], challenge: int = 1) -> Any:
    return proof_of(document, challenge)["replica_column_proofs"]


def proof_of(document: dict[str, Any], challenge: int = 1) -> Any:
    return document["vanilla_proofs"]["StackedDrg2KiBV1"][0][challenge]


def tree_of(proof: Any) -> Any:
    return proof["data"]["Single"]


def first_sibling(proof: Any, level: int) -> list[int]:
    hashes: list[list[int]] = tree_of(proof)["path"]["path"][level]["hashes"]
    return hashes[0]


FIRST = "vanilla_proofs[0][0]"
SECOND = "vanilla_proofs[0][1]"
CHANGES: dict[str, tuple[Change, str]] = {
    "comm_r": (lambda d: flip(d["comm_r"]), "comm_r: is not the hash of comm_c and comm_r_last"),
    "comm_d": (lambda d: flip(d["comm_d"]), "replica_id: is not that of miner"),
    "ticket": (lambda d: flip(d["ticket"]), "replica_id: is not that of miner"),
    "replica_id": (lambda d: flip(d["replica_id"]), "replica_id: is not that of miner"),
    "seed": (lambda d: flip(d["seed"]), f"{FIRST}.comm_d_proofs: is a path to leaf"),
    "zero seed": (lambda d: d.update(seed=[0] * 32), "seed: must not be zero"),
    "zero comm_d": (lambda d: d.update(comm_d=[0] * 32), "comm_d: must not be zero"),
    "TreeD root": (
        lambda d: flip(tree_of(proof_of(d)["comm_d_proofs"])["root"]),
        f"{SECOND}.comm_d_proofs.root: is not comm_d",
    ),
    "TreeD path": (
        lambda d: flip(first_sibling(proof_of(d)["comm_d_proofs"], 4)),
        f"{SECOND}.comm_d_proofs: is a path to",
    ),
    "TreeR path": (
        lambda d: flip(first_sibling(proof_of(d)["comm_r_last_proof"], 1)),
        f"{SECOND}.comm_r_last_proof: is a path to",
    ),
    "TreeR root": (
        lambda d: flip(tree_of(proof_of(d)["comm_r_last_proof"])["root"]),
        f"{SECOND}.comm_r_last_proof.root: is not comm_r_last",
    ),
    "TreeR root of the first": (
        lambda d: flip(tree_of(proof_of(d, 0)["comm_r_last_proof"])["root"]),
        "comm_r_last",
    ),
    "TreeR leaf": (
        lambda d: flip(tree_of(proof_of(d)["comm_r_last_proof"])["leaf"]),
        f"{SECOND}.comm_r_last_proof.leaf: is not the sum",
    ),
    "TreeC path": (
        lambda d: flip(first_sibling(columns_of(d)["exp_parents"][7]["inclusion_proof"], 0)),
        f"{SECOND}.replica_column_proofs.exp_parents[7].inclusion_proof: is a path to",
    ),
    "TreeC leaf": (
        lambda d: flip(tree_of(columns_of(d)["c_x"]["inclusion_proof"])["leaf"]),
        f"{SECOND}.replica_column_proofs.c_x.inclusion_proof.leaf: is not the hash",
    ),
    "own label": (
        lambda d: flip(columns_of(d)["c_x"]["column"]["rows"][1]),
        f"{SECOND}.replica_column_proofs.c_x.column.rows[1]: is not the label of node",
    ),
    "parent's label": (
        lambda d: flip(columns_of(d)["drg_parents"][2]["column"]["rows"][0]),
        f"{SECOND}.labeling_proofs[0].parents[2]: is not row drg_parents[2].column.rows[0]",
    ),
    "expander's label": (
        lambda d: flip(proof_of(d)["labeling_proofs"][1]["parents"][8]),
        f"{SECOND}.labeling_proofs[1].parents[8]: is not row exp_parents[2].column.rows[0]",
    ),
    "repeated parent": (
        lambda d: flip(proof_of(d)["labeling_proofs"][0]["parents"][36]),
        f"{SECOND}.labeling_proofs[0].parents[36]: is not row drg_parents[0].column.rows[0]",
    ),
    "encoding": (
        lambda d: flip(proof_of(d)["encoding_proof"]["parents"][36]),
        f"{SECOND}.encoding_proof.parents[36]: is not row exp_parents[2].column.rows[0]",
    ),
    "parent": (
        lambda d: columns_of(d)["exp_parents"][0]["column"].update(index=0),
        f"{SECOND}.replica_column_proofs.exp_parents[0].column.index: must be",
    ),
    "layer": (
        lambda d: proof_of(d)["labeling_proofs"][1].update(layer_index=1),
        f"{SECOND}.labeling_proofs[1].layer_index: must be 2, not 1",
    ),
    "node": (
        lambda d: proof_of(d)["encoding_proof"].update(node=0),
        f"{SECOND}.encoding_proof.node: must be",
    ),
    "API version": (
        lambda d: d.update(registered_proof="StackedDrg2KiBV1"),
        "replica_id: is not that of miner",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_an_output(name: str) -> None:
    change, message = CHANGES[name]
    document = json.loads(commit_to_json(commit_output()))
    change(document)
    output = parse_commit(json.dumps(document).encode()).output
    with pytest.raises(InputError, match=re.escape(message)):
        check_commit(output, miner=MINER, sector_number=SECTOR)


def test_the_graph_depends_on_the_api_version() -> None:
    """Without miner and sector, the parents show that the registered proof is another."""
    data = commit_to_bincode(commit_output())
    output = parse_commit(bytes(4) + data[4:]).output
    with pytest.raises(InputError, match="the registered proof determines the parents"):
        check_commit(output)


@pytest.mark.parametrize("seed", one_and_others(range(19)))
def test_each_changed_bit_is_refused(seed: int) -> None:
    """A bit of any byte: the file does not parse, or the check refuses it."""
    data, generator = commit_to_bincode(commit_output()), random.Random(seed)
    for _ in range(16):
        changed = bytearray(data)
        changed[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        with pytest.raises(InputError):
            check_commit(parse_commit(bytes(changed)).output, miner=MINER, sector_number=SECTOR)


def test_proofs_of_spacetime() -> None:
    proof = post_sector(66)
    challenges = winning_challenges(SMALL, RANDOMNESS, SECTOR)
    check_post_sector(proof, SMALL, challenges)
    check_post_sector(
        post_sector(10), SMALL, window_challenges(SMALL, ApiVersion.V1_0, RANDOMNESS, SECTOR, 0)
    )
    with pytest.raises(InputError, match="must have 10 entries, not 66"):
        check_post_sector(proof, SMALL, challenges[:10])
    with pytest.raises(InputError, match="comm_r: is not the hash"):
        check_post_sector(replace(proof, comm_r=bytes(32)), SMALL, challenges)
    (vanilla_proof,) = proof.vanilla_proof
    for field, message in (
        ("comm_c", "comm_r: is not the hash"),
        ("comm_r_last", r"inclusion_proofs\[0\]\.root: is not comm_r_last"),
    ):
        changed = replace(vanilla_proof, **{field: bytes(32)})
        other = PoStSectorProof(proof.sector_id, proof.comm_r, (changed,))
        with pytest.raises(InputError, match=message):
            check_post_sector(other, SMALL, challenges)


def test_updates() -> None:
    proof, comm_r_old, comm_d_new, comm_r_new = update_partition()
    statement = (SMALL, 0, comm_r_old, comm_d_new, comm_r_new)
    check_update_partition(proof, *statement)
    apex = (proof.apex_leafs[1], proof.apex_leafs[0], *proof.apex_leafs[2:])
    first = proof.challenge_proofs[0]
    leaf = replace(first.proof_r_new, leaf=bytes(32))
    encoding = (replace(first, proof_r_new=leaf), *proof.challenge_proofs[1:])
    for changed, message in (
        (replace(proof, apex_leafs=apex), "apex_leafs: are not the nodes of a level of TreeD"),
        (replace(proof, comm_c=bytes(32)), "comm_r_old: is not the hash"),
        (replace(proof, apex_leafs=apex[:4]), "apex_leafs: must have 8 entries, not 4"),
        (replace(proof, challenge_proofs=encoding), r"\[0\]\.proof_r_new\.leaf: is not the sum"),
    ):
        with pytest.raises(InputError, match=message):
            check_update_partition(changed, *statement)
    with pytest.raises(InputError, match=r"challenge_proofs\[0\]\.proof_d_new: is a path to leaf"):
        check_update_partition(proof, SMALL, 0, comm_r_old, comm_d_new, bytes(32))
