"""HyperKZG on every device against plain integers, an independent pairing, and hostile proofs."""

from __future__ import annotations

from typing import Any

import pytest
from py_ecc import optimized_bn128 as bn128

from quod.commitment import HyperKzg, ReferenceString
from quod.commitment.polynomial_kernels import LENGTH, record_quotient
from quod.commitment.rows import downloaded
from quod.commitment.three_points import drawn_point, interpolated
from quod.curve.groups import GROUPS
from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError, VerificationError
from quod.field import NAMED, from_integers
from quod.transcript import Label, ProofReader, ProofWriter
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
from tests.reference import hyperkzg as reference
from tests.reference.hyrax import Prover
from tests.support.thorough import one_and_others

TAU = 0x1234567890ABCDEF << 180
REFERENCE = ReferenceString.of_tau(TAU, 5, insecure=True)
SCHEME = HyperKzg(REFERENCE)
G1 = GROUPS["bn254.g1"]


def model(prover: Prover, instance: Statement) -> None:
    reference.commit(prover, instance.table, TAU)
    reference.open_claims(prover, instance.table, TAU, instance.plain)


@pytest.mark.parametrize(
    ("variables", "claims"), one_and_others([(1, 1), (4, 2), (5, 3)], [(1, 1), (4, 2)])
)
def test_agrees_with_the_model(device: AnyDevice, variables: int, claims: int) -> None:
    agrees(SCHEME, device, statement(variables, claims), model)


