"""Shortcuts: results that a kernel computes ahead of the wires of their blocks."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

from quod import r1cs
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.field.array import words_to_integers
from quod.field.moduli import BLS12_381_FR
from quod.hash import neptune_hash as host_neptune_hash
from quod.hash.sha2 import start_words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.r1cs import ConstraintSystem, witnesses
from quod.r1cs.gadgets.bellman.blake2s import blake2s_hash
from quod.r1cs.gadgets.bellman.booleans import Boolean, negated
from quod.r1cs.gadgets.bellman.sha import sha256
from quod.r1cs.gadgets.bellman.words import Equalities, constant_word, word_signals
from quod.r1cs.gadgets.neptune import neptune_hash
from quod.r1cs.repetition import shortcuts as declared
from quod.r1cs.repetition.shortcuts import bit_shortcut, with_shortcut
from quod.r1cs.shortcuts import kernels as shortcut_kernels
from quod.r1cs.shortcuts.blake2s import blake2s_compression
from tests.support.thorough import one_and_others

P = BLS12_381_FR.value
_BITS = 1000
"""A message of two blocks and a part of a third."""


@pytest.fixture(autouse=True)
def _every_wave_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnesses, "_MIN_WAVE_STEPS", 0)


def _digest_of_bits(system: ConstraintSystem) -> None:
    """Hash bits, of which some are constants and some negations."""
    bits = system.private_bits("message", _BITS)
    message = [1 - bit if index % 3 == 0 else bit for index, bit in enumerate(bits)]
    message[5], message[600] = system.one, system.zero
    for index, bit in enumerate(sha256(system, message)):
        system.output(f"digest[{index}]", bit)


def _digest(number: int) -> list[int]:
    bits = [number >> index & 1 for index in range(_BITS)]
    message = [1 - bit if index % 3 == 0 else bit for index, bit in enumerate(bits)]
    message[5], message[600] = 1, 0
    data = int("".join(map(str, message)), 2).to_bytes(_BITS // 8, "big")
    return [int(bit) for bit in f"{int.from_bytes(hashlib.sha256(data).digest(), 'big'):0256b}"]


def test_results_come_before_the_wires_of_all_blocks() -> None:
    waves = r1cs.trace(_digest_of_bits, "bls12_381").program.schedule.waves
    in_waves = [(len(wave.shortcuts), len(wave.stages)) for wave in waves]
    # The outputs copy the last results. The blocks differ, as the first state is constant and the
    # last block is padded.
    assert in_waves == [(1, 0), (1, 0), (1, 0), (0, 1), (0, 3)]


def test_witnesses_have_the_digests_of_hashlib() -> None:
    circuit = r1cs.trace(_digest_of_bits, "bls12_381")
    messages = [random.Random(seed).getrandbits(_BITS) for seed in range(3)]
    for witness, message in zip(
        circuit.witnesses([{"message": message} for message in messages]), messages, strict=True
    ):
        values = words_to_integers(circuit.field, witness.values)
        assert values[1:257] == _digest(message)
        assert values == circuit.values({"message": message})


def test_blake2s_circuits_have_the_digest_of_hashlib() -> None:
    """Two blocks of a message with constants and negated bits; the first state is constant."""

    def function(system: ConstraintSystem) -> None:
        bits = system.private_bits("message", 600)
        message = [1 - bit if index % 3 else bit for index, bit in enumerate(bits)]
        digest = blake2s_hash(system, [*message, *[system.one] * 16], b"personal")
        for index, bit in enumerate(digest):
            system.output(f"digest[{index}]", bit)

    circuit = r1cs.trace(function, "bls12_381")
    names = [calls.name for calls in circuit.program.schedule.shortcuts]
    assert names == ["blake2s_compression"] * 2
    numbers = [random.Random(seed).getrandbits(600) for seed in range(2)]
    negation = sum(1 << index for index in range(600) if index % 3)
    computed = circuit.witnesses([{"message": number} for number in numbers])
    for witness, number in zip(computed, numbers, strict=True):
        values = words_to_integers(circuit.field, witness.values)
        data = (number ^ negation | 0xFFFF << 600).to_bytes(77, "little")
        digest = int.from_bytes(hashlib.blake2s(data, person=b"personal").digest(), "little")
        assert values[1:257] == [digest >> index & 1 for index in range(256)]


@kernel
def compress(k: Builder, n: U32, words: Pointer[U32], out: Pointer[U32]) -> None:
    """Store the compression of the words."""
    loaded = k.load(words, k.constant(0, types.u32), 35)
    with k.if_(k.global_id() < n):
        for index, word in enumerate(blake2s_compression(k, loaded)):
            k.store(out, k.constant(index, types.u32), word)


def test_blake2s_on_every_device(device: AnyDevice) -> None:
    message, mask = random.Random(5).randbytes(64), random.Random(6).randbytes(32)
    state = np.array(start_words(), np.uint32)
    state[0] ^= 0x01010020
    words = np.frombuffer(message, "<u4"), np.frombuffer(mask, "<u4")
    counters = np.array([64, 0, 0xFFFFFFFF], np.uint32)
    arguments = np.concatenate([state, words[0], counters, words[1]]).astype(np.uint32)
    out = np.zeros(8, np.uint32)
    compress.on(device)(1, arguments, out)
    assert (out ^ words[1]).tobytes() == hashlib.blake2s(message).digest()


@pytest.fixture
def addition(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bit function that adds two words."""
    monkeypatch.setitem(declared.BIT_FUNCTIONS, "addition", (2, 1))
    monkeypatch.setitem(
        shortcut_kernels.BIT_KERNELS, "addition", lambda k: lambda words: [words[0] + words[1]]
    )
    monkeypatch.setattr(witnesses, "_MIN_COMPILED_STEPS", 10)


