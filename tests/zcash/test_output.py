"""The circuit of Sapling's Output: bellman's hash, values, violations, proofs, the commands."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from quod import zcash as sapling
from quod.cli import entry
from quod.curve import EDWARDS, edwards_group
from quod.errors import InputError
from quod.r1cs import UnsatisfiedError
from quod.r1cs.signal import TraceError
from quod.testing import assert_fails
from quod.zcash.files import read_note, read_outputs
from quod.zcash.output import (
    OutputProver,
    output_circuit,
    output_inputs,
    verify_output,
    verify_outputs,
)

JUBJUB = EDWARDS["jubjub"]
BELLMAN_HASH = "c26d5cdfe6ccd65c03390902c02e11393ea6bb96aae32a7f2ecb12eb9103faee"
"""Circuit hash of `test_output_circuit_with_bls12_381` in sapling-crypto."""
ADDRESS = "aef180f6e34e354b888f81" + (
    "a6b13ea336ddb7a67bb09a0e68e9d3cfb39210831ea3a296ba09a922060fd38b"
)
NOTE = {
    "address": ADDRESS,
    "value": 12227227834928555328,
    "rseed": "07" * 32,
    "rcv": "09" + "00" * 31,
}


@pytest.fixture
def note_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("note.json").write_text(json.dumps(NOTE))
    return Path("note.json")


@pytest.fixture
def note(note_file: Path) -> sapling.Note:
    return read_note(note_file)[0]


def test_circuit_matches_bellman() -> None:
    circuit = output_circuit()
    assert circuit.circuit_hash() == BELLMAN_HASH
    assert (circuit.constraints, circuit.wires, circuit.public) == (7827, 7821 + 6, 5)
    assert circuit.lints() == []
    within = circuit.profile().within
    assert within["value commitment/compute the value in the exponent"] == 191
    assert within["representation of g_d"] == 776
    assert within["epk computation"] == 3265
    assert within["note content hash"] == 386 + 570 + 26


def test_public_values_match_the_note(note: sapling.Note) -> None:
    circuit = output_circuit()
    for esk, rcv in ((1, 0), (JUBJUB.fr.value - 1, JUBJUB.fr.value - 1), (123456789 << 200, 99)):
        values = circuit.values(output_inputs(note, esk, rcv))
        cv = sapling.value_commitment(note.value, rcv)
        assert values[1:6] == [*cv, *note.ephemeral_key(esk), note.cmu]
        assert circuit.check(values) == []


def test_violations_name_the_failed_constraint(note: sapling.Note) -> None:
    circuit, right = output_circuit(), dict(output_inputs(note, 5, 6))
    u, v = note.address.base
    assert_fails(circuit, right | {"g_d": (u + 1, v)}, "witness g_d")
    small = (0, JUBJUB.fq.value - 1)
    assert_fails(circuit, right | {"g_d": small}, "g_d not small order")
    with pytest.raises(UnsatisfiedError, match="`witness g_d` "):
        circuit.witness(right | {"g_d": (u + 1, v)})
    with pytest.raises(InputError, match="a number of 64 bits"):
        circuit.witness(right | {"value": 1 << 64})
    for esk, rcv in ((0, 1), (JUBJUB.fr.value, 1), (1, JUBJUB.fr.value), (-1, 1)):
        with pytest.raises(InputError, match="must be a scalar"):
            output_inputs(note, esk, rcv)
    assert edwards_group(JUBJUB).has_small_order(small)
    assert TraceError.exit_code == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address": ADDRESS[:-2]}, "43 bytes"),
        ({"address": 5}, "address must be text in hex"),
        ({"address": "00" + ADDRESS[2:] + " "}, "address must be text in hex"),
        ({"address": "ff" * 11 + ADDRESS[22:]}, "the diversifier"),
        ({"value": 1 << 64}, "the value"),
        ({"value": -1}, "the value"),
        ({"rseed": "07"}, "32 bytes"),
        ({"rcm": "01" + "00" * 31}, "either rseed"),
        ({"esk": "01" + "00" * 31}, "either rseed"),
        ({"rcv": "ff" * 32}, "rcv must be a scalar"),
        ({"more": 1}, "and optionally"),
    ],
)
def test_wrong_notes_are_refused(note_file: Path, change: dict[str, object], message: str) -> None:
    note_file.write_text(json.dumps(NOTE | change))
    with pytest.raises(InputError, match=message):
        read_note(note_file)


def test_commands_validate_before_computing(
    note_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note_file.write_text(json.dumps({name: NOTE[name] for name in ("address", "value", "rseed")}))
    assert entry.run(["sapling", "prove-output", "p", "note.json", "o.json"]) == 3
    assert "--secrets" in capsys.readouterr().err
    assert not Path("o.json").exists()


@pytest.mark.fixtures
def test_a_proof_under_the_genuine_key(
    note_file: Path, shared_fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parameters = str(shared_fixtures / "zcash" / "sapling-output.params")
    note_file.write_text(json.dumps({name: NOTE[name] for name in ("address", "value", "rseed")}))
    arguments = ["sapling", "prove-output", parameters, "note.json", "o.json"]
    assert entry.run([*arguments, "--secrets", "s.json"]) == 0
    assert stat.S_IMODE(Path("s.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(Path("o.json").stat().st_mode) & 0o400
    assert entry.run(["sapling", "verify-output", parameters, "o.json"]) == 0
    output, secrets = json.loads(Path("o.json").read_text()), json.loads(Path("s.json").read_text())
    note, esk, _ = read_note(note_file)
    assert output["cmu"] == note.cmu.to_bytes(32, "little").hex()
    assert secrets["esk"] == sapling.encode_scalar(esk or 0).hex()
    rcv = sapling.decode_scalar("rcv", bytes.fromhex(secrets["rcv"]))
    statement = sapling.OutputStatement(
        sapling.value_commitment(note.value, rcv), note.ephemeral_key(esk or 0), note.cmu
    )
    assert [part.hex() for part in statement.to_bytes()] == [
        output["cv"],
        output["epk"],
        output["cmu"],
    ]
    outputs = json.loads((shared_fixtures / "zcash/mainnet_sapling_outputs.json").read_text())
    together = [*outputs[:3], output]
    Path("all.json").write_text(json.dumps(together))
    batch = ["sapling", "verify-output", parameters, "all.json", "--batch"]
    assert entry.run(batch) == 0
    # One proof for another's statement, one statement of small order, one proof that is none.
    wrong = [outputs[0] | {"proof": output["proof"]}, outputs[1] | {"epk": "01" + "00" * 31}]
    wrong += [output, output | {"proof": "ff" * 192}]
    Path("all.json").write_text(json.dumps(wrong))
    capsys.readouterr()
    assert entry.run(batch) == 6
    said = capsys.readouterr().err
    assert "3 of 4 Outputs are not valid (counted from 0: 0, 1, 3)" in said
    assert "epk is a point of small order" in said
    Path("o.json").write_text(json.dumps(output | {"cmu": outputs[0]["cmu"]}))
    assert entry.run(["sapling", "verify-output", parameters, "o.json"]) == 6
    Path("o.json").write_text(json.dumps(output | {"cmu": "ff" * 32}))
    assert entry.run(["sapling", "verify-output", parameters, "o.json"]) == 3


@pytest.mark.fixtures
def test_all_proofs_of_the_main_chain(shared_fixtures: Path, note: sapling.Note) -> None:
    folder = shared_fixtures / "zcash"
    prover = OutputProver(folder / "sapling-output.params", checked=False)
    key = prover.key.verifying_key
    outputs = [
        output
        for output in read_outputs(folder / "mainnet_sapling_outputs.json")
        if not isinstance(output, InputError)
    ]
    assert len(outputs) == 24
    assert all(verify_outputs(key, outputs))
    first = prover.prove(note, esk=5, rcv=6, seed=4)
    assert first.proof == prover.prove(note, esk=5, rcv=6, seed=4).proof
    assert verify_output(key, first)
    epk = note.ephemeral_key(5)
    assert first.statement.public == [*sapling.value_commitment(note.value, 6), *epk, note.cmu]
    with pytest.raises(InputError, match="cv is a point of small order"):
        # A value of 0 that nothing hides: consensus would refuse it.
        prover.prove(sapling.Note(note.address, 0, 1), esk=5, rcv=0)
    prover.close()


def test_the_bench_refuses_other_circuits(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["bench", "groth16", "--circuit", "sapling-mint"]) == 2
    assert "sapling-output" in capsys.readouterr().err
    assert entry.run(["bench", "groth16", "--circuit", "sapling-output", "--constraints", "9"]) == 2
