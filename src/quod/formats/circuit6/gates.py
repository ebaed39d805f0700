"""Lists of gates in segments of Expander's circuit files, as columns.

A gate is the u64 index of each input, the u64 index of its output, a byte with the kind of its
coefficient, and the coefficient: for 1 an element, for 2 nothing (random), for 3 the u64 index of a
public input, which only constants have. A unary gate begins with its kind as u64, 12345 for the
fifth power and 12346 for the identity, followed by the count of its inputs.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from quod.formats.circuit6.fields import Circuit6Field
from quod.formats.iden3 import SectionReader, Words
from quod.frozen import frozen

KINDS = {"mul": 2, "add": 1, "const": 0, "uni": 1}
"""The kinds of gates, in file order, and the number of inputs of each."""

ELEMENT, RANDOM, PUBLIC = 1, 2, 3
"""The kinds of a gate's coefficient."""

_EXPONENTS = {12345: 5, 12346: 1}
_UNARY = {exponent: kind for kind, exponent in _EXPONENTS.items()}

_DAMAGED = "the file is damaged, compile the circuit again"


@frozen(eq=False)
class Circuit6Gates:
    """The gates of one kind in one segment, as columns.

    inputs: For each input, the indices as uint32.
    output: The indices of outputs as uint32.
    tag: ELEMENT, RANDOM or PUBLIC, as uint8.
    value: (n, words): the canonical element, or the index of the public input in the first word.
    exponent: 1 or 5 for unary gates, 1 for other kinds, as uint8.
    """

    inputs: tuple[NDArray[np.uint32], ...]
    output: NDArray[np.uint32]
    tag: NDArray[np.uint8]
    value: Words
    exponent: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.output)


def fixed_bytes(kind: str) -> int:
    """Return the bytes of a gate before its coefficient, which are its minimum length."""
    return 8 * (KINDS[kind] + 1) + 1 + (16 if kind == "uni" else 0)


