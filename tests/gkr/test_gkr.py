"""Proofs of layered circuits on every device, against a model on plain integers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from quod.circuit import CircuitBuilder, LayeredCircuit
from quod.circuit.layered import KINDS, Gates, Layer
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError, MismatchError, QuodError, VerificationError
from quod.field import EXTENSIONS, NAMED, FieldSpec, Modulus
from quod.gkr import Prover, VerifyingKey, error_terms, security_bits, verify
from quod.transcript import Transcript
from tests.gkr.circuits import satisfied
from tests.reference import gkr as reference

FIELDS: dict[str, FieldSpec] = {
    "bn254.fr": NAMED["bn254.fr"],
    **{name: EXTENSIONS[name] for name in ("m31.4", "goldilocks.2")},
}


def key_of(circuit: LayeredCircuit, field: FieldSpec, public: int = 3) -> VerifyingKey:
    return VerifyingKey.of(circuit, field, public=public)


def check(device: AnyDevice, field: FieldSpec, seed: int, **form: Any) -> None:
    circuit, inputs = satisfied(field.modulus, seed, **form)
    key = key_of(circuit, field)
    proof = Prover(device, key, circuit).prove(inputs)
    assert proof == reference.prove(key, circuit, inputs)
    assert verify(key, circuit, inputs[:3], proof) == inputs


@pytest.mark.parametrize("name", FIELDS)
def test_agrees_with_the_model(device: AnyDevice, name: str) -> None:
    for seed in (1, 2):
        check(device, FIELDS[name], seed)


def test_the_code_of_gpus_agrees_with_the_model(gpu_device: AnyDevice) -> None:
    check(gpu_device, EXTENSIONS["m31.4"], 3, powers=False, layers=2)


def test_layers_beyond_a_workgroup() -> None:
    """Rounds on large tables, too."""
    check(open_device("cpu"), EXTENSIONS["goldilocks.2"], 4, log_inputs=7, gates=200, layers=2)


@pytest.fixture(scope="module")
def proven() -> tuple[VerifyingKey, LayeredCircuit, list[int], bytes]:
    circuit, inputs = satisfied(NAMED["m31"], 5, layers=2, gates=5)
    key = key_of(circuit, EXTENSIONS["m31.4"])
    return key, circuit, inputs, Prover("cpu", key, circuit).prove(inputs)


Proven = tuple[VerifyingKey, LayeredCircuit, list[int], bytes]


def test_mutated_proofs_are_refused(proven: Proven) -> None:
    key, circuit, inputs, proof = proven
    for place in range(0, len(proof), 3):
        changed = bytearray(proof)
        changed[place] ^= 1 << place % 8
        with pytest.raises((VerificationError, InputError)):
            verify(key, circuit, inputs[:3], bytes(changed))
    for wrong in (proof[:-1], proof + b"\0", b"", proof[4:], proof * 2):
        with pytest.raises((VerificationError, InputError)):
            verify(key, circuit, inputs[:3], wrong)
    p = circuit.field.value
    for place in range(0, len(proof), 4):
        number = int.from_bytes(proof[place : place + 4], "little") + p
        if number < 1 << 32:
            other = proof[:place] + number.to_bytes(4, "little") + proof[place + 4 :]
            with pytest.raises(InputError, match="not below the modulus"):
                verify(key, circuit, inputs[:3], other)


def test_other_statements_are_refused(proven: Proven) -> None:
    key, circuit, inputs, proof = proven
    other, _ = satisfied(circuit.field, 6, layers=2, gates=5)
    with pytest.raises(MismatchError):
        verify(key, other, inputs[:3], proof)
    with pytest.raises(VerificationError):
        verify(key, circuit, [*inputs[:2], (inputs[2] + 1) % circuit.field.value], proof)
    for wrong in (
        VerifyingKey(key.circuit, EXTENSIONS["m31.3"], 3, key.chain),
        VerifyingKey(key.circuit, key.field, 3, key.chain + 1),
        VerifyingKey(key.circuit, key.field, 2, key.chain),
    ):
        with pytest.raises((VerificationError, InputError)):
            verify(wrong, circuit, inputs[: wrong.public], proof)


def test_every_part_of_the_statement_changes_the_first_challenge(proven: Proven) -> None:
    key, circuit, inputs, _ = proven
    field = key.field
    states = set()
    changed = bytes([key.circuit[0] ^ 1]) + key.circuit[1:]
    for own, public in (
        (key, inputs[:3]), (key, [*inputs[:2], inputs[2] ^ 1]),
        (VerifyingKey(changed, field, 3, key.chain), inputs[:3]),
        (VerifyingKey(key.circuit, EXTENSIONS["m31.3"], 3, key.chain), inputs[:3]),
        (VerifyingKey(key.circuit, field, 3, key.chain + 1), inputs[:3]),
        (VerifyingKey(key.circuit, field, 2, key.chain), inputs[:2]),
    ):  # fmt: skip
        transcript = Transcript()
        own.begin(transcript, circuit.field, public)
        own.lengthen(transcript)
        states.add(transcript.state)
    assert len(states) == 6


def test_outputs_that_are_not_zero_are_refused(proven: Proven) -> None:
    """By the prover, and what the model proves of them by the verifier."""
    key, circuit, inputs, _ = proven
    for place, value in enumerate(inputs):
        wrong = [*inputs[:place], (value + 1) % circuit.field.value, *inputs[place + 1 :]]
        if any(circuit.evaluate(wrong)[-1]):
            break
    else:
        pytest.fail("the circuit depends on no input")
    with pytest.raises(InputError, match="with these inputs, not 0"):
        Prover("cpu", key, circuit).prove(wrong)
    with pytest.raises(VerificationError):
        verify(key, circuit, wrong[:3], reference.prove(key, circuit, wrong))


def test_few_bits_are_refused() -> None:
    circuit, _ = satisfied(NAMED["m31"], 1, layers=2)
    with pytest.raises(InputError, match="at least 100 are asked for"):
        VerifyingKey.of(circuit, EXTENSIONS["m31.3"])
    bits = security_bits(circuit, EXTENSIONS["m31.3"])
    assert 80 <= bits < 93
    VerifyingKey.of(circuit, EXTENSIONS["m31.3"], allow_bits=bits)
    assert security_bits(circuit, EXTENSIONS["m31.4"]) > 110
    toy, _ = satisfied(Modulus("toy.17", 17), 1)
    assert security_bits(toy, toy.field) == 0
    VerifyingKey.of(toy, toy.field, allow_bits=0)
    assert all(term > 0 for term in error_terms(circuit, EXTENSIONS["m31.4"]).values())


def test_false_statements_pass_on_toy_fields_as_often_as_theory_allows() -> None:
    """The model's proofs of unsatisfied circuits: no more are accepted than the bound says."""
    toy, accepted, count = Modulus("toy.31", 31), 0, 60
    circuit, inputs = satisfied(toy, 2, log_inputs=1, layers=1, gates=3, powers=False)
    key = VerifyingKey.of(circuit, toy, allow_bits=0)
    generator = random.Random(1)
    for _ in range(count):
        wrong = [generator.randrange(31) for _ in inputs]
        if not any(circuit.evaluate(wrong)[-1]):
            continue
        try:
            verify(key, circuit, [], reference.prove(key, circuit, wrong))
            accepted += 1
        except VerificationError:
            pass
    assert accepted < count * float(sum(error_terms(circuit, toy).values()))


