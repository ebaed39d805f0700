"""The shape of a circuit as arrays: the rows of A, B and C, with each coefficient once."""

from __future__ import annotations

from quod.field.array import Words
from quod.formats import SparseMatrix
from quod.frozen import frozen
from quod.r1cs.repetition.parts import Parts, Side


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


def shape_of(parts: Parts) -> Shape:
    """Return the shape of a circuit; raises InputError for one that is too large to list."""
    a, b, c = (parts.expanded(side) for side in range(3))
    return Shape(parts.coefficients, (a, b, c))
