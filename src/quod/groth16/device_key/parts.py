"""A circuit of repeated parts on a device: the matrices of each part, and tables of its copies."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.curve.named import CURVES
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.field.array import from_integers, words_to_integers
from quod.field.cost import product_cost
from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.groth16.device_key.part_kernels import (
    PartTables,
    add_by_wire,
    add_part_columns,
    combine_columns,
    multiply_part_rows,
    sum_fixed_columns,
)
from quod.groth16.gpu.quotient import RecordedMatrix
from quod.r1cs import Circuit
from quod.r1cs.repetition.parts import Part, Parts, Side
from quod.r1cs.tables import nonempty

Indices = NDArray[np.int64]


class PartsCircuit:
    """A traced circuit as a `DeviceCircuit`.

    monomial: whether the key is one of bellman's.
    full_share: the expected share of scalars other than 0 and 1 in a witness.
    """

    def __init__(
        self, circuit: Circuit, *, monomial: bool = False, full_share: float = 1.0
    ) -> None:
        self.path, self.curve = circuit.path, circuit.curve
        self.fr: Modulus = CURVES[circuit.curve].fr
        self.public, self.wires, self.constraints = (
            circuit.public,
            circuit.wires,
            circuit.constraints,
        )
        self.parts: Parts = circuit.parts
        self.monomial, self._full_share = monomial, full_share

    @property
    def log2_domain(self) -> int:
        """See `DeviceCircuit`."""
        return (self.constraints + self.public).bit_length()

    @cached_property
    def wires_of_a(self) -> NDArray[np.uint32]:
        """See `DeviceCircuit`."""
        mask = self.parts.used_wires(0)
        mask[: self.public + 1] = True
        return np.flatnonzero(mask).astype(np.uint32)

    @cached_property
    def wires_of_b(self) -> NDArray[np.uint32]:
        """See `DeviceCircuit`."""
        return np.flatnonzero(self.parts.used_wires(1)).astype(np.uint32)

    @property
    def full_values(self) -> dict[str, int]:
        """See `DeviceCircuit`."""
        counts = {"A": self.wires, "B": len(self.wires_of_b)}
        return {name: max(1, int(self._full_share * count)) for name, count in counts.items()}

    @property
    def matrix_bytes(self) -> int:
        """See `DeviceCircuit`."""
        # Without the coefficients and the rows of public wires, which are few.
        tables = sum(
            4 * (part.table.size + len(part.rows) + 2 * part.copies) for part in self.parts.parts
        )
        matrices = sum(
            8 * len(side.column) + 4 * len(side.row_ptr)
            for part in self.parts.parts for side in part.sides[:2] if len(side.column)
        )  # fmt: skip
        return tables + matrices

    def matrix(self, device: AnyDevice) -> RecordedMatrix:
        """See `DeviceCircuit`."""
        return PartsMatrix(device, self)

    def columns(self, device: AnyDevice, row_values: Buffer) -> PartsColumns:
        """See `DeviceCircuit`."""
        return PartsColumns(device, self, row_values)


@frozen(eq=False)
class _Lines:
    """The rows of a part's matrix, or its columns, with the tables of the copies on a device.

    count: the number of lines of one copy; entries: the number of entries of these lines.
    buffers: those of `tables`, some of which other lines share.
    """

    count: int
    entries: int
    copies: int
    fixed: int
    tables: PartTables
    buffers: tuple[Buffer, ...]


class _PartOnDevice:
    """The tables of a part's copies in device memory."""

    def __init__(self, device: AnyDevice, part: Part, coefficients: Buffer) -> None:
        self._device, self.part = device, part
        self.fixed = part.table.shape[1]
        bases = np.concatenate([part.table.T, part.first_wire[None].astype(np.uint32)])
        self._bases, self._rows, self._first_rows = (
            device.upload(np.ascontiguousarray(array, np.uint32))
            for array in (bases, part.rows, part.first_row)
        )
        self._coefficients = coefficients

    def lines(self, starts: Indices, others: Indices, numbers: NDArray[np.uint32]) -> _Lines:
        """Upload rows or columns: line l has entries starts[l] to starts[l + 1] - 1."""
        arrays = [np.ascontiguousarray(array, np.uint32) for array in (starts, others, numbers)]
        buffers = [self._device.upload(nonempty(array)) for array in arrays]
        shared = self._bases, self._rows, self._first_rows, self._coefficients
        all_buffers = *buffers, *shared
        return _Lines(
            len(starts) - 1, len(others), self.part.copies, self.fixed, PartTables(*all_buffers),
            all_buffers,
        )  # fmt: skip