def gates(output: list[int], *inputs: list[int]) -> Gates:
    arrays = [np.array(numbers, np.uint32) for numbers in (output, *inputs, [0] * len(output))]
    return Gates(arrays[0], tuple(arrays[1:-1]), arrays[-1])


def test_circuits_that_are_none_are_refused() -> None:
    field = NAMED["m31"]
    none = {kind: gates([], *([[]] * count)) for kind, count in KINDS.items()}
    wrong: Any
    for wrong in (
        {"add": gates([4], [0])}, {"add": gates([0], [8])}, {"multiply": gates([0], [0], [8])},
        {"add": gates([0])}, {"constant": gates([4])}, {"add": gates([0], [0, 1])}, {"other": none},
    ):  # fmt: skip
        with pytest.raises(InputError):
            LayeredCircuit(field, 3, [1], [Layer(2, {**none, **wrong})])
    for wrong in ([], None, [Layer(0, none)], [Layer(40, none)]):
        with pytest.raises((InputError, TypeError)):
            LayeredCircuit(field, 3, [1], wrong)
    with pytest.raises(InputError):
        LayeredCircuit(field, 3, [], [Layer(2, {**none, "add": gates([0], [0])})])
    builder = CircuitBuilder(field, 3)
    for wrong in (1.5, None, True):
        with pytest.raises(InputError):
            builder.layer(1).add(0, 0, wrong)
    circuit, inputs = satisfied(field, 1)
    key = key_of(circuit, EXTENSIONS["m31.4"])
    prover = Prover("cpu", key, circuit)
    for wrong in (inputs[:-1], [*inputs[:-1], -1], [*inputs[:-1], field.value], None, "text"):
        with pytest.raises(QuodError):
            prover.prove(wrong)
    for wrong in ([], None, "abc", [0, 1, field.value], [0, 1, 2.0]):
        with pytest.raises(QuodError):
            verify(key, circuit, wrong, b"")
