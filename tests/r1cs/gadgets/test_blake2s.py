"""BLAKE2s as a gadget, against hashlib, with bellman's counts of constraints."""

from __future__ import annotations

import hashlib
import random

import pytest

from quod import r1cs
from quod.errors import InputError
from quod.r1cs import gadgets
from tests.r1cs.gadgets.gadget import inner, made, outputs, sound

PERSON = b"Zcash_ih"


def blake2s(length: int, curve: str) -> r1cs.Circuit:
    """Hash a message of so many bytes into two numbers."""

    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        bits = system.private_bits("x", 8 * length)
        return gadgets.pack_elements(system, gadgets.blake2s_hash(system, bits, PERSON), 128)

    return made(gadget, curve)


@pytest.mark.parametrize(
    ("length", "curve", "count"),
    [
        (32, "bls12_381", 21_006),
        pytest.param(64, "bls12_381", 21_006, marks=pytest.mark.thorough),
        pytest.param(65, "bn254", None, marks=pytest.mark.thorough),
    ],
)
def test_blake2s_matches_hashlib(length: int, curve: str, count: int | None) -> None:
    """A block not full and full, and two."""
    circuit = blake2s(length, curve)
    if count:
        assert inner(circuit) == 8 * length + count
    for message in (bytes(length), random.Random(length).randbytes(length)):
        digest = hashlib.blake2s(message, person=PERSON).digest()
        number = int.from_bytes(digest, "little")
        x = int.from_bytes(message, "little")
        assert outputs(circuit, x=x) == [number % (1 << 128), number >> 128]


@pytest.mark.thorough
def test_a_changed_value() -> None:
    sound(blake2s(1, "bls12_381"), 2, x=7)


def test_the_empty_message() -> None:
    """The message is constant, so that no constraint remains."""
    circuit = made(lambda system: gadgets.blake2s_hash(system, []))
    number = int.from_bytes(hashlib.blake2s(b"").digest(), "little")
    assert inner(circuit) == 0
    assert outputs(circuit) == [number >> at & 1 for at in range(256)]


def test_hostile_arguments() -> None:
    system = r1cs.ConstraintSystem("bn254")
    with pytest.raises(InputError, match="whole bytes"):
        gadgets.blake2s_hash(system, [1])
    with pytest.raises(InputError, match="the personalisation must be 8 bytes, not 7"):
        gadgets.blake2s_hash(system, [], bytes(7))
