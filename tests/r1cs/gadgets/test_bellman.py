"""Gadgets with bellman's constraints: SHA-256 against hashlib, bits, packing, and digests."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from itertools import product

import pytest

from quod import r1cs
from quod.errors import InputError
from quod.r1cs.gadgets import bellman
from quod.r1cs.gadgets.bellman.booleans import (
    Boolean,
    boolean,
    choice,
    majority,
    negated,
    scaled,
)
from quod.r1cs.gadgets.bellman.words import (
    Equalities,
    Word,
    exclusive_or_of_words,
    rotated,
    shifted,
)
from quod.testing import assert_deterministic
from tests.r1cs.gadgets.gadget import inner, made, outputs, sound

CURVE = "bls12_381"
P = r1cs.ConstraintSystem(CURVE).prime
HASH_OF_LEAVES = "42ff364259acdda790e86a380689f71d04741cc09f2f4a7192e1c1c3f36dd176"
"""The digest of Filecoin's `hash_leaf_bits_circuit`, computed by an independent program."""


def hashed(length: int) -> r1cs.Circuit:
    """SHA-256 of a message of `length` bytes, as two numbers."""

    def function(system: r1cs.ConstraintSystem) -> None:
        bits = [system.private_bits(f"x{index}", 8)[::-1] for index in range(length)]
        digest = bellman.sha256(system, [bit for byte in bits for bit in byte])
        bellman.publish_packed(system, "digest", digest[::-1])

    return r1cs.trace(function, CURVE)


def check_digest(circuit: r1cs.Circuit, message: bytes) -> None:
    """Compare the digest in a circuit of `hashed` with that of hashlib."""
    values = circuit.values({f"x{index}": byte for index, byte in enumerate(message)})
    assert not circuit.check(values)
    number = int.from_bytes(hashlib.sha256(message).digest(), "big")
    assert values[1:3] == [number % (1 << 254), number >> 254]


def test_sha256_matches_hashlib() -> None:
    """A message with constant bits in its block, from the padding."""
    circuit = hashed(3)
    for message in (b"abc", bytes(3)):
        check_digest(circuit, message)


@pytest.mark.thorough
@pytest.mark.parametrize("length", [55, 56, 64, 119])
def test_sha256_of_all_paddings(length: int) -> None:
    check_digest(hashed(length), random.Random(length).randbytes(length))


def test_sha256_of_constants() -> None:
    """All of the message is constant, so that no constraint remains."""
    circuit = made(lambda system: bellman.sha256(system, [0, 1] * 4))
    number = int.from_bytes(hashlib.sha256(b"\x55").digest(), "big")
    assert inner(circuit) == 0
    assert outputs(circuit) == [number >> index & 1 for index in reversed(range(256))]


def reversed_in_bytes(bits: list[r1cs.Signal]) -> list[r1cs.Signal]:
    return [bit for start in range(0, len(bits), 8) for bit in bits[start : start + 8][::-1]]


def test_sha256_has_the_constraints_of_bellperson() -> None:
    """The count and digest of the hash of two leaves of Filecoin's TreeD, given as bits."""

    def function(system: r1cs.ConstraintSystem) -> None:
        leaves = [system.private_bits(name, 256) for name in ("left", "right")]
        message = [bit for leaf in leaves for bit in reversed_in_bytes(leaf)]
        digest = reversed_in_bytes(bellman.sha256(system, message))
        bellman.packed(system, digest[:254])

    circuit = r1cs.trace(function, CURVE)
    # bellperson's test of sha256 has 44,874; the bits of the leaves and the packing are the others.
    assert (circuit.constraints, circuit.wires - 1) == (44_874 + 512 + 1, 45_341)
    # Its test of the compression function is the first block; the second one has the padding.
    assert circuit.profile().within["block[0]"] == 25_840
    assert circuit.circuit_hash() == HASH_OF_LEAVES
    left, right = (random.Random(5).getrandbits(254) for _ in range(2))
    values = circuit.values({"left": left, "right": right})
    digest = hashlib.sha256(left.to_bytes(32, "little") + right.to_bytes(32, "little")).digest()
    assert values[-1] == int.from_bytes(digest, "little") % (1 << 254)


@pytest.mark.thorough
def test_a_changed_value_of_sha256() -> None:
    sound(hashed(1), 2, x0=7)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_sha256_is_unique() -> None:
    """Blocks of variable bits, and of padding; a message of few variable bits stays unknown."""
    assert_deterministic(hashed(64), seconds=900)


