"""The hash of a constraint system's shape, as bellman's `TestConstraintSystem::hash` computes it.

BLAKE2s-256 of the counts of inputs (with the constant 1), of other variables and of constraints,
then of A, B and C of each constraint: the number of terms, and per term ``I`` for an input or ``A``
for another variable, its number among its kind, and the coefficient. Counts and numbers are 8 bytes
and coefficients the size of an element, all big-endian. Terms are in ascending order, inputs first;
terms of one variable are summed and zeros are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from quod.formats import SparseMatrix


def circuit_hash(matrices: Sequence[SparseMatrix], public: int, wires: int, size: int) -> str:
    """Return the digest in hex of A, B and C; their rows must be merged, nonzero and ascending.

    public: public inputs without the constant 1.
    wires: all wires with the constant 1.
    size: bytes of an element.
    """
    inputs, constraints = public + 1, matrices[0].rows
    counts = (inputs, wires - inputs, constraints)
    hasher = hashlib.blake2s(b"".join(count.to_bytes(8, "big") for count in counts))
    streams = [_stream(matrix, inputs, size) for matrix in matrices]
    for row in range(constraints):
        for stream in streams:
            hasher.update(stream[row])
    return hasher.hexdigest()


def _stream(matrix: SparseMatrix, inputs: int, size: int) -> list[bytes]:
    """The bytes of each row that are hashed: its number of terms, then the terms."""
    kind = np.dtype([("kind", "S1"), ("number", ">u8"), ("value", np.uint8, (size,))])
    terms = np.zeros(matrix.nonzeros, kind)
    is_input = matrix.column < inputs
    terms["kind"] = np.where(is_input, b"I", b"A")
    terms["number"] = np.where(is_input, matrix.column, matrix.column.astype(np.int64) - inputs)
    value_bytes = np.ascontiguousarray(matrix.value, "<u4").view(np.uint8).reshape(-1, size)
    terms["value"] = value_bytes[:, ::-1]
    data, width = terms.tobytes(), kind.itemsize
    return [
        (end - start).to_bytes(8, "big") + data[start * width : end * width]
        for start, end in pairwise(matrix.row_ptr.tolist())
    ]
