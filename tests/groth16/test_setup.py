"""Keys from constraint systems: right by the reference model, and accepted by snarkjs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quod.curve.parameters import CURVES
from quod.device.protocol import AnyDevice
from quod.device.timeline import Timeline
from quod.errors import InputError, OutputError
from quod.formats import Zkey
from quod.groth16 import INSECURE_MARK, ProvingKey, generate_key
from tests.groth16.circuits import Circuit, recurrence
from tests.groth16.conftest import Made
from tests.node import run_program
from tests.reference import circom, groth16

Make = Callable[[str], Made]

# The constant alone; nothing but a public input; a single constraint without public ones.
TRIVIAL = {
    "nothing": Circuit("bn254", [], [], [], [1], 0, 0),
    "one input": Circuit("bls12_381", [], [], [], [1, 7], 0, 1),
    "one constraint": Circuit("bn254", [[(1, 1)]], [[(1, 1)]], [[(0, 9)]], [1, 3], 0, 0),
}


@pytest.mark.parametrize("curve", CURVES)
def test_the_reference_prover_takes_the_key(made: Make, curve: str) -> None:
    own = made(curve)
    key, witness = circom.read_zkey(own.zkey), circom.read_wtns(own.wtns)
    proof, public = groth16.prove(key, witness, 12345, 67890)
    verifying_key = groth16.verifying_key(key)
    assert public == own.circuit.public
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


@pytest.mark.parametrize("curve", CURVES)
def test_what_the_key_says_of_the_circuit(made: Make, curve: str) -> None:
    own = made(curve)
    zkey = Zkey.open(own.zkey)
    zkey.check_points_below_modulus()
    assert zkey.curve == curve
    assert zkey.public == 2
    assert zkey.variables == len(own.circuit.witness)
    assert zkey.constraints == len(own.circuit.a)
    assert zkey.domain_size == 32
    assert zkey.contributions == 0


@pytest.mark.parametrize("curve", CURVES)
def test_the_rows_that_tie_the_public_variables(made: Make, curve: str) -> None:
    own = made(curve)
    entries = circom.read_zkey(own.zkey).coefficients
    rows = len(own.circuit.a)
    assert entries[-3:] == [(0, rows, 0, 1), (0, rows + 1, 1, 1), (0, rows + 2, 2, 1)]
    r = CURVES[curve].fr.value
    expected = [
        (matrix, number, wire, value % r)
        for number, pair in enumerate(zip(own.circuit.a, own.circuit.b))
        for matrix, row in enumerate(pair)
        for wire, value in row
    ]
    assert entries[:-3] == expected


def test_the_domain_is_the_least_that_holds_constraints_and_public_rows(tmp_path: Path) -> None:
    # 32 rows are needed for 28 steps: one constraint each, one empty, three that tie.
    for steps, size in ((28, 32), (29, 64)):
        circuit = recurrence("bn254", steps)
        generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", 1)
        assert Zkey.open(tmp_path / "c.zkey").domain_size == size


def test_equal_seeds_make_equal_keys(made: Make, device: AnyDevice, tmp_path: Path) -> None:
    own = made("bn254")
    generate_key(own.r1cs, tmp_path / "again.zkey", 1, device=device)
    assert (tmp_path / "again.zkey").read_bytes() == own.zkey.read_bytes()
    generate_key(own.r1cs, tmp_path / "other.zkey", 2, device=device)
    other, first = Zkey.open(tmp_path / "other.zkey"), Zkey.open(own.zkey)
    for name in ("alpha_g1", "beta_g2", "gamma_g2", "delta_g1", "a", "h"):
        assert (getattr(other, name) != getattr(first, name)).any(), name


def test_the_key_says_that_it_is_insecure(made: Make) -> None:
    circuit_hash = Zkey.open(made("bn254").zkey).circuit_hash
    assert circuit_hash is not None
    assert circuit_hash.startswith(INSECURE_MARK)
    assert b"INSECURE TEST KEY" in INSECURE_MARK
    other = Zkey.open(made("bls12_381").zkey).circuit_hash
    assert other != circuit_hash
    assert ProvingKey.from_zkey(made("bn254").zkey).insecure


@pytest.mark.fixtures
def test_a_key_of_snarkjs_does_not_say_so(shared_fixtures: Path) -> None:
    key = ProvingKey.from_zkey(shared_fixtures / "circom" / "bn254-multiplier2" / "circuit.zkey")
    assert not key.insecure


def test_stages_are_reported(made: Make, tmp_path: Path) -> None:
    timeline = Timeline()
    generate_key(made("bn254").r1cs, tmp_path / "c.zkey", 1, timeline=timeline)
    names = [row.name for row in timeline.table()]
    assert names == [
        "read constraints", "scalars", "points of G1", "points of G2", "digest", "write key",
    ]  # fmt: skip


def test_bad_files(made: Make, tmp_path: Path) -> None:
    own = made("bn254")
    with pytest.raises(InputError, match="r1cs"):
        generate_key(own.zkey, tmp_path / "c.zkey", 1)
    with pytest.raises(OutputError, match="directory"):
        generate_key(own.r1cs, tmp_path / "missing" / "c.zkey", 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.node
@pytest.mark.parametrize("curve", ["bn254", "bls12_381"])
def test_snarkjs_proves_with_the_key(made: Make, curve: str, tmp_path: Path) -> None:
    own = made(curve)
    vkey, proof, public = (tmp_path / name for name in ("vk.json", "proof.json", "public.json"))
    for arguments in (
        ("zkey", "export", "verificationkey", own.zkey, vkey),
        ("groth16", "prove", own.zkey, own.wtns, proof, public),
        ("groth16", "verify", vkey, public, proof),
    ):
        done = run_program("snarkjs", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    assert circom.read_public(public) == own.circuit.public
    # The reference takes what snarkjs made.
    key = circom.read_verification_key(vkey)
    assert groth16.verify(key, own.circuit.public, circom.read_proof(proof))