def _coefficients(device: AnyDevice, fr: Modulus, parts: Parts) -> Buffer:
    """Upload the distinct coefficients times R**2."""
    integers = words_to_integers(fr, parts.coefficients)
    return device.upload(from_integers(fr, [value * fr.montgomery_radix for value in integers]))


def _public_rows(circuit: PartsCircuit, unit: int) -> Part:
    """Return the rows of A for the constant and the public wires, as a part with one copy.

    unit: the number of the coefficient 1.
    """
    count = circuit.public + 1
    indices = np.arange(count, dtype=np.uint32)
    side = Side(np.arange(count + 1), indices, np.full(count, unit, np.uint32))
    empty = Side(np.zeros(count + 1, np.int64), indices[:0], indices[:0])
    first_row = np.full(1, circuit.constraints, np.int64)
    return Part(indices, (side, empty, empty), indices[None], first_row, np.full(1, circuit.wires))


def _with_one(parts: Parts, fr: Modulus) -> tuple[Parts, int]:
    """Return the parts with the coefficient 1 in their table, and the number of it."""
    is_one = (parts.coefficients[:, 0] == 1) & ~parts.coefficients[:, 1:].any(axis=1)
    indices = np.flatnonzero(is_one)
    if len(indices):
        return parts, int(indices[0])
    unit = np.zeros((1, fr.words), np.uint32)
    unit[0, 0] = 1
    coefficients = np.concatenate([parts.coefficients.reshape(-1, fr.words), unit])
    extended = Parts(coefficients, parts.parts, parts.public, parts.wires, parts.constraints)
    return extended, len(coefficients) - 1


