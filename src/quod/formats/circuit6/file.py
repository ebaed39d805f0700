"""Circuits of Expander's compiler (`CIRCUIT6`), read and written.

Integers are u64, little-endian. A file has, in order:

- the letters CIRCUIT6, and the prime in 32 bytes;
- the counts of public inputs, of outputs, and of outputs that must be zero;
- a count and that many segments;
- a count and that many layers, each the index of a segment, the layer on the inputs first.

A segment has, in order:

- the length of its inputs and of its outputs, powers of two;
- a count of children, each the index of a segment, a count, and that many pairs of an offset into
  the inputs and one into the outputs;
- the products, additions, constants and unary gates, each with a count
  (`quod.formats.circuit6.gates`).

A segment's outputs are the sums of its own gates and of its children's gates, at their offsets.
`quod.layered.from_circuit6` converts it to a layered circuit. Only Expander's format is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.formats.circuit6.fields import MODULUS_BYTES, Circuit6Field, read_field
from quod.formats.circuit6.gates import (
    KINDS,
    RANDOM,
    Circuit6Gates,
    GateReader,
    fixed_bytes,
    gates_to_bytes,
    no_gates,
)
from quod.formats.iden3 import SectionReader
from quod.formats.output import write_atomically
from quod.formats.source import Bytes, Path, map_file
from quod.frozen import frozen
from quod.validation import file_path

MAGIC = b"CIRCUIT6"

MAX_PUBLIC = 1 << 24
MAX_LENGTH = 1 << 26
"""The maximum number of inputs, and of outputs, of a segment."""
MAX_TOTAL = 1 << 62
"""The limit at which counts over nested copies of segments saturate."""

_DAMAGED = "the file is damaged, compile the circuit again"

Offsets = NDArray[np.uint64]


@frozen(eq=False)
class Circuit6Child:
    """Copies of a segment in another one.

    segment: The index of the segment.
    inputs: The offset of each copy's inputs.
    outputs: The offset of each copy's outputs.
    """

    segment: int
    inputs: Offsets
    outputs: Offsets


@frozen(eq=False)
class Circuit6Segment:
    """A segment of a circuit.

    inputs: The number of inputs.
    outputs: The number of outputs.
    children: Copies of other segments.
    gates: Its own gates by kind.
    """

    inputs: int
    outputs: int
    children: tuple[Circuit6Child, ...]
    gates: dict[str, Circuit6Gates]


@frozen(eq=False)
class Circuit6:
    """A validated circuit: no segment contains itself, and no gate reaches beyond its layer.

    path: The name of the file.
    field: The field.
    public: The number of public inputs.
    outputs: The number of outputs.
    zeros: The number of outputs, from the first one on, that must be 0.
    segments: The segments.
    layers: Indices of segments; the layer on the inputs is first.
    size: The length of the file in bytes; 0 for a circuit that was not read.
    """

    path: str
    field: Circuit6Field
    public: int
    outputs: int
    zeros: int
    segments: tuple[Circuit6Segment, ...]
    layers: tuple[int, ...]
    size: int = 0

    @classmethod
    def open(cls, path: Path) -> Circuit6:
        """Read a circuit; InputError, with section and offset, for any fault."""
        name = file_path(path)
        return cls.parse(map_file(path, lambda view: check_magic(view, name)), name)

    @classmethod
    def parse(cls, data: memoryview, name: str) -> Circuit6:
        """Read bytes as `open` reads a file; `name` stands for the path in errors."""
        return _CircuitReader(data, name).circuit()

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The indices of all segments, each before its children."""
        # `parse` has checked that there is an order.
        return tuple(reversed(_children_first(self.segments, lambda number: None)))

    def totals(self, count: Callable[[Circuit6Segment], int]) -> list[int]:
        """Sum `count` over each segment and all copies nested in it.

        Nested copies may be too many to count exactly: sums saturate at MAX_TOTAL.
        """
        totals = [0] * len(self.segments)
        for number in reversed(self.order):
            segment = self.segments[number]
            total = count(segment) + sum(
                len(child.inputs) * totals[child.segment] for child in segment.children
            )
            totals[number] = min(total, MAX_TOTAL)
        return totals

    def gates(self) -> dict[str, int]:
        """Return the number of gates of each kind in all layers, at most MAX_TOTAL per layer."""
        counts = {}
        for kind in KINDS:
            totals = self.totals(lambda segment, kind=kind: len(segment.gates[kind]))  # type: ignore[misc]
            counts[kind] = sum(totals[number] for number in self.layers)
        return counts

    def randoms(self) -> int:
        """Return the number of gates with a random coefficient in all layers."""
        totals = self.totals(
            lambda segment: sum(
                int((gates.tag == RANDOM).sum()) for gates in segment.gates.values()
            )
        )
        return sum(totals[number] for number in self.layers)


