"""Reference functions of circomlib's gadgets: published vectors, and circomlibjs's results."""

from __future__ import annotations

import random
from typing import Any

import pytest

from quod.curve import EDWARDS, decode_edwards, edwards_group, encode_edwards
from quod.errors import InputError
from quod.field import NAMED
from quod.r1cs import reference
from tests.support.node import circomlibjs

P = NAMED["bn254.fr"].value
CURVE = EDWARDS["baby_jubjub"]
ORDER = CURVE.fr.value
PRIVATE = bytes.fromhex("00010203040506070809" * 3 + "0001")


def test_eddsa_vectors() -> None:
    """Vectors of circomlibjs's tests (test/eddsa.js)."""
    key = reference.eddsa_public_key(PRIVATE)
    assert key[0] == 13277427435165878497778222415993513565335242147425444199013288855685581939618
    signature = reference.eddsa_sign(PRIVATE, 1234)
    assert reference.eddsa_verify(key, 1234, signature)
    assert not reference.eddsa_verify(key, 1235, signature)
    text = signature.to_bytes()
    assert reference.EddsaSignature.from_bytes(text) == signature
    other = reference.EddsaSignature(signature.r8, (signature.s + 1) % ORDER)
    assert not reference.eddsa_verify(key, 1234, other)
    assert not reference.eddsa_verify((0, 1), 1234, signature)
    assert not reference.eddsa_verify((0, P - 1), 1234, signature)


def test_hostile_signatures() -> None:
    signature = reference.eddsa_sign(PRIVATE, 7)
    text = signature.to_bytes()
    with pytest.raises(InputError, match="S of the signature is not below the modulus"):
        reference.EddsaSignature(signature.r8, signature.s + ORDER)
    with pytest.raises(InputError, match="S of the signature"):
        reference.EddsaSignature.from_bytes(text[:32] + b"\xff" * 32)
    with pytest.raises(InputError, match="64 bytes, not 63"):
        reference.EddsaSignature.from_bytes(text[:-1])
    with pytest.raises(InputError, match="not in the subgroup"):
        reference.EddsaSignature.from_bytes(
            encode_edwards(CURVE, (0, P - 1), sign="circomlib") + text[32:]
        )
    with pytest.raises(InputError, match="R8 of the signature is not on baby_jubjub"):
        reference.EddsaSignature((1, 1), 1)
    with pytest.raises(InputError, match="the public key is not on baby_jubjub"):
        reference.eddsa_verify((1, 1), 7, signature)
    with pytest.raises(InputError, match="a private key must be 32 bytes, not 31"):
        reference.eddsa_sign(PRIVATE[1:], 7)


def test_values_out_of_range() -> None:
    """An element is below the prime, and what has it not says so."""
    with pytest.raises(InputError, match=r"an input of Poseidon is not below .* bn254.fr"):
        reference.poseidon_hash([P])
    with pytest.raises(InputError, match="1 to 16 inputs, not 17"):
        reference.poseidon_hash([0] * 17)
    with pytest.raises(InputError, match="1 to 16 inputs, not 0"):
        reference.poseidon_hash([])
    with pytest.raises(InputError, match="count must be a whole number from 1 to 3"):
        reference.poseidon_outputs([1, 2], 4)
    with pytest.raises(InputError, match="the key must be a whole number"):
        reference.mimc7(1, -1)
    with pytest.raises(InputError, match="a bit of the message"):
        reference.pedersen_point([2])


@pytest.mark.thorough
@pytest.mark.node
def test_values_match_circomlibjs() -> None:
    """Random and extreme values, each function of the library beside ours."""
    chance = random.Random(14)
    questions: list[tuple[str, dict[str, Any]]] = []
    ours: list[Any] = []

    def ask(name: str, expected: Any, /, **arguments: Any) -> None:
        questions.append((name, arguments))
        ours.append(expected)

    def text(values: Any) -> list[str]:
        return [str(value) for value in values]

    for length in (1, 2, 3, 5, 16):
        inputs = [chance.choice((0, P - 1, chance.randrange(P))) for _ in range(length)]
        initial, count = chance.randrange(P), chance.randrange(1, length + 2)
        states = reference.poseidon_outputs(inputs, count, initial=initial)
        ask("poseidon", text(states), inputs=inputs, initial=initial, count=count)
        key = chance.randrange(P)
        ask("mimc7_hash", str(reference.mimc7_hash(inputs, key=key)), values=inputs, key=key)
        sponge = reference.mimc_sponge(inputs, key=key, outputs=3)
        ask("mimc_sponge", text(sponge), values=inputs, key=key, outputs=3)
        ask("mimc7", str(reference.mimc7(key, inputs[0])), value=key, key=inputs[0])
    for size in (1, 3, 25, 26, 60, 111, 127, 128):
        data = chance.randbytes(size)
        ask("pedersen", reference.pedersen_bytes(data).hex(), data=data)
        ask("blake", reference.blake_256(data).hex(), data=data, name="blake256")
        ask("blake", reference.blake_512(data).hex(), data=data, name="blake512")
    ask("pedersen", reference.pedersen_bytes(b"\xff" * 32).hex(), data=b"\xff" * 32)
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
        ask("pack", packed.hex(), coordinates=point)
        assert decode_edwards(CURVE, packed, sign="circomlib", check_subgroup=False) == point
        ask("in_subgroup", group.in_subgroup(point), coordinates=point)
    for _ in range(3):
        private, message = chance.randbytes(32), chance.randrange(P)
        key_point, signature = (
            reference.eddsa_public_key(private),
            reference.eddsa_sign(private, message),
        )
        ask("key", text(key_point), private_key=private)
        ask("sign", signature.to_bytes().hex(), private_key=private, message=message)
        for added in (0, 1):
            said = reference.eddsa_verify(key_point, message ^ added, signature)
            ask(
                "verify", said, key=key_point, message=message ^ added,
                signature=signature.to_bytes(),
            )  # fmt: skip
    answers = circomlibjs(questions)
    for question, expected, answer in zip(questions, ours, answers, strict=True):
        assert expected == answer, question
