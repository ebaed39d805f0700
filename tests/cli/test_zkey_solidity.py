"""quod zkey export solidityverifier and soliditycalldata, beside snarkjs's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from quod.bench.chain import ChainCircuit
from quod.bench.peers.evm import Job, call
from quod.cli import entry
from quod.formats import write_r1cs
from tests.support.evm import run
from tests.support.node import run_program

EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"
ZKEY, VKEY = str(EXAMPLE / "circuit.zkey"), str(EXAMPLE / "verification_key.json")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a proof of the example."""
    monkeypatch.chdir(tmp_path)
    prove = ["groth16", "prove", ZKEY, str(EXAMPLE / "witness.wtns"), "proof.json", "public.json"]
    assert entry.run([*prove, "--quiet"]) == 0
    return tmp_path


@pytest.mark.thorough
@pytest.mark.node
def test_solidity_verifier_matches_snarkjs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["zkey", "export", "solidityverifier", ZKEY, "own.sol"]) == 0
    assert capsys.readouterr() == ("", "Wrote own.sol.\n")
    words = ["zkey", "export", "solidityverifier", ZKEY, "theirs.sol"]
    assert run_program("snarkjs", *words, directory=folder).returncode == 0
    assert entry.run(["zkey", "export", "soliditycalldata", "public.json", "proof.json"]) == 0
    printed = capsys.readouterr().out
    words = ["zkey", "export", "soliditycalldata", "public.json", "proof.json"]
    assert run_program("snarkjs", *words, directory=folder).stdout.strip() == printed.strip()

    data = "".join(re.findall(r"0x([0-9a-f]{64})", printed))
    last = data[:-1] + ("0" if data[-1] != "0" else "1")
    calls = [call("verifyProof", data), call("verifyProof", last)]
    ours, theirs = run(
        [
            Job(
                source=Path(name).read_text(), contract="Groth16Verifier", optimizer=True,
                hardfork="prague", calls=calls,
            )
            for name in ("own.sol", "theirs.sol")
        ]
    )  # fmt: skip
    (signature,) = theirs["methods"]
    assert ours["methods"][signature] == theirs["methods"][signature]
    for outcome in (ours, theirs):
        assert [int(answer["returned"], 16) for answer in outcome["calls"]] == [1, 0]
    for mine, other in zip(ours["calls"], theirs["calls"], strict=True):
        assert mine["gas"] <= other["gas"]
    assert ours["deploy_gas"] <= theirs["deploy_gas"]


def test_a_verifying_key_gives_the_same(folder: Path) -> None:
    assert entry.run(["zkey", "export", "solidityverifier", ZKEY, "a.sol", "-q"]) == 0
    assert entry.run(["zkey", "export", "solidityverifier", VKEY, "b.sol", "--name", "B"]) == 0
    source = Path("a.sol").read_text()
    assert "\ncontract Groth16Verifier {\n" in source
    assert source.replace("Groth16Verifier", "B") == Path("b.sol").read_text()


def test_invalid_keys_are_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    circuit = ChainCircuit("bn254", 2)
    a, b, c = circuit.matrices
    write_r1cs(
        "c.r1cs", curve="bn254", wires=circuit.wires, public_outputs=0, public_inputs=1,
        private_inputs=0, a=a, b=b, c=c,
    )  # fmt: skip
    test_key = ["groth16", "test-key", "c.r1cs", "weak.zkey", "--seed", "1", "--insecure-test-key"]
    assert entry.run(test_key) == 0
    export = ["zkey", "export", "solidityverifier", "weak.zkey", "out.sol"]
    assert entry.run(export) == 9
    assert not Path("out.sol").exists()
    assert "it is a test key" in capsys.readouterr().err
    assert entry.run([*export, "--insecure-test-key"]) == 0
    assert "warning" in capsys.readouterr().err
    assert "INSECURE" in Path("out.sol").read_text()
    assert entry.run(["zkey", "export", "solidityverifier", VKEY, "x.sol", "--name", "a b"]) == 3
    assert entry.run(["zkey", "export", "solidityverifier", "proof.json", "x.sol"]) == 3
    assert entry.run(["zkey", "export", "solidityverifier", ZKEY, ZKEY]) == 2
    assert not Path("x.sol").exists()

    calldata = ["zkey", "export", "soliditycalldata"]
    capsys.readouterr()
    assert entry.run([*calldata, "proof.json", "public.json"]) == 3
    proof = json.loads(Path("proof.json").read_text())
    Path("other.json").write_text(json.dumps(proof | {"pi_a": ["1", "1", "1"]}))
    assert entry.run([*calldata, "public.json", "other.json"]) == 3
    assert "pi_a is not a point on the curve" in capsys.readouterr().err
    del proof["curve"]
    Path("other.json").write_text(json.dumps(proof))
    assert entry.run([*calldata, "public.json", "other.json"]) == 0
    unnamed = capsys.readouterr().out
    assert entry.run([*calldata, "public.json", "proof.json"]) == 0
    assert capsys.readouterr().out == unnamed


@pytest.mark.thorough
@pytest.mark.node
def test_bench(capsys: pytest.CaptureFixture[str]) -> None:
    run([])  # or skips
    words = ["bench", "solidity", "--repeats", "1", "--seconds", "0", "--json", "--quiet"]
    assert entry.run(words) == 0
    rows = json.loads(capsys.readouterr().out)
    gas = {
        (row["parameters"]["contract"], row["parameters"]["optimizer"]): row["median"]
        for row in rows
        if row["parameters"]["what"] == "verifyProof"
    }
    assert {row["unit"] for row in rows} == {"gas"}
    for optimizer in (True, False):
        assert 187_150 < gas["quod", optimizer] < gas["snarkjs", optimizer]
