"""The reference prover and verifier against snarkjs's keys and proofs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference.circom import (
    Proof,
    read_proof,
    read_public,
    read_verification_key,
    read_wtns,
    read_zkey,
)
from tests.reference.curve import g1_of
from tests.reference.groth16 import prove, verify, verifying_key
from tests.support.thorough import one_and_others

pytestmark = pytest.mark.fixtures
SMALL = ["bn254-multiplier2", "bls12_381-multiplier2"]
EACH = [*SMALL, "bn254-poseidon", "bls12_381-poseidon"]


@pytest.mark.parametrize("name", one_and_others(EACH))
def test_proves_under_snarkjs_keys(shared_fixtures: Path, name: str) -> None:
    folder = shared_fixtures / "circom" / name
    key = read_zkey(folder / "circuit.zkey")
    witness = read_wtns(folder / "witness.wtns")
    proof, public = prove(key, witness, 0xC0FFEE, 0xDEC0DE)
    assert public == read_public(folder / "public.json")
    assert verify(verifying_key(key), public, proof)
    blinded, _ = prove(key, witness, 1, 0)
    assert blinded != proof


@pytest.mark.parametrize("name", EACH)
def test_accepts_proofs_of_snarkjs(shared_fixtures: Path, name: str) -> None:
    folder = shared_fixtures / "circom" / name
    key = read_verification_key(folder / "verification_key.json")
    public = read_public(folder / "public.json")
    proof = read_proof(folder / "circom.proof")
    assert verify(key, public, proof)
    assert key == verifying_key(read_zkey(folder / "circuit.zkey"))


@pytest.mark.parametrize("name", SMALL)
def test_rejects_changed_proofs(shared_fixtures: Path, name: str) -> None:
    folder = shared_fixtures / "circom" / name
    key = read_verification_key(folder / "verification_key.json")
    public = read_public(folder / "public.json")
    proof = read_proof(folder / "circom.proof")
    group = g1_of(key.curve)
    r = key.curve.fr.value
    assert not verify(key, [public[0] + 1, *public[1:]], proof)
    assert not verify(key, [public[0] + r, *public[1:]], proof)
    assert not verify(key, [public[0] - r, *public[1:]], proof)
    assert not verify(key, public[1:], proof)
    assert not verify(key, [*public, 0], proof)
    assert not verify(key, public, replace(proof, a=group.neg(proof.a)))
    assert not verify(key, public, replace(proof, a=proof.c, c=proof.a))
    assert not verify(key, public, Proof(None, proof.b, proof.c))
    assert not verify(key, public, Proof(proof.a, None, proof.c))
    assert not verify(key, public, Proof(proof.a, proof.b, None))
    assert proof.a is not None
    assert not verify(key, public, replace(proof, a=(proof.a[0], proof.a[1] + 1)))


def test_refuses_points_outside_the_subgroup(shared_fixtures: Path) -> None:
    """A point of the small subgroup added to A leaves the pairing alone, not the verifier."""
    folder = shared_fixtures / "circom/bls12_381-multiplier2"
    key = read_verification_key(folder / "verification_key.json")
    proof = read_proof(folder / "circom.proof")
    group = g1_of(key.curve)
    r = key.curve.fr.value
    small = next(p for x in range(1, 99) if (p := group.mul(r, group.lift_x(x))) is not None)
    moved = replace(proof, a=group.add(proof.a, small))
    assert group.contains(moved.a)
    assert not verify(key, read_public(folder / "public.json"), moved)


@pytest.mark.thorough
def test_wrong_witness_and_wrong_roots(shared_fixtures: Path) -> None:
    folder = shared_fixtures / "circom/bls12_381-multiplier2"
    key = read_zkey(folder / "circuit.zkey")
    witness = read_wtns(folder / "witness.wtns")
    proof, public = prove(key, witness, 3, 5, family="arkworks")
    assert not verify(verifying_key(key), public, proof)
    wrong = [*witness[:-1], witness[-1] + 1]
    proof, public = prove(key, wrong, 3, 5)
    assert not verify(verifying_key(key), public, proof)
