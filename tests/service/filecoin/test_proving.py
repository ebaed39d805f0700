"""Proofs through cuzk's protocol, made for a client that has only the protocol's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quod.filecoin.parameters import read_verifying_key
from quod.filecoin.proving import verify_proof
from tests.filecoin.made_parameters import WINDOW, WINNING, write_parameters
from tests.filecoin.sealed import SECTOR
from tests.filecoin.test_proving import statement_of
from tests.service.filecoin.curio_client import (
    CANCELLED,
    COMPLETED,
    FAILED,
    CurioClient,
    decoded,
)
from tests.service.filecoin.filecoin_server import FilecoinServer
from tests.service.filecoin.messages import window_request, winning_request


def check_window(result: dict[int, list[Any]], params: Path) -> None:
    """Check the AwaitProofResponse of a WindowPoSt of the sectors 7 and 9."""
    assert result[2] == [COMPLETED]
    key = read_verifying_key(WINDOW, params, allow_insecure=True)
    assert verify_proof(key, statement_of(7, 9), result[3][0])
    assert result[14][0] >= result[13][0] > 0
    assert not result[4]


def test_a_window_post(curio: CurioClient, params: Path) -> None:
    """Sectors are proved in the order of their numbers; a waiting job can be cancelled."""
    window = curio.call("Prove", {1: window_request(9, 7)})
    waiting = curio.submit(window_request(8))
    assert curio.unfinished() in (1, 2)
    curio.ask("CancelProof", {1: waiting})
    assert curio.await_proof(waiting)[2] == [CANCELLED]
    check_window(decoded(decoded(window.result())[1][0]), params)


def test_positions_in_the_queue(curio: CurioClient) -> None:
    """Those of jobs that are ahead: of a higher priority, or older."""
    high, low = window_request(9) | {5: 3}, window_request(8) | {5: 1}
    answers = [curio.ask("SubmitProof", each) for each in (low, low, high, low)]
    jobs = [str(answer[1][0], "ascii") for answer in answers]
    positions = [sum(answer[2]) for answer in answers]
    # A job may end meanwhile.
    assert positions[0] == 0
    assert positions[1] <= 1
    assert positions[2] == 0
    assert positions[3] <= 3
    for job in jobs:
        curio.ask("CancelProof", {1: job})


def test_wrong_vanilla_proofs(curio: CurioClient) -> None:
    """They fail in a worker, with the field."""
    result = curio.prove(window_request(7) | {22: bytes(32)})
    assert result[2] == [FAILED]
    assert b"proofs[0].vanilla_proof.sectors[0].inclusion_proofs[0]: is a path" in result[4][0]
    assert not result[3]


def test_status(curio: CurioClient, params: Path) -> None:
    assert curio.ask("PreloadSRS", {1: "wpost-2k"})[1] in ([], [1])
    status = curio.idle_status()
    [gpu] = map(decoded, status[1])
    assert gpu[2] == [b"cpu"]
    file_bytes = (params / WINDOW.file_name("params")).stat().st_size
    [loaded] = [srs for srs in map(decoded, status[2]) if srs[1] == [b"wpost-2k"]]
    [size] = loaded[3]
    # On the CPU a key has points for all wires in memory, and tables.
    assert isinstance(size, int)
    assert file_bytes < size < 4 * file_bytes
    # It has no memory but the host's.
    assert not gpu[3]
    assert not gpu[4]
    assert curio.unfinished() == 0
    assert b"quod_jobs_submitted" in curio.ask("GetMetrics")[1][0]
    assert curio.ask("EvictSRS", {1: "wpost-2k"}) == {1: [1], 2: [size]}
    assert curio.ask("EvictSRS", {1: "wpost-2k"}) == {}


@pytest.mark.thorough
def test_a_winning_post(curio: CurioClient, params: Path, server: FilecoinServer) -> None:
    """It is proved before a WindowPoSt that has waited longer."""
    write_parameters(WINNING, params)
    window = curio.call("Prove", {1: window_request(9, 7)})
    waiting = curio.submit(window_request(8))
    [response] = curio.ask("Prove", {1: winning_request()})[1]
    winning = decoded(response)
    assert winning[2] == [COMPLETED]
    key = read_verifying_key(WINNING, params, allow_insecure=True)
    assert verify_proof(key, statement_of(SECTOR, number=0), winning[3][0])
    check_window(decoded(decoded(window.result())[1][0]), params)
    started = server.queue.job(waiting).started
    ended = server.queue.job(str(winning[1][0], "ascii")).ended
    assert started is None or (ended is not None and started >= ended)
    curio.ask("CancelProof", {1: waiting})
    assert curio.await_proof(waiting)[2] == [CANCELLED]
