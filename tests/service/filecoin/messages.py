"""Requests as Curio sends them, for sectors of 2 KiB."""

from __future__ import annotations

from quod.filecoin.files import post_sector_to_bincode
from tests.filecoin.made_parameters import WINDOW
from tests.filecoin.sealed import RANDOMNESS, post_sector
from tests.filecoin.test_proving import vanilla_proof
from tests.service.filecoin import curio_client
from tests.service.filecoin.curio_client import Fields


def window_request(*numbers: int) -> Fields:
    """A WindowPoSt of sectors with these numbers."""
    proofs = [post_sector_to_bincode(vanilla_proof(each), WINDOW.sector) for each in numbers]
    return {
        1: "wdpost-1000-1", 2: curio_client.WINDOW, 3: 2048, 4: 10, 5: 3, 11: proofs, 21: 1000,
        22: RANDOMNESS, 23: 4,
    }  # fmt: skip


def winning_request() -> Fields:
    """A WinningPoSt of the sector `sealed()`."""
    proof = post_sector_to_bincode(post_sector(66), WINDOW.sector)
    return {
        1: "winning-1000-7",
        2: curio_client.WINNING,
        3: 2048,
        5: 4,
        11: [proof],
        22: RANDOMNESS,
    }
