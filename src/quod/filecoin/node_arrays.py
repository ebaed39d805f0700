"""Nodes in JSON, which are lists of 32 numbers: nearly all of the text of an output of C1.

An output of 32 GiB has ten million numbers, for which Python's parser takes seconds. Before it
parses, NumPy reads all compact lists of 32 bytes and replaces them by references.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.filecoin.sectors import NODE_BYTES

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]

_COMMA, _OPEN, _CLOSE, _ZERO = b",[]0"
# A list has at most 32 * 3 digits, 31 commas and its end.
_ROW = 4 * NODE_BYTES
_ROWS = 1 << 9
# A list has at least its start, 32 digits, 31 commas and its end.
_SHORTEST = 2 * NODE_BYTES + 1


class NodeArrays:
    """The lists of 32 bytes of a JSON text.

    text: the text with a reference, a string, in place of each list.
    count: the number of lists.
    """

    def __init__(self, data: bytes, most: int) -> None:
        """Replace the lists of 32 bytes, unless more than `most` lists may be such."""
        # Random, so that no string of the document is a reference.
        self._prefix = secrets.token_hex(8) + ":"
        text = np.frombuffer(data, np.uint8)
        starts = _starts(text)
        if len(starts) > most:
            starts = starts[:0]
        padded = np.concatenate([text, np.zeros(_ROW, np.uint8)])
        rows = np.lib.stride_tricks.sliding_window_view(padded, _ROW)
        nodes, begins, ends = [], [], []
        for first in range(0, len(starts), _ROWS):
            chunk = starts[first : first + _ROWS]
            values, lengths, are_nodes = _parsed(rows[chunk])
            nodes.append(values.tobytes())
            begins += (chunk[are_nodes] - 1).tolist()
            ends += (chunk[are_nodes] + lengths[are_nodes] + 1).tolist()
        self._nodes, self.count = b"".join(nodes), len(begins)
        pieces: list[bytes] = []
        previous = 0
        for index, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            pieces += (data[previous:begin], f'"{self._prefix}{index}"'.encode())
            previous = end
        self.text = b"".join((*pieces, data[previous:]))

    def node(self, reference: object) -> bytes | None:
        """Return the bytes of a reference; None for other values."""
        return self.nodes([reference])

    def nodes(self, references: Sequence[object]) -> bytes | None:
        """Return the bytes of the references of successive lists; None for other values."""
        first = references[0] if references else None
        if not isinstance(first, str) or not first.startswith(self._prefix):
            return None
        start, count = int(first[len(self._prefix) :]), len(references)
        if references != [f"{self._prefix}{index}" for index in range(start, start + count)]:
            return None
        return self._nodes[NODE_BYTES * start : NODE_BYTES * (start + count)]


def _starts(text: Bytes) -> NDArray[Any]:
    """Return the indices of the first digits of lists, without those that are too short."""
    starts = np.flatnonzero((text[:-1] == _OPEN) & _is_digit(text[1:])) + 1
    return starts[np.diff(starts, append=len(text) + 1) >= _SHORTEST]


def _parsed(rows: Bytes) -> tuple[Bytes, NDArray[Any], Flags]:
    """Parse the lists that begin at the first byte of each row.

    Returns the values of those that are 32 bytes, the length of each row's list, and which rows
    are such lists. Numbers that JSON or a byte does not permit, and spaces, are left to the parser.
    """
    digits, commas = _is_digit(rows), rows == _COMMA
    other = ~(digits | commas)
    lengths = other.argmax(axis=1)
    inside = np.arange(_ROW) < lengths[:, None]
    digits &= inside
    commas &= inside
    ends = digits.copy()
    ends[:, :-1] &= ~digits[:, 1:]
    values, leads_with_zero = _numbers(rows, digits)
    are_wrong = (ends & (values > 255)) | leads_with_zero
    are_nodes = (
        (rows[np.arange(len(rows)), lengths] == _CLOSE)
        & (commas.sum(axis=1) == NODE_BYTES - 1)
        & (ends.sum(axis=1) == NODE_BYTES)
        & ~are_wrong.any(axis=1)
    )
    ends &= are_nodes[:, None]
    return values[ends].astype(np.uint8), lengths, are_nodes


def _numbers(rows: Bytes, digits: Flags) -> tuple[NDArray[np.uint16], Flags]:
    """Return the value of the digits up to each position, and where a number has a leading zero.

    A number of more than three digits has a value above 255.
    """
    digit = ((rows - np.uint8(_ZERO)) * digits).astype(np.uint16)
    follows, second = _shifted(digits, 1), _shifted(digits, 2)
    third_last = _shifted(digit, 2) * follows
    values = digit + 10 * _shifted(digit, 1) + 100 * third_last
    values[follows & second & _shifted(digits, 3)] = 1000
    begins = digits & ~follows
    leads_with_zero = _shifted(begins & (digit == 0), 1) & digits
    return values, leads_with_zero


def _shifted(values: NDArray[Any], places: int) -> NDArray[Any]:
    """Return each row shifted to the right, with zeros at its start."""
    result = np.zeros_like(values)
    result[:, places:] = values[:, :-places]
    return result


def _is_digit(text: Bytes) -> Flags:
    return (text - np.uint8(_ZERO)) < 10
