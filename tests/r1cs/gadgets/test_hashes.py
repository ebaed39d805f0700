"""Hash gadgets match the reference functions and circomlib's constraint counts."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import pytest

from quod import r1cs
from quod.errors import InputError, MismatchError
from quod.r1cs import gadgets, reference
from tests.r1cs.gadgets.gadget import inner, made, outputs, sound

CHANCE = random.Random(3)
P = r1cs.ConstraintSystem("bn254").prime


@pytest.mark.parametrize(("length", "count"), [(1, 213), (2, 240), (5, 321)])
def test_poseidon(length: int, count: int) -> None:
    circuit = made(lambda system: [gadgets.poseidon_hash(system, system.private("x", length))])
    assert inner(circuit) == count
    for inputs in ([0] * length, [P - 1] * length, [CHANCE.randrange(P) for _ in range(length)]):
        assert outputs(circuit, x=inputs) == [reference.poseidon_hash(inputs)]
    sound(circuit, 3, x=[1] * length)


def test_poseidon_with_a_state_before() -> None:
    """All of the state, whose first element is a signal: three constraints more."""

    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        inputs = system.private("x", 4)
        return gadgets.poseidon_outputs(system, inputs, 5, initial=system.private("initial"))

    circuit = made(gadget)
    assert inner(circuit) == 3 * (8 * 5 + 60)
    expected = reference.poseidon_outputs([1, 2, 3, 4], 5, initial=7)
    assert outputs(circuit, x=[1, 2, 3, 4], initial=7) == expected


def test_mimc() -> None:
    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        x, key = system.private("x", 2), system.private("key")
        return [gadgets.mimc7(system, x[0], key), gadgets.mimc7_hash(system, x, key=key)]

    circuit = made(gadget)
    assert inner(circuit) == 3 * 364
    for x, key in (([1, 2], 3), ([P - 1, 0], P - 1)):
        expected = [reference.mimc7(x[0], key), reference.mimc7_hash(x, key=key)]
        assert outputs(circuit, x=x, key=key) == expected
    sound(circuit, 3, x=[1, 2], key=3)


def test_mimc_sponge() -> None:
    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        x = system.private("x", 2)
        return [
            *gadgets.mimc_sponge(system, x, outputs=2, key=5),
            *gadgets.mimc_feistel(system, x[0], x[1], x[0]),
        ]

    circuit = made(gadget)
    assert inner(circuit) == 4 * 660
    for x in ([1, 2], [P - 1, 0]):
        expected = [
            *reference.mimc_sponge(x, outputs=2, key=5),
            *reference.mimc_feistel(x[0], x[1], x[0]),
        ]
        assert outputs(circuit, x=x) == expected
    sound(circuit, 3, x=[1, 2])


@pytest.mark.parametrize(("length", "count"), [(3, 5), (8, 13), (256, 452)])
def test_pedersen(length: int, count: int) -> None:
    """A window alone, two, and two segments."""

    def gadget(system: r1cs.ConstraintSystem) -> Any:
        return gadgets.pedersen_point(system, system.private_bits("x", length))

    circuit = made(gadget)
    assert inner(circuit) == length + count
    for number in (0, (1 << length) - 1, CHANCE.getrandbits(length)):
        bits = [number >> at & 1 for at in range(length)]
        assert outputs(circuit, x=number) == list(reference.pedersen_point(bits))
    sound(circuit, 20 if length < 9 else 3, x=5)


def sha256(length: int) -> r1cs.Circuit:
    """The circuit of a message of so many bytes, whose bits are shown to be such."""

    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        digits = gadgets.unpack_elements(system, system.private("x", length), 8)
        bits = [bit for at in range(0, 8 * length, 8) for bit in digits[at : at + 8][::-1]]
        digest = gadgets.sha256(system, bits)
        return gadgets.pack_elements(system, digest[::-1], 128)

    return made(gadget)


@pytest.mark.parametrize(
    ("length", "most"),
    [(3, 24_800), pytest.param(56, 46_200, marks=pytest.mark.thorough)],
)
def test_sha256(length: int, most: int) -> None:
    """A block, and the shortest message that takes two, against hashlib."""
    circuit = sha256(length)
    assert inner(circuit) < most
    for message in (bytes(length), CHANCE.randbytes(length)):
        number = int.from_bytes(hashlib.sha256(message).digest(), "big")
        assert outputs(circuit, x=list(message)) == [number % (1 << 128), number >> 128]


@pytest.mark.thorough
def test_changed_sha256_witness_is_rejected() -> None:
    sound(sha256(1), 2, x=[7])


def test_the_empty_message() -> None:
    """The message is constant, so that no constraint remains."""
    circuit = made(lambda system: gadgets.sha256(system, []))
    number = int.from_bytes(hashlib.sha256(b"").digest(), "big")
    assert inner(circuit) == 0
    assert outputs(circuit) == [number >> at & 1 for at in reversed(range(256))]


def test_hostile_arguments() -> None:
    system, other = r1cs.ConstraintSystem("bn254"), r1cs.ConstraintSystem("bls12_381")
    with pytest.raises(MismatchError, match=r"over bn254\.fr, but the circuit is over bls12_381"):
        gadgets.poseidon_hash(other, [1])
    with pytest.raises(MismatchError, match=r"over bn254\.fr, but the circuit is over bls12_381"):
        gadgets.mimc7(other, 1, 2)
    with pytest.raises(InputError, match="1 to 16 inputs, not 17"):
        gadgets.poseidon_hash(system, [1] * 17)
    with pytest.raises(InputError, match="outputs must be a whole number from 1"):
        gadgets.mimc_sponge(system, [1], outputs=0)
    with pytest.raises(InputError, match="the bits must be at least 1 signals, not 0"):
        gadgets.pedersen_point(system, [])
    with pytest.raises(InputError, match="the bits of a word must be 32 signals, not 1"):
        gadgets.sha256_compression(system, [[1]] * 8, [[1] * 32] * 16)
    with pytest.raises(InputError, match="8 words and a block 16, not 1 and 16"):
        gadgets.sha256_compression(system, [[1] * 32], [[1] * 32] * 16)
