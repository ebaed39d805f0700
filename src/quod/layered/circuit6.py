"""Conversion between layered circuits and `CIRCUIT6`, the files of Expander's compiler.

`CIRCUIT6` is the magic number of these files. They are flattened as Expander does when it loads
them: nested segments are expanded, and every layer has at least two values. If the first layer
multiplies inputs, a relay layer that copies the inputs precedes it, so that one claim about the
inputs remains instead of two. Each gate with a random coefficient has a separate challenge in every
copy of its segment.

There are two differences. Unused inputs stay, so a witness has as many inputs as the file says;
Expander as of March 2026 drops the unused inputs of highest index and renumbers the intermediate
values. And challenges are from the extension field; Expander's are from the circuit's field.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.formats.circuit6.fields import Circuit6Field, field_of
from quod.formats.circuit6.file import Circuit6, Circuit6Segment
from quod.formats.circuit6.gates import ELEMENT, PUBLIC, RANDOM, Circuit6Gates
from quod.formats.circuit6.gates import KINDS as FILE_KINDS
from quod.formats.circuit6.gates import no_gates as no_file_gates
from quod.formats.iden3 import Words
from quod.layered.circuit import (
    KINDS,
    MAX_LAYERS,
    MAX_RANDOMS,
    MIN_LOG_SIZE,
    Coefficient,
    Gates,
    Indices,
    Layer,
    LayeredCircuit,
    Public,
    Random,
)
from quod.validation import whole_number

MAX_GATES = 1 << 26
"""The default limit on the gates of a flattened circuit."""

Offsets = NDArray[np.int64]

_KIND_BY_FILE_KIND = {"mul": "multiply", "add": "add", "const": "constant"}
# The exponents that a file's `uni` gates may have, by Quod's kind of gate.
_EXPONENTS = {"add": 1, "power5": 5}


def from_circuit6(
    circuit: Circuit6, *, relay: bool = True, max_gates: int = MAX_GATES
) -> LayeredCircuit:
    """Flatten a file into a layered circuit.

    relay: whether a layer that copies the inputs precedes a first layer that multiplies inputs.
    max_gates: the limit on gates, and on copies of segments.
    InputError beyond the limit, for a field of two elements, and for a circuit without an output
    that must be zero, which proves nothing.
    """
    limit = whole_number("max_gates", max_gates, 1)
    field = circuit.field.modulus
    if field is None:
        raise InputError(
            f"the circuit is over {circuit.field.name}, the field of two elements, but Quod proves "
            "over primes from 5 on; compile the circuit for M31, for example",
            path=circuit.path or None,
            section="header",
        )
    if not circuit.zeros:
        raise InputError(
            "the circuit requires no output to be zero, so a proof would show nothing; state "
            "what must hold with assertions",
            path=circuit.path or None,
            section="header",
        )
    return _Flattening(circuit, field, limit, relay).circuit()


class _Flattening:
    """The flattening of one file's segments."""

    def __init__(self, file: Circuit6, field: Modulus, limit: int, relay: bool) -> None:
        self._file, self._field = file, field
        self._coefficients: dict[Coefficient, int] = {}
        self._randoms = 0
        self._ranks = {number: rank for rank, number in enumerate(file.order)}
        gates = file.totals(lambda segment: sum(map(len, segment.gates.values())))
        self._has_gates = [bool(count) for count in gates]
        first = file.layers[0]
        products = file.totals(lambda segment: len(segment.gates["mul"]))[first]
        self._log_inputs = _log_size(file.segments[first].inputs)
        self._is_relayed = relay and products > 0
        relay_gates = 1 << self._log_inputs if self._is_relayed else 0
        copies = file.totals(lambda segment: 1)
        for maximum, what, count in (
            (limit, "gates", relay_gates + sum(gates[number] for number in file.layers)),
            (limit, "copies of segments", sum(copies[number] for number in file.layers)),
            (MAX_RANDOMS, "random coefficients", file.randoms()),
            (MAX_LAYERS, "layers", len(file.layers) + self._is_relayed),
        ):
            if count > maximum:
                advice = "; pass max_gates=N for more if you trust the file"
                raise InputError(
                    f"the circuit has more than {maximum} {what} once its segments are taken apart"
                    f"{advice if maximum == limit else ''}",
                    path=file.path or None,
                )

    def circuit(self) -> LayeredCircuit:
        file = self._file
        layers = [self._relay_layer(self._log_inputs)] if self._is_relayed else []
        layers += [self._layer(number) for number in file.layers]
        return LayeredCircuit(
            self._field, self._log_inputs, list(self._coefficients), layers, public=file.public,
            zeros=file.zeros,
        )  # fmt: skip

    def _relay_layer(self, log_size: int) -> Layer:
        """Return a layer that copies its inputs."""
        wires = np.arange(1 << log_size, dtype=np.uint32)
        gates = {kind: _no_gates(kind) for kind in KINDS}
        ones = np.full(1 << log_size, self._coefficient_index(1), np.uint32)
        gates["add"] = Gates(wires, (wires,), ones)
        return Layer(log_size, gates)

    def _layer(self, root: int) -> Layer:
        """Collect the gates of a segment and of all nested segments."""
        parts: dict[str, list[Gates]] = {kind: [] for kind in KINDS}
        # For each segment, the offsets of the inputs and outputs of its copies.
        placements: dict[int, list[tuple[Offsets, Offsets]]] = {root: [(_ZERO, _ZERO)]}
        # Segments are taken by rank, parents first, so that all copies of a segment are known
        # before its gates are collected.
        pending = [self._ranks[root]]
        while pending:
            number = self._file.order[heapq.heappop(pending)]
            segment, copies = self._file.segments[number], placements.pop(number)
            inputs, outputs = (np.concatenate([pair[side] for pair in copies]) for side in (0, 1))
            for child in segment.children:
                if not self._has_gates[child.segment] or not len(child.inputs):
                    continue
                if child.segment not in placements:
                    placements[child.segment] = []
                    heapq.heappush(pending, self._ranks[child.segment])
                pair = _all_sums(inputs, child.inputs), _all_sums(outputs, child.outputs)
                placements[child.segment].append(pair)
            self._append_gates(segment, inputs, outputs, parts)
        gates = {kind: _joined(kind, parts[kind]) for kind in KINDS}
        return Layer(_log_size(self._file.segments[root].outputs), gates)

    def _append_gates(
        self, segment: Circuit6Segment, inputs: Offsets, outputs: Offsets,
        parts: dict[str, list[Gates]],
    ) -> None:  # fmt: skip
        """Append the gates of all copies of a segment to `parts`, by kind."""
        for file_kind, file_gates in segment.gates.items():
            if not len(file_gates):
                continue
            indices = self._coefficient_indices(file_gates)
            copied_inputs = [
                _all_sums(inputs, column).astype(np.uint32) for column in file_gates.inputs
            ]
            output = _all_sums(outputs, file_gates.output).astype(np.uint32)
            coefficient = np.tile(indices, len(outputs))
            random_gates = np.flatnonzero(np.tile(file_gates.tag == RANDOM, len(outputs)))
            for index in random_gates.tolist():
                coefficient[index] = self._coefficient_index(Random(self._randoms))
                self._randoms += 1
            exponent = np.tile(file_gates.exponent, len(outputs))
            masks = (
                {_KIND_BY_FILE_KIND[file_kind]: slice(None)}
                if file_kind in _KIND_BY_FILE_KIND
                else {kind: exponent == power for kind, power in _EXPONENTS.items()}
            )
            for kind, mask in masks.items():
                columns = tuple(column[mask] for column in copied_inputs)
                parts[kind].append(Gates(output[mask], columns, coefficient[mask]))

    def _coefficient_indices(self, gates: Circuit6Gates) -> Indices:
        """Return the index of each gate's coefficient, with 0 in place of a challenge's.

        Challenges differ between the copies of a segment.
        """
        indices = np.zeros(len(gates), np.uint32)
        for tag in (ELEMENT, PUBLIC):
            is_tagged = gates.tag == tag
            if not is_tagged.any():
                continue
            words = gates.value[is_tagged] if tag == ELEMENT else gates.value[is_tagged][:, :1]
            numbers, number_indices = _distinct(words)
            values = [Public(number) for number in numbers] if tag == PUBLIC else numbers
            value_indices = [self._coefficient_index(value) for value in values]
            indices[is_tagged] = np.array(value_indices, np.uint32)[number_indices]
        return indices

    def _coefficient_index(self, value: Coefficient) -> int:
        return self._coefficients.setdefault(value, len(self._coefficients))


