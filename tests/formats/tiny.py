"""The tiny circuit of tests/data/formats, and damaged files made from it."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from quod.curve.named import CURVES
from quod.errors import InputError
from quod.formats import SparseMatrix
from quod.formats.iden3 import Words

DATA = Path(__file__).resolve().parent.parent / "data" / "formats"
TINY_CURVES = ("bn254", "bls12_381")

# out = (a*b + 3) * a; wires 1, out, a, b, a*b.
ROWS_A = [{2: 1}, {4: 1, 0: 3}]
ROWS_B = [{3: 1}, {2: 1}]
ROWS_C = [{4: 1}, {1: 1}]


def tiny_witness(curve: str) -> list[int]:
    """The witness for a = 5, b = -7."""
    r = CURVES[curve].fr.value
    a, b = 5, r - 7
    return [1, (a * b + 3) * a % r, a, b, a * b % r]


def elements(values: Sequence[int], words: int) -> Words:
    """Integers as an array of shape (n, words)."""
    data = b"".join(value.to_bytes(4 * words, "little") for value in values)
    return np.frombuffer(data, dtype="<u4").reshape(-1, words)


def integers(words: Words) -> list[int]:
    """The inverse of `elements`."""
    return [int.from_bytes(row.tobytes(), "little") for row in words.reshape(-1, words.shape[-1])]


def matrix(rows: list[dict[int, int]], words: int) -> SparseMatrix:
    """Rows of column -> value as a sparse matrix."""
    return SparseMatrix(
        np.cumsum([0] + [len(row) for row in rows]).astype(np.int64),
        np.array([column for row in rows for column in row], dtype=np.uint32),
        elements([value for row in rows for value in row.values()], words),
    )


def rows_of(matrix: SparseMatrix) -> list[list[tuple[int, int]]]:
    """The entries of each row as (column, value)."""
    values = integers(matrix.value) if matrix.nonzeros else []
    entries = list(zip(matrix.column.tolist(), values))
    ends = matrix.row_ptr.tolist()
    return [entries[begin:end] for begin, end in pairwise(ends)]


def container(kind: bytes, version: int, sections: Iterable[tuple[int, bytes]]) -> bytes:
    """A container written without the code under test."""
    parts = [struct.pack("<IQ", number, len(data)) + data for number, data in sections]
    return kind + struct.pack("<II", version, len(parts)) + b"".join(parts)


def split(data: bytes) -> tuple[bytes, int, list[tuple[int, bytes]]]:
    """The inverse of `container`."""
    kind, version, count = struct.unpack_from("<4sII", data)
    position, sections = 12, []
    for _ in range(count):
        number, length = struct.unpack_from("<IQ", data, position)
        position += 12
        sections.append((number, data[position : position + length]))
        position += length
    assert position == len(data)
    return kind, version, sections


def replaced(data: bytes, changes: Mapping[int, bytes | None]) -> bytes:
    """The container `data` with some sections replaced, removed (None) or added."""
    kind, version, sections = split(data)
    merged = {**dict(sections), **changes}
    return container(kind, version, [(n, s) for n, s in merged.items() if s is not None])


@contextlib.contextmanager
def piped(data: bytes) -> Iterator[str]:
    """The path of a pipe that gives `data`, which is short, as ``<(...)`` of a shell makes it."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
        os.close(writing)
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)


def refused(error: pytest.ExceptionInfo[InputError], *parts: str) -> None:
    """Check that an error is one line that holds each of `parts`, in any order."""
    text = str(error.value)
    assert "\n" not in text
    for part in parts:
        assert part in text, f"{part!r} is not in {text!r}"
