"""Files of statements and vanilla proofs: round trips, and files that are refused."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quod.errors import InputError
from quod.filecoin.challenges import window_challenges
from quod.filecoin.files import commit_to_bincode, commit_to_json
from quod.filecoin.registered_proofs import post_proof
from quod.filecoin.statement_files import (
    parse_statement,
    post_to_json,
    read_statement,
    update_to_json,
)
from quod.filecoin.statements import PoStSector, PoStStatement, SealStatement
from tests.filecoin.sealed import (
    MINER,
    RANDOMNESS,
    SECTOR,
    SEED,
    TICKET,
    commit_output,
    post_sector,
    sealed,
    updated,
)

Document = dict[str, Any]


def seal_document() -> Document:
    sector = sealed()
    return {
        "registered_proof": 5, "miner": MINER, "sector_number": SECTOR, "ticket": TICKET.hex(),
        "seed": SEED.hex(), "comm_d": sector.comm_d.hex(), "comm_r": sector.comm_r.hex(),
    }  # fmt: skip


def window_statement() -> PoStStatement:
    sectors = (PoStSector(SECTOR, sealed().comm_r),)
    return PoStStatement(post_proof(10), RANDOMNESS, sectors)


def post_document() -> Document:
    statement = window_statement()
    proof = sealed().post_proof(SECTOR, statement.challenges(0))
    document: Document = json.loads(post_to_json(statement, [proof]))
    return document


def update_document() -> Document:
    document: Document = json.loads(update_to_json(updated().statement, updated().partition_proofs))
    return document


def parsed(document: object) -> Any:
    return parse_statement(json.dumps(document).encode(), "file.json")


def test_statements_of_sealed_sectors(tmp_path: Path) -> None:
    output = commit_output()
    statement = SealStatement.of_output(output)
    assert parsed(seal_document()).statement == statement
    assert (
        parsed(seal_document() | {"registered_proof": "StackedDrg2KiBV1_1"}).statement == statement
    )
    for data, number in (
        (commit_to_json(output).encode(), None), (commit_to_bincode(output), None),
        (commit_to_json(output, SECTOR).encode(), SECTOR),
    ):  # fmt: skip
        path = tmp_path / "c1"
        path.write_bytes(data)
        file = read_statement(path)
        assert (file.statement, file.output) == (statement, output)
        assert file.sector_number == number


def test_statements_of_proofs_of_spacetime() -> None:
    statement = window_statement()
    file = parsed(json.loads(post_to_json(statement)))
    assert (file.statement, file.vanilla_proofs) == (statement, ())
    file = parsed(post_document())
    assert file.statement == statement
    challenges = window_challenges(
        sealed().shape, statement.proof.api_version, RANDOMNESS, SECTOR, 0
    )
    assert file.vanilla_proofs == (sealed().post_proof(SECTOR, challenges),)
    winning = PoStStatement(post_proof(0), RANDOMNESS, statement.sectors)
    file = parse_statement(post_to_json(winning, [post_sector(66)]).encode())
    assert (file.statement, file.vanilla_proofs) == (winning, (post_sector(66),))


def test_statements_of_updates() -> None:
    statement = updated().statement
    file = parse_statement(update_to_json(statement).encode())
    assert (file.statement, file.vanilla_proofs) == (statement, ())
    file = parsed(update_document())
    assert (file.statement, list(file.vanilla_proofs)) == (statement, updated().partition_proofs)


WRONG: dict[str, tuple[Callable[[], Document], Document, str]] = {
    "no number": (seal_document, {"registered_proof": 20}, "registered_proof: the registered seal"),
    "no name": (
        seal_document, {"registered_proof": "V2"}, "registered_proof: there is no registered seal",
    ),
    "aggregate": (seal_document, {"registered_proof": 15}, "is an aggregate (SnarkPack)"),
    "miner": (seal_document, {"miner": -1}, "miner: the miner's actor id must be"),
    "sector number": (seal_document, {"sector_number": 1 << 64}, "sector_number: the number must"),
    "ticket": (seal_document, {"ticket": "00"}, "ticket: must be 32 bytes in hex"),
    "seed": (seal_document, {"seed": "00" * 32}, "section seed: must not be zero"),
    "comm_d": (seal_document, {"comm_d": "ff" * 32}, "comm_d is not below the modulus"),
    "comm_r": (seal_document, {"comm_r": [1]}, "comm_r: must be 32 bytes in hex"),
    "key": (seal_document, {"speed": 1}, 'has an unknown key "speed"'),
    "post proof": (
        post_document, {"registered_post_proof": 15}, "registered_post_proof: the registered PoSt",
    ),
    "randomness": (post_document, {"randomness": "zz" * 32}, "randomness: must be 32 bytes in hex"),
    "another kind": (
        post_document, {"registered_post_proof": 0},
        "section vanilla_proofs[0].vanilla_proof.sectors[0].inclusion_proofs, offset 48: "
        "must have 66 entries, not 10",
    ),
    "no list": (post_document, {"vanilla_proofs": {}}, "vanilla_proofs: must be a list, not an"),
    "no base64": (
        post_document, {"vanilla_proofs": ["?"]}, "vanilla_proofs[0]: must be text in base64",
    ),
    "no proofs": (post_document, {"vanilla_proofs": []}, "sectors: must have at least one sector"),
    "sector": (post_document, {"sectors": [5]}, "sectors[0]: must be an object, not a number"),
    "sector id": (
        post_document, {"sectors": [{"sector_id": True, "comm_r": "00" * 32}]},
        "sectors[0].sector_id: the number must be a whole number",
    ),
    "sector's comm_r": (
        post_document, {"sectors": [{"sector_id": 1, "comm_r": "ff" * 32}]},
        "sectors[0]: comm_r is not below the modulus",
    ),
    "size": (update_document, {"sector_size": 2047}, "sector_size: the sector size must be"),
    "another size": (
        update_document, {"sector_size": 4096}, "section vanilla_proofs[0].challenge_proofs[0]",
    ),
    "commitment": (update_document, {"comm_r_old": "ff" * 32}, "comm_r_old is not below"),
    "a phantom": (update_document, {"h": 1}, 'has an unknown key "h"'),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files(name: str) -> None:
    document, change, message = WRONG[name]
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        parsed(document() | change)
    assert refused.value.path == "file.json"


def test_missing_keys() -> None:
    for document in (seal_document(), post_document(), update_document()):
        # An update without vanilla proofs is a statement.
        for key in document.keys() - {"vanilla_proofs"}:
            with pytest.raises(InputError, match=r"file\.json"):
                parsed({name: value for name, value in document.items() if name != key})


def test_other_documents() -> None:
    for text in ("[]", "5", "{}", '{"registered_proof"', "null", "\x7fELF"):
        with pytest.raises(InputError, match=r"file\.json"):
            parse_statement(text.encode(), "file.json")


def test_cut_and_changed_files() -> None:
    """A cut file is refused with its name; so are changes of a vanilla proof's lengths."""
    chance = random.Random(1)
    for document in (post_document(), update_document()):
        data = json.dumps(document).encode()
        for length in chance.sample(range(len(data)), 60):
            with pytest.raises(InputError, match=r"file\.json"):
                parse_statement(data[:length], "file.json")
        (encoded,) = document["vanilla_proofs"]
        proof = base64.b64decode(encoded)
        for length in chance.sample(range(len(proof)), 60):
            cut = base64.b64encode(proof[:length]).decode()
            with pytest.raises(InputError, match=r"section vanilla_proofs\[0\].*is cut off"):
                parsed(document | {"vanilla_proofs": [cut]})
