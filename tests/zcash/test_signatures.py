"""RedJubjub: zcash-test-vectors (MIT or Apache-2.0), of which one row stands here, and mainnet."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from quod import zcash
from quod.curve import EDWARDS, edwards_group, encode_edwards
from quod.errors import InputError
from quod.zcash import SignatureClaim, binding_scheme, spend_auth_scheme, verify_signatures
from tests.zcash.test_sapling import published

JUBJUB = EDWARDS["jubjub"]
ORDER, P = JUBJUB.fr.value, JUBJUB.fq.value
GROUP = edwards_group(JUBJUB)
SCHEME = spend_auth_scheme()
ROW = {
    "sk": "18e28dea5c11817aeeb21a19981d28368ec438afc25a8db94ebe08d7a0288e09",
    "vk": "9b0153b03d320fe23e2834d5d61dbb1f519b3f41f8f946152bf0c3f247d11807",
    "alpha": "ffd1a1273252b187f4ed326dfc98853e2917c2b36379b175da63b9ef6dda6c08",
    "rsk": "6087383b30559b31609085b9009645ceb6a0c6612599d72880728e61244e7d03",
    "rvk": "c1babcb6eae2b994ee6d65c10b9dad5940dc735b07504daed1e46b0709b45136",
    "m": "00" * 32,
    "sig": "dca3bb2cb8f048ccab10aed77546c1dbb10cc4fb15ab02acaef944ddab8b6722"
    "545fda4c62046d69d98f922f4e8c210bc47b4fdde0a1947179804c1ace569005",
    "rsig": "70c284504e90f0008e8ed2208f4969727a415ec3102c299e398b6c16572bd964"
    "3ee1011766681e406ee6bee3d03ee8f27176e32fbabdded20b0d1786a4ee1801",
}


def point_bytes(point: tuple[int, int]) -> bytes:
    return encode_edwards(JUBJUB, point)


def scalar_bytes(scalar: int) -> bytes:
    return scalar.to_bytes(32, "little")


@dataclass(frozen=True)
class Parts:
    """A claim from its parts, which tests replace."""

    key: bytes
    message: bytes
    r: bytes
    s: bytes

    @property
    def claim(self) -> SignatureClaim:
        return SignatureClaim(SCHEME, self.key, self.message, self.r + self.s)

    def verdict(self, *, zip216: bool = True) -> bool | str:
        """The verdict of single verification, or its error, after comparison with a batch's."""
        claim = self.claim
        (batched,) = verify_signatures([claim], zip216=zip216)
        single: bool | str
        try:
            single = SCHEME.verify(claim.key, claim.message, claim.signature, zip216=zip216)
        except InputError as error:
            single = str(error)
        assert single == (str(batched.error) if batched.error else batched.valid)
        return single


def signed(secret: int = 5, message: bytes = b"message") -> Parts:
    signature = SCHEME.sign(secret, message)
    key = point_bytes(SCHEME.verification_key(secret))
    return Parts(key, message, signature[:32], signature[32:])


def forged(r: tuple[int, int], key: tuple[int, int], nonce: int, secret: int) -> Parts:
    """A signature for points r = nonce * P + T and key = secret * P + T' with T, T' of order 8."""
    encodings = point_bytes(r), point_bytes(key)
    s = (nonce + SCHEME.challenge(*encodings, b"m") * secret) % ORDER
    return Parts(encodings[1], b"m", encodings[0], scalar_bytes(s))


def torsion() -> tuple[int, int]:
    """A point of order eight."""
    from quod.curve import decode_edwards

    for y in range(3, 99):
        try:
            point = decode_edwards(JUBJUB, scalar_bytes(y), check_subgroup=False)
        except InputError:
            continue
        point = GROUP.multiply(ORDER, point)
        if GROUP.multiply(4, point) != (0, 1):
            return point
    raise AssertionError("no point of order eight")


def check_row(row: dict[str, Any]) -> None:
    sk, alpha, rsk = (
        zcash.decode_scalar(name, bytes.fromhex(row[name])) for name in ("sk", "alpha", "rsk")
    )
    vk = SCHEME.verification_key(sk)
    assert point_bytes(vk).hex() == row["vk"]
    assert SCHEME.randomise_secret(sk, alpha) == rsk
    assert point_bytes(SCHEME.randomise_key(vk, alpha)).hex() == row["rvk"]
    key, randomized, message, *signatures = (
        bytes.fromhex(row[name]) for name in ("vk", "rvk", "m", "sig", "rsig")
    )
    for signing, other, signature in zip(
        (key, randomized), (randomized, key), signatures, strict=True
    ):
        assert SCHEME.verify(signing, message, signature)
        assert not SCHEME.verify(other, message, signature)
    new_signature = zcash.spend_auth_signature(sk, alpha, message)
    assert SCHEME.verify(randomized, message, new_signature)
    assert new_signature != zcash.spend_auth_signature(sk, alpha, message)