_ZERO = np.zeros(1, np.int64)


def _distinct(words: Words) -> tuple[list[int], NDArray[np.intp]]:
    """Return the distinct numbers, and the index of each number among them."""
    if words.shape[1] <= 2:
        # Machine integers are sorted ten times as fast as rows of words.
        dtype = ("<u4", "<u8")[words.shape[1] - 1]
        column = np.ascontiguousarray(words, "<u4").view(dtype).reshape(-1)
        numbers, inverse = np.unique(column, return_inverse=True)
        return numbers.tolist(), inverse.reshape(-1)
    rows, inverse = np.unique(words, axis=0, return_inverse=True)
    data = [row.astype("<u4").tobytes() for row in rows]
    return [int.from_bytes(row, "little") for row in data], inverse.reshape(-1)


def _all_sums(offsets: Offsets, indices: NDArray[np.unsignedinteger]) -> Offsets:
    """Add every offset to every index."""
    return np.add.outer(offsets, indices.astype(np.int64)).reshape(-1)


def _log_size(length: int) -> int:
    """Return the log2 of a layer's size from a file's length, a power of two; pads short layers."""
    return max(MIN_LOG_SIZE, length.bit_length() - 1)


def _no_gates(kind: str) -> Gates:
    empty = np.zeros(0, np.uint32)
    return Gates(empty, (empty,) * KINDS[kind], empty)


