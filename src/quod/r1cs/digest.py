"""The hash of a constraint system's shape, as bellman's `TestConstraintSystem::hash` computes it.

BLAKE2s-256 of three counts, followed by A, B and C of each constraint. The counts are those of
inputs (including the constant 1), of other variables and of constraints. A row is its number of
terms; then, per term, ``I`` for an input or ``A`` for another variable, the variable's index among
its kind, and the coefficient. Counts and indices have 8 bytes, coefficients the size of an element,
all big-endian. Terms are in ascending order, inputs first; terms of equal variables are summed, and
zeros are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from quod.formats import SparseMatrix


def circuit_hash(matrices: Sequence[SparseMatrix], public: int, wires: int, size: int) -> str:
    """Return the hash of A, B and C in hex; their rows must be merged, nonzero and ascending.

    public: the number of public inputs, without the constant 1.
    wires: the number of wires, including the constant 1.
    size: the size of an element in bytes.
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
    """Return the hashed bytes of each row: its number of terms, then the terms."""
    term_type = np.dtype([("kind", "S1"), ("number", ">u8"), ("value", np.uint8, (size,))])
    terms = np.zeros(matrix.nonzeros, term_type)
    is_input = matrix.column < inputs
    terms["kind"] = np.where(is_input, b"I", b"A")
    terms["number"] = np.where(is_input, matrix.column, matrix.column.astype(np.int64) - inputs)
    value_bytes = np.ascontiguousarray(matrix.value, "<u4").view(np.uint8).reshape(-1, size)
    terms["value"] = value_bytes[:, ::-1]
    data, term_size = terms.tobytes(), term_type.itemsize
    return [
        (end - start).to_bytes(8, "big") + data[start * term_size : end * term_size]
        for start, end in pairwise(matrix.row_ptr.tolist())
    ]
