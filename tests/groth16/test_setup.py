"""Keys from constraint systems: right by the reference model, and accepted by snarkjs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quod.curve.named import CURVES
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, OutputError
from quod.formats import R1cs, Zkey
from quod.groth16 import INSECURE_TAG, ProvingKey, generate_key
from tests.groth16.circuits import Circuit, recurrence
from tests.groth16.conftest import Made
from tests.reference import circom, groth16
from tests.support.node import run_program
from tests.support.thorough import one_and_others

Make = Callable[[str], Made]

# The constant alone; nothing but a public input; a single constraint without public ones.
TRIVIAL = {
    "nothing": Circuit("bn254", [], [], [], [1], 0, 0),
    "one input": Circuit("bls12_381", [], [], [], [1, 7], 0, 1),
    "one constraint": Circuit("bn254", [[(1, 1)]], [[(1, 1)]], [[(0, 9)]], [1, 3], 0, 0),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "curve",
    one_and_others(["bn254", "bls12_381", "bls12_377"]),
)
def test_reference_prover_accepts_the_key(circuit_files: Make, curve: str) -> None:
    files = circuit_files(curve)
    key, witness = circom.read_zkey(files.zkey), circom.read_wtns(files.wtns)
    proof, public = groth16.prove(key, witness, 12345, 67890)
    verifying_key = groth16.verifying_key(key)
    assert public == files.circuit.public
    assert groth16.verify(verifying_key, public, proof)
    assert not groth16.verify(verifying_key, [public[0], public[1] + 1], proof)


@pytest.mark.parametrize("name", TRIVIAL)
def test_trivial_circuits(name: str, tmp_path: Path) -> None:
    circuit = TRIVIAL[name]
    assert circuit.satisfied(circuit.witness)
    generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", 3)
    key = circom.read_zkey(tmp_path / "c.zkey")
    proof, public = groth16.prove(key, circuit.witness, 5, 6)
    assert groth16.verify(groth16.verifying_key(key), public, proof)


@pytest.mark.parametrize("curve", one_and_others(CURVES))
def test_key_describes_the_circuit(circuit_files: Make, curve: str) -> None:
    files = circuit_files(curve)
    zkey = Zkey.open(files.zkey)
    zkey.check_points()
    assert zkey.curve == curve
    assert zkey.public == 2
    assert zkey.variables == len(files.circuit.witness)
    assert zkey.constraints == len(files.circuit.a)
    assert zkey.domain_size == 32
    assert zkey.contributions == 0


def test_public_variable_rows(circuit_files: Make) -> None:
    files = circuit_files("bn254")
    entries = circom.read_zkey(files.zkey).coefficients
    rows = len(files.circuit.a)
    assert entries[-3:] == [(0, rows, 0, 1), (0, rows + 1, 1, 1), (0, rows + 2, 2, 1)]
    r = CURVES["bn254"].fr.value
    expected = [
        (matrix, number, wire, value % r)
        for number, pair in enumerate(zip(files.circuit.a, files.circuit.b))
        for matrix, row in enumerate(pair)
        for wire, value in row
    ]
    assert entries[:-3] == expected


def test_domain_is_the_smallest_that_fits(tmp_path: Path) -> None:
    # 32 rows are needed for 28 steps: one constraint each, one empty, three that tie.
    for steps, size in ((28, 32), (29, 64)):
        circuit = recurrence("bn254", steps)
        generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", 1)
        assert Zkey.open(tmp_path / "c.zkey").domain_size == size


def test_equal_seeds_make_equal_keys(
    circuit_files: Make, device: AnyDevice, tmp_path: Path
) -> None:
    files = circuit_files("bn254")
    generate_key(files.r1cs, tmp_path / "again.zkey", 1, device=device)
    assert (tmp_path / "again.zkey").read_bytes() == files.zkey.read_bytes()
    generate_key(files.r1cs, tmp_path / "other.zkey", 2, device=device)
    other, first = Zkey.open(tmp_path / "other.zkey"), Zkey.open(files.zkey)
    for name in ("alpha_g1", "beta_g2", "delta_g1", "ic", "a", "h"):
        assert (getattr(other, name) != getattr(first, name)).any(), name


def test_key_is_tagged_as_insecure(circuit_files: Make) -> None:
    circuit_hash = Zkey.open(circuit_files("bn254").zkey).circuit_hash
    assert circuit_hash is not None
    assert circuit_hash.startswith(INSECURE_TAG)
    assert b"INSECURE TEST KEY" in INSECURE_TAG
    other = Zkey.open(circuit_files("bls12_381").zkey).circuit_hash
    assert other != circuit_hash
    assert ProvingKey.from_zkey(circuit_files("bn254").zkey).insecure


@pytest.mark.fixtures
def test_snarkjs_key_is_not_tagged_as_insecure(shared_fixtures: Path) -> None:
    key = ProvingKey.from_zkey(shared_fixtures / "circom" / "bn254-multiplier2" / "circuit.zkey")
    assert not key.insecure


def test_stages_are_reported(circuit_files: Make, tmp_path: Path) -> None:
    timeline = Timeline()
    generate_key(circuit_files("bn254").r1cs, tmp_path / "c.zkey", 1, timeline=timeline)
    names = [row.name for row in timeline.table()]
    assert names == [
        "read constraints", "scalars", "points of G1", "points of G2", "digest", "write key",
    ]  # fmt: skip


def test_invalid_files_are_rejected(circuit_files: Make, tmp_path: Path) -> None:
    files = circuit_files("bn254")
    with pytest.raises(InputError, match="r1cs"):
        generate_key(files.zkey, tmp_path / "c.zkey", 1)
    with pytest.raises(OutputError, match="directory"):
        generate_key(files.r1cs, tmp_path / "missing" / "c.zkey", 1)
    assert list(tmp_path.iterdir()) == []


UNCONSTRAINED = """
pragma circom 2.0.0;
template Sum() {
    signal input a;
    signal input b;
    signal input unused;
    signal input list[3];
    signal input p;
    signal output c;
    c <== a * b;
}
component main {public [a, p]} = Sum();
"""


@pytest.mark.thorough
@pytest.mark.node
def test_a_circuit_whose_inputs_are_unconstrained(tmp_path: Path) -> None:
    """circom counts them in the header and gives them no wire; snarkjs sets the circuit up."""
    (tmp_path / "c.circom").write_text(UNCONSTRAINED)
    (tmp_path / "input.json").write_text(
        '{"a": "3", "b": "5", "unused": "7", "list": ["1", "2", "3"], "p": "9"}'
    )
    for program, *arguments in (
        ("circom2", "c.circom", "--r1cs", "--wasm"),
        ("snarkjs", "powersoftau", "new", "bn128", "4", "a.ptau"),
        ("snarkjs", "powersoftau", "beacon", "a.ptau", "b.ptau", "01" * 32, "10"),
        ("snarkjs", "powersoftau", "prepare", "phase2", "b.ptau", "p.ptau"),
        ("snarkjs", "groth16", "setup", "c.r1cs", "p.ptau", "theirs.zkey"),
        ("snarkjs", "wtns", "calculate", "c_js/c.wasm", "input.json", "w.wtns"),
    ):
        done = run_program(program, *arguments, directory=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    system = R1cs.open(tmp_path / "c.r1cs")
    assert 1 + system.public + system.private_inputs > system.wires
    generate_key(tmp_path / "c.r1cs", tmp_path / "ours.zkey", 1)
    theirs, ours = Zkey.open(tmp_path / "theirs.zkey"), Zkey.open(tmp_path / "ours.zkey")
    for name in ("variables", "public", "domain_size", "constraints"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert (ours.coefficients == theirs.coefficients).all()
    # A variable without terms has the point at infinity, in their key and in ours.
    for name in ("a", "b_g1", "b_g2"):
        finite = [getattr(key, name).any(axis=tuple(range(1, getattr(key, name).ndim)))
                  for key in (theirs, ours)]  # fmt: skip
        assert (finite[0] == finite[1]).all(), name
    for key in ("theirs.zkey", "ours.zkey"):
        _, public = ProvingKey.from_zkey(tmp_path / key).prove(tmp_path / "w.wtns")
        assert public == [15, 3, 9]


@pytest.mark.node
@pytest.mark.parametrize("curve", ["bn254", pytest.param("bls12_381", marks=pytest.mark.thorough)])
def test_snarkjs_proves_with_the_key(circuit_files: Make, curve: str, tmp_path: Path) -> None:
    files = circuit_files(curve)
    vkey, proof, public = (tmp_path / name for name in ("vk.json", "proof.json", "public.json"))
    for arguments in (
        ("zkey", "export", "verificationkey", files.zkey, vkey),
        ("groth16", "prove", files.zkey, files.wtns, proof, public),
        ("groth16", "verify", vkey, public, proof),
    ):
        done = run_program("snarkjs", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    assert circom.read_public(public) == files.circuit.public
    # The reference takes what snarkjs made.
    key = circom.read_verification_key(vkey)
    assert groth16.verify(key, files.circuit.public, circom.read_proof(proof))