def test_a_published_row() -> None:
    check_row(ROW)


@pytest.mark.fixtures
def test_all_published_rows(shared_fixtures: Path) -> None:
    rows = published(shared_fixtures, "sapling_signatures.json")
    assert len(rows) == 10
    for row in rows:
        check_row(row)


def test_other_keys_messages_and_signatures_are_refused() -> None:
    good = signed()
    assert good.verdict() is True
    other = signed(6)
    for changes in (
        {"key": other.key}, {"message": b"massage"}, {"r": other.r}, {"s": other.s},
        {"s": scalar_bytes(0)}, {"r": point_bytes((0, 1))}, {"key": point_bytes((0, 1))},
    ):  # fmt: skip
        assert replace(good, **changes).verdict() is False


def test_schemes_and_protocols_differ() -> None:
    message = bytes(32)
    schemes = [
        scheme(protocol)
        for scheme in (spend_auth_scheme, binding_scheme)
        for protocol in (zcash.SAPLING, zcash.MASP)
    ]
    for signer in schemes:
        signature, key = signer.sign(7, message), point_bytes(signer.verification_key(7))
        for verifier in schemes:
            assert verifier.verify(key, message, signature) == (verifier is signer)
    bound = zcash.binding_signature(7, message, zcash.MASP)
    masp = binding_scheme(zcash.MASP)
    assert masp.verify(point_bytes(masp.verification_key(7)), message, bound)


def test_parts_of_small_order_are_accepted() -> None:
    """The equation has the factor 8: R and vk may differ from multiples of P by small points."""
    small = torsion()
    nonce, secret = 123456789, 987654321
    r, key = SCHEME.verification_key(nonce), SCHEME.verification_key(secret)
    for factor in range(8):
        point = GROUP.multiply(factor, small)
        assert forged(GROUP.add(r, point), key, nonce, secret).verdict() is True
        assert forged(r, GROUP.add(key, point), nonce, secret).verdict() is True
        assert forged(point, point, 0, 0).verdict() is True
    assert forged(GROUP.add(r, small), key, nonce + 1, secret).verdict() is False


def test_batches_with_many_points_of_small_order() -> None:
    """MSMs add equal, opposite and neutral points, and points of order two."""
    small, key = torsion(), SCHEME.verification_key(99)
    points = [GROUP.multiply(factor, small) for factor in range(8)]
    claims = [forged(point, other, 0, 0).claim for point in points for other in points]
    claims += [forged(point, GROUP.add(key, point), 0, 99).claim for point in points]
    assert all(verify_signatures(claims * 5))
    wrong = forged(points[4], GROUP.add(key, points[4]), 1, 99).claim
    verdicts = verify_signatures([*claims, wrong, *claims])
    assert [index for index, verdict in enumerate(verdicts) if not verdict] == [len(claims)]


def test_malformed_encodings() -> None:
    good = signed()
    no_point = next(
        data
        for y in range(2, 99)
        for data in [scalar_bytes(y)]
        if "no point" in str(replace(good, r=data).verdict())
    )
    for changes, message in (
        ({"s": scalar_bytes(ORDER)}, "S of the signature is not below the order of Jubjub"),
        ({"s": b"\xff" * 32}, "S of the signature is not below the order"),
        ({"r": scalar_bytes(P)}, "R of the signature: jubjub: y is not below the modulus"),
        ({"r": scalar_bytes(1 | 1 << 255)}, "R of the signature: jubjub: x is 0"),
        ({"key": scalar_bytes(P + 1)}, "the verification key: jubjub: y is not below"),
        ({"key": no_point}, "the verification key: jubjub: no point"),
        ({"key": bytes(31)}, "the verification key must be 32 bytes, not 31"),
        ({"s": bytes(31)}, "the signature must be 64 bytes, not 63"),
    ):
        assert message in str(replace(good, **changes).verdict())


def test_signs_of_zero_are_accepted_before_nu5() -> None:
    """ZIP 216: the sign of u = 0 in R. The challenge is of the bytes, the point has no sign."""
    secret = 77
    key = point_bytes(SCHEME.verification_key(secret))
    for y in (1, P - 1):
        r = scalar_bytes(y | 1 << 255)
        s = SCHEME.challenge(r, key, b"m") * secret % ORDER
        parts = Parts(key, b"m", r, scalar_bytes(s))
        assert "x is 0, which has no sign" in str(parts.verdict())
        assert parts.verdict(zip216=False) is True
        assert replace(parts, message=b"n").verdict(zip216=False) is False
    for data in (scalar_bytes(P + 1), scalar_bytes(P | 1 << 255)):
        assert "not below the modulus" in str(replace(signed(), r=data).verdict(zip216=False))


