"""Provers, verifiers, keys and circuits reject invalid arguments."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from quod.errors import InputError, QuodError
from quod.field import EXTENSIONS, NAMED, from_integers
from quod.gkr import (
    Prover,
    Reduction,
    Verifier,
    VerifyingKey,
    verify,
)
from quod.layered import CircuitBuilder, LayeredCircuit, Public
from quod.layered.circuit import KINDS, Gates, Layer
from tests.gkr.circuits import satisfied, with_other


@pytest.mark.parametrize(("reduction", "most"), [("places", 2**20), ("columns", 2**22)])
def test_too_many_instances_are_rejected(reduction: str, most: int) -> None:
    builder = CircuitBuilder(NAMED["m31"], log_inputs=10)
    builder.layer(1).multiply(0, 0, 1)
    circuit = builder.finished()
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"], reduction=Reduction(reduction))
    for role in (Prover, Verifier):
        with pytest.raises(InputError, match=f"prove at most {most:,} at a time"):
            role("cpu", key, circuit, instances=most + 1)


def test_multiplied_public_inputs_must_be_equal_in_all_instances() -> None:
    circuit, inputs, public = satisfied(NAMED["m31"], 5, instances=2)
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"])
    public[1][0] = (public[1][0] + 1) % circuit.field.value
    with pytest.raises(InputError, match="public input 0 is a factor"):
        Prover("cpu", key, circuit, instances=2).prove(inputs, public)
    with pytest.raises(InputError, match="public input 0 is a factor"):
        verify(key, circuit, public, b"", instances=2)


def gates(output: list[int], *inputs: list[int]) -> Gates:
    arrays = [np.array(numbers, np.uint32) for numbers in (output, *inputs, [0] * len(output))]
    return Gates(arrays[0], tuple(arrays[1:-1]), arrays[-1])


def test_invalid_circuits_are_rejected() -> None:
    field = NAMED["m31"]
    none = {kind: gates([], *([[]] * count)) for kind, count in KINDS.items()}
    square = np.zeros((1, 1), np.uint32)
    nothing: Any = None
    listed: Any = [0]
    wrong: Any
    for wrong in (
        {"add": gates([4], [0])}, {"add": gates([0], [8])}, {"multiply": gates([0], [0], [8])},
        {"add": gates([0])}, {"constant": gates([4])}, {"add": gates([0], [0, 1])}, {"other": none},
        {"add": None}, {"add": Gates(*[nothing] * 3)}, {"add": Gates(listed, (listed,), listed)},
        {"add": Gates(square, (square,), square)},
        {"add": Gates(np.zeros(1), (np.zeros(1),), np.zeros(1))},
    ):  # fmt: skip
        with pytest.raises(InputError):
            LayeredCircuit(field, 3, [1], [Layer(2, {**none, **wrong})])
    for wrong in ([], None, [Layer(0, none)], [Layer(40, none)], [Layer(2, nothing)], [nothing]):
        with pytest.raises(InputError):
            LayeredCircuit(field, 3, [1], wrong)
    with pytest.raises(InputError):
        LayeredCircuit(field, 3, [], [Layer(2, {**none, "add": gates([0], [0])})])
    builder = CircuitBuilder(field, 3)
    for wrong in (1.5, None, True):
        with pytest.raises(InputError):
            builder.layer(1).add(0, 0, wrong)
    for wrong in (0, 6, 1.0, None):
        with pytest.raises(InputError):
            builder.layer(1).power(0, 0, wrong)
    with pytest.raises(InputError):
        builder.layer(1).unary(0, 0, [1] * 7)
    builder = CircuitBuilder(field, 3, public=2)
    builder.layer(1).add(0, 0, Public(2))
    with pytest.raises(InputError, match="public input 2 is out of range"):
        builder.finished()
    for wrong in (0, 3, None):
        circuit = CircuitBuilder(field, 3)
        circuit.layer(1)
        if wrong is not None:
            with pytest.raises(InputError):
                circuit.finished(zeros=wrong)


def test_digested_circuit_is_immutable() -> None:
    """Later changes to the arrays it was made of do not change a verified circuit."""
    none = {kind: gates([], *([[]] * count)) for kind, count in KINDS.items()}
    add_gates, kinds = gates([0], [1]), dict(none)
    kinds["add"] = add_gates
    circuit = LayeredCircuit(NAMED["m31"], 3, [1, 2], [Layer(2, kinds)])
    digest = circuit.digest
    add_gates.coefficient[0], kinds["add"] = 1, none["add"]
    kept: Any = circuit.layers[0].gates
    assert kept["add"].coefficient.tolist() == [0]
    assert circuit.digest == digest
    with pytest.raises(ValueError, match="read-only"):
        kept["add"].output[0] = 1
    assert pickle.loads(pickle.dumps(circuit)).digest == digest
    with pytest.raises(InputError, match="a Public or a Random"):
        LayeredCircuit(NAMED["m31"], 3, [type("Other", (Public,), {})(0)], [Layer(2, none)])


def test_invalid_keys_are_rejected() -> None:
    """NaN and negative security bits are rejected too."""
    circuit, *_ = satisfied(NAMED["m31"], 1, layers=1)
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"])
    wrong: Any
    for name, wrong_values in {
        "circuit": (None, circuit.digest.hex(), bytearray(circuit.digest), b""),
        "commitment": (None,),
        "chain": (None, "64", 64.5, True, 0, -1, 1 << 40),
        "bits": (None, "100", 1.5, float("nan"), -1), "reduction": (None, "columns", 1, Reduction),
    }.items():  # fmt: skip
        for wrong in wrong_values:
            with pytest.raises(InputError):
                with_other(key, **{name: wrong})
    assert type(with_other(key, chain=np.int64(64)).chain) is int


def test_invalid_inputs_are_rejected() -> None:
    circuit, (inputs,), (public,) = satisfied(NAMED["m31"], 1, powers=False, layers=1)
    p = circuit.field.value
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"])
    prover = Prover("cpu", key, circuit)
    wrong: Any
    for wrong in (
        inputs[:-1], [*inputs[:-1], -1], [*inputs[:-1], p], None, "text", [inputs, inputs], [],
        np.zeros(3, np.uint32), np.full((1, len(inputs), 1), p, np.uint32), np.zeros(8),
        np.array(inputs, np.uint32), np.array([inputs], np.uint32),
        np.array(inputs, np.uint32).reshape(2, 4, 1),
    ):  # fmt: skip
        with pytest.raises(QuodError):
            prover.prove(wrong, public)
    for wrong in ([], None, "abc", [*public[:-1], p], [*public[:-1], 2.0], [public, public]):
        with pytest.raises(QuodError):
            prover.prove(inputs, wrong)
        with pytest.raises(QuodError):
            verify(key, circuit, wrong, b"")
    for wrong in (0, -1, 1 << 60, None, 1.0):
        with pytest.raises(InputError):
            Prover("cpu", key, circuit, instances=wrong)
        with pytest.raises(InputError):
            verify(key, circuit, public, b"", instances=wrong)
    table = from_integers(circuit.field, inputs)[None]
    assert prover.prove(table, public) == prover.prove(inputs, public)
    assert prover.prove(table[0], public) == prover.prove(inputs, public)