def check_magic(data: Bytes, name: str) -> None:
    """Raise InputError for a file that is not a circuit of Expander."""
    magic = bytes(data[: len(MAGIC)])
    if magic != MAGIC:
        raise InputError(
            f"is not a circuit of Expander (it begins with {magic!r}, not {MAGIC!r}); "
            "check that the right file was given, or compile it with a current compiler",
            path=name, section="header", offset=0,
        )  # fmt: skip


class _CircuitReader:
    """A reader of one file, front to back."""

    def __init__(self, data: memoryview, name: str) -> None:
        self._reader = SectionReader(name, "header", data, 0, len(data))
        self._data, self._name = data, name
        # For messages: the file offset of each child's offsets, by segment.
        self._child_offsets: list[list[int]] = []

    def circuit(self) -> Circuit6:
        reader = self._reader
        check_magic(self._data, self._name)
        reader.take(len(MAGIC), "the letters of the format")
        self._field = read_field(reader)
        # Segments without gates of a kind share these.
        self._no_gates = {kind: no_gates(kind, self._field) for kind in KINDS}
        start = reader.offset
        self._public = reader.u64("the count of public inputs")
        if self._public > MAX_PUBLIC:
            reader.fail(f"{self._public} public inputs are too many; {_DAMAGED}", start)
        start = reader.offset
        outputs = reader.u64("the count of outputs")
        zeros = reader.u64("the count of outputs that must be zero")
        # A segment has at least seven u64: two lengths and five counts.
        count = self._count("segments", 56)
        segments = []
        for number in range(count):
            segments.append(self._segment(number, count))
        reader.label = "layers"
        count = self._count("layers", 8)
        layers_offset = reader.offset
        layers = tuple(reader.u64("a layer") for _ in range(count))
        reader.finish()
        self._check_segments(segments)
        self._check_layers(segments, layers, layers_offset)
        length = segments[layers[-1]].outputs
        for number, (what, claimed_count) in enumerate(
            (("outputs", outputs), ("zero outputs", zeros))
        ):
            if claimed_count > length:
                reader.label = "header"
                reader.fail(
                    f"{claimed_count} {what} are more than the last layer's {length} values; "
                    f"{_DAMAGED}",
                    start + 8 * number,
                )
        return Circuit6(
            self._name, self._field, self._public, outputs, zeros, tuple(segments), layers,
            len(self._data),
        )  # fmt: skip

    def _count(self, what: str, min_bytes: int) -> int:
        """Read a count of items of at least `min_bytes` each; InputError if they cannot fit."""
        reader, start = self._reader, self._reader.offset
        count = reader.u64(f"the count of {what}")
        if count > reader.remaining // min_bytes:
            reader.fail(
                f"{count} {what} take at least {min_bytes} bytes each, and "
                f"{reader.remaining} bytes are left; {_DAMAGED}",
                start,
            )
        return count

    def _segment(self, number: int, segments: int) -> Circuit6Segment:
        reader = self._reader
        reader.label = f"segment {number}"
        lengths: list[int] = []
        for what in ("inputs", "outputs"):
            start = reader.offset
            length = reader.u64(f"the length of the {what}")
            if not 1 <= length <= MAX_LENGTH or length & (length - 1):
                reader.fail(
                    f"the length of the {what} is {length}, not a power of two up to "
                    f"{MAX_LENGTH}; {_DAMAGED}",
                    start,
                )
            lengths.append(length)
        reader.label = f"segment {number}, children"
        self._child_offsets.append([])
        children = tuple(self._child(number, segments) for _ in range(self._count("children", 16)))
        gates = {}
        inputs, outputs = lengths
        read = GateReader(reader, self._field, self._public, inputs, outputs).read
        for kind in KINDS:
            reader.label = f"segment {number}, {kind} gates"
            count = self._count(f"{kind} gates", fixed_bytes(kind))
            gates[kind] = read(kind, count) if count else self._no_gates[kind]
        return Circuit6Segment(inputs, outputs, children, gates)

    def _child(self, number: int, segments: int) -> Circuit6Child:
        reader, start = self._reader, self._reader.offset
        segment = reader.u64("the segment of a child")
        if segment >= segments:
            reader.fail(f"a child refers to segment {segment} of {segments}; {_DAMAGED}", start)
        count = self._count("offsets", 16)
        self._child_offsets[number].append(reader.offset)
        data = reader.take(16 * count, "the offsets of a child")
        pairs = np.frombuffer(data, "<u8").reshape(count, 2).astype(np.uint64)
        return Circuit6Child(
            segment, np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        )

    def _check_segments(self, segments: Sequence[Circuit6Segment]) -> None:
        """Raise InputError for a segment within itself, or a child that exceeds its parent."""
        reader = self._reader

        def cyclic(number: int) -> None:
            reader.label = f"segment {number}, children"
            reader.fail(
                f"segment {number} contains itself; {_DAMAGED}", self._child_offsets[number][0]
            )

        reaches = [(0, 0)] * len(segments)
        for number in _children_first(segments, cyclic):
            segment = segments[number]
            reach = [_reach(segment, side) for side in (0, 1)]
            for child_index, child in enumerate(segment.children):
                for side, offsets in enumerate((child.inputs, child.outputs)):
                    child_reach = reaches[child.segment][side]
                    if not len(offsets) or not child_reach:
                        continue
                    limit = (segment.inputs, segment.outputs)[side]
                    beyond = offsets > max(limit - child_reach, 0)
                    if child_reach > limit or beyond.any():
                        copy_index = int(beyond.argmax())
                        end_name = ("an input", "an output")[side]
                        reader.label = f"segment {number}, children"
                        reader.fail(
                            f"a gate of segment {child.segment} has {end_name} at "
                            f"{int(offsets[copy_index]) + child_reach - 1}, and there are {limit}; "
                            f"{_DAMAGED}",
                            self._child_offsets[number][child_index] + 16 * copy_index + 8 * side,
                        )
                    reach[side] = max(reach[side], int(offsets.max()) + child_reach)
            reaches[number] = reach[0], reach[1]

    def _check_layers(
        self, segments: Sequence[Circuit6Segment], layers: Sequence[int], layers_offset: int
    ) -> None:
        """Raise InputError for a layer that is not a segment, or does not fit the layer below."""
        reader = self._reader
        if not layers:
            reader.fail(f"the circuit has no layers; {_DAMAGED}", layers_offset - 8)
        length = None
        for layer_index, number in enumerate(layers):
            if number >= len(segments):
                reader.fail(
                    f"layer {layer_index} is segment {number} of {len(segments)}; {_DAMAGED}",
                    layers_offset + 8 * layer_index,
                )
            if length not in (None, segments[number].inputs):
                reader.fail(
                    f"layer {layer_index} has {segments[number].inputs} inputs, and the layer "
                    f"below has {length} outputs; {_DAMAGED}",
                    layers_offset + 8 * layer_index,
                )
            length = segments[number].outputs


