"""The matrices of a `PartitionCircuit`, made in device memory."""

from __future__ import annotations

import numpy as np

from quod.bench.porep.circuit import B_STRIDE, WIRES_BEFORE_BLOCKS, PartitionCircuit
from quod.bench.porep.kernels import partition_columns, partition_rows
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.frozen import frozen
from quod.groth16.gpu.matrix import BUNDLE, Pieces

# Per row: the index of its element in the product, and its number of entries.
_ROW_BYTES = 8
# Per bundle of rows: its offset.
_BUNDLE_BYTES = 8


@frozen(eq=False)
class PartitionMatrix:
    """A `RecordedMatrix`: A above B, and below A a row each for the constant and the public input.

    These rows have a single entry 1, for their wire. See
    `quod.groth16.gpu.quotient.RecordedMatrix`.
    """

    device: AnyDevice
    circuit: PartitionCircuit
    parts: tuple[Pieces, ...]

    @classmethod
    def build(cls, device: AnyDevice, circuit: PartitionCircuit) -> PartitionMatrix:
        """Make the matrices on the device; raises DeviceError if there is too little memory."""
        domain = 1 << circuit.log2_domain
        return cls(
            device,
            circuit,
            (
                _rows(device, circuit, 0, is_a=True),
                _rows(device, circuit, domain, is_a=False),
                _ties(device, circuit),
            ),
        )

    @staticmethod
    def bytes_of(circuit: PartitionCircuit) -> int:
        """Return its bytes of device memory, except for a few words."""
        rows, entry_bytes = circuit.constraints, 4 + circuit.fr.bytes
        row_bytes = 2 * (_ROW_BYTES + _BUNDLE_BYTES // BUNDLE) + (circuit.terms + 1) * entry_bytes
        return rows * row_bytes

    @property
    def elements(self) -> int:
        return 2 << self.circuit.log2_domain

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def record(self, recording: RecordingStream, vector: Buffer, out: Buffer) -> None:
        circuit, size = self.circuit, self.circuit.fr.bytes
        domain = 1 << circuit.log2_domain
        for first in (0, domain):
            # The transforms of the last proof have overwritten the padding.
            padding = out.slice((first + circuit.constraints) * size, (first + domain) * size)
            recording.fill(padding, label="A·w, B·w")
        for part in self.parts:
            part.record(recording, self.device, circuit.fr, vector, out)


def _rows(device: AnyDevice, circuit: PartitionCircuit, offset: int, *, is_a: bool) -> Pieces:
    """Make the rows of A or B on the device; `offset` is the first row's element of the product."""
    rows, terms = circuit.constraints, circuit.terms if is_a else 1
    entries = -(-rows // BUNDLE) * BUNDLE * terms
    targets, lengths, bundles, indices, values = (
        device.allocate(nbytes, zero=False)
        for nbytes in (
            4 * rows, 4 * rows, _BUNDLE_BYTES * -(-rows // BUNDLE), 4 * entries,
            circuit.fr.bytes * entries,
        )
    )  # fmt: skip
    device.launch(
        device.compile(partition_rows, circuit=circuit, is_a=is_a),
        -(-rows // device.lanes),
        offset, targets, lengths, bundles, indices, values,
    )  # fmt: skip
    return Pieces(rows, rows * terms, targets, lengths, bundles, indices, values)


def _ties(device: AnyDevice, circuit: PartitionCircuit) -> Pieces:
    """Make the rows after the constraints: 1 times the constant, 1 times the public input."""
    fr = circuit.fr
    public_wires = np.arange(WIRES_BEFORE_BLOCKS, dtype=np.uint32)
    indices = np.zeros(BUNDLE, np.uint32)
    indices[:WIRES_BEFORE_BLOCKS] = public_wires
    unit_entry = fr.montgomery_radix**2 % fr.value
    values = np.zeros((BUNDLE, fr.words), np.uint32)
    values[:WIRES_BEFORE_BLOCKS] = np.frombuffer(unit_entry.to_bytes(fr.bytes, "little"), np.uint32)
    arrays = (
        public_wires + np.uint32(circuit.constraints),
        np.ones(WIRES_BEFORE_BLOCKS, np.uint32),
    )
    bundle_arrays = (np.zeros(1, np.uint64), indices, values)
    targets, lengths, bundles, wires, words = (
        device.upload(array) for array in (*arrays, *bundle_arrays)
    )
    return Pieces(WIRES_BEFORE_BLOCKS, WIRES_BEFORE_BLOCKS, targets, lengths, bundles, wires, words)


@frozen(eq=False)
class PartitionColumns:
    """The sums over the columns, by their formulas; see `ColumnSums`."""

    device: AnyDevice
    circuit: PartitionCircuit
    row_values: Buffer

    def scalars(self, name: str, weights: Buffer, first: int, out: Buffer) -> None:
        """See `ColumnSums.scalars`."""
        begin, stride = {
            "A": (0, 1), "B1": (WIRES_BEFORE_BLOCKS, B_STRIDE), "ic": (0, 1),
            "B2": (WIRES_BEFORE_BLOCKS, B_STRIDE), "C": (WIRES_BEFORE_BLOCKS, 1),
        }[name]  # fmt: skip
        count = out.nbytes // self.circuit.fr.bytes
        self.device.launch(
            self.device.compile(partition_columns, circuit=self.circuit),
            -(-count // self.device.lanes), count, begin + first * stride, stride, weights,
            self.row_values, out,
        )  # fmt: skip


@frozen
class DevicePartition(PartitionCircuit):
    """A partition as a `quod.groth16.device_key.circuit.DeviceCircuit`."""

    @property
    def matrix_bytes(self) -> int:
        """See `DeviceCircuit`."""
        return PartitionMatrix.bytes_of(self)

    def matrix(self, device: AnyDevice) -> PartitionMatrix:
        """See `DeviceCircuit`."""
        return PartitionMatrix.build(device, self)

    def columns(self, device: AnyDevice, row_values: Buffer) -> PartitionColumns:
        """See `DeviceCircuit`."""
        return PartitionColumns(device, self, row_values)
