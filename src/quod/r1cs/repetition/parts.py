"""Parts: the rows of each traced function once, and the rows and wires of its copies.

A circuit of repeated blocks has a few parts. Their size grows with the traced functions and the
arguments of the calls, not with the circuit. A circuit without repetition is a single part with a
single copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.field.array import Words, integers_to_words
from quod.frozen import frozen
from quod.r1cs.traced import Block, Placement, TracedSystem

Indices = NDArray[np.int64]

MAX_ENTRIES = 1 << 28
"""The largest number of entries of matrices that `expanded` returns; an entry takes 8 bytes."""


@frozen(eq=False)
class Side:
    """A matrix by rows, like `SparseMatrix`; `number` has indices into the coefficient table."""

    row_ptr: NDArray[np.int64]
    column: NDArray[np.uint32]
    number: NDArray[np.uint32]


@frozen(eq=False)
class Part:
    """The rows of a function, and its copies; wires are in the order of a witness.

    rows: (rows,) the index of each row among all rows of a copy, including those of its calls.
    sides: A, B and C. Columns below n are fixed: they are columns of `table`. The others, minus n,
        are offsets from `first_wire`. The columns of a row are in ascending order.
    table: (copies, n) the constant 1, then the wires of arguments, then the copy's public wires.
    first_row: (copies,) the first row of each copy.
    first_wire: (copies,) the first wire of each copy that is not public.
    """

    rows: NDArray[np.uint32]
    sides: tuple[Side, Side, Side]
    table: NDArray[np.uint32]
    first_row: Indices
    first_wire: Indices

    @property
    def copies(self) -> int:
        """The number of copies."""
        return len(self.first_row)

    def wires(self, column: NDArray[np.uint32]) -> Indices:
        """Return the wires of columns in every copy, (copies, columns)."""
        fixed = self.table.shape[1]
        wires: Indices = self.first_wire[:, None] + (column.astype(np.int64) - fixed)
        is_fixed = column < fixed
        wires[:, is_fixed] = self.table[:, column[is_fixed]]
        return wires


@frozen(eq=False)
class Parts:
    """A circuit as parts.

    coefficients: the distinct coefficients of all parts, (n, words), canonical and not 0.
    parts: each function once, callers before callees.
    public, wires, constraints: the numbers of public wires, of all wires with the constant 1, and
        of rows.
    """

    coefficients: Words
    parts: tuple[Part, ...]
    public: int
    wires: int
    constraints: int

    @property
    def nonzeros(self) -> tuple[int, int, int]:
        """The numbers of entries of A, B and C."""
        a, b, c = (
            sum(len(part.sides[side].column) * part.copies for part in self.parts)
            for side in range(3)
        )
        return a, b, c

    def used_wires(self, side: int) -> NDArray[np.bool_]:
        """Return a mask of the wires with an entry in A, B or C (`side` 0, 1 or 2)."""
        mask = np.zeros(self.wires, np.bool_)
        for part in self.parts:
            columns = np.unique(part.sides[side].column)
            fixed = part.table.shape[1]
            mask[part.table[:, columns[columns < fixed]].reshape(-1)] = True
            inner = columns[columns >= fixed].astype(np.int64) - fixed
            for first_wire in part.first_wire.tolist():
                mask[first_wire + inner] = True
        return mask

    def expanded(self, side: int) -> Side:
        """Return A, B or C row by row; the wires of a row are in ascending order.

        Raises InputError for a matrix of more than `MAX_ENTRIES` entries.
        """
        if (entries := self.nonzeros[side]) > MAX_ENTRIES:
            raise InputError(
                f"the matrix has {entries} entries; at most {MAX_ENTRIES} can be listed row by "
                "row; use the parts of the circuit"
            )
        if len(self.parts) == 1:
            # The columns of a circuit without repetition are its wires.
            return self.parts[0].sides[side]
        lengths = np.zeros(self.constraints, np.int64)
        for part in self.parts:
            rows = part.first_row[:, None] + part.rows
            lengths[rows] = np.diff(part.sides[side].row_ptr)
        row_ptr = np.zeros(self.constraints + 1, np.int64)
        np.cumsum(lengths, out=row_ptr[1:])
        column = np.zeros(entries, np.uint32)
        number = np.zeros(entries, np.uint32)
        for part in self.parts:
            _expand(part, side, row_ptr, column, number)
        return Side(row_ptr, column, number)


def _expand(
    part: Part, side: int, row_ptr: Indices, column: NDArray[np.uint32],
    number: NDArray[np.uint32],
) -> None:  # fmt: skip
    """Write the entries of a part's copies to the matrix, the wires of each row ascending."""
    matrix = part.sides[side]
    lengths = np.diff(matrix.row_ptr)
    row_of_entry = np.repeat(np.arange(len(lengths)), lengths)
    index_in_row = np.arange(len(matrix.column)) - matrix.row_ptr[:-1][row_of_entry]
    rows = part.rows.astype(np.int64)[row_of_entry]
    # Copies in chunks, so that temporary arrays stay small.
    step = max(1, (1 << 22) // max(1, len(matrix.column)))
    for start in range(0, part.copies, step):
        chunk = Part(
            part.rows, part.sides, part.table[start : start + step],
            part.first_row[start : start + step], part.first_wire[start : start + step],
        )  # fmt: skip
        wires = chunk.wires(matrix.column)
        copies = np.arange(chunk.copies)[:, None]
        order = np.lexsort((wires, np.broadcast_to(row_of_entry, wires.shape)), axis=-1)
        indices = row_ptr[chunk.first_row[:, None] + rows] + index_in_row
        column[indices] = wires[copies, order]
        number[indices] = matrix.number[order]


def parts_of(system: TracedSystem) -> Parts:
    """Return the parts of a finished system."""
    public, prime = len(system.public_names), system.prime
    circuit = Block(system, 0, None)
    blocks = callers_first(circuit)
    # Few coefficients are distinct, so each is converted to words once.
    numbers: dict[int, int] = {}
    residues: dict[int, int] = {}
    copies: dict[int, list[_Copies]] = {id(block): [] for block in blocks}
    copies[id(circuit)].append(_Copies.of_circuit(public))
    parts = []
    for block in blocks:
        joined = _Copies.joined(copies.pop(id(block)))
        for placement in block.system.placements:
            copies[id(placement.block)].append(joined.of(placement, block, public))
        sides = tuple(_side(block, side, numbers, residues, prime) for side in range(3))
        table, first_wire = joined.table(block), joined.wire + public + 1
        parts.append(
            Part(
                _row_indices(block.system), (sides[0], sides[1], sides[2]), table, joined.row,
                first_wire,
            )
        )  # fmt: skip
    return Parts(
        integers_to_words(system.field, list(numbers)), tuple(parts), public,
        1 + public + system.wires, system.rows,
    )  # fmt: skip


@frozen(eq=False)
class _Copies:
    """The copies of a block.

    row, wire, public: the number of rows, of wires that are not public and of public wires before
        each copy.
    arguments: (copies, formal wires) the wires of the arguments, in the order of a witness.
    """

    row: Indices
    wire: Indices
    public: Indices
    arguments: Indices

    @classmethod
    def of_circuit(cls, public: int) -> _Copies:
        """The only copy of the whole circuit."""
        zero = np.zeros(1, np.int64)
        return cls(zero, zero, zero, np.zeros((1, 0), np.int64))

    @classmethod
    def joined(cls, groups: Sequence[_Copies]) -> _Copies:
        return cls(
            *(
                np.concatenate([getattr(copies, name) for copies in groups])
                for name in ("row", "wire", "public", "arguments")
            )
        )

    def of(self, placement: Placement, block: Block, public: int) -> _Copies:
        """Return the copies of a placement in every copy of `block`."""
        arguments = np.array(placement.arguments, np.int64)
        return _Copies(
            self.row + placement.row, self.wire + placement.wire - block.formal_wires,
            self.public + placement.public, self._wires(arguments, block, public),
        )  # fmt: skip

    def _wires(self, wires: Indices, block: Block, public: int) -> Indices:
        """Return wires of a block in every copy, (copies, wires), in the order of a witness."""
        formal_wires = block.formal_wires
        result = self.wire[:, None] + (wires - formal_wires + public)
        is_public, is_formal = wires < 0, (wires > 0) & (wires <= formal_wires)
        result[:, is_public] = self.public[:, None] - wires[is_public]
        result[:, is_formal] = self.arguments[:, wires[is_formal] - 1]
        result[:, wires == 0] = 0
        return result

    def table(self, block: Block) -> NDArray[np.uint32]:
        """Return `Part.table`."""
        own_public = np.arange(1, len(block.system.public_names) + 1)
        return np.concatenate(
            [
                np.zeros((len(self.row), 1), np.int64),
                self.arguments,
                self.public[:, None] + own_public,
            ],
            axis=1,
        ).astype(np.uint32)


def callers_first(circuit: Block) -> list[Block]:
    """Return a block and all that it calls, each once and before its callees."""
    order: list[Block] = []
    seen: set[int] = set()

    def visit(block: Block) -> None:
        seen.add(id(block))
        for placement in block.system.placements:
            if id(placement.block) not in seen:
                visit(placement.block)
        order.append(block)

    visit(circuit)
    return order[::-1]


def _row_indices(system: TracedSystem) -> NDArray[np.uint32]:
    """Return the index of each of a system's own rows among all its rows."""
    rows_before = np.zeros(len(system.row_paths) + 1, np.int64)
    for placement in system.placements:
        rows_before[placement.own_rows] += placement.block.system.rows
    own_rows = np.arange(len(system.row_paths))
    indices: NDArray[np.uint32] = (own_rows + np.cumsum(rows_before)[:-1]).astype(np.uint32)
    return indices


def _side(
    block: Block, side: int, numbers: dict[int, int], residues: dict[int, int], prime: int
) -> Side:
    """Return a matrix of a block's own rows with the columns of `Part`.

    numbers: the index of each coefficient in the table; residues: each value modulo the prime.
        Both are extended.
    """
    system = block.system
    values = system.values[side]
    for value in set(values).difference(residues):
        residues[value] = value % prime
    for value in dict.fromkeys(values):
        numbers.setdefault(residues[value], len(numbers))
    number_of = {value: numbers[residues[value]] for value in set(values)}
    wire = np.array(system.columns[side], np.int64)
    public = len(system.public_names)
    column = np.where(wire < 0, block.formal_wires - wire, wire)
    column = np.where(wire > block.formal_wires, wire + public, column)
    row_ptr = np.array([0, *system.ends[side]], np.int64)
    number = np.fromiter((number_of[value] for value in values), np.uint32, len(values))
    order = np.lexsort((column, np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))))
    return Side(row_ptr, column.astype(np.uint32)[order], number[order])
