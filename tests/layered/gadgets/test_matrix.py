"""Products of matrices against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.errors import InputError, MismatchError
from quod.field import NAMED
from quod.layered import Program, Wire
from quod.layered.gadgets import assert_matrix_product, matrix_product
from tests.layered.evaluation import finished, gates, outputs

M31 = NAMED["m31"]


def matrix(program: Program, name: str, rows: int, columns: int) -> list[list[Wire]]:
    return [program.inputs(f"{name}[{row}]", columns) for row in range(rows)]


def named(name: str, rows: Any) -> dict[str, Any]:
    return {f"{name}[{number}]": row for number, row in enumerate(rows.tolist())}


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 4), (5, 1, 2)])
def test_products(shape: tuple[int, int, int]) -> None:
    rows, inner, columns = shape
    generator = np.random.default_rng(rows)
    left, right = (
        generator.integers(-9, 9, (rows, inner)),
        generator.integers(0, 9, (inner, columns)),
    )
    product = left @ right
    program = Program(M31)
    a, b = matrix(program, "a", rows, inner), matrix(program, "b", inner, columns)
    layout = finished(program, [wire for row in matrix_product(program, a, b) for wire in row])
    values = named("a", left) | named("b", right) | {"result": product.ravel().tolist()}
    inputs = layout.inputs(values)
    assert not any(outputs(layout.circuit, inputs, layout.public(values)))

    program = Program(M31)
    a, b = matrix(program, "a", rows, inner), matrix(program, "b", inner, columns)
    assert_matrix_product(program, a, b, matrix(program, "c", rows, columns))
    layout = program.finished()
    values = named("a", left) | named("b", right)
    inputs = layout.inputs(values | named("c", product))
    assert not any(outputs(layout.circuit, inputs))
    product[rows - 1, columns // 2] += 1
    with pytest.raises(MismatchError, match=rf"product\[{rows - 1}\] does not hold"):
        layout.inputs(values | named("c", product))
    inputs = layout.inputs(values | named("c", product), check=False)
    assert any(outputs(layout.circuit, inputs))


def test_product_check_gate_count_is_linear_in_the_entries() -> None:
    program = Program(M31)
    a, b, c = (matrix(program, name, 16, 16) for name in "abc")
    assert_matrix_product(program, a, b, c)
    circuit = program.finished().circuit
    # 256 entries each: random combinations of b and c, products with a, relays of a.
    assert gates(circuit) == {"add": 4 * 256, "multiply": 256}
    assert len(circuit.layers) == 2


def test_wrong_shapes() -> None:
    program = Program(M31)
    a, b = matrix(program, "a", 2, 3), matrix(program, "b", 2, 3)
    with pytest.raises(InputError, match="shapes of the matrices"):
        matrix_product(program, a, b)
    with pytest.raises(InputError, match="shapes of the matrices"):
        assert_matrix_product(program, a, matrix(program, "c", 3, 2), b)
    for wrong in (None, [], [[]], [a[0], a[1][:2]], a[0]):
        with pytest.raises(InputError):
            matrix_product(program, wrong, b)  # type: ignore[arg-type]
