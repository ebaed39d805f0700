"""Each changed proof, statement and vanilla proof is refused, for the four kinds of proofs.

Proofs are simulated under keys whose secrets are known, as keys of PoRep take minutes to make. The
proof of a WindowPoSt is a real one; thorough tests change real ones of the other kinds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from quod.device import open_device
from quod.errors import InputError
from quod.filecoin.checks.circuit_inputs import (
    checked_commit_inputs,
    checked_post_inputs,
    checked_update_inputs,
)
from quod.filecoin.circuits.private_inputs import CircuitInputs
from quod.filecoin.parameters import ParameterSet, ProofKind, read_verifying_key
from quod.filecoin.proving import Prover, verify_proof
from quod.filecoin.registered_proofs import post_proof, seal_proof
from quod.filecoin.sectors import sector_shape
from quod.filecoin.statements import PoStSector, PoStStatement, SealStatement, Statement
from quod.frozen import replace
from quod.groth16 import VerifyingKey
from quod.groth16.encodings.bellman import proof_from_bytes
from tests.filecoin.made_parameters import POREP, UPDATE, WINDOW, WINNING, write_parameters
from tests.filecoin.mutations import Route, changed, routes
from tests.filecoin.sealed import MINER, RANDOMNESS, SECTOR, commit_output, sealed, updated
from tests.filecoin.simulated import SimulatedKey
from tests.support.thorough import one_and_others

COUNT = 100
ALWAYS = ("window", "winning")
"""Kinds whose changes `make test` tries, too."""


class Case(NamedTuple):
    """A statement with its vanilla proof.

    record: the vanilla proof, or the output of C1.
    checked_inputs: the inputs of the circuit, of a vanilla proof that is checked first.
    other_statements: routes of fields and the values to which they are changed.
    """

    parameters: ParameterSet
    statement: Statement
    record: Any
    checked_inputs: Callable[[Any], list[CircuitInputs]]
    fields: list[Route]
    other_statements: dict[str, Any]


@cache
def case_of(kind: str) -> Case:
    device = open_device("cpu")
    if kind == "porep":
        output = commit_output()
        configs = [seal_proof(number).config() for number in (0, 6, 8, 10)]
        return Case(
            POREP, SealStatement.of_output(output), output,
            lambda record: list(
                checked_commit_inputs(record, miner=MINER, sector_number=SECTOR, device=device)
            ),
            [("replica_id",), ("comm_d",), ("comm_r",), ("seed",)], {"config": configs},
        )  # fmt: skip
    if kind == "update":
        statement = updated().statement
        shapes = [sector_shape(size) for size in (4 << 10, 16 << 10, 32 << 30)]
        return Case(
            UPDATE, statement, updated().partition_proof(0),
            lambda record: list(checked_update_inputs(statement, [record], device=device)),
            [("comm_r_old",), ("comm_d_new",), ("comm_r_new",)], {"sector": shapes},
        )  # fmt: skip
    number, parameters = (10, WINDOW) if kind == "window" else (0, WINNING)
    sectors = (PoStSector(SECTOR, sealed().comm_r),)
    post = PoStStatement(post_proof(number), RANDOMNESS, sectors)
    fields: list[Route] = [("randomness",), ("sectors", 0, "sector_id"), ("sectors", 0, "comm_r")]
    proofs = [post_proof(other) for other in (0, 1, 5, 10, 11, 13) if other != number]
    if kind == "window":
        # The challenges of version 1.0 are those of 1.2 for the first sector.
        proofs.remove(post_proof(5))
    return Case(
        parameters, post, sealed().post_proof(SECTOR, post.challenges(0)),
        lambda record: list(checked_post_inputs(post, [record], device=device)), fields,
        {"proof": proofs, "sectors": [(), sectors * 2]},
    )  # fmt: skip


def is_refused(key: VerifyingKey, statement: Statement, proof: bytes) -> bool:
    """Return whether a proof is not valid, or malformed."""
    try:
        return not verify_proof(key, statement, proof)
    except InputError:
        return True


@pytest.fixture(scope="module")
def proofs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[VerifyingKey, bytes]]:
    """A function from a kind to a key and a valid proof; that of a WindowPoSt is a real one."""

    @cache
    def key_and_proof(kind: str) -> tuple[VerifyingKey, bytes]:
        case = case_of(kind)
        if kind == "window":
            return real_proof(case, request.getfixturevalue("window_folder"))
        simulated = SimulatedKey(case.parameters.public)
        path = simulated.write(tmp_path_factory.mktemp("key") / "vk")
        key = read_verifying_key(case.parameters, path, trusted=True)
        return key, simulated.prove_statement(case.statement)

    return key_and_proof


def real_proof(case: Case, folder: Path) -> tuple[VerifyingKey, bytes]:
    prover = Prover(case.parameters, folder, checked=False)
    proof = prover.prove(case.statement, case.checked_inputs(case.record))
    prover.close()
    return read_verifying_key(case.parameters, folder, allow_insecure=True), proof


KINDS = one_and_others(("window", "winning", "porep", "update"), always=ALWAYS)


@pytest.mark.parametrize("kind", KINDS)
def test_changed_proofs_and_statements(
    kind: str, proofs: Callable[[str], tuple[VerifyingKey, bytes]]
) -> None:
    key, proof = proofs(kind)
    check_changed_proofs(case_of(kind), key, proof)
    check_changed_statements(case_of(kind), key, proof)


def check_changed_proofs(case: Case, key: VerifyingKey, proof: bytes) -> None:
    """Change a hundred bits, and cut and extend the proof."""
    chance, statement = random.Random(1), case.statement
    assert verify_proof(key, statement, proof)
    for _ in range(COUNT):
        other = bytearray(proof)
        other[chance.randrange(len(proof))] ^= 1 << chance.randrange(8)
        assert is_refused(key, statement, bytes(other))
    for length in (0, 1, 47, 191, 193):
        with pytest.raises(InputError, match="the proof must be 192 bytes, not"):
            verify_proof(key, statement, (proof + b"\0")[:length])


def check_changed_statements(case: Case, key: VerifyingKey, proof: bytes) -> None:
    """Change a hundred public inputs, and the fields from which they follow."""
    chance, statement = random.Random(2), case.statement
    inputs, decoded = statement.public_inputs(0), proof_from_bytes(proof)
    for _ in range(COUNT // 2):
        others, index = list(inputs), chance.randrange(len(inputs))
        others[index] ^= 1 << chance.randrange(250)
        assert not key.verify(others, decoded)
    for _ in range(COUNT // 2):
        route = chance.choice(case.fields)
        try:
            other = changed(statement, route, chance)
        except InputError:
            continue
        # Two bits of the randomness of a PoSt have no effect.
        if other.public_inputs(0) == inputs:
            assert route == ("randomness",)
            assert other.randomness[:-1] == statement.randomness[:-1]  # type: ignore[attr-defined]
            continue
        assert is_refused(key, other, proof)
    for field, values in case.other_statements.items():
        for value in values:
            try:
                other = replace(statement, **{field: value})
            except InputError:
                continue
            # Updates of 2 and of 4 KiB have equal public inputs, and keys of their own.
            if other.partitions > 1 or other.public_inputs(0) != inputs:
                assert is_refused(key, other, proof)
            else:
                assert other.parameters == ParameterSet(ProofKind.UPDATE, sector_shape(4 << 10))


@pytest.mark.parametrize("kind", KINDS)
def test_changed_vanilla_proofs(kind: str) -> None:
    """A hundred changed fields and lists, each refused with the name of a field."""
    case, chance = case_of(kind), random.Random(3)
    for route in chance.sample([*routes(case.record)], COUNT):
        check_refused(case, route, chance)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["porep", "window", "winning", "update"])
def test_each_field_of_vanilla_proofs(kind: str) -> None:
    case, chance = case_of(kind), random.Random(4)
    for route in routes(case.record):
        check_refused(case, route, chance)


def check_refused(case: Case, route: Route, chance: random.Random) -> None:
    """Change a field of the vanilla proof, which must be refused with the name of a field."""
    record = changed(case.record, route, chance)
    with pytest.raises(InputError) as refused:
        case.checked_inputs(record)
    assert refused.value.section, (route, str(refused.value))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "parameters"), [("winning", WINNING), ("update", UPDATE), ("porep", POREP)]
)
def test_changes_of_real_proofs(kind: str, parameters: ParameterSet, tmp_path: Path) -> None:
    write_parameters(parameters, tmp_path)
    key, proof = real_proof(case_of(kind), tmp_path)
    check_changed_proofs(case_of(kind), key, proof)
    check_changed_statements(case_of(kind), key, proof)
