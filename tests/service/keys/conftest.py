"""Small keys, and repositories that have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.formats import Zkey
from quod.service.keys import KeyRepository
from tests.witness.circuits import circuit

DATA = Path(__file__).parents[2] / "data" / "formats"
BN254, BLS = DATA / "bn254", DATA / "bls12_381"
WASM = circuit(wires=Zkey.open(BN254 / "circuit.zkey").variables)
"""A witness calculator of another circuit, with as many variables."""


@pytest.fixture
def repository(tmp_path: Path) -> KeyRepository:
    """A repository with the key of bn254, called small."""
    keys = KeyRepository(tmp_path / "keys", create=True)
    keys.add(BN254 / "circuit.zkey", names=["small"])
    return keys


def folder_of(repository: KeyRepository, key: str = "small") -> Path:
    """Return the folder with the files of a key."""
    return Path(repository.path) / "keys" / repository.resolve(key)
