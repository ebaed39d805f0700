"""The circuit of Sapling's Output: bellman's hash, values, violations, proofs, the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod import zcash as sapling
from quod.cli import entry
from quod.curve import EDWARDS, edwards_group
from quod.errors import InputError
from quod.r1cs import UnsatisfiedError
from quod.r1cs.signal import TraceError
from quod.testing import assert_fails
from quod.zcash.files.infos import InfoFile, encoded_secrets, read_output_info
from quod.zcash.output import output_circuit, output_inputs
from quod.zcash.proofs.infos import OutputInfo

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
    info = read_output_info(note_file).info
    assert isinstance(info, OutputInfo)
    return info.note


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
        ({"address": 5}, "address: must be text in hex"),
        ({"address": "00" + ADDRESS[2:] + " "}, "address: must be text in hex"),
        ({"address": "ff" * 11 + ADDRESS[22:]}, "the diversifier"),
        ({"value": 1 << 64}, "the value"),
        ({"value": -1}, "the value"),
        ({"rseed": "07"}, "32 bytes"),
        ({"rcm": "01" + "00" * 31}, "either rseed"),
        ({"esk": "01" + "00" * 31}, "not the scalar that rseed determines"),
        ({"rcv": "ff" * 32}, "rcv must be a scalar"),
        ({"more": 1}, "unknown field"),
    ],
)
def test_wrong_notes_are_refused(note_file: Path, change: dict[str, object], message: str) -> None:
    note_file.write_text(json.dumps(NOTE | change))
    with pytest.raises(InputError, match=message):
        read_output_info(note_file)


def test_secrets_complete_a_note_with_rseed(note_file: Path) -> None:
    note_file.write_text(json.dumps(NOTE))
    file = read_output_info(note_file)
    note_file.write_text(json.dumps(NOTE | encoded_secrets(file.secrets)))
    assert read_output_info(note_file) == InfoFile(file.info, ())


def test_the_bench_refuses_other_circuits(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["bench", "groth16", "--circuit", "sapling-mint"]) == 2
    assert "sapling-output" in capsys.readouterr().err
    assert entry.run(["bench", "groth16", "--circuit", "sapling-output", "--constraints", "9"]) == 2