@with_shortcut(
    lambda system, words, result: bit_shortcut(
        "addition", word_signals(system, words), word_signals(system, [result])
    )
)
def _add(system: ConstraintSystem, x: list[Boolean], y: list[Boolean]) -> list[Boolean]:
    equalities = Equalities(system)
    total = equalities.total([x, y])
    equalities.flush()
    return total


def _sums(system: ConstraintSystem) -> None:
    """Add words one after the other, of which one is negated and one is constant."""
    words = [system.private_bits(f"words[{index}]", 32) for index in range(4)]
    total: list[Boolean] = [*words[0]]
    for word in (words[1], [negated(bit) for bit in words[2]], constant_word(0xDEADBEEF), words[3]):
        total = system.repeat(_add, total, [*word])
    system.output("sum", system.pack(word_signals(system, [total])))


def _inputs(numbers: list[int]) -> dict[str, int]:
    return {f"words[{index}]": number for index, number in enumerate(numbers)}


NUMBERS = [[1, 2, 3, 4], [0xFFFFFFFF, 1, 0, 0x80000000], [0xCAFE, 0xF00D, 0x12345678, 9]]


def _sum(numbers: list[int]) -> int:
    return (numbers[0] + numbers[1] + (~numbers[2]) + 0xDEADBEEF + numbers[3]) % (1 << 32)


@pytest.mark.usefixtures("addition")
@pytest.mark.parametrize("executor", [None, *one_and_others(["ir", "ptx", "wgsl"])])
def test_sums_on_every_device(executor: str | None) -> None:
    circuit = r1cs.trace(_sums, "bls12_381")
    device = None if executor is None else EmulatedDevice(executor=executor)
    computed = circuit.witnesses([_inputs(numbers) for numbers in NUMBERS], device=device)
    for witness, numbers in zip(computed, NUMBERS, strict=True):
        values = words_to_integers(circuit.field, witness.values)
        assert values[1] == _sum(numbers)
        assert values == circuit.values(_inputs(numbers))


def _path(arity: int) -> Callable[[ConstraintSystem], None]:
    """Return a circuit that hashes up a path, with one call whose argument is no wire."""

    def circuit(system: ConstraintSystem) -> None:
        node = system.private("leaf")
        for level in range(2):
            siblings = system.private(f"siblings[{level}]", arity - 1)
            node = neptune_hash(system, [*siblings[:level], node, *siblings[level:]])
        system.output("root", neptune_hash(system, [node, node + 1], tag=5))

    return circuit


def _nodes(arity: int, seed: int) -> dict[str, int | list[int]]:
    chance = random.Random(seed)
    siblings = [[chance.randrange(P) for _ in range(arity - 1)] for _ in range(2)]
    return {"leaf": seed, **{f"siblings[{level}]": row for level, row in enumerate(siblings)}}


def _root(nodes: dict[str, int | list[int]]) -> int:
    node = cast(int, nodes["leaf"])
    for level in range(2):
        siblings = cast(list[int], nodes[f"siblings[{level}]"])
        node = host_neptune_hash([*siblings[:level], node, *siblings[level:]])
    return host_neptune_hash([node, (node + 1) % P], tag=5)


@pytest.mark.parametrize(
    ("executor", "arity"), [(None, 8), *one_and_others([("ir", 2), ("ptx", 2), ("wgsl", 2)])]
)
def test_paths_on_every_device(executor: str | None, arity: int) -> None:
    circuit = r1cs.trace(_path(arity), "bls12_381")
    (calls,) = circuit.program.schedule.shortcuts
    assert (calls.name, calls.parameters) == ("neptune_hash", (arity, 2**arity - 1))
    device = None if executor is None else EmulatedDevice(executor=executor)
    inputs = [_nodes(arity, seed) for seed in (0, P - 1)]
    computed = circuit.witnesses(inputs, device=device)
    for witness, nodes in zip(computed, inputs, strict=True):
        values = words_to_integers(circuit.field, witness.values)
        assert values[1] == _root(nodes)
        assert values == circuit.values(nodes)


@pytest.mark.usefixtures("addition")
def test_wrong_results_are_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = r1cs.trace(_sums, "bls12_381")
    for calls in circuit.program.schedule.shortcuts:
        monkeypatch.setitem(vars(calls), "name", "wrong")
    monkeypatch.setitem(declared.BIT_FUNCTIONS, "wrong", (2, 1))
    monkeypatch.setitem(
        shortcut_kernels.BIT_KERNELS, "wrong", lambda k: lambda words: [words[0] ^ words[1]]
    )
    with pytest.raises(r1cs.UnsatisfiedError):
        circuit.witness(_inputs(NUMBERS[1]))


@pytest.mark.usefixtures("addition")
def test_bits_of_another_form_have_no_shortcut() -> None:
    def circuit(system: ConstraintSystem) -> None:
        x, y = (system.private_bits(name, 32) for name in "xy")
        twice: list[Boolean] = [*x]
        twice[3] = x[3] * 2
        system.repeat(_add, twice, [*y])
        system.repeat(_add, [*x], [*y][:-1])

    traced = r1cs.trace(circuit, "bls12_381").traced
    assert [placement.block.shortcut for placement in traced.placements] == [None, None]
