"""The circuit of MASP's Output: bellman's hash, the values of an asset's note, violations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod import zcash as sapling
from quod.cli import entry
from quod.curve import EDWARDS, edwards_group
from quod.errors import InputError
from quod.field.array import words_to_integers
from quod.r1cs.reference import find_group_hash
from quod.testing import assert_fails
from quod.zcash.files import read_note
from quod.zcash.masp import (
    asset_generator,
    asset_identifier,
    masp_output_circuit,
    masp_output_inputs,
)
from quod.zcash.output import output_inputs
from quod.zcash.protocol import MASP
from tests.zcash.test_output import ADDRESS, NOTE

MASP_HASH = "93e445d7858e98c7138558df341f020aedfe75893535025587d64731e244276a"
"""Circuit hash of masp_proofs' `test_output_circuit_with_bls12_381`."""
GROUP = edwards_group(EDWARDS["jubjub"])


DIVERSIFIER = bytes.fromhex("f19d9b797e39f337445839")
"""A diversifier with a point in Sapling and in MASP."""


@pytest.fixture(scope="module")
def note() -> sapling.Note:
    key = sapling.ExpandedSpendingKey.from_spending_key(bytes(32), MASP).viewing_key
    address = key.address(DIVERSIFIER)
    return sapling.Note.from_seed(address, 77, bytes(32), asset_identifier(b"default"))


@pytest.mark.thorough
def test_circuit_matches_bellman() -> None:
    circuit = masp_output_circuit()
    assert circuit.circuit_hash() == MASP_HASH
    assert (circuit.constraints, circuit.wires, circuit.public) == (31205, 30896 + 6, 5)
    assert [matrix.nonzeros for matrix in circuit.matrices] == [73431, 31750, 57329]


def test_public_values_match_the_asset(note: sapling.Note) -> None:
    circuit = masp_output_circuit()
    circuit.prepare()
    inputs = masp_output_inputs(note, 9, 5)
    (witness,) = circuit.witnesses([inputs])
    values = words_to_integers(circuit.field, witness.values)
    # BLAKE2s is a repeated part, with a program of its own.
    assert len(circuit.program.schedule.stages) == 2
    assert values == circuit.values(inputs)
    public = values[1:6]
    shown = GROUP.multiply(8 * note.value, asset_generator(asset_identifier(b"default")))
    hidden = GROUP.multiply(5, find_group_hash(b"MASP__r_", b"r"))
    assert public == [*GROUP.add(shown, hidden), *note.ephemeral_key(9), note.cmu]
    u, v = inputs["asset_generator"]  # type: ignore[misc]
    negated = {"asset_generator": (-u, v)}
    assert_fails(circuit, {**inputs, **negated}, "asset_generator is hashed")
    assert_fails(circuit, {**inputs, "asset_identifier": 5}, "asset_generator is hashed")
    with pytest.raises(InputError, match="32 bytes"):
        asset_generator(b"no such")
    for wrong in (b"short", "text", 5):
        with pytest.raises(InputError, match="an asset's identifier must be"):
            sapling.Note(note.address, 1, 2, wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs the identifier of its asset"):
        sapling.Note(note.address, 1, 2)
    plain = sapling.Note(sapling.PaymentAddress.from_bytes(bytes.fromhex(ADDRESS)), 1, 2)
    with pytest.raises(InputError, match="a note of Sapling has no asset"):
        sapling.Note(plain.address, 1, 2, bytes(32))
    with pytest.raises(InputError, match="must be one of MASP"):
        masp_output_inputs(plain, 9, 5)
    with pytest.raises(InputError, match="use masp_output_inputs"):
        output_inputs(note, 9, 5)


@pytest.mark.thorough
def test_its_files_make_a_key_and_a_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    key = sapling.ExpandedSpendingKey.from_spending_key(bytes(32), MASP).viewing_key
    masp_note = NOTE | {"address": key.address(DIVERSIFIER).to_bytes().hex()}
    Path("note.json").write_text(json.dumps(masp_note))
    files = ["--note", "note.json", "--witness", "m.wtns"]
    write = ["sapling", "circuit", "masp-output", "m.r1cs", *files, "-q"]
    assert entry.run([*write, "--asset", "default"]) == 0
    assert entry.run(["wtns", "check", "m.r1cs", "m.wtns"]) == 0
    seed = ["--seed", "1", "--insecure-test-key", "-q"]
    assert entry.run(["groth16", "test-key", "m.r1cs", "m.zkey", *seed]) == 0
    outputs = ["proof.json", "public.json"]
    assert entry.run(["groth16", "prove", "m.zkey", "m.wtns", *outputs, "-q"]) == 0
    # The statement is that of the note.
    note, esk, _ = read_note("note.json", asset_identifier(b"default"))
    u, v = note.ephemeral_key(esk or 0)
    assert json.loads(Path("public.json").read_text())[2:4] == [str(u), str(v)]
    # Words that do not go together, and a note that leaves rcv to the system.
    for wrong in (
        write,
        [*write[:2], "sapling-mint", "m.r1cs"],
        [*write[:2], "sapling-spend", "m.r1cs", *files],
        [*write[:2], "sapling-output", "m.r1cs", "--note", "note.json"],
        [*write[:2], "sapling-output", "m.r1cs", *files, "--asset", "default"],
        [*write[:3], "note.json", *files, "--asset", "default"],
    ):
        assert entry.run(wrong) == 2, wrong
    capsys.readouterr()
    Path("note.json").write_text(
        json.dumps({name: masp_note[name] for name in NOTE if name != "rcv"})
    )
    assert entry.run([*write, "--asset", "default"]) == 3
    assert "lacks rcv" in capsys.readouterr().err
