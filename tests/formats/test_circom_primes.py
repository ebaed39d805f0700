"""Constraint systems and witnesses over every prime of circom, with files that circom made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from quod.cli import entry
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.formats import R1cs, Witness, describe, write_r1cs, write_wtns
from quod.formats.curves import OTHER_FIELDS, field_named, pairing_curve
from quod.groth16.phase2 import new_key
from quod.groth16.setup import generate_key
from quod.witness import check_witness
from tests.formats.tiny import DATA, integers
from tests.support.node import run_program
from tests.support.thorough import one_and_others

FOLDER = DATA / "primes"
# By circom's names.
NAMES = {name: name for name in OTHER_FIELDS} | {"bls12377": "bls12_377"}
INPUTS = {"a": "-1000000007000003", "b": "-5"}


def expected(prime: int) -> list[int]:
    """The values of the witness: 1, out, b, a and the square."""
    a, b = (int(INPUTS[name]) % prime for name in "ab")
    return [1, (a**3 - 3 * b) % prime, b, a, a * a % prime]


@pytest.mark.parametrize("prime", NAMES)
def test_files_are_read_and_written_as_circom_does(prime: str, tmp_path: Path) -> None:
    system, witness = R1cs.open(FOLDER / f"{prime}.r1cs"), Witness.open(FOLDER / f"{prime}.wtns")
    assert system.curve == witness.curve == NAMES[prime]
    assert integers(witness.values) == expected(field_named(system.curve).value)
    write_wtns(tmp_path / "w.wtns", witness.curve, witness.values)
    assert (tmp_path / "w.wtns").read_bytes() == (FOLDER / f"{prime}.wtns").read_bytes()
    write_r1cs(
        tmp_path / "c.r1cs", curve=system.curve, wires=system.wires, public_outputs=1,
        public_inputs=1, private_inputs=1, a=system.a, b=system.b, c=system.c,
    )  # fmt: skip
    again = R1cs.open(tmp_path / "c.r1cs")
    for matrix, copy in zip(system.matrices, again.matrices, strict=True):
        assert (matrix.value == copy.value).all()
        assert (matrix.column == copy.column).all()


@pytest.mark.parametrize("prime", one_and_others(NAMES, ["goldilocks", "vesta"]))
def test_constraints_are_checked(prime: str, device: AnyDevice) -> None:
    system, witness = R1cs.open(FOLDER / f"{prime}.r1cs"), Witness.open(FOLDER / f"{prime}.wtns")
    assert check_witness(system, witness, device=device).satisfied
    values = witness.values.copy()
    values[1, 0] ^= 1
    wrong = Witness("wrong", witness.curve, values, 0)
    (failure,) = check_witness(system, wrong, symbols=FOLDER / "cube.sym", device=device).failures()
    assert failure.number == 1
    assert failure.prime == field_named(system.curve).value
    assert set(failure.values) == {"main.square", "main.a", "main.out", "main.b"}


def test_commands_accept_circom_primes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system = str(FOLDER / "goldilocks.r1cs")
    assert entry.run(["r1cs", "print", system, str(FOLDER / "cube.sym")]) == 0
    assert capsys.readouterr().out == (
        "0: (-main.a) * main.a = -main.square\n1: (-main.square) * main.a = -main.out - 3*main.b\n"
    )
    out = tmp_path / "own.json"
    assert entry.run(["r1cs", "export", "json", system, str(out), "--quiet"]) == 0
    report = json.loads(out.read_text())
    assert (report["n8"], report["prime"]) == (8, str(2**64 - 2**32 + 1))
    for name in ("goldilocks.r1cs", "goldilocks.wtns"):
        row = describe(FOLDER / name)
        assert (row["curve"], row["prime"]) == (None, "goldilocks")
    assert "prime" not in describe(FOLDER / "bls12377.r1cs")


def test_keys_over_primes_without_a_pairing_are_rejected(tmp_path: Path) -> None:
    system = FOLDER / "pallas.r1cs"
    for make in (
        lambda: generate_key(system, tmp_path / "c.zkey", 1),
        lambda: new_key(system, DATA / "bn254" / "powers.ptau", tmp_path / "c.zkey"),
    ):
        with pytest.raises(InputError, match=r"pallas\.r1cs: is over pallas, which has no pairing"):
            make()
    with pytest.raises(InputError, match="the curve must be one of"):
        pairing_curve("secp256k1", "file")


@pytest.mark.node
@pytest.mark.parametrize("prime", one_and_others(NAMES, ["goldilocks"]))
def test_witness_calculators_of_circom_primes(
    prime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FOLDER / "cube.circom", "cube.circom")
    done = run_program(
        "circom2", "cube.circom", "--r1cs", "--wasm", "--prime", prime, directory=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert Path("cube.r1cs").read_bytes() == (FOLDER / f"{prime}.r1cs").read_bytes()
    Path("input.json").write_text(json.dumps(INPUTS))
    words = ["wtns", "calculate", "cube_js/cube.wasm", "input.json", "w.wtns", "--quiet"]
    assert entry.run(words) == 0
    assert Path("w.wtns").read_bytes() == (FOLDER / f"{prime}.wtns").read_bytes()


@pytest.mark.parametrize("name", ["zz", "", "0", "1", "-5", "_5", "05", "A1", "a1 ", "a1\n"])
def test_names_of_other_primes_are_strict(name: str) -> None:
    assert field_named("prime 0xa1").value == 0xA1
    with pytest.raises(InputError, match="the curve must be one of"):
        field_named(f"prime 0x{name}")
