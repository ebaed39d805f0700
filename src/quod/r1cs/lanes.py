"""The lanes of kernels of witnesses: copies of a block in a witness."""

from __future__ import annotations

from quod.kernel import U32, Builder, Pointer, Struct
from quod.kernel.ir.value import Value


class Lanes(Struct):
    """The lanes of a launch. A lane computes a copy of a block in a witness.

    first, last: the lanes of the launch, `last` exclusive; further instances repeat the last lane.
    copies: the number of copies. Lane i computes copy i % copies of witness i // copies.
    fixed: the columns of fixed wires (`quod.r1cs.repetition.parts.Part`).
    wires: the number of wires of a witness.
    """

    first: U32
    last: U32
    copies: U32
    fixed: U32
    wires: U32


class Copies(Struct):
    """The copies of a block that a launch computes.

    numbers: the number of each copy.
    tables: for each number `fixed` + 1 words: the first wire of the copy that is not fixed, and
        the wires of the fixed columns.
    """

    numbers: Pointer[U32]
    tables: Pointer[U32]


class Lane:
    """The witness and the copy of a lane."""

    def __init__(self, k: Builder, lanes: Lanes, copies: Copies, lane: Value) -> None:
        witness = lane // lanes.copies
        self._k, self._lanes, self._tables = k, lanes, copies.tables
        (copy,) = k.load(copies.numbers, lane - witness * lanes.copies)
        self._witness, self._table = witness * lanes.wires, copy * (lanes.fixed + 1)
        (self._first_wire,) = k.load(copies.tables, self._table)

    def index_of(self, column: Value) -> Value:
        """Return the index of a column's value in the witnesses."""
        k, fixed = self._k, self._lanes.fixed
        is_fixed = column < fixed
        (wire,) = k.load(self._tables, self._table + 1 + k.select(is_fixed, column, 0))
        return self._witness + k.select(is_fixed, wire, self._first_wire + (column - fixed))
