"""gnark's GKR vectors: the model reproduces them, and Quod gives the same verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quod.errors import InputError, VerificationError
from quod.gkr import Prover, VerifyingKey, verify
from quod.layered import CircuitBuilder, LayeredCircuit, Public
from tests.reference import gkr
from tests.reference.gnark import FIELD, Circuit, Proof, elements
from tests.support.thorough import one_and_others

pytestmark = pytest.mark.fixtures

FILES = [
    "single_identity_gate_two_instances",
    "single_input_two_identity_gates_two_instances",
    "single_input_two_outs_two_instances",
    "single_mimc_gate_four_instances",
    "single_mimc_gate_two_instances",
    "single_mul_gate_two_instances",
    "two_identity_gates_composed_single_input_two_instances",
    "two_inputs_select-input-3_gate_two_instances",
]
"""All of them; `mimc_five_levels_two_instances._json` is of an older form, which gnark leaves out
by its name."""

FOR_EACH_RUN = [name for name in FILES if "four" not in name]


@pytest.fixture(params=one_and_others(FILES, FOR_EACH_RUN))
def vector(request: pytest.FixtureRequest, shared_fixtures: Path) -> dict[str, Any]:
    """A file, with its circuit."""
    folder = shared_fixtures / "gkr"
    document: dict[str, Any] = json.loads((folder / f"{request.param}.json").read_text("utf-8"))
    assert document["hash"] == {"type": "const", "val": -1}
    document["wires"] = json.loads((folder / document["circuit"]).read_text("utf-8"))
    return document


def sent(vector: dict[str, Any]) -> list[Proof]:
    return [
        Proof(
            [elements(values) for values in wire["partialSumPolys"]],
            elements(wire["finalEvalProof"]),
        )
        for wire in vector["proof"]
    ]


def test_all_vector_files_exist(shared_fixtures: Path) -> None:
    assert sorted(path.stem for path in (shared_fixtures / "gkr").glob("*.json")) == FILES


def test_model_reproduces_gnark_proofs(vector: dict[str, Any]) -> None:
    circuit = Circuit(vector["wires"], vector["input"])
    outputs = [circuit.values[number] for number in circuit.outputs]
    assert outputs == [elements(values) for values in vector["output"]]
    assert circuit.prove() == sent(vector)


def test_verifier_accepts_only_the_gnark_proofs(vector: dict[str, Any]) -> None:
    circuit, outputs = Circuit(vector["wires"], vector["input"]), vector["output"]
    circuit.verify(outputs, sent(vector))
    for row in outputs:
        for place in range(len(row)):
            row[place] += 1
            with pytest.raises(VerificationError):
                circuit.verify(outputs, sent(vector))
            row[place] -= 1
    for wire in vector["proof"]:
        for numbers in (*wire["partialSumPolys"], wire["finalEvalProof"]):
            for place in range(len(numbers)):
                numbers[place] += 1
                with pytest.raises(VerificationError):
                    circuit.verify(outputs, sent(vector))
                numbers[place] -= 1


def layered(wires: list[dict[str, Any]], outputs: list[int]) -> LayeredCircuit:
    """Convert the circuit to layers, its outputs less public inputs: a gate a layer, or three."""
    log_size = len(wires).bit_length()
    builder = CircuitBuilder(FIELD.modulus, log_size, public=len(outputs))
    spare = 1 << log_size
    for number, wire in enumerate(wires):
        taken = wire["inputs"]
        if wire["gate"] is None:
            continue
        if wire["gate"] == "mimc":
            for power in (False, True):
                layer = builder.layer(log_size + 1)
                for earlier in range(number):
                    layer.add(earlier, earlier)
                if power:
                    layer.power(number, number, 5)
                    layer.power(spare, number, 2)
                else:
                    layer.add(number, taken[0])
                    layer.add(number, taken[1])
            taken = [number, spare]
        layer = builder.layer(log_size)
        for earlier in range(number):
            layer.add(earlier, earlier)
        if wire["gate"] in ("mimc", "mul2"):
            layer.multiply(number, *taken)
        else:
            layer.add(number, taken[-1])
    last = builder.layer(log_size)
    for place, number in enumerate(outputs):
        last.add(place, number, -1)
        last.constant(place, Public(place))
    return builder.finished(zeros=len(outputs))


def test_quod_gives_the_same_verdicts(vector: dict[str, Any]) -> None:
    wires, count = vector["wires"], len(vector["input"][0])
    circuit = layered(wires, Circuit(wires, vector["input"]).outputs)
    key = VerifyingKey.of(circuit, FIELD)
    # Wires that are no inputs have none in the lowest layer.
    missing = (1 << circuit.log_inputs) - len(vector["input"])
    inputs = [[*row, *[0] * missing] for row in zip(*vector["input"], strict=True)]
    public = [list(row) for row in zip(*vector["output"], strict=True)]
    prover = Prover("cpu", key, circuit, instances=count)
    proof = prover.prove(inputs, public)
    assert proof == gkr.prove(key, circuit, inputs, public)
    verify(key, circuit, public, proof, instances=count)
    for row in public:
        for place in range(len(row)):
            row[place] += 1
            with pytest.raises(InputError, match="of the circuit of instance"):
                prover.prove(inputs, public)
            with pytest.raises(VerificationError):
                verify(key, circuit, public, proof, instances=count)
            with pytest.raises(VerificationError):
                forged = gkr.prove(key, circuit, inputs, public)
                verify(key, circuit, public, forged, instances=count)
            row[place] -= 1
