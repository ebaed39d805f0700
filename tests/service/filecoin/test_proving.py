"""Proofs through cuzk's protocol, made for a client that has only the protocol's numbers."""

from __future__ import annotations

from pathlib import Path

from quod.filecoin.files import post_sector_to_bincode
from quod.filecoin.parameters import read_verifying_key
from quod.filecoin.proving import verify_proof
from tests.filecoin.made_parameters import WINDOW, WINNING
from tests.filecoin.sealed import RANDOMNESS, SECTOR, post_sector
from tests.filecoin.test_proving import statement_of, vanilla_proof
from tests.service.filecoin.curio_client import (
    COMPLETED,
    CurioClient,
    Fields,
    decoded,
)
from tests.service.filecoin.curio_client import WINDOW as WINDOW_KIND
from tests.service.filecoin.curio_client import WINNING as WINNING_KIND


def window_request(*numbers: int) -> Fields:
    """A WindowPoSt of sectors of 2 KiB, as Curio would send it."""
    proofs = [post_sector_to_bincode(vanilla_proof(each), WINDOW.sector) for each in numbers]
    return {
        1: "wdpost-1000-1", 2: WINDOW_KIND, 3: 2048, 4: 10, 5: 3, 11: proofs, 21: 1000,
        22: RANDOMNESS, 23: 4,
    }  # fmt: skip


def winning_request() -> Fields:
    proof = post_sector_to_bincode(post_sector(66), WINNING.sector)
    return {1: "winning-1000-7", 2: WINNING_KIND, 3: 2048, 5: 4, 11: [proof], 22: RANDOMNESS}


def test_window_post(curio: CurioClient, params: Path) -> None:
    """Sectors in any order are proved in the order of their numbers."""
    result = curio.prove(window_request(9, 7))
    assert result[2] == [COMPLETED]
    key = read_verifying_key(WINDOW, params, allow_insecure=True)
    assert verify_proof(key, statement_of(7, 9), result[3][0])
    assert result[14][0] >= result[13][0] > 0
    assert not result[4]


def test_winning_post(curio: CurioClient, params: Path) -> None:
    result = curio.prove(winning_request())
    assert result[2] == [COMPLETED]
    key = read_verifying_key(WINNING, params, allow_insecure=True)
    assert verify_proof(key, statement_of(SECTOR, number=0), result[3][0])


def test_status(curio: CurioClient) -> None:
    status = curio.ask("GetStatus")
    [gpu] = map(decoded, status[1])
    assert gpu[2] == [b"cpu"]
    circuits = {decoded(each)[1][0] for each in status[2]}
    assert circuits == {b"wpost-2k", b"winning-2k"}
    assert curio.unfinished() == 0
    assert status[4] == [2]
