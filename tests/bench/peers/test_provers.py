"""Peers of proofs: snarkjs as a library, and commands that fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod.bench.peers.provers import Files, Libraries, Snarkjs, process, process_provers
from quod.errors import QuodError
from quod.groth16 import ProvingKey
from tests.support.node import program

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "membership"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A proof of the example, in files."""
    folder = tmp_path_factory.mktemp("peers")
    files = Files(
        EXAMPLE / "circuit.zkey", EXAMPLE / "witness.wtns",
        *(folder / name for name in ("vkey.json", "public.json", "proof.json")),
    )  # fmt: skip
    key = ProvingKey.from_zkey(files.zkey)
    proof, public = key.prove(files.witness)
    files.vkey.write_text(key.verifying_key.to_json())
    files.public.write_text(json.dumps([str(value) for value in public]))
    files.proof.write_text(proof.to_json())
    return files


@pytest.mark.thorough
@pytest.mark.node
def test_snarkjs_as_a_library(files: Files) -> None:
    program("snarkjs")
    with Libraries(files) as libraries:
        for _ in range(2):
            libraries.provers["snarkjs"]()
            libraries.verifiers["snarkjs"]()


@pytest.mark.thorough
@pytest.mark.node
def test_snarkjs_errors_are_reported(files: Files, tmp_path: Path) -> None:
    program("snarkjs")
    other = tmp_path / "public.json"
    other.write_text('["1"]')
    wrong = Files(files.zkey, files.witness, files.vkey, other, files.proof)
    with Libraries(wrong) as libraries, pytest.raises(QuodError, match="library failed: "):
        libraries.verifiers["snarkjs"]()


@pytest.mark.thorough
def test_library_start_failure_is_reported(files: Files, tmp_path: Path) -> None:
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\necho first >&2\necho no such module >&2\nexit 1\n")
    node.chmod(0o755)
    library = Snarkjs(str(node), str(tmp_path / "snarkjs" / "build" / "cli.cjs"), files)
    for _ in range(2):
        with pytest.raises(QuodError, match="snarkjs as a library failed: no such module"):
            library.prove()
    library.close()


def test_a_command_that_fails_is_an_error() -> None:
    with pytest.raises(QuodError, match=r"sh failed \(3\): why"):
        process(["sh", "-c", "echo why >&2; exit 3"])()


def test_rapidsnark_has_one_curve(files: Files) -> None:
    assert (
        process_provers("bls12_381", files)[1]["rapidsnark"]
        == "it supports only BN254, not bls12_381"
    )
