"""The example's files are consistent, and match its README."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quod
from quod.cli import entry
from quod.errors import DeviceError, InputError, OutputError
from quod.formats import Witness, Zkey, read_verification_key
from quod.gkr import read_inputs
from quod.inference import Perceptron, run
from quod.layered import read_circuit
from tests.support.node import run_program

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "membership"


@pytest.fixture(scope="module")
def maker() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE / "make_input.py"))


def witness_values(path: Path) -> list[int]:
    values = Witness.open(path).values
    return [int.from_bytes(row.astype("<u4").tobytes(), "little") for row in values]


def test_input_matches_its_script(maker: dict[str, Any]) -> None:
    assert json.loads((EXAMPLE / "input.json").read_text()) == maker["make_input"]()


def test_circuit_constants_follow_their_rule(maker: dict[str, Any]) -> None:
    source = (EXAMPLE / "membership.circom").read_text()
    constants = [int(number) for number in re.findall(r"^ +(\d{60,}),?$", source, re.MULTILINE)]
    assert constants == maker["CONSTANTS"]
    assert len(constants) == maker["ROUNDS"] == 110
    # The rounds that MiMC asks for, and the exponent that makes a round a permutation.
    assert 5 ** maker["ROUNDS"] >= maker["PRIME"] > 5 ** (maker["ROUNDS"] - 1)
    assert (maker["PRIME"] - 1) % 5 != 0


def test_witness_values_match_the_readme(maker: dict[str, Any]) -> None:
    compress, member = maker["compress"], maker["MEMBER"]
    secret = maker["secret_of"](member)
    leaves = [compress(maker["secret_of"](number), 0) for number in range(1 << maker["DEPTH"])]
    root, _ = maker["authentication_path"](leaves, member)
    nullifier = compress(maker["SCOPE"], secret)
    values = witness_values(EXAMPLE / "witness.wtns")
    assert values[:4] == [1, nullifier, root, maker["SCOPE"]]
    assert secret in values
    assert leaves[member] in values
    assert nullifier != compress(maker["SCOPE"] + 1, secret)


def test_witness_matches_the_key() -> None:
    zkey = Zkey.open(EXAMPLE / "circuit.zkey")
    zkey.check_points()
    assert len(witness_values(EXAMPLE / "witness.wtns")) == zkey.variables
    assert zkey.public == read_verification_key(EXAMPLE / "verification_key.json").public == 3


def test_the_files_are_small() -> None:
    sizes = [path.stat().st_size for path in EXAMPLE.iterdir() if path.is_file()]
    assert sum(sizes) < 5_000_000


@pytest.mark.node
def test_circom_reproduces_the_witness(tmp_path: Path) -> None:
    for name in ("membership.circom", "input.json"):
        shutil.copy(EXAMPLE / name, tmp_path)
    compiled = run_program(
        "circom2", "membership.circom", "--r1cs", "--wasm", "--O2", directory=tmp_path
    )
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    calculator = tmp_path / "membership_js" / "membership.wasm"
    completed = run_program(
        "snarkjs", "wtns", "calculate", calculator, "input.json", "out.wtns", directory=tmp_path
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert witness_values(tmp_path / "out.wtns") == witness_values(EXAMPLE / "witness.wtns")

    # Somebody who is no member finds no witness.
    document = json.loads((tmp_path / "input.json").read_text())
    document["secret"] = "1"
    (tmp_path / "input.json").write_text(json.dumps(document))
    refused = run_program(
        "snarkjs", "wtns", "calculate", calculator, "input.json", "no.wtns", directory=tmp_path
    )
    assert refused.returncode != 0


@pytest.mark.node
def test_the_example_proves_and_verifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof, public = tmp_path / "proof.json", tmp_path / "public.json"
    vkey = EXAMPLE / "verification_key.json"
    files = [EXAMPLE / "circuit.zkey", EXAMPLE / "witness.wtns", proof, public]
    assert entry.run(["groth16", "prove", *map(str, files), "--quiet"]) == 0
    values = witness_values(EXAMPLE / "witness.wtns")
    assert json.loads(public.read_text()) == [str(value) for value in values[1:4]]

    verify = ["groth16", "verify", str(vkey), str(public), str(proof)]
    assert entry.run(verify) == 0
    assert "OK" in capsys.readouterr().out
    accepted = run_program("snarkjs", "groth16", "verify", vkey, public, proof)
    assert accepted.returncode == 0, accepted.stdout

    # The same proof for another vote is refused, by us and by snarkjs.
    document = json.loads(public.read_text())
    document[2] = str(int(document[2]) + 1)
    public.write_text(json.dumps(document))
    assert entry.run(verify) == 6
    assert run_program("snarkjs", "groth16", "verify", vkey, public, proof).returncode != 0


def test_verifying_key_matches_the_proving_key(tmp_path: Path) -> None:
    out = tmp_path / "vkey.json"
    arguments = ["zkey", "export", "verificationkey", str(EXAMPLE / "circuit.zkey"), str(out)]
    assert entry.run([*arguments, "--quiet"]) == 0
    expected = json.loads((EXAMPLE / "verification_key.json").read_text())
    assert json.loads(out.read_text()) == expected


def test_layered_circuit_matches_its_script() -> None:
    folder = EXAMPLE.parent / "layered"
    script = runpy.run_path(str(folder / "make.py"))
    circuit = read_circuit(folder / "circuit.qcir")
    assert circuit.digest == script["circuit"]().digest
    assert len(circuit.layers) == script["ROUNDS"] + 1
    assert 5 ** script["ROUNDS"] > script["P"] > 5 ** (script["ROUNDS"] - 1)
    inputs = read_inputs(folder / "inputs.json", circuit)
    assert len(inputs) == script["INSTANCES"]
    for row, public in zip(inputs.inputs, inputs.public, strict=True):
        assert public == [script["mimc"](*row)]
        assert circuit.evaluate(row, public)[-1][0] == 0
    assert json.loads((folder / "inputs.json").read_text()) == script["inputs"]()


PERCEPTRON = EXAMPLE.parent / "verified_mlp"


@pytest.mark.parametrize("words", [("--images", "0"), ("--images", "-1"), ("--runs", "0")])
def test_perceptron_rejects_invalid_image_counts(
    words: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["prove.py", *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(PERCEPTRON / "prove.py"), run_name="__main__")
    assert ended.value.code == 2
    assert f"{words[1]!r} is no number from 1 on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("prove.py", "--images", "65"), 2, "there are 64 images, not 65"),
        (("prove.py", "--out", "no-folder"), 2, "no-folder is no folder; make it first"),
        (("prove.py", "--device", "gpu"), DeviceError.exit_code, "there is no device 'gpu'"),
        (("verify.py", "no-folder"), InputError.exit_code, "does not exist"),
    ],
)
def test_perceptron_scripts_reject_invalid_arguments(
    words: tuple[str, ...], code: int, message: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The error comes before any proof."""
    monkeypatch.setattr("sys.argv", [*words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(PERCEPTRON / words[0]), run_name="__main__")
    assert ended.value.code == code
    assert message in capsys.readouterr().err


@pytest.mark.thorough
def test_unwritable_proof_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key.qivk").mkdir()
    words = ["prove.py", "--images", "1", "--runs", "1", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(PERCEPTRON / "prove.py"), run_name="__main__")
    assert ended.value.code == OutputError.exit_code
    assert "name a file, not a directory" in capsys.readouterr().err


def test_perceptron_accuracy_matches_its_readme() -> None:
    with np.load(PERCEPTRON / "images.npz") as digits:
        activations = run("cpu", Perceptron.open(PERCEPTRON / "model.gguf"), digits["images"])
        right = int((activations.logits.argmax(axis=1) == digits["labels"]).sum())
    said = re.search(
        r"what all 64 are \((\d+) of them right\)", (PERCEPTRON / "README.md").read_text()
    )
    assert said is not None
    assert right == int(said[1])


@pytest.mark.thorough
def test_a_perceptron_is_verified_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["prove.py", "--images", "2", "--runs", "1", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", words)
    runpy.run_path(str(PERCEPTRON / "prove.py"), run_name="__main__")
    told = capsys.readouterr().out.splitlines()[-1]
    done = subprocess.run(
        [sys.executable, str(PERCEPTRON / "verify.py"), str(tmp_path)],
        capture_output=True, text=True, check=True, timeout=300,
        env=os.environ | {"PYTHONPATH": str(Path(quod.__file__).parent.parent)},
    )  # fmt: skip
    key, verified = done.stdout.splitlines()
    assert key == told
    assert re.fullmatch(r"verified: \d \d", verified)
