"""Write the circuit and the inputs of this folder: MiMC over M31, with 14 rounds of x^5.

    python examples/layered/make.py

A proof says: I know x and k such that the public value is MiMC_k(x). A layer has two values: the
state before a round's power (with key and round constant added), and the key.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from quod.field import NAMED
from quod.layered import CircuitBuilder, LayeredCircuit, Public, write_circuit

M31 = NAMED["m31"]
P = M31.value
# 5^14 is the first power of 5 above the prime; 5 has no factor in common with p - 1.
ROUNDS = 14
INSTANCES = 16
FOLDER = Path(__file__).parent


def constant(number: int) -> int:
    """Return the constant of a round; the first round's is 0."""
    if not number:
        return 0
    digest = hashlib.sha3_256(f"quod example mimc {number}".encode()).digest()
    return int.from_bytes(digest, "little") % P


def mimc(x: int, k: int) -> int:
    """Compute MiMC_k(x), the public value of a proof."""
    state = x
    for number in range(ROUNDS):
        state = pow(state + k + constant(number), 5, P)
    return (state + k) % P


def circuit() -> LayeredCircuit:
    """Build the circuit; its output, which must be 0, is the public input minus MiMC_k(x)."""
    builder = CircuitBuilder(M31, log_inputs=1, public=1)
    first = builder.layer(1)
    first.add(0, 0)
    first.add(0, 1)
    first.add(1, 1)
    for number in range(1, ROUNDS):
        layer = builder.layer(1)
        layer.power(0, 0, 5)
        layer.add(0, 1)
        layer.constant(0, constant(number))
        layer.add(1, 1)
    last = builder.layer(1)
    last.power(0, 0, 5, -1)
    last.add(0, 1, -1)
    last.constant(0, Public(0))
    return builder.finished(zeros=1)


def inputs() -> dict[str, list[list[str]]]:
    """Return the inputs of all instances, as inputs.json has them."""
    rows = [(1000 + number, 7 * number) for number in range(INSTANCES)]
    return {
        "inputs": [[str(value) for value in row] for row in rows],
        "public": [[str(mimc(*row))] for row in rows],
    }


if __name__ == "__main__":
    write_circuit(FOLDER / "circuit.qcir", circuit())
    (FOLDER / "inputs.json").write_text(json.dumps(inputs(), indent=1) + "\n")