def test_sums_in_shared_constraints_are_unique() -> None:
    """Sums of words, each of which depends on those before, in two constraints, as in SHA-256."""

    def function(system: r1cs.ConstraintSystem) -> None:
        words: list[Word] = [[*system.private_bits(name, 32)] for name in "xyz"]
        equalities = Equalities(system)
        for _ in range(8):
            first, second, third = words[-3:]
            bits = list(zip(first, second, third, strict=True))
            chosen = [choice(system, *three) for three in bits]
            majorities = [majority(system, *three) for three in bits]
            mixed = exclusive_or_of_words(system, rotated(first, 7), shifted(second, 3))
            words.append(equalities.total([first, mixed, chosen, majorities]))
        equalities.flush()
        for index, bit in enumerate(words[-1]):
            system.output(f"bit[{index}]", scaled(system, bit, 1))

    assert_deterministic(r1cs.trace(function, CURVE))


KINDS: dict[str, Callable[[Boolean], Boolean]] = {"bit": lambda bit: bit, "not": negated}


@pytest.mark.parametrize(
    ("gadget", "expected"),
    [
        (choice, lambda a, b, c: b if a else c),
        (majority, lambda a, b, c: int(a + b + c >= 2)),
    ],
)
def test_functions_of_three_bits(
    gadget: Callable[..., Boolean], expected: Callable[[int, int, int], int]
) -> None:
    """Each operand is a bit, a negated one or a constant: 64 circuits in one."""
    forms = list(product(["bit", "not", False, True], repeat=3))

    def function(system: r1cs.ConstraintSystem) -> Iterable[r1cs.Signal]:
        bits = system.private_bits("x", 3)
        for form in forms:
            operands = [
                kind if isinstance(kind, bool) else KINDS[kind](bit)
                for kind, bit in zip(form, bits, strict=True)
            ]
            yield scaled(system, gadget(system, *operands), 1)

    circuit = made(lambda system: list(function(system)))
    for values in product((0, 1), repeat=3):
        number = sum(value << index for index, value in enumerate(values))
        results = outputs(circuit, x=number)
        for form, result in zip(forms, results, strict=True):
            operands = [
                int(kind) if isinstance(kind, bool) else value ^ (kind == "not")
                for kind, value in zip(form, values, strict=True)
            ]
            assert result == expected(*operands), form
    assert_deterministic(circuit)


def test_constant_signals_are_constant_bits() -> None:
    system = r1cs.ConstraintSystem(CURVE)
    bit = system.private_bits("x", 1)[0]
    assert boolean(bit) is bit
    assert [boolean(system.constant(value)) for value in (0, 1)] == [False, True]


def bits_of_element(system: r1cs.ConstraintSystem) -> None:
    bits = bellman.element_bits(system, system.private("x"))
    bellman.publish_packed(system, "bits", bits)


def test_bits_of_an_element() -> None:
    circuit = r1cs.trace(bits_of_element, CURVE)
    assert circuit.constraints == 256 + 2
    for x in (0, 1, P - 1):
        values = circuit.values({"x": x})
        assert not circuit.check(values)
        assert values[1:3] == [x % (1 << 254), x >> 254]


def test_bits_of_an_element_are_ambiguous() -> None:
    """bellman does not exclude the bits of x + p; its keys need these constraints."""
    report = r1cs.trace(bits_of_element, CURVE).check()
    assert {verdict.kind for verdict in report.verdicts} == {"ambiguous"}
    assert any("alias" in str(finding) for finding in report.findings)


def test_packing() -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        bits = system.private_bits("x", 9)
        system.output("packed", bellman.packed(system, bits))
        system.output("nothing", bellman.packed(system, []))
        bellman.publish_packed(system, "bits", [*bits, 1, 0, 1])

    circuit = r1cs.trace(function, CURVE)
    assert circuit.constraints == 9 + 2 * 2 + 1
    values = circuit.values({"x": 300})
    assert values[1:4] == [300, 0, 300 + 512 * 5]
    assert not circuit.check(values)
    assert_deterministic(circuit)
    assert circuit.system.public_names == ["packed", "nothing", "bits"]


def test_too_many_bits_to_pack() -> None:
    system = r1cs.ConstraintSystem(CURVE)
    with pytest.raises(InputError, match="255 bits do not fit in one element"):
        bellman.packed(system, [0] * 255)
    with pytest.raises(InputError, match="not known to be a bit"):
        bellman.publish_packed(system, "x", [system.private("x")])


def test_public_wires_have_values() -> None:
    """A public wire needs a constraint in which it is the only new wire."""
    with pytest.raises(InputError, match="no constraint determines the value of the wire total"):
        r1cs.trace(lambda system: system.public_wire("total"))
    with pytest.raises(InputError, match="two inputs or outputs have the name 'x'"):
        r1cs.trace(lambda system: (system.private("x"), system.public_wire("x")))
