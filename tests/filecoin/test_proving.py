"""Proofs of spacetime of a sector of 2 KiB, verified, and refused after changes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from quod.errors import InputError, MismatchError
from quod.filecoin.challenges import window_challenges
from quod.filecoin.checks.circuit_inputs import checked_post_inputs
from quod.filecoin.parameters import read_verifying_key
from quod.filecoin.proving import Prover, prove_commit, prove_post, prove_update, verify_proof
from quod.filecoin.records import CommitOutput, PoStSectorProof, SectorProof
from quod.filecoin.registered_proofs import post_proof, seal_proof
from quod.filecoin.statements import PoStSector, PoStStatement, SealStatement, UpdateStatement
from quod.frozen import replace
from quod.groth16 import VerifyingKey
from quod.r1cs import UnsatisfiedError
from tests.filecoin.made_parameters import POREP, UPDATE, WINDOW, WINNING, write_parameters
from tests.filecoin.sealed import (
    MINER,
    RANDOMNESS,
    SECTOR,
    commit_output,
    post_sector,
    sealed,
    update_partition,
)

WINDOW_PROOF, WINNING_PROOF = post_proof(10), post_proof(0)
NODE = bytes(31) + b"\1"


def vanilla_proof(sector_id: int, position: int = 0, number: int = 10) -> PoStSectorProof:
    """Return the vanilla proof of `sealed()` under a sector number."""
    proof = post_proof(number)
    nodes = window_challenges(proof.sector, proof.api_version, RANDOMNESS, sector_id, position)
    return sealed().post_proof(sector_id, nodes)


def statement_of(*numbers: int, number: int = 10) -> PoStStatement:
    sectors = tuple(PoStSector(each, sealed().comm_r) for each in numbers)
    return PoStStatement(post_proof(number), RANDOMNESS, sectors)


@pytest.fixture(scope="module")
def prover(window_folder: Path) -> Iterator[Prover]:
    window_prover = Prover(WINDOW, window_folder, checked=False)
    assert window_prover.insecure
    yield window_prover
    window_prover.close()


@pytest.fixture(scope="module")
def key(window_folder: Path) -> VerifyingKey:
    return read_verifying_key(WINDOW, window_folder, allow_insecure=True)


@pytest.fixture(scope="module")
def proof(prover: Prover) -> bytes:
    """The WindowPoSt of three sectors, in two partitions."""
    statement = statement_of(7, 8, 9)
    return prove_post(prover, statement, [vanilla_proof(each) for each in (7, 8, 9)])


def test_a_window_post(proof: bytes, key: VerifyingKey) -> None:
    assert len(proof) == 2 * 192
    assert verify_proof(key, statement_of(7, 8, 9), proof)


def test_other_statements(proof: bytes, key: VerifyingKey) -> None:
    """Other sectors, randomness, versions, and partitions in another order."""
    statement = statement_of(7, 8, 9)
    for other in (statement_of(7, 8, 10), statement_of(6, 8, 9), statement_of(7, 8, 9, number=5)):
        assert not verify_proof(key, other, proof)
    changed = PoStStatement(WINDOW_PROOF, bytes(32), statement.sectors)
    assert not verify_proof(key, changed, proof)
    sectors = (*statement.sectors[:2], PoStSector(9, NODE))
    assert not verify_proof(key, PoStStatement(WINDOW_PROOF, RANDOMNESS, sectors), proof)
    assert not verify_proof(key, statement, proof[192:] + proof[:192])
    with pytest.raises(InputError, match="the proof must be 192 bytes"):
        verify_proof(key, statement_of(7, 8), proof)
    with pytest.raises(MismatchError, match="the key has 22 public inputs; winning-2KiB needs"):
        verify_proof(key, PoStStatement(WINNING_PROOF, RANDOMNESS, sectors[:1]), proof[:192])


def test_changed_proofs(proof: bytes, key: VerifyingKey) -> None:
    chance, statement = random.Random(6), statement_of(7, 8, 9)
    for _ in range(100):
        changed = bytearray(proof)
        changed[chance.randrange(len(proof))] ^= 1 << chance.randrange(8)
        try:
            assert not verify_proof(key, statement, bytes(changed))
        except InputError:
            continue
    for length in (0, 1, 191, 192, 383, 385):
        with pytest.raises(InputError, match="the proof must be 384 bytes"):
            verify_proof(key, statement, (proof + b"\0")[:length])


def test_vanilla_proofs_of_another_randomness(prover: Prover) -> None:
    statement = PoStStatement(WINDOW_PROOF, bytes(32), statement_of(7).sectors)
    with pytest.raises(
        InputError, match=r"proofs\[0\]\.vanilla_proof\.sectors\[0\]\.inclusion_proofs\[0\]"
    ):
        prove_post(prover, statement, [vanilla_proof(7)])
    # Before version 1.2 the challenges depend on the sector's position.
    old = statement_of(6, 7, number=5)
    with pytest.raises(InputError, match=r"proofs\[1\]\.vanilla_proof\.sectors\[0\]"):
        prove_post(prover, old, [vanilla_proof(6, 0, 5), vanilla_proof(7, 0, 5)])


def test_vanilla_proofs_that_do_not_fit(prover: Prover) -> None:
    statement, proof = statement_of(7), vanilla_proof(7)
    with pytest.raises(InputError, match="proofs: must have 1 entries, not 0"):
        prove_post(prover, statement, [])
    with pytest.raises(MismatchError, match=r"proofs\[0\]\.sector_id"):
        prove_post(prover, statement, [vanilla_proof(8)])
    changed = PoStSectorProof(7, NODE, proof.vanilla_proof)
    with pytest.raises(MismatchError, match=r"proofs\[0\]\.comm_r"):
        prove_post(prover, statement, [changed])
    both = PoStSectorProof(7, proof.comm_r, proof.vanilla_proof * 2)
    with pytest.raises(InputError, match=r"proofs\[0\]\.vanilla_proof: must have 1 entries, not 2"):
        prove_post(prover, statement, [both])
    vanilla = proof.vanilla_proof[0]
    other = SectorProof(vanilla.inclusion_proofs, NODE, vanilla.comm_r_last)
    with pytest.raises(InputError, match=r"section proofs\[0\]\.comm_r: is not the hash"):
        prove_post(prover, statement, [PoStSectorProof(7, proof.comm_r, (other,))])


def test_a_wrong_hash_of_a_path_is_named(prover: Prover) -> None:
    statement, wrong = statement_of(7, 8, 9), vanilla_proof(9)
    (sector,) = wrong.vanilla_proof
    first, *others = sector.inclusion_proofs
    element, *upper = first.base_proof
    element = replace(element, hashes=(NODE, *element.hashes[1:]))
    changed = replace(first, base_proof=(element, *upper))
    sector = replace(sector, inclusion_proofs=(changed, *others))
    proofs = [vanilla_proof(7), vanilla_proof(8), replace(wrong, vanilla_proof=(sector,))]
    with pytest.raises(InputError) as raised:
        prove_post(prover, statement, proofs)
    assert raised.value.section == "proofs[2].vanilla_proof.sectors[0].inclusion_proofs[0]"
    # Without the check of vanilla proofs, the constraint is named.
    inputs = [*checked_post_inputs(statement, proofs, paths=False)]
    with pytest.raises(UnsatisfiedError, match=r"sectors\[0\].*constraint"):
        prover.prove(statement, inputs)
    with pytest.raises(UnsatisfiedError, match=r"sectors\[0\].*constraint"):
        prover.prove_partition(statement, 1, inputs[1], prover.witness(inputs[1]))


def test_other_parameters(prover: Prover) -> None:
    match = "the statement needs the parameters {}; the prover has window-2KiB"
    with pytest.raises(MismatchError, match=match.format("porep-2KiB")):
        prove_commit(prover, commit_output())
    with pytest.raises(MismatchError, match=match.format("window-8MiB")):
        prove_post(prover, statement_of(7, number=11), [vanilla_proof(7)])
    update, *commitments = update_partition()
    statement = UpdateStatement(WINDOW.sector, *commitments)
    with pytest.raises(MismatchError, match=match.format("update-2KiB")):
        prove_update(prover, statement, [update])
    with pytest.raises(InputError, match="must be of the type PoStStatement, not bytes"):
        prove_post(prover, b"", [])  # type: ignore[arg-type]


def test_statements_that_are_refused() -> None:
    for numbers in ((7, 7), (8, 7)):
        with pytest.raises(InputError, match=r"sectors\[1\]\.sector_id: must be above"):
            statement_of(*numbers)
    with pytest.raises(InputError, match="sectors: must have at least one sector"):
        statement_of()
    with pytest.raises(InputError, match="sectors: must have one sector, not 2"):
        statement_of(7, 8, number=0)
    with pytest.raises(InputError, match="is an aggregate"):
        SealStatement(seal_proof(15).config(), NODE, NODE, NODE, NODE)
    with pytest.raises(InputError, match="seed: must not be zero"):
        SealStatement(seal_proof(5).config(), NODE, NODE, NODE, bytes(32))
    with pytest.raises(InputError, match="comm_d is not below the modulus"):
        SealStatement(seal_proof(5).config(), NODE, b"\xff" * 32, NODE, NODE)
    with pytest.raises(InputError, match="h must be one of"):
        UpdateStatement(WINDOW.sector, NODE, NODE, NODE, 7)
    with pytest.raises(InputError, match="the randomness must be 32 bytes"):
        PoStStatement(WINDOW_PROOF, b"", (PoStSector(7, NODE),))


@pytest.mark.thorough
def test_a_winning_post(tmp_path: Path) -> None:
    write_parameters(WINNING, tmp_path)
    prover, statement = Prover(WINNING, tmp_path, checked=False), statement_of(SECTOR, number=0)
    key = read_verifying_key(WINNING, tmp_path, allow_insecure=True)
    proof = prove_post(prover, statement, [post_sector(66)])
    prover.close()
    assert len(proof) == 192
    assert verify_proof(key, statement, proof)
    assert not verify_proof(key, statement_of(8, number=0), proof)


@pytest.mark.thorough
def test_an_update(tmp_path: Path) -> None:
    write_parameters(UPDATE, tmp_path)
    vanilla, *commitments = update_partition()
    statement = UpdateStatement(UPDATE.sector, *commitments)
    prover = Prover(UPDATE, tmp_path, checked=False)
    proof = prove_update(prover, statement, [vanilla])
    prover.close()
    key = read_verifying_key(UPDATE, tmp_path, allow_insecure=True)
    assert verify_proof(key, statement, proof)
    old, data, new = commitments
    assert not verify_proof(key, UpdateStatement(UPDATE.sector, new, data, old), proof)


@pytest.mark.thorough
def test_a_proof_of_replication(tmp_path: Path) -> None:
    """The 2.7 million constraints of 2 KiB, for an interactive and a synthetic PoRep."""
    write_parameters(POREP, tmp_path)
    prover = Prover(POREP, tmp_path, checked=False)
    key = read_verifying_key(POREP, tmp_path, allow_insecure=True)
    for number in (5, 10):
        output: CommitOutput = commit_output(number)
        proof = prove_commit(prover, output, miner=MINER, sector_number=SECTOR)
        statement = SealStatement.of_output(output)
        assert verify_proof(key, statement, proof)
        other = SealStatement(
            statement.config, statement.replica_id, statement.comm_d, statement.comm_r, NODE
        )
        assert not verify_proof(key, other, proof)
    prover.close()
