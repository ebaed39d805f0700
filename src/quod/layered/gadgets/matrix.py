"""Matrix products: computed, or checked with a random vector (Freivalds, 1977)."""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.layered.gadgets.arguments import wires_of
from quod.layered.program import Program
from quod.layered.wire import Wire
from quod.validation import shown_kind

Matrix = Sequence[Sequence[Wire]]


def matrix_product(program: Program, left: Matrix, right: Matrix) -> list[list[Wire]]:
    """Multiply an n x k matrix by a k x m matrix, both given as rows of wires.

    Costs n * k * m gates in one layer.
    """
    first = _matrix("the left matrix", program, left)
    second = _matrix("the right matrix", program, right)
    _check_shapes(len(first[0]) == len(second))
    columns = list(zip(*second, strict=True))
    return [[_dot(program, row, column).as_value() for column in columns] for row in first]


def assert_matrix_product(
    program: Program, left: Matrix, right: Matrix, product: Matrix, name: str = "product"
) -> None:
    """Assert that a matrix is the product of two, with a random vector r: A (B r) = C r.

    Costs one gate per entry of the matrices, in two layers, instead of n * k * m for an
    n x k matrix times a k x m matrix. A wrong product passes with probability 1 / (size of the
    field of challenges).
    """
    first = _matrix("the left matrix", program, left)
    second = _matrix("the right matrix", program, right)
    third = _matrix("the product", program, product)
    _check_shapes(len(first[0]) == len(second))
    _check_shapes(len(third) == len(first) and len(third[0]) == len(second[0]))
    vector = [program.random() for _ in third[0]]
    # Values of a layer, because the next products read them; `assert_equal` takes sums as they are.
    right_vector = [_dot(program, row, vector).as_value() for row in second]
    program.assert_equal(
        [_dot(program, row, right_vector) for row in first],
        [_dot(program, row, vector) for row in third],
        name,
    )


def _dot(program: Program, row: Sequence[Wire], column: Sequence[Wire]) -> Wire:
    return program.sum([a * b for a, b in zip(row, column, strict=True)])


def _matrix(what: str, program: Program, matrix: object) -> list[list[Wire]]:
    if not isinstance(matrix, (list, tuple)) or not matrix:
        raise InputError(f"{what} must be a list of rows, not {shown_kind(matrix)}")
    rows = [wires_of(f"a row of {what}", program, row, least=1) for row in matrix]
    if len({len(row) for row in rows}) > 1:
        raise InputError(f"{what}: the rows have different lengths")
    return rows


def _check_shapes(fits: bool) -> None:
    if not fits:
        raise InputError(
            "the shapes of the matrices must be (n, k) and (k, m), and a product (n, m)"
        )
