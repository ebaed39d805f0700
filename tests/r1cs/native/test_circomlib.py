"""The native functions of circomlib's gadgets: published vectors, and what circomlibjs computes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from quod.curve import EDWARDS, decode_edwards, edwards_group, encode_edwards
from quod.errors import InputError
from quod.field import NAMED
from quod.r1cs import reference as native
from quod.r1cs.reference.mimc import mimc7_constants, mimc_sponge_constants
from quod.r1cs.reference.poseidon import PARTIAL_ROUNDS, poseidon_parameters
from tests.support.node import circomlibjs

P = NAMED["bn254.fr"].value
CURVE = EDWARDS["baby_jubjub"]
ORDER = CURVE.fr.value
PRIVATE = bytes.fromhex("00010203040506070809" * 3 + "0001")


def test_poseidon_vectors() -> None:
    """Of circomlibjs's tests (test/poseidon.js)."""
    hashed = native.poseidon_hash
    assert hashed([1, 2]) == 0x115CC0F5E7D690413DF64C6B9662E9CF2A3617F2743245519E19607A4417189A
    assert hashed([1, 2, 3, 4]) == (
        0x299C867DB6C1FDD79DCEFA40E4510B9837E60EBB1CE0663DBAA525DF65250465
    )
    assert hashed([1]) == (
        18586133768512220936620570745912940619677854269274689475585506675881198879027
    )
    assert hashed(list(range(1, 17))) == (
        9989051620750914585850546081941653841776809718687451684622678807385399211877
    )
    assert hashed([1, 2, 3, 4], initial=7) == (
        1569211601569591254857354699102545060324851338714426496554851741114291465006
    )


def test_poseidon_parameters() -> None:
    """Published constants at both ends of the derivation, and that the matrix mixes."""
    parameters = poseidon_parameters(3)
    assert parameters.round_constants[0][0] == (
        0x0EE9A592BA9A9518D05986D656F40C2114C4993C11BB29938D21D47304CD8E6E
    )
    assert parameters.matrix[0][0] == (
        0x109B7F411BA0E4C9B2B70CAF5C36A7B194BE7C11AD24378BFEDB68592BA8118B
    )
    assert [len(parameters.round_constants), len(PARTIAL_ROUNDS)] == [65, 16]
    assert poseidon_parameters(17).round_constants[75][16] < P
    with pytest.raises(InputError, match="from 2 to 17, not 18"):
        poseidon_parameters(18)


def test_mimc_vectors() -> None:
    """Of circomlibjs's tests (test/mimc7.js, test/mimcsponge.js)."""
    assert native.mimc7_hash([1, 2]) == (
        0xB91EBBD35D7448ECC13E75A7CEB1CE5BBE428090ACFAE0DA2C3867A874CE6EA
    )
    assert native.mimc7_hash([1, 2, 3, 4]) == (
        0x19CE9298D9E8ADA63B2FB30C938D25CC9116ACA2795F8B90FD9530687B4AD075
    )
    assert native.mimc_sponge([1, 2]) == [
        0x2BCEA035A1251603F1CEAF73CD4AE89427C47075BB8E3A944039FF1E3D6D2A6F
    ]
    assert native.mimc_sponge([1, 2, 3, 4]) == [
        0x3E86BDC4EAC70BD601473C53D8233B145FE8FD8BF6EF25F0B217A1DA305665C
    ]
    assert (len(mimc7_constants()), len(mimc_sponge_constants())) == (91, 220)


def test_blake_vectors() -> None:
    """Of the submission to NIST: one zero byte, and more than a block of them."""
    assert native.blake_256(bytes(1)).hex() == (
        "0ce8d4ef4dd7cd8d62dfded9d4edb0a774ae6a41929a74da23109e8f11139c87"
    )
    assert native.blake_256(bytes(72)).hex() == (
        "d419bad32d504fb7d44d460c42c5593fe544fa4c135dec31e21bd9abdcc22d41"
    )
    assert native.blake_512(bytes(1)).hex() == (
        "97961587f6d970faba6d2478045de6d1fabd09b61ae50932054d52bc29d31be4"
        "ff9102b9f69e2bbdb83be13d4b9c06091e5fa0b48bd081b634058be0ec49beb3"
    )
    assert native.blake_512(bytes(144)).hex() == (
        "313717d608e9cf758dcb1eb0f0c3cf9fc150b2d500fb33f51c52afc99d358a2f"
        "1374b8a38bba7974e7f6ef79cab16f22ce1e649d6e01ad9589c213045d545dde"
    )


def test_eddsa_vectors() -> None:
    """Of circomlibjs's tests (test/eddsa.js)."""
    key = native.eddsa_public_key(PRIVATE)
    assert key[0] == 13277427435165878497778222415993513565335242147425444199013288855685581939618
    signature = native.eddsa_sign(PRIVATE, 1234)
    assert native.eddsa_verify(key, 1234, signature)
    assert not native.eddsa_verify(key, 1235, signature)
    text = signature.to_bytes()
    assert native.EddsaSignature.from_bytes(text) == signature
    other = native.EddsaSignature(signature.r8, (signature.s + 1) % ORDER)
    assert not native.eddsa_verify(key, 1234, other)
    assert not native.eddsa_verify((0, 1), 1234, signature)
    assert not native.eddsa_verify((0, P - 1), 1234, signature)


