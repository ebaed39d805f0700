"""arkworks' proofs and verifying keys: their bytes by hand, both forms, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quod.cli import entry
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import affine_group
from quod.errors import InputError, InsecureKeyError
from quod.frozen import replace
from quod.groth16 import Proof, ProvingKey, VerifyingKey
from quod.groth16.encodings.arkworks import (
    proof_from_bytes,
    proof_to_bytes,
    read_proof,
    read_verifying_key,
    verifying_key_from_bytes,
    verifying_key_to_bytes,
)
from tests.groth16.conftest import Made
from tests.groth16.test_verifier import point_outside_the_subgroup
from tests.support.thorough import one_and_others

Set = tuple[VerifyingKey, list[int], Proof]


@pytest.fixture(scope="module", params=one_and_others(CURVES, ["bn254", "bls12_381"]))
def proved(request: pytest.FixtureRequest, circuit_files: Callable[[str], Made]) -> Set:
    files = circuit_files(request.param)
    key = ProvingKey.from_zkey(files.zkey, allow_insecure=True)
    proof, public = key.prove(files.wtns, seed=1, self_check=False)
    return key.verifying_key, public, proof


@pytest.mark.parametrize("compressed", [True, False])
def test_both_forms_round_trip(proved: Set, compressed: bool) -> None:
    key, public, proof = proved
    data = proof_to_bytes(proof, compressed=compressed)
    size = 128 if key.curve == "bn254" else 192
    assert len(data) == (size if compressed else 2 * size)
    again = proof_from_bytes(data, key.curve)
    assert again == proof
    encoded = verifying_key_to_bytes(key, compressed=compressed)
    read = verifying_key_from_bytes(encoded, key.curve, allow_insecure=True)
    assert read.to_json() == key.to_json()
    assert read.verify(public, again)
    assert not read.verify([public[0] ^ 1, *public[1:]], again)
    with pytest.raises(InsecureKeyError):
        verifying_key_from_bytes(encoded, key.curve)


def little(curve: str, *numbers: int) -> bytes:
    return b"".join(number.to_bytes(CURVES[curve].fq.bytes, "little") for number in numbers)


@pytest.mark.parametrize("curve", ["bn254", "bls12_377"])
def test_the_bytes_of_a_verifying_key(circuit_files: Callable[[str], Made], curve: str) -> None:
    """Uncompressed, but for the bit that tells the larger y: x, y; u's coefficient second."""
    key = ProvingKey.from_zkey(circuit_files(curve).zkey, allow_insecure=True).verifying_key
    q = CURVES[curve].fq.value

    def g1(point: Any) -> bytes:
        data = bytearray(little(curve, *point))
        data[-1] |= 0x80 if 2 * point[1] > q else 0
        return bytes(data)

    def g2(point: Any) -> bytes:
        data = bytearray(little(curve, *point[0], *point[1]))
        data[-1] |= 0x80 if 2 * (point[1][1] or point[1][0]) > q else 0
        return bytes(data)

    expected = g1(key.alpha_g1) + g2(key.beta_g2) + g2(key.gamma_g2) + g2(key.delta_g2)
    expected += len(key.ic).to_bytes(8, "little") + b"".join(map(g1, key.ic))
    assert verifying_key_to_bytes(key, compressed=False) == expected


def test_malformed_proofs(proved: Set) -> None:
    _, _, proof = proved
    curve = proof.curve
    data = proof_to_bytes(proof)
    for length in (0, 1, len(data) - 1, len(data) + 1, 2 * len(data) + 1):
        with pytest.raises(InputError, match=r"a proof of arkworks has .* bytes, or .* uncompress"):
            proof_from_bytes(bytes(length), curve)
    size = CURVES[curve].fq.bytes
    q = CURVES[curve].fq.value.to_bytes(size, "little")
    # The Zcash form begins with its flags.
    above = bytes([q[-1] | 0x80]) + q[-2::-1] if curve == "bls12_381" else q
    with pytest.raises(InputError, match="x is not below the modulus") as caught:
        proof_from_bytes(data[: 3 * size] + above, curve, name="x")
    assert (caught.value.path, caught.value.section, caught.value.offset) == ("x", "pi_c", 3 * size)
    infinity = b"\xc0" + bytes(size - 1) if curve == "bls12_381" else bytes(size - 1) + b"\x40"
    with pytest.raises(InputError, match="it is the point at infinity"):
        proof_from_bytes(infinity + data[size:], curve)
    law = affine_group(GROUPS[f"{curve}.g2"])
    outside = proof_to_bytes(replace(proof, b=point_outside_the_subgroup(law)))
    with pytest.raises(InputError, match="is not in the subgroup of order r") as caught:
        proof_from_bytes(outside, curve)
    assert caught.value.section == "pi_b"


def test_malformed_keys(proved: Set) -> None:
    key = proved[0]
    data = verifying_key_to_bytes(key)
    for wrong in (b"", data[:-1], data + b"\0", bytes(100), data + data):
        with pytest.raises(InputError, match="are not a verifying key of arkworks over"):
            verifying_key_from_bytes(wrong, key.curve, allow_insecure=True)
    size = CURVES[key.curve].fq.bytes
    last = b"\xff" * size
    with pytest.raises(InputError, match="get it again from its source") as caught:
        verifying_key_from_bytes(data[:-size] + last, key.curve, allow_insecure=True, name="k")
    assert (caught.value.path, caught.value.offset) == ("k", len(data) - size)
    assert caught.value.section == f"IC[{len(key.ic) - 1}]"
    with pytest.raises(InputError, match="a key of arkworks is bytes, not a str"):
        verifying_key_from_bytes("x", key.curve)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the curve must be one of"):
        verifying_key_from_bytes(data, "bls12-377")


@pytest.mark.thorough
def test_the_command(
    circuit_files: Callable[[str], Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    files = circuit_files("bls12_377")
    key = ProvingKey.from_zkey(files.zkey, allow_insecure=True)
    proof, public = key.prove(files.wtns, seed=1, self_check=False)
    Path("vkey").write_bytes(verifying_key_to_bytes(key.verifying_key))
    Path("proof").write_bytes(proof_to_bytes(proof))
    Path("public.json").write_text(json.dumps([str(value) for value in public]))
    verify = ["groth16", "verify", "vkey", "public.json", "proof", "--insecure-test-key"]
    assert entry.run([*verify, "--arkworks", "bls12_377"]) == 0
    assert read_verifying_key("vkey", "bls12_377", allow_insecure=True).verify(
        public, read_proof("proof", "bls12_377")
    )
    other = replace(proof, c=proof.a)
    Path("proof").write_bytes(proof_to_bytes(other, compressed=False))
    assert entry.run([*verify, "--arkworks", "bls12_377"]) == 6
    capsys.readouterr()
    assert entry.run([*verify, "--arkworks", "bls12_381"]) == 3
    assert entry.run([*verify, "--arkworks", "bls12_377", "--batch"]) == 2