def _joined(kind: str, parts: list[Gates]) -> Gates:
    if not parts:
        return _no_gates(kind)
    columns = [
        np.concatenate([part.inputs[index] for part in parts]) for index in range(KINDS[kind])
    ]  # fmt: skip
    return Gates(
        np.concatenate([part.output for part in parts]), tuple(columns),
        np.concatenate([part.coefficient for part in parts]),
    )  # fmt: skip


def to_circuit6(circuit: LayeredCircuit) -> Circuit6:
    """Convert a circuit to Expander's form, one segment per layer, for `write_circuit6`.

    InputError for features that such files lack: other fields, powers except the fifth, public
    inputs that multiply, and a challenge that several gates share.
    """
    field = field_of(circuit.field)
    conversion = _GateConversion(circuit, field)
    segments = []
    for number, layer in enumerate(circuit.layers):
        gates = {}
        for kind in KINDS:
            if kind not in (*_KIND_BY_FILE_KIND.values(), "power5") and len(layer.gates[kind]):
                raise InputError(
                    f"layer {number} has {kind} gates, which Expander does not support"
                )
        for file_kind in FILE_KINDS:
            kind = _KIND_BY_FILE_KIND.get(file_kind, "power5")
            gates[file_kind] = conversion.convert(file_kind, layer.gates[kind])
        below = 1 << circuit.log_below(number)
        segments.append(Circuit6Segment(below, 1 << layer.log_size, (), gates))
    outputs = 1 << circuit.log_outputs
    layers = tuple(range(len(segments)))
    return Circuit6("", field, circuit.public, outputs, circuit.zeros, tuple(segments), layers)


class _GateConversion:
    """The conversion of a circuit's gates to those of a file."""

    def __init__(self, circuit: LayeredCircuit, field: Circuit6Field) -> None:
        tags = {int: ELEMENT, Public: PUBLIC, Random: RANDOM}
        self._field = field
        self._tags = np.array([tags[type(c)] for c in circuit.coefficients], np.uint8)
        numbers = [
            c if isinstance(c, int) else c.number if isinstance(c, Public) else 0
            for c in circuit.coefficients
        ]  # fmt: skip
        data = b"".join(number.to_bytes(4 * field.words, "little") for number in numbers)
        self._values = np.frombuffer(data, "<u4").reshape(-1, field.words).astype(np.uint32)
        # The challenges of gates that were already converted.
        self._is_used = np.zeros(len(numbers), bool)

    def convert(self, file_kind: str, gates: Gates) -> Circuit6Gates:
        """Convert the gates of one kind in a layer.

        Raises InputError for public inputs that multiply, and for a challenge that two gates share,
        also across calls.
        """
        count, indices = len(gates), gates.coefficient
        if not count:
            return no_file_gates(file_kind, self._field)
        tag = self._tags[indices]
        if file_kind != "const" and (tag == PUBLIC).any():
            raise InputError("a public input multiplies a value, which Expander does not support")
        random_coefficients = indices[tag == RANDOM]
        if (
            len(np.unique(random_coefficients)) < len(random_coefficients)
            or self._is_used[random_coefficients].any()
        ):
            raise InputError(
                "several gates share a random coefficient, which Expander does not support"
            )
        self._is_used[random_coefficients] = True
        exponent = np.full(count, 5 if file_kind == "uni" else 1, np.uint8)
        return Circuit6Gates(gates.inputs, gates.output, tag, self._values[indices], exponent)
