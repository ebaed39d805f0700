"""Constraint systems as the determinism check reads them: rows over any prime field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from quod.errors import InputError, MismatchError
from quod.field.primality import is_prime
from quod.frozen import frozen

# Each lemma has rows of its own.
_is_prime = lru_cache(maxsize=16)(is_prime)

Combination = Mapping[int, int]
"""A linear combination: coefficients by wire. Wire 0 is the constant 1."""


@frozen(eq=False)
class Matrix:
    """A, B or C by rows: row i has the entries ``ends[i - 1]`` to ``ends[i]`` of both lists."""

    ends: Sequence[int]
    wires: Sequence[int]
    coefficients: Sequence[int]


@frozen(eq=False)
class Rows:
    """Constraints A(w)·B(w) = C(w), and the question that is asked about them.

    prime: the modulus; InputError unless it is prime.
    wires: the number of wires, including wire 0, the constant 1; InputError if a row has others.
    matrices: A, B and C.
    inputs: the wires that both witnesses of a counterexample share.
    targets: the wires that the inputs should determine.
    name: the name of a wire, for messages.
    place: the location of a row in its source, for messages.
    lost_inputs: inputs of the source that have no wire. A compiler may have replaced them by
        combinations of other wires, so a target that seems ambiguous may depend on them.
    public: the public inputs and outputs, for findings.
    curve: the name of the curve or field of the source, for witnesses.
    """

    prime: int
    wires: int
    matrices: tuple[Matrix, Matrix, Matrix]
    inputs: frozenset[int]
    targets: tuple[int, ...]
    name: Callable[[int], str]
    place: Callable[[int], str]
    lost_inputs: int = 0
    public: frozenset[int] = frozenset()
    curve: str = ""

    def __post_init__(self) -> None:
        if not _is_prime(self.prime):
            raise InputError(
                f"the modulus {self.prime:#x} is composite; constraints must be over a prime field"
            )
        for wire in (*self.inputs, *self.targets):
            if not 0 < wire < self.wires:
                raise InputError(f"wire {wire} is not one of wires 1 to {self.wires - 1}")
        for matrix in self.matrices:
            if len(matrix.ends) != self.count:
                raise InputError(f"A has {self.count} rows, B or C has {len(matrix.ends)}")
            for wire in (min(matrix.wires, default=0), max(matrix.wires, default=0)):
                if not 0 <= wire < self.wires:
                    raise InputError(f"a row has wire {wire}, not one of 0 to {self.wires - 1}")

    @property
    def count(self) -> int:
        """The number of constraints."""
        return len(self.matrices[0].ends)

    def side(self, matrix: int, row: int) -> tuple[Sequence[int], Sequence[int]]:
        """Return the wires and coefficients of a row of A, B or C (`matrix` 0, 1 or 2)."""
        entries = self.matrices[matrix]
        start, end = entries.ends[row - 1] if row else 0, entries.ends[row]
        return entries.wires[start:end], entries.coefficients[start:end]

    def wires_of(self, row: int) -> set[int]:
        """Return the wires of a row, without the constant."""
        wires = {wire for matrix in range(3) for wire in self.side(matrix, row)[0]}
        wires.discard(0)
        return wires

    def is_at(self, first: int, rows: Rows, wires: Sequence[int]) -> bool:
        """Return whether these are consecutive rows of another system, with the wires renamed.

        first: the number of the first row there.
        wires: the wire there for each wire here.
        """
        return 0 <= first <= rows.count - self.count and all(
            self._is_equal(matrix, first, rows, wires)
            or all(
                sorted([(wires[wire], k) for wire, k in zip(*self.side(matrix, row))])
                == sorted(zip(*rows.side(matrix, first + row)))
                for row in range(self.count)
            )
            for matrix in range(3)
        )

    def _is_equal(self, matrix: int, first: int, rows: Rows, wires: Sequence[int]) -> bool:
        """Return whether a matrix has the same entries in the same order; see `is_at`."""
        entries, others = self.matrices[matrix], rows.matrices[matrix]
        start = others.ends[first - 1] if first else 0
        end = start + len(entries.wires)
        return (
            list(others.ends[first : first + self.count]) == [start + e for e in entries.ends]
            and list(others.wires[start:end]) == [wires[wire] for wire in entries.wires]
            and list(others.coefficients[start:end]) == list(entries.coefficients)
        )

    def failing(self, values: Sequence[int], rows: Sequence[int] | None = None) -> list[int]:
        """Return the rows, of all or of some, that values of all wires do not satisfy."""
        failing = []
        for row in range(self.count) if rows is None else rows:
            a, b, c = (
                sum([values[wire] * k for wire, k in zip(*self.side(matrix, row))])
                for matrix in range(3)
            )
            if (a * b - c) % self.prime:
                failing.append(row)
        return failing


def check_witness(rows: Rows, values: Sequence[int]) -> None:
    """Raise InputError unless values of all wires are a witness, naming the first row that fails.

    MismatchError if their number is not that of the wires.
    """
    if len(values) != rows.wires:
        raise MismatchError(
            f"the witness has {len(values):,} values and the system {rows.wires:,} wires"
        )
    for wire, value in enumerate(values):
        if type(value) is not int or not 0 <= value < rows.prime:
            raise InputError(f"value {wire} of the witness is no integer from 0 to p - 1")
    if values[0] != 1:
        raise InputError("the first value of a witness must be 1")
    if failing := rows.failing(values):
        raise InputError(f"the witness does not satisfy {rows.place(failing[0])}")


def rows_of(
    prime: int, wires: int, constraints: Sequence[tuple[Combination, Combination, Combination]],
    inputs: Sequence[int], targets: Sequence[int],
) -> Rows:  # fmt: skip
    """Return a system of constraints that are dicts from wires to coefficients."""
    matrices = []
    for index in range(3):
        ends: list[int] = []
        columns: list[int] = []
        coefficients: list[int] = []
        for constraint in constraints:
            columns += constraint[index].keys()
            coefficients += [k % prime for k in constraint[index].values()]
            ends.append(len(columns))
        matrices.append(Matrix(ends, columns, coefficients))
    return Rows(
        prime, wires, (matrices[0], matrices[1], matrices[2]), frozenset(inputs), tuple(targets),
        lambda wire: f"wire {wire}", lambda row: f"constraint {row}",
    )  # fmt: skip