def _reach(segment: Circuit6Segment, side: int) -> int:
    """Return the last input (`side` 0) or output (1) of a segment's own gates, plus one."""
    columns = [
        column
        for gates in segment.gates.values()
        for column in (gates.inputs if side == 0 else (gates.output,))
    ]
    return 1 + max((int(column.max()) for column in columns if len(column)), default=-1)


def _children_first(
    segments: Sequence[Circuit6Segment], cyclic: Callable[[int], None]
) -> list[int]:
    """Return the indices of all segments, children before parents.

    `cyclic` is called with a segment that is within itself.
    """
    order: list[int] = []
    visited, done = bytearray(len(segments)), bytearray(len(segments))
    for root in range(len(segments)):
        # No recursion, because a file may have any depth. The number ~n means that all children of
        # segment n are done.
        pending = [root]
        while pending:
            number = pending.pop()
            if number < 0:
                done[~number] = 1
                order.append(~number)
            elif visited[number]:
                if not done[number]:
                    cyclic(number)
            else:
                visited[number] = 1
                pending.append(~number)
                pending += [child.segment for child in segments[number].children]
    return order


def write_circuit6(path: Path, circuit: Circuit6) -> None:
    """Write a circuit atomically, in the form that Expander reads. Raises `OutputError`."""
    parts = [MAGIC, circuit.field.value.to_bytes(MODULUS_BYTES, "little")]
    counts = (circuit.public, circuit.outputs, circuit.zeros, len(circuit.segments))
    parts += [_u64(number) for number in counts]
    for segment in circuit.segments:
        parts += [_u64(segment.inputs), _u64(segment.outputs), _u64(len(segment.children))]
        for child in segment.children:
            pairs = np.stack([child.inputs, child.outputs], axis=1).astype("<u8")
            parts += [_u64(child.segment), _u64(len(pairs)), pairs.tobytes()]
        parts += [gates_to_bytes(kind, segment.gates[kind], circuit.field) for kind in KINDS]
    parts += [_u64(len(circuit.layers)), *map(_u64, circuit.layers)]
    write_atomically(path, b"".join(parts))


def _u64(number: int) -> bytes:
    return number.to_bytes(8, "little")
