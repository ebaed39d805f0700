"""Comparison of calculators in WebAssembly with the witnesses of Python, to the bit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from quod.errors import QuodError
from quod.r1cs import Circuit
from quod.r1cs.inputs import Inputs
from quod.witness import WitnessCalculator


def interface_inputs(circuit: Circuit, inputs: Inputs) -> dict[str, Any]:
    """The inputs in the form of circom's interface, where bits are a list."""
    values: dict[str, Any] = {}
    for name, declared in circuit.inputs.items():
        value: Any = inputs[name]
        if declared.kind == "bytes":
            value = int.from_bytes(value, "little")
        if declared.bits:
            value = [int(value) >> index & 1 for index in range(len(declared.wires))]
        values[name] = list(value) if not declared.single else value
    return values


def agree(circuit: Circuit, all_inputs: Iterable[Inputs]) -> tuple[int, int]:
    """Compare witnesses and refusals; return the numbers of both."""
    calculator = WitnessCalculator(circuit.wasm(), curve=circuit.curve, variables=circuit.wires)
    witnesses = refusals = 0
    for inputs in all_inputs:
        values: Any = interface_inputs(circuit, inputs)
        try:
            expected = circuit.witness(inputs).values
        except QuodError:
            refusals += 1
            try:
                calculator.calculate(values)
            except QuodError:
                continue
            raise AssertionError(f"the calculator accepts {inputs}") from None
        assert np.array_equal(calculator.witness(values).values, expected), inputs
        witnesses += 1
    return witnesses, refusals
