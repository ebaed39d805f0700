"""Chains of products: their matrices hold for their witness, and a key of them proves it."""

from __future__ import annotations

import random

import pytest

from quod.bench.chain import ChainCircuit
from quod.curve.named import CURVES
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import words_to_integers
from quod.formats import SparseMatrix
from quod.groth16 import ProvingKey
from quod.groth16.setup import make_key


def product(matrix: SparseMatrix, values: list[int], row: int) -> int:
    fr = CURVES["bn254"].fr
    entries = range(int(matrix.row_ptr[row]), int(matrix.row_ptr[row + 1]))
    (coefficients,) = {tuple(matrix.value[entry]) for entry in entries}
    assert words_to_integers(fr, matrix.value[: len(entries)]) == [1] * len(entries)
    assert coefficients[0] == 1
    return sum(values[matrix.column[entry]] for entry in entries)


@pytest.mark.parametrize("constraints", [1, 2, 4096, 4097])
def test_the_witness_satisfies_the_constraints(device: AnyDevice, constraints: int) -> None:
    circuit = ChainCircuit("bn254", constraints)
    r = CURVES["bn254"].fr.value
    witness = circuit.witness(seed=3, device=device)
    values = words_to_integers(CURVES["bn254"].fr, witness.values)
    assert len(values) == len(witness) == circuit.wires
    assert values[0] == 1
    a, b, c = circuit.matrices
    assert a.rows == b.rows == c.rows == constraints
    rows = random.Random(1).sample(range(constraints), min(constraints, 200))
    for row in {*rows, 0, constraints - 1}:
        assert product(a, values, row) * product(b, values, row) % r == product(c, values, row)
    # Every wire but the constant is used, and only products are results.
    assert set(b.column.tolist()) | set(c.column.tolist()) == set(range(1, circuit.wires))
    assert len(set(c.column.tolist())) == constraints
    assert len(set(values)) == len(values)


def test_witnesses_differ_by_their_seed() -> None:
    circuit = ChainCircuit("bls12_381", 3)
    first, again, other = (circuit.witness(seed=seed).values for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first[1:] != other[1:]).any(axis=1).all()


@pytest.mark.thorough
@pytest.mark.parametrize("curve", ["bn254", "bls12_377"])
def test_a_key_in_memory_proves_it(device: AnyDevice, curve: str) -> None:
    circuit = ChainCircuit(curve, 50)
    key = ProvingKey(make_key(circuit, 7, device=device), device)
    witness = circuit.witness(device=device)
    _, public = key.prove(witness)
    assert public == words_to_integers(CURVES[curve].fr, witness.values[1:2])
    assert key.insecure
    assert key.constraints == 50
    assert key.zkey.path == f"the test key of a chain of 50 products over {curve}"
    key.check()


def test_invalid_circuits_are_rejected() -> None:
    with pytest.raises(InputError, match="curve"):
        ChainCircuit("ed25519", 5)
    with pytest.raises(InputError, match="not 0"):
        ChainCircuit("bn254", 0)
    with pytest.raises(InputError, match="split the circuit"):
        make_key(ChainCircuit("bn254", (1 << 28) + 1), 1)
