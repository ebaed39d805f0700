"""Batch verification gives the verdicts of single verification for any batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import affine_group
from quod.device.cpu.device import CpuDevice
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError, MismatchError
from quod.frozen import replace
from quod.groth16 import Proof, ProvingKey, Verdict, VerifyingKey, verify_batch
from quod.groth16 import batch_verification as batch
from quod.groth16.batch_verification import Claim
from tests.groth16.conftest import Made
from tests.groth16.test_verifier import point_outside_the_subgroup
from tests.support.thorough import one_and_others

Make = Callable[[str], Made]
Proved = tuple[VerifyingKey, list[int], list[Proof]]

_PROOFS = 5


@pytest.fixture(scope="module")
def proved(circuit_files: Make) -> Callable[[str], Proved]:
    """A verifying key of a curve, public inputs, and proofs with other blindings."""
    cache: dict[str, Proved] = {}

    def make(curve: str) -> Proved:
        if curve not in cache:
            key = ProvingKey.from_zkey(circuit_files(curve).zkey, allow_insecure=True)
            proof_pairs = [
                key.prove(circuit_files(curve).wtns, seed=seed, self_check=False)
                for seed in range(_PROOFS)
            ]
            cache[curve] = key.verifying_key, proof_pairs[0][1], [proof for proof, _ in proof_pairs]
        return cache[curve]

    return make


def on(device: AnyDevice, key: VerifyingKey) -> VerifyingKey:
    """The key on another device."""
    return VerifyingKey(
        key.curve, key.alpha_g1, key.beta_g2, key.gamma_g2, key.delta_g2, key.ic, device=device,
        allow_insecure=True,
    )  # fmt: skip


def single(claim: Claim) -> bool | str:
    key, public, proof = claim
    try:
        return key.verify(public, proof)
    except InputError as error:
        return f"{type(error).__name__}: {error}"


def of(verdicts: Iterable[Verdict]) -> list[bool | str]:
    return [
        verdict.valid
        if verdict.error is None
        else f"{type(verdict.error).__name__}: {verdict.error}"
        for verdict in verdicts
    ]


def wrong(claim: Claim) -> Claim:
    """Return the claim with another public input."""
    key, public, proof = claim
    first, *others = public
    return key, [int(first) ^ 1, *others], proof


@pytest.mark.parametrize("curve", one_and_others(CURVES))
def test_batch_returns_one_verdict_per_proof(
    proved: Callable[[str], Proved], pairing_device: AnyDevice, curve: str
) -> None:
    key, public, proofs = proved(curve)
    key = on(pairing_device, key)
    claims: list[Claim] = [(key, public, proof) for proof in proofs]
    assert of(verify_batch(claims)) == [True] * _PROOFS
    claims[3] = wrong(claims[3])
    assert of(verify_batch(claims)) == [True, True, True, False, True]
    assert [bool(verdict) for verdict in verify_batch(claims)] == [
        single(claim) for claim in claims
    ]


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(bad=st.lists(st.booleans(), max_size=19))
def test_invalid_proofs_are_found(proved: Callable[[str], Proved], bad: list[bool]) -> None:
    key, public, proofs = proved("bn254")
    honest: list[Claim] = [(key, public, proofs[at % _PROOFS]) for at in range(len(bad))]
    claims = [wrong(claim) if is_bad else claim for claim, is_bad in zip(honest, bad)]
    assert of(verify_batch(claims)) == [not is_bad for is_bad in bad]


@pytest.mark.parametrize(
    ("count", "bad", "most"),
    [(24, [], 1), (1, [0], 1), (24, [7], 9), (24, [23], 9), (24, range(24), 31), (2, [0, 1], 3)],
)
def test_number_of_pairing_equations(
    proved: Callable[[str], Proved],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    bad: Iterable[int],
    most: int,
) -> None:
    """Bisection for few invalid proofs; about one equation a proof if all are invalid."""
    key, public, proofs = proved("bn254")
    claims: list[Claim] = [(key, public, proofs[at % _PROOFS]) for at in range(count)]
    for at in bad:
        claims[at] = wrong(claims[at])
    computed: list[None] = []
    product = vars(batch)["product_is"]

    def counted(*arguments: Any) -> Any:
        computed.append(None)
        return product(*arguments)

    monkeypatch.setattr(batch, "product_is", counted)
    assert of(verify_batch(claims)) == [at not in list(bad) for at in range(count)]
    assert 1 <= len(computed) <= most


def test_several_keys_and_curves_in_any_order(
    proved: Callable[[str], Proved], circuit_files: Make
) -> None:
    claims: list[Claim] = []
    again = VerifyingKey.from_zkey(circuit_files("bn254").zkey, allow_insecure=True)
    for curve in ("bn254", "bls12_381", "bn254"):
        key, public, proofs = proved(curve)
        claims += [(key, public, proof) for proof in proofs[:3]]
    # Keys in turn, so that none has its proofs beside each other.
    claims[6:] = [(again, public, proof) for _, public, proof in claims[6:]]
    claims = claims[::3] + claims[1::3] + claims[2::3]
    claims[4], claims[5] = wrong(claims[4]), wrong(claims[5])
    claims.append((claims[0][0], claims[1][1], claims[1][2]))
    expected = [single(claim) for claim in claims]
    assert of(verify_batch(claims)) == expected
    assert expected[:9] == [True, True, True, True, False, False, True, True, True]
    assert str(expected[9]).startswith("MismatchError: the proof is over bls12_381")


def test_proofs_are_checked_under_their_own_key(proved: Callable[[str], Proved]) -> None:
    """Two keys over one curve: each proof is held against its own."""
    key, public, proofs = proved("bn254")
    law = affine_group(GROUPS["bn254.g1"])
    other = VerifyingKey(
        key.curve, law.multiply(2, key.alpha_g1), key.beta_g2, key.gamma_g2, key.delta_g2, key.ic,
        allow_insecure=True,
    )  # fmt: skip
    claims: list[Claim] = [(key, public, proofs[0]), (other, public, proofs[1])]
    assert of(verify_batch(claims)) == [True, False]


# --- what a forger could try


def malformed(proof: Proof) -> list[Proof]:
    """Proofs that single verification does not take."""
    q = CURVES[proof.curve].fq.value
    proofs = [
        replace(proof, a=None), replace(proof, b=None), replace(proof, c=None),
        replace(proof, a=(0, 0)), replace(proof, b=((0, 0), (0, 0))), replace(proof, c=(0, 0)),
        replace(proof, a=(proof.a[0] + q, proof.a[1])),  # type: ignore[index]
        replace(proof, c=(proof.c[0], -proof.c[1])),  # type: ignore[index]
        replace(proof, c=(proof.c[0], proof.c[1] ^ 1)),  # type: ignore[index]
        replace(proof, b=(proof.b[0], (proof.b[1][0] ^ 1, proof.b[1][1]))),  # type: ignore[index]
    ]  # fmt: skip
    for name, degree in (("a", 1), ("b", 2), ("c", 1)):
        group = GROUPS[f"{proof.curve}.g{degree}"]
        if group.parameters.cofactor != 1:
            point = point_outside_the_subgroup(affine_group(group))
            proofs.append(replace(proof, **{name: point}))
    longer = replace(proof)
    object.__setattr__(longer, "a", (*proof.a, *proof.a))  # type: ignore[misc]
    return [*proofs, longer]


@pytest.mark.parametrize("curve", ["bn254", "bls12_381"])
def test_malformed_proofs_have_the_error_of_single_verification(
    proved: Callable[[str], Proved], curve: str
) -> None:
    key, public, (honest, *_) = proved(curve)
    r = CURVES[curve].fr.value
    claims: list[Claim] = [(key, public, honest)]
    for proof in malformed(honest):
        claims += [(key, public, proof), (key, public, honest)]
    claims += [
        (key, [public[0] + r, *public[1:]], honest), (key, public[1:], honest),
        (key, [*public, 0], honest), (key, public, None),  # type: ignore[list-item]
        (key, "12", honest), wrong(claims[0]),
    ]  # fmt: skip
    verdicts = verify_batch(claims)
    assert of(verdicts) == [single(claim) for claim in claims]
    errors = [verdict.error for verdict in verdicts]
    assert all(isinstance(error, InputError) for error in errors[1:-6:2])
    assert isinstance(errors[-5], MismatchError)
    assert [verdict.valid for verdict in verdicts[0:-6:2]] == [True] * (len(claims) // 2 - 2)


def cancelling(claims: list[Claim]) -> list[Claim]:
    """Two claims whose proofs do not hold, and what is wrong with one makes up for the other."""
    (key, public, first), (_, _, second), *others = claims
    law = affine_group(GROUPS[f"{key.curve}.g1"])
    changed = [law.add(first.c, law.generator), law.add(second.c, law.negate(law.generator))]
    pair = [(key, public, replace(proof, c=c)) for proof, c in zip((first, second), changed)]
    return [*pair, *others]


def test_errors_do_not_cancel(proved: Callable[[str], Proved]) -> None:
    key, public, proofs = proved("bn254")
    claims = cancelling([(key, public, proof) for proof in proofs])
    expected = [single(claim) for claim in claims]
    assert expected == [False, False, True, True, True]
    # With coefficients that a forger knows they would.
    assert of(batch._verify(claims, lambda count: [7] * count)) == [True] * _PROOFS
    for _ in range(3):
        assert of(verify_batch(claims)) == expected


def test_coefficients_are_random_and_nonzero(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [b"\0" * 16, b"\1" + b"\0" * 15, b"\0" * 16, b"\0" * 15 + b"\x80"]

    def urandom(count: int) -> bytes:
        assert count == 16
        return drawn.pop(0)

    with monkeypatch.context() as patched:
        patched.setattr(os, "urandom", urandom)
        assert batch._coefficients(2) == [1, 1 << 127]
    many = batch._coefficients(64)
    assert len(set(many)) == 64
    assert max(many) >> 120


def test_coefficients_are_drawn_after_all_claims_are_fixed(proved: Callable[[str], Proved]) -> None:
    """The claims are copied before the draw; later changes have no effect."""
    key, public, proofs = proved("bn254")
    publics = [list(public) for _ in proofs]
    draws: list[int] = []

    def claims() -> Iterable[Claim]:
        for inputs, proof in zip(publics, proofs, strict=True):
            assert not draws
            yield key, inputs, proof

    def draw(count: int) -> list[int]:
        draws.append(count)
        for inputs in publics:
            inputs[0] ^= 1
        return batch._coefficients(count)

    assert of(batch._verify(claims(), draw)) == [True] * _PROOFS
    assert draws == [_PROOFS]


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        (7, "the claims must be a list, not a int"),
        ("claims", "the claims must be a list, not a str"),
        ({}, "the claims must be a list, not a dict"),
        # It has no order in which there could be verdicts.
        (set(), "the claims must be a list, not a set"),
        ([7], "claim 0 must be a verifying key, public inputs and a proof"),
        ([(None, [], None)], "claim 0 must be a verifying key, public inputs and a proof"),
    ],
)
def test_invalid_claim_lists_are_rejected(claims: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        verify_batch(claims)


def test_empty_batch_is_accepted() -> None:
    assert verify_batch([]) == []


class Idle(CpuDevice):
    """A processor that leaves out one launch by its number."""

    left, launched = -1, 0

    def execute(self, kernel: Any, groups: int, *arguments: Any) -> None:
        self.launched += 1
        if self.launched - 1 != self.left:
            super().execute(kernel, groups, *arguments)


def test_skipped_launch_accepts_no_proof(proved: Callable[[str], Proved]) -> None:
    key, public, proofs = proved("bn254")
    device = Idle()
    key = on(device, key)
    honest: list[Claim] = [(key, public, proof) for proof in proofs]
    claims = [wrong(claim) for claim in honest]
    device.launched = 0
    verify_batch(honest)
    count = device.launched
    assert count > 5
    for skipped in range(count):
        device.left, device.launched = skipped, 0
        with pytest.raises(DeviceError, match="without computing"):
            verify_batch(claims)