@frozen(eq=False)
class GateReader:
    """A reader of the gates of a segment.

    reader: The reader of the file.
    field: The field of the circuit.
    public: The number of public inputs.
    inputs: The number of inputs of the segment.
    outputs: The number of outputs of the segment.
    """

    reader: SectionReader
    field: Circuit6Field
    public: int
    inputs: int
    outputs: int

    def read(self, kind: str, count: int) -> Circuit6Gates:
        """Read `count` gates of a kind; InputError, with the offset, for any fault."""
        if not count:
            return no_gates(kind, self.field)
        fixed, begin, data = fixed_bytes(kind), self.reader.offset, self.reader.rest()
        starts = self._starts(kind, count, data)
        indices = np.ascontiguousarray(_slices(data, starts, fixed - 1)).view("<u8")
        tag: NDArray[np.uint8] = np.frombuffer(data, np.uint8)[starts + (fixed - 1)]

        def fail(wrong: NDArray[np.bool_], at: int, text: str) -> NoReturn:
            """Raise the error for the first wrong gate, at byte `at` of it."""
            row = int(wrong.argmax())
            message = text.format(int(indices[row, at // 8]) if at < fixed - 1 else "")
            self.reader.fail(f"{message}; {_DAMAGED}", begin + int(starts[row]) + at)

        exponent = np.ones(count, np.uint8)
        if kind == "uni":
            exponent[:] = 0
            for number, power in _EXPONENTS.items():
                exponent[indices[:, 0] == number] = power
            if not exponent.all():
                fail(exponent == 0, 0, "a unary gate has the kind {}, not 12345 or 12346")
            if (indices[:, 1] != 1).any():
                fail(indices[:, 1] != 1, 8, "a unary gate has {} inputs, not 1")
        first_column = indices.shape[1] - KINDS[kind] - 1
        limits = [self.inputs] * KINDS[kind] + [self.outputs]
        for column, limit in enumerate(limits, first_column):
            out_of_range = indices[:, column] >= limit
            if out_of_range.any():
                end = "output" if column == first_column + KINDS[kind] else "input"
                text = f"the {end} of the {kind} gate is {{}}, and there are {limit}"
                fail(out_of_range, 8 * column, text)
        if kind != "const" and (tag == PUBLIC).any():
            text = (
                f"the coefficient of the {kind} gate is a public input, which is "
                "allowed only for constants"
            )
            fail(tag == PUBLIC, fixed - 1, text)
        index_columns = indices[:, first_column:].astype(np.uint32)
        columns = [np.ascontiguousarray(index_columns[:, at]) for at in range(KINDS[kind] + 1)]
        value = np.zeros((count, self.field.words), np.uint32)
        constant_gates = np.flatnonzero(tag == ELEMENT)
        if constant_gates.size:
            elements = _slices(data, starts[constant_gates] + fixed, self.field.element_bytes)
            value[constant_gates] = self.field.words_of(
                elements.reshape(-1).data, len(constant_gates)
            )
            bad_index = self.field.first_wrong(value)
            if bad_index is not None:
                text = f"the coefficient of the {kind} gate is not below the prime of "
                fail(np.arange(count) == bad_index, fixed, text + self.field.name)
        public_gates = np.flatnonzero(tag == PUBLIC)
        if public_gates.size:
            numbers = np.ascontiguousarray(_slices(data, starts[public_gates] + fixed, 8)).view(
                "<u8"
            )[:, 0]
            out_of_range = numbers >= self.public
            if out_of_range.any():
                number = int(numbers[out_of_range.argmax()])
                text = f"a constant refers to public input {number} of {self.public}"
                fail(np.arange(count) == public_gates[out_of_range.argmax()], fixed, text)
            value[public_gates, 0] = numbers
        return Circuit6Gates(tuple(columns[:-1]), columns[-1], tag, value, exponent)

    def _starts(self, kind: str, count: int, data: memoryview) -> NDArray[np.int64]:
        """Skip the gates of a list, and return the offset of each in `data`."""
        reader, fixed = self.reader, fixed_bytes(kind)
        lengths = {ELEMENT: fixed + self.field.element_bytes, RANDOM: fixed, PUBLIC: fixed + 8}
        stride = lengths.get(data[fixed - 1], 0) if len(data) >= fixed else 0
        if stride and count * stride <= len(data):
            tags = np.frombuffer(data, np.uint8, count * stride)[fixed - 1 :: stride]
            if (tags == tags[0]).all():
                # Nearly all lists are uniform.
                reader.take(count * stride, f"{kind} gates")
                return np.arange(count, dtype=np.int64) * stride
        starts: list[int] = []
        position, last_start = 0, len(data) - fixed
        while len(starts) < count and position <= last_start:
            starts.append(position)
            length = lengths.get(data[position + fixed - 1], 0)
            if not length:
                reader.fail(
                    f"the coefficient of the {kind} gate has the kind "
                    f"{data[position + fixed - 1]}, which is not 1, 2 or 3; {_DAMAGED}",
                    reader.offset + position + fixed - 1,
                )
            position += length
        # Missing gates count with their minimum length, so that `take` reports the shortfall.
        reader.take(position + (count - len(starts)) * fixed, f"{count} {kind} gates")
        return np.array(starts, np.int64)


def _slices(data: memoryview, starts: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
    """Return `length` bytes from each offset, as (n, length)."""
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), length)
    return windows[starts]


def no_gates(kind: str, field: Circuit6Field) -> Circuit6Gates:
    """Return an empty list of gates of a kind."""
    no_indices, empty = np.zeros(0, np.uint32), np.zeros(0, np.uint8)
    value = np.zeros((0, field.words), np.uint32)
    return Circuit6Gates((no_indices,) * KINDS[kind], no_indices, empty, value, empty)


def gates_to_bytes(kind: str, gates: Circuit6Gates, field: Circuit6Field) -> bytes:
    """Return a list of gates with its count, in the file's format."""
    count, fixed = len(gates), fixed_bytes(kind)
    coefficient_bytes = np.zeros(256, np.int64)
    coefficient_bytes[[ELEMENT, PUBLIC]] = field.element_bytes, 8
    lengths = fixed + coefficient_bytes[gates.tag]
    starts = np.cumsum(lengths) - lengths
    columns: list[NDArray[np.generic]] = [*gates.inputs, gates.output]
    if kind == "uni":
        kinds = np.array([_UNARY.get(power, 0) for power in range(6)], np.uint64)
        columns = [kinds[gates.exponent], np.ones(count, np.uint64), *columns]
    indices = np.stack([column.astype("<u8") for column in columns], axis=1)
    out = np.zeros(int(lengths.sum()), np.uint8)
    out[starts[:, None] + np.arange(fixed - 1)] = indices.view(np.uint8).reshape(count, fixed - 1)
    out[starts + fixed - 1] = gates.tag
    for tag, length in ((ELEMENT, field.element_bytes), (PUBLIC, 8)):
        is_tagged = gates.tag == tag
        if is_tagged.any():
            words = gates.value[is_tagged]
            numbers = words[:, 0].astype("<u8").tobytes()
            data = field.bytes_of(words) if tag == ELEMENT else numbers
            coefficients = np.frombuffer(data, np.uint8).reshape(-1, length)
            out[starts[is_tagged][:, None] + fixed + np.arange(length)] = coefficients
    return count.to_bytes(8, "little") + out.tobytes()
