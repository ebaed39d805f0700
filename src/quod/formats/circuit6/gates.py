"""Lists of gates in segments of Expander's circuit files, as columns.

A gate is the u64 places of its inputs, the u64 place of its output, a byte that says what its
coefficient is, and that: 1 an element, 2 nothing (random), 3 the u64 number of a public input,
which only constants have. A unary gate has before it its kind as u64, 12345 for the fifth power and
12346 for the value itself, and before its input their count.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from quod.formats.circuit6.fields import Circuit6Field
from quod.formats.iden3 import SectionReader, Words
from quod.frozen import frozen

KINDS = {"mul": 2, "add": 1, "const": 0, "uni": 1}
"""The kinds of gates, in the order of the file, and how many inputs each has."""

ELEMENT, RANDOM, PUBLIC = 1, 2, 3
"""What the coefficient of a gate is."""

_EXPONENTS = {12345: 5, 12346: 1}
_UNARY = {exponent: kind for kind, exponent in _EXPONENTS.items()}

_DAMAGED = "the file is damaged, compile the circuit again"


@frozen(eq=False)
class Circuit6Gates:
    """Gates of one kind of one segment: `inputs`, a column for each, `output`, and coefficients.

    `tag` is one of ELEMENT, RANDOM and PUBLIC, uint8; `value` (n, words) the element, canonical,
    or in its first word the number of the public input; `exponent` that of unary gates, 1 or 5,
    uint8, for other kinds 1. Places are uint32.
    """

    inputs: tuple[NDArray[np.uint32], ...]
    output: NDArray[np.uint32]
    tag: NDArray[np.uint8]
    value: Words
    exponent: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.output)


def fixed_bytes(kind: str) -> int:
    """Bytes of a gate before its coefficient: what is least of it."""
    return 8 * (KINDS[kind] + 1) + 1 + (16 if kind == "uni" else 0)


@frozen(eq=False)
class GateReader:
    """Reads the gates of a segment with so many `inputs` and `outputs`, of a circuit's `field`."""

    reader: SectionReader
    field: Circuit6Field
    public: int
    inputs: int
    outputs: int

    def read(self, kind: str, count: int) -> Circuit6Gates:
        """So many gates of a kind; InputError with the place of what is wrong."""
        if not count:
            return no_gates(kind, self.field)
        fixed, begin, data = fixed_bytes(kind), self.reader.offset, self.reader.rest()
        starts = self._starts(kind, count, data)
        places = np.ascontiguousarray(_pieces(data, starts, fixed - 1)).view("<u8")
        tag: NDArray[np.uint8] = np.frombuffer(data, np.uint8)[starts + (fixed - 1)]

        def fail(wrong: NDArray[np.bool_], at: int, text: str) -> NoReturn:
            """The error for the first gate that is wrong, in what is so many bytes within it."""
            row = int(wrong.argmax())
            shown = text.format(int(places[row, at // 8]) if at < fixed - 1 else "")
            self.reader.fail(f"{shown}; {_DAMAGED}", begin + int(starts[row]) + at)

        exponent = np.ones(count, np.uint8)
        if kind == "uni":
            exponent[:] = 0
            for number, power in _EXPONENTS.items():
                exponent[places[:, 0] == number] = power
            if not exponent.all():
                fail(exponent == 0, 0, "a unary gate is of the kind {}, neither 12345 nor 12346")
            if (places[:, 1] != 1).any():
                fail(places[:, 1] != 1, 8, "a unary gate has {} inputs in place of 1")
        first = places.shape[1] - KINDS[kind] - 1
        limits = [self.inputs] * KINDS[kind] + [self.outputs]
        for column, limit in enumerate(limits, first):
            beyond = places[:, column] >= limit
            if beyond.any():
                end = "output" if column == first + KINDS[kind] else "input"
                text = f"the {end} of the {kind} gate is {{}}, and there are {limit}"
                fail(beyond, 8 * column, text)
        if kind != "const" and (tag == PUBLIC).any():
            text = f"the coefficient of the {kind} gate is a public input, which only constants are"
            fail(tag == PUBLIC, fixed - 1, text)
        narrow = places[:, first:].astype(np.uint32)
        columns = [np.ascontiguousarray(narrow[:, at]) for at in range(KINDS[kind] + 1)]
        value = np.zeros((count, self.field.words), np.uint32)
        own = np.flatnonzero(tag == ELEMENT)
        if own.size:
            elements = _pieces(data, starts[own] + fixed, self.field.element_bytes)
            value[own] = self.field.words_of(elements.reshape(-1).data, len(own))
            wrong = self.field.first_wrong(value)
            if wrong is not None:
                text = f"the coefficient of the {kind} gate is not below the prime of "
                fail(np.arange(count) == wrong, fixed, text + self.field.name)
        own = np.flatnonzero(tag == PUBLIC)
        if own.size:
            numbers = np.ascontiguousarray(_pieces(data, starts[own] + fixed, 8)).view("<u8")[:, 0]
            beyond = numbers >= self.public
            if beyond.any():
                number = int(numbers[beyond.argmax()])
                text = f"a constant is public input {number}, and there are {self.public}"
                fail(np.arange(count) == own[beyond.argmax()], fixed, text)
            value[own, 0] = numbers
        return Circuit6Gates(tuple(columns[:-1]), columns[-1], tag, value, exponent)

    def _starts(self, kind: str, count: int, data: memoryview) -> NDArray[np.int64]:
        """Where the next gates begin in what is left, and reads them."""
        reader, fixed = self.reader, fixed_bytes(kind)
        lengths = {ELEMENT: fixed + self.field.element_bytes, RANDOM: fixed, PUBLIC: fixed + 8}
        stride = lengths.get(data[fixed - 1], 0) if len(data) >= fixed else 0
        if stride and count * stride <= len(data):
            tags = np.frombuffer(data, np.uint8, count * stride)[fixed - 1 :: stride]
            if (tags == tags[0]).all():
                # As nearly all lists are.
                reader.take(count * stride, f"{kind} gates")
                return np.arange(count, dtype=np.int64) * stride
        starts: list[int] = []
        position, ends = 0, len(data) - fixed
        while len(starts) < count and position <= ends:
            starts.append(position)
            length = lengths.get(data[position + fixed - 1], 0)
            if not length:
                reader.fail(
                    f"the coefficient of the {kind} gate is of the sort "
                    f"{data[position + fixed - 1]}, none of 1, 2 and 3; {_DAMAGED}",
                    reader.offset + position + fixed - 1,
                )
            position += length
        # Gates that are missing are missing behind the last one.
        reader.take(position + (count - len(starts)) * fixed, f"{count} {kind} gates")
        return np.array(starts, np.int64)


def _pieces(data: memoryview, starts: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
    """So many bytes from each place on, as (n, length)."""
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), length)
    return windows[starts]


def no_gates(kind: str, field: Circuit6Field) -> Circuit6Gates:
    """None of a kind."""
    none, empty = np.zeros(0, np.uint32), np.zeros(0, np.uint8)
    value = np.zeros((0, field.words), np.uint32)
    return Circuit6Gates((none,) * KINDS[kind], none, empty, value, empty)


def gates_to_bytes(kind: str, gates: Circuit6Gates, field: Circuit6Field) -> bytes:
    """A list of gates with its count, as files hold it."""
    count, fixed = len(gates), fixed_bytes(kind)
    tails = np.zeros(256, np.int64)
    tails[[ELEMENT, PUBLIC]] = field.element_bytes, 8
    lengths = fixed + tails[gates.tag]
    starts = np.cumsum(lengths) - lengths
    columns: list[NDArray[np.generic]] = [*gates.inputs, gates.output]
    if kind == "uni":
        kinds = np.array([_UNARY.get(power, 0) for power in range(6)], np.uint64)
        columns = [kinds[gates.exponent], np.ones(count, np.uint64), *columns]
    places = np.stack([column.astype("<u8") for column in columns], axis=1)
    out = np.zeros(int(lengths.sum()), np.uint8)
    out[starts[:, None] + np.arange(fixed - 1)] = places.view(np.uint8).reshape(count, fixed - 1)
    out[starts + fixed - 1] = gates.tag
    for tag, length in ((ELEMENT, field.element_bytes), (PUBLIC, 8)):
        own = gates.tag == tag
        if own.any():
            words = gates.value[own]
            numbers = words[:, 0].astype("<u8").tobytes()
            data = field.bytes_of(words) if tag == ELEMENT else numbers
            tail = np.frombuffer(data, np.uint8).reshape(-1, length)
            out[starts[own][:, None] + fixed + np.arange(length)] = tail
    return count.to_bytes(8, "little") + out.tobytes()
