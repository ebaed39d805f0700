"""Small keys, and repositories that have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.service.keys import KeyRepository

DATA = Path(__file__).parents[2] / "data" / "formats"
BN254, BLS = DATA / "bn254", DATA / "bls12_381"
WASM = b"\0asm\1\0\0\0"


@pytest.fixture
def repository(tmp_path: Path) -> KeyRepository:
    """A repository with the key of bn254, called small."""
    found = KeyRepository(tmp_path / "keys", create=True)
    found.add(BN254 / "circuit.zkey", names=["small"])
    return found


def folder_of(repository: KeyRepository, key: str = "small") -> Path:
    """Where the files of a key are."""
    return Path(repository.path) / "keys" / repository.resolve(key)
