"""Hyrax on every device against plain integers, its bases, and hostile proofs."""

from __future__ import annotations

import pytest
from py_ecc import bn128

from quod.commitment import Claim, Hyrax
from quod.commitment.hyrax_bases import GROUP, hashed_base, hashed_bases
from quod.curve import to_points
from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError, VerificationError
from quod.field import EXTENSIONS, NAMED, from_integers
from quod.transcript import ProofReader, ProofWriter, Transcript
from quod.transcript.points import decode_points
from tests.commitment.statements import (
    FIELD,
    R,
    Statement,
    agrees,
    begun,
    check_hostile_bytes,
    check_other_claims,
    prove,
    refused,
    statement,
    verify,
)
from tests.reference import hyrax as reference

SCHEME = Hyrax()


def model(prover: reference.Prover, instance: Statement) -> None:
    reference.commit(prover, instance.table, instance.variables)
    reference.open_claims(prover, instance.table, instance.variables, instance.plain)


@pytest.mark.parametrize(("variables", "claims"), [(1, 1), (4, 2), (5, 3)])
def test_agrees_with_the_model(device: AnyDevice, variables: int, claims: int) -> None:
    agrees(SCHEME, device, statement(variables, claims), model)


@pytest.mark.thorough
def test_gpu_code_matches_the_model(gpu_device: AnyDevice) -> None:
    agrees(SCHEME, gpu_device, statement(1, 1), model)


def test_bases_match_py_ecc_and_the_model() -> None:
    points = to_points(GROUP, hashed_bases(4))
    assert len({x for x, _ in filter(None, points)}) == 16
    for number, point in enumerate(points):
        assert point == hashed_base(number) == reference.base(number)
        assert bn128.is_on_curve(tuple(map(bn128.FQ, point)), bn128.b)
        assert reference.CURVE.mul(R, point) is None


def test_commitment_matches_py_ecc() -> None:
    instance = statement(2, 1)
    proof, _ = prove(SCHEME, open_device("cpu"), instance)
    bases = [tuple(map(bn128.FQ, hashed_base(number))) for number in range(2)]
    for row, point in zip(
        (instance.table[:2], instance.table[2:]), decode_points(GROUP, proof[:64])
    ):
        total = None
        for scalar, base in zip(row, bases, strict=True):
            total = bn128.add(total, bn128.multiply(base, scalar))
        assert point == (None if total is None else tuple(int(c) for c in total))


def test_the_size_of_proofs() -> None:
    for variables in (3, 4):
        instance = statement(variables, 1)
        rows, columns = 1 << variables // 2, 1 << (variables - variables // 2)
        assert len(prove(SCHEME, open_device("cpu"), instance)[0]) == 32 * (rows + columns)


@pytest.fixture(scope="module", params=[1, 2])
def proven(request: pytest.FixtureRequest) -> tuple[Statement, bytes]:
    instance = statement(3, request.param, seed=3)
    return instance, prove(SCHEME, open_device("cpu"), instance)[0]


def test_mutated_proofs_are_refused(proven: tuple[Statement, bytes]) -> None:
    check_hostile_bytes(SCHEME, *proven)


def test_other_claims_are_refused(proven: tuple[Statement, bytes]) -> None:
    check_other_claims(SCHEME, *proven)


def test_another_transcript_or_size_is_refused(proven: tuple[Statement, bytes]) -> None:
    instance, proof = proven
    if len(instance.claims) == 2:
        reader = ProofReader(proof, Transcript())
        read = SCHEME.read(reader, FIELD, instance.variables)
        with pytest.raises(VerificationError):
            read.check(instance.claims, reader)
    for variables in (1, 2, 4):
        point = (instance.claims[0].point * 2)[:variables]
        refused(SCHEME, variables, [Claim(point, instance.claims[0].value)], proof)


def test_wrong_row_with_the_right_value_is_rejected() -> None:
    """The inner product alone would take it."""
    instance = statement(4, 1, seed=7)
    proof, _ = prove(SCHEME, open_device("cpu"), instance)
    weights = reference.eq(instance.plain[0][0][2:])
    row = [int.from_bytes(proof[at : at + 32], "little") for at in range(128, 256, 32)]
    row[0] = (row[0] + weights[1]) % R
    row[1] = (row[1] - weights[0]) % R
    forged = proof[:128] + reference.elements(row)
    with pytest.raises(VerificationError, match="does not match the commitment"):
        verify(SCHEME, instance.variables, instance.claims, forged)


def test_invalid_arguments_are_rejected() -> None:
    device = open_device("cpu")
    for field in (NAMED["m31"], EXTENSIONS["m31.4"], NAMED["bls12_381.fr"], NAMED["bn254.fq"]):
        with pytest.raises(InputError, match=r"of bn254\.fr"):
            SCHEME.committer(device, field, 2)
        with pytest.raises(InputError, match=r"of bn254\.fr"):
            SCHEME.read(ProofReader(b"", begun()), field, 2)
    with pytest.raises(InputError, match="at least one variable"):
        SCHEME.committer(device, FIELD, 0)
    committer, writer = SCHEME.committer(device, FIELD, 2), ProofWriter(begun())
    instance = statement(2, 1)
    with pytest.raises(InputError, match="open needs a commitment"):
        committer.open(instance.claims, writer)
    with pytest.raises(InputError, match="128"):
        committer.commit(device.upload(from_integers(FIELD, [1, 2])), writer)
    with pytest.raises(InputError, match="at least one Claim"):
        committer.open([], writer)
    assert SCHEME.error_terms(FIELD, 24)["claims combined"] < 2**-240
    assert (SCHEME.name, SCHEME.parameters()) == ("hyrax", "hyrax bn254.g1")
