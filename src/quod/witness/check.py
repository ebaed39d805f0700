"""Check a witness against a constraint system, and list the constraints that it fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.errors import InputError, MismatchError
from quod.field.array import Words, words_to_integers
from quod.field.kernels import field_multiply
from quod.formats import R1cs, SparseMatrix, Witness
from quod.formats.r1cs_text import Constraint, constraint, constraint_text, signed, wire_name
from quod.formats.source import Path
from quod.formats.sym import wire_names
from quod.formats.wtns import WitnessHeader
from quod.frozen import frozen
from quod.validation import file_path, whole_number_or_none
from quod.witness.kernels import row_sums

_MAX_ENTRIES = (1 << 32) - 1


@frozen
class FailedConstraint:
    """A constraint that a witness fails: a * b is not c.

    `str` returns the form that `quod wtns check` prints. Values are in [0, prime).

    number: The index of the constraint, starting at 0.
    text: The constraint in readable form.
    a, b, c: The values of its linear combinations.
    values: The values of its wires by name (``wire 5`` without symbols).
    prime: The prime of the field.
    """

    number: int
    text: str
    a: int
    b: int
    c: int
    values: Mapping[str, int]
    prime: int

    def to_json(self) -> dict[str, object]:
        """Return a form for `json.dumps`; field elements are decimal text."""
        return {
            "number": self.number,
            "text": self.text,
            **{name: str(value) for name, value in (("a", self.a), ("b", self.b), ("c", self.c))},
            "values": {name: str(value) for name, value in self.values.items()},
        }

    def __str__(self) -> str:
        def shown(value: int) -> str:
            return signed(value, self.prime)

        product = self.a * self.b % self.prime
        lines = [
            f"constraint {self.number}: {self.text}",
            f"  {shown(self.a)} * {shown(self.b)} = {shown(product)}, not {shown(self.c)}",
            *(f"  {name} = {shown(value)}" for name, value in self.values.items()),
        ]
        return "\n".join(lines)


@frozen(eq=False)
class WitnessCheck:
    """The result of `check_witness`.

    r1cs: The constraint system.
    witness: The witness.
    failed: The indices of the constraints that fail, starting at 0.
    symbols: The path of a .sym file, or None.
    """

    r1cs: R1cs
    witness: Witness
    failed: NDArray[np.int64]
    symbols: str | None

    @property
    def satisfied(self) -> bool:
        """True if the witness satisfies all constraints."""
        return not len(self.failed)

    def failures(self, most: int | None = None) -> Iterator[FailedConstraint]:
        """Return the constraints that fail, in order; the first `most` of them if given.

        Raises `InputError` for malformed symbols, and `MismatchError` for those of another circuit.
        """
        count = whole_number_or_none("the number of failures", most, 0)
        rows = [constraint(self.r1cs, int(number)) for number in self.failed[:count]]
        wires = {wire for row in rows for wire in row.wires}
        names = {} if self.symbols is None else wire_names(self.symbols, self.r1cs, wires)
        return (self._failure(row, names) for row in rows)

    def _failure(self, row: Constraint, names: Mapping[int, str]) -> FailedConstraint:
        """Evaluate a failing constraint and describe it."""
        prime = self.r1cs.fr.value
        values = {wire: self._value(wire) for wire in (0, *row.wires)}
        a, b, c = (
            sum(factor * values[wire] for wire, factor in terms) % prime
            for terms in (row.a, row.b, row.c)
        )
        named = {wire_name(wire, names): values[wire] for wire in row.wires}
        text = constraint_text(self.r1cs, row, names)
        return FailedConstraint(row.number, text, a, b, c, named, prime)

    def _value(self, wire: int) -> int:
        return words_to_integers(self.r1cs.fr, self.witness.values[wire])[0]


def check_witness(
    r1cs: Path | R1cs,
    witness: Path | Witness,
    *,
    symbols: Path | None = None,
    device: DeviceChoice = "cpu",
) -> WitnessCheck:
    """Evaluate all constraints of a system at a witness.

    `r1cs` and `witness` are paths or open files. `symbols` is a .sym file that names signals in
    reports of failures, and is read only for these. Raises `InputError` for a damaged file,
    `MismatchError` for the witness of another circuit.
    """
    system = r1cs if isinstance(r1cs, R1cs) else R1cs.open(r1cs)
    check_fits = partial(_check_fits, system)
    values = witness if isinstance(witness, Witness) else Witness.open(witness, check=check_fits)
    symbols_path = None if symbols is None else file_path(symbols)
    resolved_device = resolve_device(device)
    check_fits(values)
    return WitnessCheck(
        system, values, _failing_rows(resolved_device, system, values), symbols_path
    )


def _check_fits(system: R1cs, witness: Witness | WitnessHeader) -> None:
    """Raise MismatchError unless a witness has the curve and the length of a system."""
    if witness.curve != system.curve or len(witness) != system.wires:
        raise MismatchError(
            f"has {len(witness)} values over {witness.curve}, but {system.path} takes "
            f"{system.wires} over {system.curve}; give the witness of this circuit",
            path=witness.path,
        )


def _failing_rows(device: AnyDevice, r1cs: R1cs, witness: Witness) -> NDArray[np.int64]:
    """Return the indices of the rows in which A·w times B·w is not C·w."""
    vector = np.ascontiguousarray(witness.values)
    a, b, c = (_sums(device, r1cs, matrix, vector) for matrix in r1cs.matrices)
    product = unwritten(*a.shape)
    compiled = device.compile(field_multiply, spec=r1cs.fr)
    device.launch(compiled, -(-len(a) // device.lanes), len(a), a, b, product)
    check_written(device, "products of constraints", product)
    return np.flatnonzero((product != c).any(axis=1))


def _sums(device: AnyDevice, r1cs: R1cs, matrix: SparseMatrix, vector: Words) -> Words:
    """Multiply a matrix by the witness; the products are in Montgomery form."""
    if matrix.nonzeros > _MAX_ENTRIES:
        raise InputError(
            f"has a matrix of {matrix.nonzeros} entries, above the limit of {_MAX_ENTRIES}",
            path=r1cs.path,
        )
    out = unwritten(matrix.rows, r1cs.fr.words)
    device.launch(
        device.compile(row_sums, modulus=r1cs.fr), -(-matrix.rows // device.lanes), matrix.rows,
        matrix.row_ptr.astype(np.uint32), matrix.column, matrix.value, vector, out,
    )  # fmt: skip
    check_written(device, "sums of constraints", out)
    return out
