"""Matrices in the layout of the kernel `product`: blocks of 16 rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.frozen import frozen
from quod.inference.transformer.integer_weights import IntegerMatrix
from quod.inference.transformer.kernels.arithmetic import is_bytewise
from quod.inference.transformer.kernels.product import ROW_BLOCK


@frozen(eq=False)
class PackedMatrix:
    """A matrix in device memory; see `quod.inference.transformer.kernels.product.product`.

    rows, columns: The size without the padding after the last row.
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


def padded(rows: int) -> int:
    """Return the number of rows of whole blocks that hold `rows`."""
    return -(-rows // ROW_BLOCK) * ROW_BLOCK


def packed_bytes(matrix: IntegerMatrix) -> int:
    """Return the bytes that a matrix takes in device memory."""
    elements = padded(matrix.rows) * matrix.columns
    return elements * matrix.bits // 8 + 8 * elements // matrix.group


def upload_matrices(device: AnyDevice, matrices: Sequence[IntegerMatrix]) -> PackedMatrix:
    """Pack matrices of the same layout and upload them, each below the one before.

    Each but the last is padded to whole blocks of rows.
    """
    first, bytewise = matrices[0], is_bytewise(device.machine(1))

    def upload(parts: Sequence[NDArray[Any]]) -> Buffer:
        return device.upload(np.concatenate([_in_blocks(part) for part in parts]))

    return PackedMatrix(
        sum([padded(matrix.rows) for matrix in matrices[:-1]]) + matrices[-1].rows,
        first.columns, first.bits, first.group,
        upload([_words(matrix, bytewise) for matrix in matrices]),
        upload([matrix.scales for matrix in matrices]),
        upload([matrix.minima for matrix in matrices]),
    )  # fmt: skip


def _words(matrix: IntegerMatrix, bytewise: bool) -> NDArray[np.uint32]:
    """Return the quants of rows as words, in the order of columns of `product`."""
    quants = matrix.quants[:]
    if matrix.bits == 16:
        return np.ascontiguousarray(quants).view(np.uint32)
    if matrix.bits == 8:
        packed = quants
        if not bytewise:
            packed = packed.reshape(matrix.rows, -1, 4)[:, :, [0, 2, 1, 3]]
    else:
        columns = quants.reshape(matrix.rows, -1, 8)
        low, high = ([0, 1, 2, 3], [4, 5, 6, 7]) if bytewise else ([0, 4, 1, 5], [2, 6, 3, 7])
        packed = columns[:, :, low] | columns[:, :, high] << np.uint8(4)
    return np.ascontiguousarray(packed).reshape(matrix.rows, -1).view(np.uint32)


def _in_blocks(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows padded to whole blocks, in which the elements of a column are neighbours."""
    extended = np.pad(rows, ((0, padded(len(rows)) - len(rows)), (0, 0)))
    blocks = extended.reshape(-1, ROW_BLOCK, extended.shape[1])
    return np.ascontiguousarray(blocks.transpose(0, 2, 1))