@pytest.mark.parametrize("log_small", [0, 2])
def test_large_folds_match_small_folds(
    device: AnyDevice, log_small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed to one by one, and looked at by the device."""
    monkeypatch.setattr("quod.commitment.hyperkzg_prover._LOG_SMALL", log_small)
    agrees(SCHEME, device, statement(4, 1), model)


@pytest.mark.thorough
def test_gpu_code_matches_the_model(gpu_device: AnyDevice) -> None:
    agrees(SCHEME, gpu_device, statement(1, 1), model)


@pytest.mark.parametrize(
    ("count", "stride"),
    [(1, 1), (2, 2), (3, 1), (LENGTH, 1), (2 * LENGTH + 1, 2), (2 * LENGTH**2 + 77, 1)],
)
def test_quotients_agree_with_the_model(device: AnyDevice, count: int, stride: int) -> None:
    """One chunk, several chunks, and nested chunks."""
    coefficients = [(R - 1 - pow(3, place, R)) if place % 7 else 0 for place in range(count)]
    multiplier = R - 5
    expected, _ = reference.divided(coefficients, [-multiplier, *[0] * (stride - 1), 1])
    recording = device.stream().record()
    memory, size = record_quotient(
        recording, device, FIELD, device.upload(from_integers(FIELD, coefficients)), count, stride,
        multiplier,
    )  # fmt: skip
    recording.finish().submit().wait()
    assert size == len(expected)
    assert downloaded(device, FIELD, memory, size, "a quotient") == [(c,) for c in expected]


def test_quotients_on_gpus(gpu_device: AnyDevice) -> None:
    test_quotients_agree_with_the_model(gpu_device, 2 * LENGTH + 1, 2)


def test_pairing_equation_holds_in_py_ecc() -> None:
    """e(combination - rest, 1) = e(quotient, Z(tau)), the vanishing polynomial in G2 whole."""
    instance = statement(3, 1)
    proof, _ = prove(SCHEME, open_device("cpu"), instance)
    reader = ProofReader(proof, begun())
    commitment, *folds = [
        *reader.points(Label.COMMITMENT, G1, 1),
    ]
    for claim in instance.claims:
        reader.transcript.absorb_elements(Label.POINT, FIELD, claim.point)
        reader.transcript.absorb_elements(Label.CLAIM, FIELD, [claim.value])
    folds = reader.points(Label.OPENING, G1, 2)
    (r,) = reader.transcript.challenge(FIELD)
    values = [value for (value,) in reader.elements(Label.VALUES, FIELD, 7)]
    (q,) = reader.transcript.challenge(FIELD)
    (quotient,) = reader.points(Label.OPENING, G1, 1)
    reader.end()
    tables = reference.folds_of(instance.table, instance.plain[0][0])
    s = r * r % R
    assert values == [reference.at(t, x) for t in tables for x in (r, R - r)] + [
        reference.at(tables[0], s)
    ]
    combined = [
        sum(pow(q, at, R) * reference.at(table, x) for at, table in enumerate(tables)) % R
        for x in (r, R - r, s)
    ]

    def lifted(point: Any) -> Any:
        return bn128.Z1 if point is None else (*map(bn128.FQ, point), bn128.FQ(1))

    remainder = reference.at(interpolated(R, r, *combined), TAU)
    left = bn128.multiply(bn128.G1, R - remainder)
    for number, point in enumerate((commitment, *folds)):
        left = bn128.add(left, bn128.multiply(lifted(point), pow(q, number, R)))
    vanishing = (TAU * TAU - s) * (TAU - s) % R
    right = bn128.pairing(bn128.multiply(bn128.G2, vanishing), lifted(quotient))
    assert bn128.pairing(bn128.G2, left) == right
    second = bn128.normalize(bn128.multiply(bn128.G2, TAU))
    assert REFERENCE.tau_g2[0] == tuple(tuple(int(c) for c in part.coeffs) for part in second)


def test_interpolation() -> None:
    coefficients = (7, R - 2, 5)
    for r in (2, 3, R - 4):
        values = [reference.at(coefficients, x) for x in (r, -r, r * r)]
        assert interpolated(R, r, *values) == coefficients


def test_degenerate_points_are_redrawn() -> None:
    class Fixed:
        def __init__(self) -> None:
            self.drawn = iter([0, 1, R - 1, 2])

        def challenge(self, field: Any) -> tuple[int]:
            return (next(self.drawn),)

    transcript: Any = Fixed()
    assert drawn_point(transcript, FIELD) == 2


def test_the_size_of_proofs() -> None:
    for variables in (1, 3):
        proof, _ = prove(SCHEME, open_device("cpu"), statement(variables, 1))
        # The commitment, folds, values, and the quotient.
        assert len(proof) == 32 * (1 + (variables - 1) + (2 * variables + 1) + 1)


@pytest.fixture(scope="module", params=one_and_others([1, 2]))
def proven(request: pytest.FixtureRequest) -> tuple[Statement, bytes]:
    instance = statement(3, request.param, seed=3)
    return instance, prove(SCHEME, open_device("cpu"), instance)[0]


def test_mutated_proofs_are_refused(proven: tuple[Statement, bytes]) -> None:
    check_hostile_bytes(SCHEME, *proven)


def test_other_claims_are_refused(proven: tuple[Statement, bytes]) -> None:
    check_other_claims(SCHEME, *proven)


def test_other_reference_strings_are_refused(proven: tuple[Statement, bytes]) -> None:
    instance, proof = proven
    for tau in (TAU + 1, R - TAU, 5):
        other = HyperKzg(ReferenceString.of_tau(tau, 1, insecure=True))
        refused(other, instance.variables, instance.claims, proof, VerificationError)
        assert other.parameters() != SCHEME.parameters()


def test_a_verifier_needs_few_powers(proven: tuple[Statement, bytes]) -> None:
    instance, proof = proven
    few = HyperKzg(ReferenceString.of_tau(TAU, 1, insecure=True))
    assert few.parameters() == SCHEME.parameters()
    verify(few, instance.variables, instance.claims, proof)
    with pytest.raises(InputError, match="has 4 powers, too few for 2\\*\\*3"):
        few.committer(open_device("cpu"), FIELD, 3)


@pytest.mark.parametrize("change", [0, 1, 2])
def test_invalid_folds_are_rejected(change: int) -> None:
    """A prover sends false folds, with values that match them."""
    instance = statement(3, 1)
    prover = Prover(begun())
    reference.commit(prover, instance.table, TAU)
    reference.open_claims(prover, instance.table, TAU, instance.plain, change)
    refused(SCHEME, 3, instance.claims, prover.sent, VerificationError)


def test_known_tau_allows_forged_openings() -> None:
    """Known tau is insecure: different tables have the same commitment."""
    instance = statement(3, 1)
    table = [*instance.table]
    table[0], table[1] = (table[0] - 9 * TAU) % R, table[1] + 9
    point = instance.plain[0][0]
    false = (reference.folds_of(table, point)[-1], point[0])
    value = ((1 - false[1]) * false[0][0] + false[1] * false[0][1]) % R
    assert value != instance.plain[0][1]
    prover = Prover(begun())
    assert reference.commit(prover, table, TAU) == reference.commitment(instance.table, TAU)
    reference.open_claims(prover, table, TAU, [(point, value)])
    claim = instance.claims[0]
    verify(SCHEME, 3, [type(claim)(claim.point, (value,))], prover.sent)


def test_invalid_arguments_are_rejected() -> None:
    device = open_device("cpu")
    with pytest.raises(InputError, match=r"of bn254\.fr"):
        SCHEME.committer(device, NAMED["m31"], 2)
    with pytest.raises(InputError, match="at least one variable"):
        SCHEME.committer(device, FIELD, 0)
    committer, writer = SCHEME.committer(device, FIELD, 2), ProofWriter(begun())
    instance = statement(2, 1)
    with pytest.raises(InputError, match="open needs a commitment"):
        committer.open(instance.claims, writer)
    with pytest.raises(InputError, match="128"):
        committer.commit(device.upload(from_integers(FIELD, [1, 2])), writer)
    assert sum(SCHEME.error_terms(FIELD, 24).values()) < 2**-210
    (point,) = decode_points(G1, prove(SCHEME, device, instance)[0][:32])
    assert point == reference.commitment(instance.table, TAU)
