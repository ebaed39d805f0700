"""Matrices in the layout of the kernel `product`: blocks of 16 rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.frozen import frozen
from quod.inference.transformer.integer_weights import IntegerMatrix
from quod.inference.transformer.kernels.product import ROW_BLOCK


@frozen(eq=False)
class PackedMatrix:
    """A matrix in device memory; see `quod.inference.transformer.kernels.product.product`.

    rows, columns: The size without padding.
    """

    rows: int
    columns: int
    bits: int
    group: int
    words: Buffer
    scales: Buffer
    minima: Buffer

    @property
    def groups(self) -> int:
        """The groups of columns."""
        return self.columns // self.group

    @property
    def blocks(self) -> int:
        """The blocks of rows."""
        return -(-self.rows // ROW_BLOCK)


def packed_bytes(matrix: IntegerMatrix) -> int:
    """Return the bytes that a matrix takes in device memory."""
    rows = -(-matrix.rows // ROW_BLOCK) * ROW_BLOCK
    return rows * matrix.columns * matrix.bits // 8 + 8 * rows * matrix.columns // matrix.group


def upload_matrix(device: AnyDevice, matrix: IntegerMatrix) -> PackedMatrix:
    """Pack a matrix and upload it."""
    return PackedMatrix(
        matrix.rows, matrix.columns, matrix.bits, matrix.group,
        device.upload(_in_blocks(_words(matrix))), device.upload(_in_blocks(matrix.scales)),
        device.upload(_in_blocks(matrix.minima)),
    )  # fmt: skip


def _words(matrix: IntegerMatrix) -> NDArray[np.uint32]:
    """Return the quants of rows as words; neighbouring columns are 16 bits apart."""
    if matrix.bits == 16:
        return np.ascontiguousarray(matrix.quants).view(np.uint32)
    if matrix.bits == 8:
        packed = matrix.quants.reshape(matrix.rows, -1, 4)[:, :, [0, 2, 1, 3]]
    else:
        columns = matrix.quants.reshape(matrix.rows, -1, 8)
        packed = columns[:, :, [0, 4, 1, 5]] | columns[:, :, [2, 6, 3, 7]] << np.uint8(4)
    return np.ascontiguousarray(packed).reshape(matrix.rows, -1).view(np.uint32)


def _in_blocks(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows padded to whole blocks, in which the elements of a column are neighbours."""
    padding = -len(rows) % ROW_BLOCK
    padded = np.pad(rows, ((0, padding), (0, 0)))
    blocks = padded.reshape(-1, ROW_BLOCK, padded.shape[1])
    return np.ascontiguousarray(blocks.transpose(0, 2, 1))
