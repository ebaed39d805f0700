"""Recorded proofs, keys and files still verify, and are reproduced byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.recorded.cases import CASES, RECORDED
from tests.recorded.names import names
from tests.support.thorough import one_and_others

AGAIN = [
    "gkr-places-raw", "lookup-raw", "opening-raw", "opening-hyrax",
    "opening-ligero", "opening-hyperkzg", "inference", "groth16-bn254", "circuit-key-bn254",
    "powers-bn254",
]  # fmt: skip
"""One of each protocol, and of each commitment, that every run makes again."""

NAMES: dict[str, list[str]] = json.loads((RECORDED / "names.json").read_text())


@pytest.mark.parametrize(
    "name",
    one_and_others(
        CASES, [name for name in CASES if name not in ("circuit-key-bls12_381", "powers-bls12_381")]
    ),
)
def test_recorded_files_verify(name: str) -> None:
    CASES[name].check(RECORDED / name)


@pytest.mark.parametrize("name", one_and_others(CASES, AGAIN))
def test_recorded_files_are_reproducible(name: str, tmp_path: Path) -> None:
    CASES[name].write(tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert files == {path.name: path.read_bytes() for path in (RECORDED / name).iterdir()}


@pytest.fixture(scope="module")
def current() -> dict[str, list[str]]:
    return names()


@pytest.mark.parametrize("kind", NAMES)
def test_recorded_names_are_still_there(kind: str, current: dict[str, list[str]]) -> None:
    assert not set(NAMES[kind]) - set(current[kind])