class PartsMatrix:
    """A above B, part by part; see `quod.groth16.gpu.quotient.RecordedMatrix`."""

    def __init__(self, device: AnyDevice, circuit: PartsCircuit) -> None:
        self._device, self._circuit = device, circuit
        parts, unit = _with_one(circuit.parts, circuit.fr)
        coefficients = _coefficients(device, circuit.fr, parts)
        self._lines: list[tuple[int, _Lines]] = []
        for part in (*parts.parts, _public_rows(circuit, unit)):
            on_device = _PartOnDevice(device, part, coefficients)
            for index, side in enumerate(part.sides[:2]):
                if len(side.column):
                    lines = on_device.lines(side.row_ptr, side.column.astype(np.int64), side.number)
                    self._lines.append((index << circuit.log2_domain, lines))
        self._compiled = device.compile(multiply_part_rows, modulus=circuit.fr)

    @property
    def elements(self) -> int:
        """The elements of the products: the domain's rows of A, then those of B."""
        return 2 << self._circuit.log2_domain

    @property
    def nbytes(self) -> int:
        """The bytes of device memory; shared buffers count once."""
        buffers = {id(buffer): buffer for _, lines in self._lines for buffer in lines.buffers}
        return sum(buffer.nbytes for buffer in buffers.values())

    def record(self, recording: RecordingStream, vector: Buffer, out: Buffer) -> None:
        """See `DeviceMatrix.record`."""
        size = self._circuit.fr.bytes
        # No launch writes rows without entries or the padding, which the transforms of the previous
        # proof overwrote.
        recording.fill(out.slice(0, self.elements * size), label="A·w, B·w")
        for offset, lines in self._lines:
            count, entries = lines.count * lines.copies, lines.entries * lines.copies
            recording.launch(
                self._compiled, -(-count // self._device.lanes), count, lines.copies, lines.fixed,
                offset, lines.tables, vector, out, label="A·w, B·w",
                bytes=entries * size + count * size, modmuls=entries,
                multiply_adds=entries * product_cost(self._circuit.fr),
            )  # fmt: skip


class PartsColumns:
    """The sums over the columns of A, B and C; see `ColumnSums`."""

    def __init__(self, device: AnyDevice, circuit: PartsCircuit, row_values: Buffer) -> None:
        self._device, self._circuit = device, circuit
        fr = circuit.fr
        self._wires = {
            name: device.upload(nonempty(wires))
            for name, wires in (("A", circuit.wires_of_a), ("B", circuit.wires_of_b))
        }
        parts, unit = _with_one(circuit.parts, fr)
        coefficients = _coefficients(device, fr, parts)
        self._sums = [device.allocate(circuit.wires * fr.bytes) for _ in range(3)]
        for part in (*parts.parts, _public_rows(circuit, unit)):
            on_device = _PartOnDevice(device, part, coefficients)
            for side, sums in zip(part.sides, self._sums, strict=True):
                if len(side.column):
                    self._add(on_device, side, row_values, sums)

    def _add(self, on_device: _PartOnDevice, side: Side, row_values: Buffer, sums: Buffer) -> None:
        """Add the column sums of all copies of a part to the sums of the columns' wires."""
        row = np.repeat(np.arange(len(side.row_ptr) - 1), np.diff(side.row_ptr))
        order = np.argsort(side.column, kind="stable")
        columns, starts = np.unique(side.column[order], return_index=True)
        starts = np.append(starts, len(order))
        split = int(np.searchsorted(columns, on_device.fixed))
        rows, numbers = row[order], side.number[order]
        ends = int(starts[split])
        if split:
            lines = on_device.lines(starts[: split + 1], rows[:ends], numbers[:ends])
            self._add_fixed(on_device.part, columns[:split], lines, row_values, sums)
        if split < len(columns):
            lines = on_device.lines(starts[split:] - ends, rows[ends:], numbers[ends:])
            count = lines.count * lines.copies
            self._launch(
                add_part_columns, count, lines.copies, lines.fixed,
                self._device.upload(columns[split:]), lines.tables, row_values, sums,
            )  # fmt: skip

    def _add_fixed(
        self, part: Part, columns: NDArray[np.uint32], lines: _Lines, row_values: Buffer,
        sums: Buffer,
    ) -> None:  # fmt: skip
        """Add the sums of fixed columns, whose wires several copies can share."""
        device, count = self._device, lines.count * lines.copies
        partial_sums = device.allocate(count * self._circuit.fr.bytes, zero=False)
        self._launch(sum_fixed_columns, count, lines.copies, lines.tables, row_values, partial_sums)
        wire = part.table[:, columns].T.reshape(-1)
        order = np.argsort(wire, kind="stable")
        wires, starts = np.unique(wire[order], return_index=True)
        starts = np.append(starts, len(order))
        tables = [device.upload(array.astype(np.uint32)) for array in (wires, starts, order)]
        self._launch(add_by_wire, len(wires), *tables, partial_sums, sums)

    def _launch(self, definition: Any, count: int, *arguments: Any) -> None:
        device = self._device
        compiled = device.compile(definition, modulus=self._circuit.fr)
        device.launch(compiled, -(-count // device.lanes), count, *arguments)

    def scalars(self, name: str, weights: Buffer, first: int, out: Buffer) -> None:
        """See `ColumnSums.scalars`."""
        device, circuit = self._device, self._circuit
        count = out.nbytes // circuit.fr.bytes
        # The bases of A, B1 and B2 have lists of wires; those of C and ic are of successive wires.
        wires = self._wires.get(name[0])
        if name == "C":
            first += circuit.public + 1
        compiled = device.compile(combine_columns, modulus=circuit.fr, indexed=wires is not None)
        device.launch(
            compiled, -(-count // device.lanes), count, first, weights,
            # Any buffer serves for the wires, which the kernel reads only if `indexed`.
            weights if wires is None else wires, *self._sums, out,
        )  # fmt: skip
