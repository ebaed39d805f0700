"""bellman's proofs and keys: Zcash's proofs verify, and changed ones do not."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quod.curve.encoding.decompression import decompressed, square_roots
from quod.curve.encoding.points import encode_zcash_g1, encode_zcash_g2
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import affine_group
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.moduli import BLS12_377_FQ, BLS12_381_FQ, BN254_FQ
from quod.frozen import replace
from quod.groth16 import Proof, ProvingKey, VerifyingKey, verify_batch
from quod.groth16.encodings.bellman import (
    proof_from_bytes,
    proof_to_bytes,
    proofs_from_bytes,
    read_proof,
    read_proofs,
    read_verifying_key,
)
from tests.groth16.conftest import Made
from tests.groth16.test_verifier import point_outside_the_subgroup

Outputs = list[tuple[list[int], bytes]]


@pytest.fixture(scope="module")
def proof(circuit_files: Callable[[str], Made]) -> Proof:
    files = circuit_files("bls12_381")
    key = ProvingKey.from_zkey(files.zkey, allow_insecure=True)
    return key.prove(files.wtns, seed=1, self_check=False)[0]


@pytest.fixture(scope="module")
def outputs() -> Outputs:
    """Public inputs and proofs of mainnet."""
    sapling: Any = importlib.import_module("benchmarks.sapling")
    if not sapling.available():
        pytest.skip("needs the shared fixtures beside the checkout (../shared/fixtures)")
    mainnet_outputs: Outputs = sapling.outputs()
    return mainnet_outputs


@pytest.fixture(scope="module")
def sapling_key(outputs: Outputs) -> VerifyingKey:
    sapling: Any = importlib.import_module("benchmarks.sapling")
    return read_verifying_key(sapling.KEY)


def test_proofs_in_both_forms(proof: Proof) -> None:
    for compressed, length in ((True, 192), (False, 384)):
        data = proof_to_bytes(proof, compressed=compressed)
        assert len(data) == length
        assert proof_from_bytes(data) == proof
    data = proof_to_bytes(proof)
    assert data[:48] == encode_zcash_g1(proof.a)
    assert data[48:144] == encode_zcash_g2(proof.b)
    assert proofs_from_bytes(data * 3) == [proof] * 3
    assert proofs_from_bytes(b"") == []


def test_files(proof: Proof, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(proof_to_bytes(proof, compressed=False))
    assert read_proof(tmp_path / "one") == proof
    (tmp_path / "two").write_bytes(2 * proof_to_bytes(proof))
    assert read_proofs(tmp_path / "two") == [proof, proof]
    (tmp_path / "bad").write_bytes(proof_to_bytes(proof)[:-1])
    with pytest.raises(InputError, match="has 192 bytes, or 384 uncompressed, not 191") as caught:
        read_proof(tmp_path / "bad")
    assert caught.value.path == str(tmp_path / "bad")
    assert caught.value.offset == 191
    with pytest.raises(InputError, match="191 bytes are not a whole number of proofs"):
        read_proofs(tmp_path / "bad")


INFINITY = {48: b"\xc0" + bytes(47), 96: b"\xc0" + bytes(95)}
Q = BLS12_381_FQ.value.to_bytes(48, "big")


@pytest.mark.parametrize(
    ("start", "part", "put", "message"),
    [
        (0, "pi_a", INFINITY[48], "it is the point at infinity"),
        (48, "pi_b", INFINITY[96], "it is the point at infinity"),
        (144, "pi_c", INFINITY[48], "it is the point at infinity"),
        (0, "pi_a", b"\x0a", "the flags are not those of a compressed point"),
        (48, "pi_b", b"\xc1", "infinity has bits set besides its flag"),
        (144, "pi_c", b"\xe0" + bytes(47), "infinity has bits set besides its flag"),
        (0, "pi_a", bytes([Q[0] | 0x80]) + Q[1:], "x is not below the modulus"),
        (48, "pi_b", bytes([Q[0] | 0x80]) + Q[1:], "x is not below the modulus"),
        (96, "pi_b", Q, "x is not below the modulus"),
        (0, "pi_a", b"\x80" + bytes(46) + b"\1", "no point of the curve has this x"),
        (48, "pi_b", b"\x80" + bytes(95), "no point of the curve has this x"),
    ],
)
def test_malformed_proofs(proof: Proof, start: int, part: str, put: bytes, message: str) -> None:
    good = proof_to_bytes(proof)
    data = good[:start] + put + good[start + len(put) :]
    with pytest.raises(InputError, match=message) as caught:
        proof_from_bytes(data, name="x.proof")
    assert (caught.value.path, caught.value.section) == ("x.proof", part)
    assert caught.value.offset == {"pi_a": 0, "pi_b": 48, "pi_c": 144}[part]
    # The same among others, at its own place.
    first, second, third = proofs_from_bytes(good + data + good, name="x.proof")
    assert first == third == proof
    assert isinstance(second, InputError)
    assert (second.section, second.offset) == (part, 192 + caught.value.offset)
    assert str(second).split(": ", 1)[1] == str(caught.value).split(": ", 1)[1]


def test_points_outside_the_subgroup(proof: Proof) -> None:
    for name, degree in (("a", 1), ("b", 2), ("c", 1)):
        law = affine_group(GROUPS[f"bls12_381.g{degree}"])
        other = replace(proof, **{name: point_outside_the_subgroup(law)})
        for compressed in (True, False):
            data = proof_to_bytes(other, compressed=compressed)
            with pytest.raises(InputError, match="is not in the subgroup of order r") as caught:
                proof_from_bytes(data)
            assert caught.value.section == f"pi_{name}"
            assert proof_from_bytes(data, check_subgroup=False) == other


def test_invalid_proofs_are_not_encoded(proof: Proof) -> None:
    with pytest.raises(InputError, match="proofs of bellman are over bls12_381, not bn254"):
        proof_to_bytes(replace(proof, curve="bn254"))
    with pytest.raises(InputError, match="pi_c is the point at infinity"):
        proof_to_bytes(replace(proof, c=None))
    with pytest.raises(InputError, match="a proof of bellman is bytes, not a str"):
        proof_from_bytes("00" * 96)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="check_subgroup must be True or False"):
        proof_from_bytes(proof_to_bytes(proof), check_subgroup="no")  # type: ignore[arg-type]


# --- square roots


@pytest.mark.parametrize("modulus", [BN254_FQ, BLS12_381_FQ])
def test_square_roots(device: AnyDevice, modulus: Any) -> None:
    p = modulus.value
    integers = [0, 1, 4, 2, 3, p - 1, p - 4, *(pow(5, i, p) for i in range(1, 40))]
    roots = square_roots(device, modulus, integers)
    for integer, root in zip(integers, roots, strict=True):
        is_square = pow(integer, (p - 1) // 2, p) <= 1
        assert (root is not None) == is_square
        assert root is None or root * root % p == integer


def test_square_roots_modulo_other_primes() -> None:
    from quod.device.discovery import open_device

    with pytest.raises(ValueError, match="is not 3 modulo 4"):
        square_roots(open_device("cpu"), BLS12_377_FQ, [4])


def test_many_points(device: AnyDevice) -> None:
    """Both signs, and encodings of wrong lengths."""
    law1, law2 = (affine_group(GROUPS[f"bls12_381.g{degree}"]) for degree in (1, 2))
    g1 = [law1.multiply(i, law1.generator) for i in (1, -1, 5, -5)]
    g2 = [law2.multiply(i, law2.generator) for i in (1, -1, 5, -5)]
    encoded1 = [*(encode_zcash_g1(point) for point in g1), b"", b"\x80"]
    encoded2 = [*(encode_zcash_g2(point) for point in g2), bytes(95)]
    found1, found2 = decompressed(device, encoded1, encoded2)
    assert found1[: len(g1)] == g1
    assert found2[: len(g2)] == g2
    assert all(isinstance(error, InputError) for error in (*found1[len(g1) :], *found2[len(g2) :]))


# --- Zcash


@pytest.mark.fixtures
def test_mainnet_proofs_verify_singly_and_in_a_batch(
    outputs: Outputs, sapling_key: VerifyingKey
) -> None:
    assert len(outputs) == 24
    read = proofs_from_bytes(b"".join(data for _, data in outputs))
    claims: list[Any] = [
        (sapling_key, public, proof) for (public, _), proof in zip(outputs, read, strict=True)
    ]
    assert all(verify_batch(claims))
    for (public, data), proof in zip(outputs, read, strict=True):
        assert proof_from_bytes(data) == proof
        assert proof_to_bytes(proof_from_bytes(data)) == data
        assert sapling_key.verify(public, proof_from_bytes(data))


@pytest.mark.fixtures
def test_both_verifiers_reject_flipped_bits(outputs: Outputs, sapling_key: VerifyingKey) -> None:
    """Flip a bit of A, B, C and each public input of every proof, another bit in each proof."""
    claims: list[Any] = []
    malformed = 0
    for number, (public, data) in enumerate(outputs):
        for start, length in ((0, 48), (48, 96), (144, 48)):
            place = start + (7 * number + 5) % length
            changed = bytearray(data)
            changed[place] ^= 1 << number % 8
            (read,) = proofs_from_bytes(bytes(changed))
            if isinstance(read, InputError):
                malformed += 1
                with pytest.raises(InputError):
                    proof_from_bytes(bytes(changed))
            else:
                claims.append((sapling_key, public, read))
        honest = proof_from_bytes(data)
        for index in range(len(public)):
            other = [*public]
            other[index] ^= 1 << (11 * number + index) % 250
            claims.append((sapling_key, other, honest))
        claims.append((sapling_key, public, honest))
    verdicts = verify_batch(claims)
    assert malformed > 10
    assert len(claims) + malformed == 24 * 9
    assert [bool(verdict) for verdict in verdicts] == [
        claim[1] == public and claim[2] == proof_from_bytes(data, check_subgroup=False)
        for claim, (public, data) in zip(claims, owners(claims, outputs), strict=True)
    ]
    assert sum(map(bool, verdicts)) == 24


def owners(claims: list[Any], outputs: Outputs) -> Outputs:
    """Return the output each claim was made from: the last claim of an output is honest."""
    origins: Outputs = []
    number = 0
    for _, public, proof in claims:
        output = outputs[number]
        origins.append(output)
        honest = public == output[0] and proof == proof_from_bytes(output[1], check_subgroup=False)
        number += honest
    return origins
