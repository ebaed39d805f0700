"""The shape of a circuit as arrays: the rows of A, B and C, with each coefficient once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quod.field.array import Words, integers_to_words
from quod.formats import SparseMatrix
from quod.frozen import frozen
from quod.r1cs.system import ConstraintSystem


@frozen
class Counts:
    """The sizes of a circuit; all are counts.

    public: public wires, without the constant 1.
    public_outputs: public outputs if they come before the public inputs, else 0.
    private_inputs: wires of private inputs.
    wires: all wires, including the constant 1.
    constraints: rows of the constraint system.
    steps: steps of the witness program.
    """

    public: int
    public_outputs: int
    private_inputs: int
    wires: int
    constraints: int
    steps: int


@frozen(eq=False)
class Side:
    """A matrix by rows, like `SparseMatrix`; `number` has indices into the coefficient table."""

    row_ptr: NDArray[np.int64]
    column: NDArray[np.uint32]
    number: NDArray[np.uint32]


@frozen(eq=False)
class Shape:
    """The matrices A, B and C; each row has its wires in ascending order.

    coefficients: the distinct coefficients, (n, words), canonical.
    sides: A, B and C.
    """

    coefficients: Words
    sides: tuple[Side, Side, Side]

    def matrices(self) -> tuple[SparseMatrix, SparseMatrix, SparseMatrix]:
        """Return A, B and C with a coefficient at each entry."""
        a, b, c = (
            SparseMatrix(side.row_ptr, side.column, self.coefficients[side.number])
            for side in self.sides
        )
        return a, b, c


def shape_of(system: ConstraintSystem) -> Shape:
    """Return the shape of a traced system."""
    public, prime = len(system.public_names), system.prime
    wires = 1 + public + len(system.wire_paths)
    # Few coefficients are distinct, so each is converted to words once.
    reduced = {value: value % prime for side in system.values for value in side}
    table = {value: index for index, value in enumerate(dict.fromkeys(reduced.values()))}
    table_index = {value: table[residue] for value, residue in reduced.items()}

    def side(side_index: int) -> Side:
        signed_wire = np.array(system.columns[side_index], np.int64)
        column = np.where(signed_wire > 0, signed_wire + public, -signed_wire)
        row_ptr = np.array([0, *system.ends[side_index]], np.int64)
        row = np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))
        order = np.argsort(row * wires + column, kind="stable")
        values = system.values[side_index]
        number = np.fromiter((table_index[value] for value in values), np.uint32, len(values))
        return Side(row_ptr, np.ascontiguousarray(column[order], np.uint32), number[order])

    return Shape(integers_to_words(system.field, list(table)), (side(0), side(1), side(2)))