def test_schemes_are_checked() -> None:
    with pytest.raises(InputError, match="the generator is not on jubjub"):
        zcash.RedJubjub("name", (1, 1), bytes(16))
    with pytest.raises(InputError, match="the personalisation must be 16 bytes, not 15"):
        zcash.RedJubjub("name", JUBJUB.generator, bytes(15))


def test_signing_keys_are_checked() -> None:
    for secret in (0, ORDER, -1, True, "1"):
        with pytest.raises(InputError, match="the signing key must be a scalar from 1") as seen:
            SCHEME.sign(secret, b"")  # type: ignore[arg-type]
        assert str(secret) not in str(seen.value) or secret in (0, "1", True)
    with pytest.raises(InputError, match="alpha must be a scalar from 0"):
        SCHEME.randomise_secret(1, ORDER)
    with pytest.raises(InputError, match="the randomized signing key is 0"):
        zcash.spend_auth_signature(5, ORDER - 5, bytes(32))
    for size in (31, 33):
        with pytest.raises(InputError, match="the sighash must be 32 bytes"):
            zcash.spend_auth_signature(5, 1, bytes(size))
        with pytest.raises(InputError, match="the sighash must be 32 bytes"):
            zcash.binding_signature(5, bytes(size))
    with pytest.raises(InputError, match="the message must be bytes"):
        SCHEME.sign(5, "text")  # type: ignore[arg-type]


def test_batches_name_the_invalid_signatures() -> None:
    source = random.Random(11)
    claims = [signed(secret, source.randbytes(32)).claim for secret in range(1, 12)] * 30
    assert all(verify_signatures(claims))
    malformed, wrong = {40}, {0, 7, 200, 329}
    for index in wrong:
        claims[index] = SignatureClaim(
            SCHEME, claims[index].key, b"other", claims[index].signature
        )  # fmt: skip
    for index in malformed:
        claims[index] = SignatureClaim(SCHEME, claims[index].key, b"", b"\xff" * 64)
    verdicts = verify_signatures(claims)
    invalid = {index for index, verdict in enumerate(verdicts) if not verdict}
    assert invalid == wrong | malformed
    assert {index for index, verdict in enumerate(verdicts) if verdict.error} == malformed
    assert verify_signatures([]) == []


def test_errors_that_cancel_are_detected() -> None:
    """Two signatures with opposite errors in S satisfy the equation without coefficients."""
    first, second = signed(3), signed(4)
    first = replace(first, s=scalar_bytes((int.from_bytes(first.s, "little") + 1) % ORDER))
    second = replace(second, s=scalar_bytes((int.from_bytes(second.s, "little") - 1) % ORDER))
    for _ in range(5):
        assert not any(verify_signatures([first.claim, second.claim]))


def test_claims_are_checked() -> None:
    with pytest.raises(InputError, match="claim 1 must be a SignatureClaim"):
        verify_signatures([signed().claim, "claim"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="the claims must be a list"):
        verify_signatures(5)  # type: ignore[arg-type]


@pytest.mark.fixtures
def test_signatures_of_the_chain(shared_fixtures: Path) -> None:
    """Signatures of Spends, and the bindingSigs under the bvk of the fixtures, in one batch."""
    claims = []
    for network in ("mainnet", "testnet"):
        path = shared_fixtures / "zcash" / f"{network}_sapling_spends.json"
        document = json.loads(path.read_text())
        rows = document if isinstance(document, list) else document["spends"]
        claims += [claim(SCHEME, row, "rk", "spendAuthSig") for row in rows]
    assert len(claims) == 25
    bundles = json.loads((shared_fixtures / "zcash" / "sapling_bundles.json").read_text())
    signed_bundles = [row for row in bundles if row["sighash"]]
    claims += [claim(binding_scheme(), row, "bvk", "binding_sig") for row in signed_bundles]
    assert len(claims) > 50
    assert all(verify_signatures(claims))
    shifted = [
        SignatureClaim(entry.scheme, entry.key, claims[index - 1].message, entry.signature)
        for index, entry in enumerate(claims)
    ]
    assert sum(map(bool, verify_signatures(shifted))) <= len(claims) // 2


def claim(scheme: Any, row: dict[str, Any], key: str, signature: str) -> SignatureClaim:
    data = [bytes.fromhex(row[name]) for name in (key, "sighash", signature)]
    return SignatureClaim(scheme, *data)
