"""Calculators of all gadgets compute the witnesses of Python, and refuse the same inputs."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from quod.curve.edwards.affine import edwards_group
from quod.r1cs import Circuit
from quod.r1cs.inputs import Inputs
from tests.r1cs.calculator.agreement import agree
from tests.r1cs.determinism.all_gadgets import BABY_JUBJUB, GADGETS, gadget_circuit

# Their modules take seconds to make, so that they are tested thoroughly only.
LARGE = ("assert_eddsa", "blake2s_hash", "sha256", "bellman's sha256")


def random_inputs(name: str, circuit: Circuit, count: int) -> Iterator[Inputs]:
    """Random inputs of a gadget; most are valid, some are not."""
    draw = random.Random(name)
    prime, group = circuit.field.value, edwards_group(BABY_JUBJUB)
    inputs_of = GADGETS[name].inputs
    for trial in range(count):
        if inputs_of is not None:
            yield inputs_of(draw)
            continue
        limit = (8, 2, 1 << 16, prime, 1 << draw.randrange(1, 254))[trial % 5]
        inputs: dict[str, int | list[int]] = {}
        for key, declared in circuit.inputs.items():
            wires = len(declared.wires)
            numbers = [draw.randrange(limit) for _ in declared.wires]
            if declared.bits:
                inputs[key] = draw.getrandbits(wires)
            elif key in ("p", "q") and trial % 8:
                scalar = draw.randrange(BABY_JUBJUB.fr.value)
                inputs[key] = list(group.multiply(scalar, BABY_JUBJUB.generator))
            elif key == "index":
                inputs[key] = [draw.getrandbits(1) for _ in declared.wires]
            else:
                inputs[key] = numbers[0] if declared.single else numbers
        yield inputs


@pytest.mark.parametrize("name", [name for name in GADGETS if name not in LARGE])
def test_gadgets(name: str) -> None:
    circuit = gadget_circuit(name)
    witnesses, _ = agree(circuit, random_inputs(name, circuit, 20))
    assert witnesses


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", GADGETS)
def test_gadgets_with_a_thousand_inputs(name: str) -> None:
    circuit = gadget_circuit(name)
    witnesses, _ = agree(circuit, random_inputs(name, circuit, 1000))
    assert witnesses > 100
