"""quod r1cs, and quod wtns check and export, compared with snarkjs; errors of wrong witnesses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from quod.cli import entry
from quod.formats import Witness, write_wtns
from tests.support.node import run_program
from tests.support.thorough import one_and_others

EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"
CIRCUIT = """
pragma circom 2.0.0;
template Test() {
    signal input a; signal input b[2]; signal input unused; signal output c; signal d;
    d <== a * b[0] + 3 * b[1];
    c <== d * (b[1] - a) - 5;
    a * (a - 1) === 0;
}
component main {public [a]} = Test();
"""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what circom makes of the circuit, and a witness by Quod."""
    folder = tmp_path_factory.mktemp("circuit")
    (folder / "c.circom").write_text(CIRCUIT)
    done = run_program("circom2", "c.circom", "--r1cs", "--sym", "--wasm", directory=folder)
    assert done.returncode == 0, done.stderr
    shutil.copy(folder / "c_js" / "c.wasm", folder / "c.wasm")
    (folder / "input.json").write_text('{"a": 1, "b": [2, 3], "unused": 7}')
    words = ["wtns", "calculate", "c.wasm", "input.json", "w.wtns"]
    assert entry.run([word if i < 2 else str(folder / word) for i, word in enumerate(words)]) == 0
    return folder


@pytest.fixture
def folder(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.node
@pytest.mark.parametrize(
    "words",
    one_and_others([["r1cs", "export", "json", "c.r1cs"], ["wtns", "export", "json", "w.wtns"]]),
)
def test_json_matches_snarkjs(words: list[str], folder: Path) -> None:
    assert entry.run([*words, "own.json", "--quiet"]) == 0
    done = run_program("snarkjs", *words, "theirs.json", directory=folder)
    assert done.returncode == 0, done.stdout
    assert Path("own.json").read_bytes() == Path("theirs.json").read_bytes()


@pytest.mark.node
def test_print(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["r1cs", "print", "c.r1cs", "c.sym"]) == 0
    assert capsys.readouterr().out == (
        "0: (-main.a) * main.b[0] = 3*main.b[1] - main.d\n"
        "1: (main.a - main.b[1]) * main.d = -5 - main.c\n"
        "2: (-1 + main.a) * main.a = 0\n"
    )
    assert entry.run(["r1cs", "print", "c.r1cs"]) == 0
    assert capsys.readouterr().out.splitlines()[2] == "2: (-1 + wire 2) * wire 2 = 0"
    assert entry.run(["r1cs", "info", "c.r1cs", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["curve"], report["constraints"], report["wires"]) == ("bn254", 3, 6)
    assert entry.run(["r1cs", "info", "w.wtns"]) == 3
    assert "w.wtns" in capsys.readouterr().err


@pytest.mark.node
def test_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check = ["wtns", "check", "c.r1cs", "w.wtns", "c.sym"]
    assert entry.run(check) == 0
    assert capsys.readouterr().out == "OK: the witness satisfies all 3 constraints.\n"
    assert entry.run([*check, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")

    values = Witness.open("w.wtns").values.copy()
    values[2, 0] = 2
    write_wtns("w.wtns", "bn254", values)
    assert run_program("snarkjs", *check[:4], directory=folder).returncode == 1
    assert entry.run(check) == 6
    printed, said = capsys.readouterr()
    assert printed.count("constraint ") == 3
    assert printed.endswith(
        "constraint 2: (-1 + main.a) * main.a = 0\n  1 * 2 = 2, not 0\n  main.a = 2\n"
    )
    assert "w.wtns: fails 3 of 3 constraints of c.r1cs, the first of them constraint 0" in said
    assert entry.run([*check, "--most", "1"]) == 6
    assert capsys.readouterr().out.count("constraint ") == 1
    assert entry.run([*check, "--json", "--most", "0"]) == 6
    report = json.loads(capsys.readouterr().out)
    assert (report["constraints"], report["failed"], len(report["first"])) == (3, 3, 3)
    assert report["first"][2] == {
        "number": 2, "text": "(-1 + main.a) * main.a = 0", "a": "1", "b": "2", "c": "0",
        "values": {"main.a": "2"},
    }  # fmt: skip
    assert entry.run([*check, "--quiet"]) == 6
    assert capsys.readouterr().out == ""

    values[1:3, 0] = 0, 1
    write_wtns("w.wtns", "bn254", values)
    assert entry.run(check) == 6
    assert "w.wtns: fails 1 of 3 constraints of c.r1cs, namely constraint 1" in (
        capsys.readouterr().err
    )


def test_check_rejects_mismatched_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    witness, symbols = str(EXAMPLE / "witness.wtns"), str(EXAMPLE / "circuit.sym")
    assert entry.run(["wtns", "check", str(tmp_path / "c.r1cs"), witness]) == 3
    assert entry.run(["wtns", "check", witness, str(tmp_path)]) == 3
    assert entry.run(["wtns", "export", "json", symbols, str(tmp_path / "out")]) == 3
    assert "internal" not in capsys.readouterr().err


def test_fullprove(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proof, public, again = (str(tmp_path / name) for name in ("p.json", "public.json", "2.json"))
    files = [str(EXAMPLE / name) for name in ("circuit.wasm", "circuit.zkey")]
    full = ["groth16", "fullprove", str(EXAMPLE / "input.json"), *files]
    assert entry.run([*full, proof, public, "--seed", "3", "--quiet"]) == 0
    witness = str(EXAMPLE / "witness.wtns")
    prove = ["groth16", "prove", files[1], witness, again, str(tmp_path / "3.json")]
    assert entry.run([*prove, "--seed", "3", "--quiet"]) == 0
    # The same proof as of the witness's file: nothing else was proved.
    assert Path(proof).read_bytes() == Path(again).read_bytes()
    assert Path(public).read_bytes() == (tmp_path / "3.json").read_bytes()
    assert entry.run([*full, proof, proof]) == 2
    (tmp_path / "wrong.json").write_text('{"secret": 1}')
    full[2] = str(tmp_path / "wrong.json")
    capsys.readouterr()
    Path(proof).unlink()
    assert entry.run([*full, proof, public]) == 3
    missing = 'wrong.json: the inputs "root" (1 number), "scope" (1 number), "siblings" (10'
    assert missing in capsys.readouterr().err
    assert not Path(proof).exists()
