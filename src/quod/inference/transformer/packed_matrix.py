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
    # The halves of a word have every second column.
    pairs = matrix.quants.reshape(matrix.rows, -1, 16 // matrix.bits, 2).astype(np.uint32)
    words = np.zeros(pairs.shape[:2], np.uint32)
    for index in range(pairs.shape[2]):
        for half in range(2):
            words |= pairs[:, :, index, half] << np.uint32(index * matrix.bits + 16 * half)
    return words


def _in_blocks(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows padded to whole blocks, in which the elements of a column are neighbours."""
    padding = -len(rows) % ROW_BLOCK
    padded = np.pad(rows, ((0, padding), (0, 0)))
    blocks = padded.reshape(-1, ROW_BLOCK, padded.shape[1])
    return np.ascontiguousarray(blocks.transpose(0, 2, 1))
