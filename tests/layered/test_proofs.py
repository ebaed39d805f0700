"""Programs are proved: `quod.gkr` accepts their circuits, names and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.errors import InputError, VerificationError
from quod.field import EXTENSIONS
from quod.gkr import Prover, VerifyingKey, verify
from quod.layered import Program
from quod.layered.gadgets import POSEIDON2, assert_matrix_product, merkle_root
from tests.layered.gadgets.test_merkle import DEPTH, HASH, path_circuit, values_of
from tests.support.thorough import one_and_others


@pytest.mark.thorough
def test_merkle_paths_are_one_proof() -> None:
    layout = path_circuit(DEPTH, True)
    leaves = [[at + 8 * column for column in range(8)] for at in range(1 << DEPTH)]
    levels = [leaves]
    while len(levels[-1]) > 1:
        pairs = zip(levels[-1][::2], levels[-1][1::2], strict=True)
        levels.append([HASH.compress_numbers(left, right) for left, right in pairs])
    rows = [values_of(levels, at) for at in (0, 3, 6)]
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    key = VerifyingKey.of(layout.circuit, EXTENSIONS["m31.4"])
    prover = Prover("cpu", key, layout.circuit, instances=3)
    inputs, public = layout.inputs(columns, instances=3), layout.public(columns, instances=3)
    proof = prover.prove(inputs, public)
    verify(key, layout.circuit, public, proof, instances=3)
    # Lists of integers are the same inputs.
    listed = [layout.inputs(row) for row in rows]
    assert prover.prove(listed, public, check=False) == proof
    with pytest.raises(VerificationError):
        wrong = [list(row) for row in public]
        wrong[1][0] += 1
        verify(key, layout.circuit, wrong, proof, instances=3)
    with pytest.raises(InputError):
        prover.prove(listed[::-1], wrong)


def test_multiplied_public_inputs_may_differ_per_instance() -> None:
    """Shared public inputs must be equal."""
    layouts = []
    for shared in (False, True):
        program = Program(EXTENSIONS["m31.4"].modulus)
        factor = program.public_input("factor", shared=shared)
        program.assert_equal(factor * program.input("x"), 12, "product")
        layouts.append(program.finished())
    values = {"x": [3, 6, 4], "factor": [4, 2, 3]}
    for layout in layouts:
        key = VerifyingKey.of(layout.circuit, EXTENSIONS["m31.4"])
        prover = Prover("cpu", key, layout.circuit, instances=3)
        inputs, public = layout.inputs(values, instances=3), layout.public(values, instances=3)
        if layout is layouts[1]:
            with pytest.raises(InputError, match="the same in all instances"):
                prover.prove(inputs, public)
        else:
            verify(key, layout.circuit, public, prover.prove(inputs, public), instances=3)


@pytest.mark.parametrize("name", one_and_others(["m31.4", "goldilocks.2"]))
def test_challenges_and_public_inputs_of_all_kinds(name: str) -> None:
    field = EXTENSIONS[name].modulus
    program = Program(field)
    a, b, c = (
        [program.inputs(f"{matrix_name}{row}", 2) for row in range(2)] for matrix_name in "abc"
    )
    assert_matrix_product(program, a, b, c)
    factor = program.public_input("factor", shared=True)
    public_value = program.public_input("own")
    program.assert_equal(
        (factor * a[0][0] + public_value * a[0][1]) ** 2, c[1][1] + 3 * public_value, "mixed"
    )
    layout = program.finished()
    left, right = np.array([[2, 3], [5, 1]]), np.array([[1, 0], [4, 6]])
    product = left @ right
    # (0 * 2 + 1 * 3)**2 = 6 + 3 * 1.
    values: dict[str, Any] = {"factor": 0, "own": 1}
    for matrix_name, matrix in (("a", left), ("b", right), ("c", product)):
        values |= {f"{matrix_name}{row}": matrix[row].tolist() for row in range(2)}
    inputs, public = layout.inputs(values), layout.public(values)
    key = VerifyingKey.of(layout.circuit, EXTENSIONS[name])
    prover = Prover("cpu", key, layout.circuit)
    verify(key, layout.circuit, public, prover.prove(inputs, public))
    # A wrong product: no assertion of it holds but by chance.
    values["c0"] = [int(product[0, 0]) + 1, int(product[0, 1])]
    with pytest.raises(InputError):
        prover.prove(layout.inputs(values, check=False), public)


# The kernels of the field are those of no other test.
@pytest.mark.thorough
def test_a_hash_with_cubes_is_proven() -> None:
    permutation = POSEIDON2["koala_bear"]
    program = Program(permutation.field)
    root = merkle_root(
        program, permutation.compress, program.inputs("leaf", 8), [program.inputs("sibling", 8)],
        [program.input("bit")],
    )  # fmt: skip
    program.assert_equal(root, program.public_inputs("root", 8), "root")
    layout = program.finished()
    digests = [list(range(8)), list(range(8, 16))]
    values = {
        "leaf": digests[1], "sibling": digests[0], "bit": 1,
        "root": permutation.compress_numbers(*digests),
    }  # fmt: skip
    key = VerifyingKey.of(layout.circuit, EXTENSIONS["koala_bear.4"])
    public = layout.public(values)
    proof = Prover("cpu", key, layout.circuit).prove(layout.inputs(values), public)
    verify(key, layout.circuit, public, proof)