def test_hostile_signatures() -> None:
    signature = native.eddsa_sign(PRIVATE, 7)
    text = signature.to_bytes()
    with pytest.raises(InputError, match="S of the signature is not below the modulus"):
        native.EddsaSignature(signature.r8, signature.s + ORDER)
    with pytest.raises(InputError, match="S of the signature"):
        native.EddsaSignature.from_bytes(text[:32] + b"\xff" * 32)
    with pytest.raises(InputError, match="64 bytes, not 63"):
        native.EddsaSignature.from_bytes(text[:-1])
    with pytest.raises(InputError, match="not in the subgroup"):
        native.EddsaSignature.from_bytes(
            encode_edwards(CURVE, (0, P - 1), sign="circomlib") + text[32:]
        )
    with pytest.raises(InputError, match="R8 of the signature is not on baby_jubjub"):
        native.EddsaSignature((1, 1), 1)
    with pytest.raises(InputError, match="the public key is not on baby_jubjub"):
        native.eddsa_verify((1, 1), 7, signature)
    with pytest.raises(InputError, match="a private key must be 32 bytes, not 31"):
        native.eddsa_sign(PRIVATE[1:], 7)


def test_values_out_of_range() -> None:
    """An element is below the prime, and what has it not says so."""
    with pytest.raises(InputError, match=r"an input of Poseidon is not below .* bn254.fr"):
        native.poseidon_hash([P])
    with pytest.raises(InputError, match="1 to 16 inputs, not 17"):
        native.poseidon_hash([0] * 17)
    with pytest.raises(InputError, match="1 to 16 inputs, not 0"):
        native.poseidon_hash([])
    with pytest.raises(InputError, match="count must be a whole number from 1 to 3"):
        native.poseidon_outputs([1, 2], 4)
    with pytest.raises(InputError, match="the key must be a whole number"):
        native.mimc7(1, -1)
    with pytest.raises(InputError, match="a bit of the message"):
        native.pedersen_point([2])


@pytest.mark.node
def test_circomlibjs() -> None:
    """Random and extreme values, each function of the library beside ours."""
    chance = random.Random(14)
    questions: list[tuple[str, dict[str, Any]]] = []
    ours: list[Any] = []

    def ask(name: str, own: Any, /, **given: Any) -> None:
        questions.append((name, given))
        ours.append(own)

    def text(values: Any) -> list[str]:
        return [str(value) for value in values]

    for length in (1, 2, 3, 5, 16):
        inputs = [chance.choice((0, P - 1, chance.randrange(P))) for _ in range(length)]
        initial, count = chance.randrange(P), chance.randrange(1, length + 2)
        found = native.poseidon_outputs(inputs, count, initial=initial)
        ask("poseidon", text(found), inputs=inputs, initial=initial, count=count)
        key = chance.randrange(P)
        ask("mimc7_hash", str(native.mimc7_hash(inputs, key=key)), values=inputs, key=key)
        sponge = native.mimc_sponge(inputs, key=key, outputs=3)
        ask("mimc_sponge", text(sponge), values=inputs, key=key, outputs=3)
        ask("mimc7", str(native.mimc7(key, inputs[0])), value=key, key=inputs[0])
    for size in (1, 3, 25, 26, 60, 111, 127, 128):
        data = chance.randbytes(size)
        ask("pedersen", native.pedersen_bytes(data).hex(), data=data)
        ask("blake", native.blake_256(data).hex(), data=data, name="blake256")
        ask("blake", native.blake_512(data).hex(), data=data, name="blake512")
    ask("pedersen", native.pedersen_bytes(b"\xff" * 32).hex(), data=b"\xff" * 32)
    group = edwards_group(CURVE)
    points = [(0, 1), (0, P - 1), CURVE.generator]
    points += [group.multiply(chance.randrange(ORDER), CURVE.generator) for _ in range(3)]
    points.append(group.add(points[-1], (0, P - 1)))
    for point in points:
        for other in points:
            ask("add", text(group.add(point, other)), left=point, right=other)
        scalar = chance.randrange(1 << 256)
        ask("multiply", text(group.multiply(scalar, point)), scalar=scalar, base=point)
        packed = encode_edwards(CURVE, point, sign="circomlib")
        ask("pack", packed.hex(), given=point)
        assert decode_edwards(CURVE, packed, sign="circomlib", check_subgroup=False) == point
        ask("in_subgroup", group.in_subgroup(point), given=point)
    for _ in range(3):
        private, message = chance.randbytes(32), chance.randrange(P)
        key_point, signature = native.eddsa_public_key(private), native.eddsa_sign(private, message)
        ask("key", text(key_point), private_key=private)
        ask("sign", signature.to_bytes().hex(), private_key=private, message=message)
        for added in (0, 1):
            said = native.eddsa_verify(key_point, message ^ added, signature)
            ask(
                "verify", said, key=key_point, message=message ^ added,
                signature=signature.to_bytes(),
            )  # fmt: skip
    answers = circomlibjs(questions)
    for question, own, answer in zip(questions, ours, answers, strict=True):
        assert own == answer, question
