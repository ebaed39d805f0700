"""Files of layered circuits: Quod's own form, read and written, and Expander's, read.

Quod's is a container of the iden3 tools (`quod.formats.iden3`) of the kind `qcir`, version 1, with
four sections, all integers little-endian:

1. u32 length of the prime in bytes, a multiple of 8, and the prime; u32 log2 of the number of
   inputs; u64 counts of public inputs, of outputs that must be 0, and of coefficients; u32 count of
   layers.
2. A byte for each coefficient: 0 for a number, 1 for a public input, 2 for a challenge. Then for
   each coefficient the number, below the prime and as long as an element in memory, or the index of
   the public input or challenge.
3. For each layer its u32 log2 of the number of values and, for each kind of gates in the order of
   `KINDS`, a u64 count and the columns of outputs, of each input, and of indices in the table of
   coefficients.
4. The digest of the circuit, 32 bytes.

A column has one, two or four bytes per number: the fewest that hold the largest possible number, so
that a circuit has exactly one encoding. Reading a file recomputes the digest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.field.moduli import MAX_BITS, NAMED, Modulus
from quod.formats.circuit6.file import MAGIC, Circuit6
from quod.formats.iden3 import Buffer, Iden3File, SectionReader, iden3_writer
from quod.formats.output import write_atomically
from quod.formats.source import FileView, Path, map_file
from quod.layered.circuit import (
    KINDS,
    MAX_LAYERS,
    MAX_LOG_SIZE,
    MAX_PUBLIC,
    MAX_RANDOMS,
    Coefficient,
    Gates,
    Indices,
    Layer,
    LayeredCircuit,
    Public,
    Random,
)
from quod.layered.circuit6 import from_circuit6
from quod.validation import file_path, shown

KIND = "qcir"
VERSION = 1

_NUMBER, _PUBLIC, _RANDOM = range(3)
_DAMAGED = "the file is damaged, make it again"
_DIGEST_BYTES = 32


def read_circuit(path: Path) -> LayeredCircuit:
    """Read a circuit from a file of Quod, or of Expander (`from_circuit6`).

    InputError with section and offset for a malformed file.
    """
    name = file_path(path)

    def check(view: FileView) -> None:
        if bytes(view[: len(MAGIC)]) != MAGIC:
            Iden3File.parse(view, name, KIND, VERSION)

    return parse_circuit(map_file(path, check), name)


def parse_circuit(data: memoryview | bytes, name: str) -> LayeredCircuit:
    """Parse a circuit as `read_circuit`, from bytes in memory; `name` is their source in errors."""
    buffer: object = data
    if not isinstance(buffer, (memoryview, bytes)):
        raise InputError("a circuit file must be bytes or a memoryview")
    view = memoryview(data)
    if bytes(view[: len(MAGIC)]) == MAGIC:
        return from_circuit6(Circuit6.parse(view, name))
    return _circuit(Iden3File.parse(view, name, KIND, VERSION))


def _circuit(file: Iden3File) -> LayeredCircuit:
    header = file.section(1, "header")
    start = header.offset
    field = _field(header)
    if header.offset - start != len(_prime(field)):
        header.fail(f"the prime takes {len(_prime(field)) - 4} bytes; {_DAMAGED}", start)
    counts, offsets = {}, {}
    for what, length, low, high in (
        ("log_inputs", 4, 1, MAX_LOG_SIZE), ("public", 8, 0, MAX_PUBLIC),
        ("zeros", 8, 1, 1 << MAX_LOG_SIZE), ("coefficients", 8, 0, 1 << 32),
        ("layers", 4, 1, MAX_LAYERS),
    ):  # fmt: skip
        offsets[what] = start = header.offset
        counts[what] = header.u32(what) if length == 4 else header.u64(what)
        if not low <= counts[what] <= high:
            header.fail(f"{what} must be {low} to {high}, not {counts[what]}; {_DAMAGED}", start)
    header.finish()
    coefficients = _coefficients(file, field, counts["coefficients"], counts["public"])
    section = file.section(3, "layers")
    layers, log_below = [], counts["log_inputs"]
    for number in range(counts["layers"]):
        layers.append(_layer(section, number, log_below, len(coefficients)))
        log_below = layers[-1].log_size
    section.finish()
    if counts["zeros"] > 1 << log_below:
        header.fail(
            f"{counts['zeros']} zeros of {1 << log_below} outputs; {_DAMAGED}", offsets["zeros"]
        )
    circuit = LayeredCircuit(
        field, counts["log_inputs"], coefficients, layers, public=counts["public"],
        zeros=counts["zeros"],
    )  # fmt: skip
    section = file.section(4, "digest")
    start = section.offset
    digest = bytes(section.take(_DIGEST_BYTES, "the digest"))
    section.finish()
    if digest != circuit.digest:
        section.fail(f"it is not that of the circuit; {_DAMAGED}", start)
    return circuit


def _field(header: SectionReader) -> Modulus:
    start = header.offset
    prime = header.modulus("the prime")
    named_field = next((modulus for modulus in NAMED.values() if modulus.value == prime), None)
    if named_field is not None:
        return named_field
    if prime.bit_length() > MAX_BITS:
        header.fail(f"the prime has {prime.bit_length()} bits, more than {MAX_BITS}", start)
    try:
        return Modulus(f"prime of {prime.bit_length()} bits", prime)
    except InputError as error:
        header.fail(f"{error}; {_DAMAGED}", start)


def _coefficients(file: Iden3File, field: Modulus, count: int, public: int) -> list[Coefficient]:
    section = file.section(2, "coefficients")
    start = section.offset
    if section.length != count * (1 + field.bytes):
        section.fail(
            f"{section.length} bytes are not {count} coefficients of {1 + field.bytes}; {_DAMAGED}"
        )
    tags = np.frombuffer(section.take(count, "the kinds"), np.uint8)
    if len(tags) and tags.max() > _RANDOM:
        section.fail(
            f"a coefficient has the kind {tags.max()}, not 0, 1 or 2; {_DAMAGED}",
            start + int(tags.argmax()),
        )
    numbers_start = section.offset
    coefficients: list[Coefficient] = []
    data, size = section.take(count * field.bytes, "the numbers"), field.bytes
    limits = (field.value, public, MAX_RANDOMS)
    makers = (int, Public, Random)
    for coefficient_index, tag in enumerate(tags.tolist()):
        number = int.from_bytes(
            data[coefficient_index * size : (coefficient_index + 1) * size], "little"
        )
        if number >= limits[tag]:
            what = ("coefficient", "public input", "random coefficient")[tag]
            section.fail(
                f"{what} {shown(number)} is beyond the last one, {limits[tag] - 1}; {_DAMAGED}",
                numbers_start + coefficient_index * size,
            )
        coefficients.append(makers[tag](number))
    return coefficients


def _layer(section: SectionReader, number: int, log_below: int, coefficient_count: int) -> Layer:
    section.label = f"3 (layers), layer {number}"
    start = section.offset
    log_size = section.u32("the logarithm of a layer's values")
    if not 1 <= log_size <= MAX_LOG_SIZE:
        section.fail(f"it has 2**{log_size} values, and may have 2 to 2**{MAX_LOG_SIZE}", start)
    gates = {}
    for kind, inputs in KINDS.items():
        section.label = f"3 (layers), layer {number}, {kind} gates"
        start = section.offset
        count = section.u64("their count")
        limits = [1 << log_size, *[1 << log_below] * inputs, coefficient_count]
        gate_bytes = sum(_dtype(limit).itemsize for limit in limits)
        if count > section.remaining // gate_bytes:
            section.fail(
                f"{count} gates take {gate_bytes} bytes each, and {section.remaining} bytes are "
                f"left; {_DAMAGED}",
                start,
            )
        output, *columns, coefficient = (_column(section, count, limit) for limit in limits)
        gates[kind] = Gates(output, tuple(columns), coefficient)
    return Layer(log_size, gates)


def _column(section: SectionReader, count: int, limit: int) -> Indices:
    """Read `count` indices below a limit, as a copy."""
    dtype, start = _dtype(limit), section.offset
    column = np.frombuffer(section.take(count * dtype.itemsize, "a column"), dtype)
    indices: Indices = column.astype(np.uint32)
    if count and int(indices.max()) >= limit:
        section.fail(
            f"a gate has place {int(indices.max())}, beyond the last one, {limit - 1}; {_DAMAGED}",
            start + int(indices.argmax()) * dtype.itemsize,
        )
    return indices


def _dtype(limit: int) -> np.dtype[np.unsignedinteger]:
    """Return the smallest unsigned type that stores wires below a limit."""
    return np.dtype("<u1" if limit <= 1 << 8 else "<u2" if limit <= 1 << 16 else "<u4")


def write_circuit(path: Path, circuit: LayeredCircuit) -> None:
    """Write a circuit atomically, in Quod's own form. Raises `OutputError`."""
    write_atomically(path, circuit_writer(circuit))


def circuit_writer(circuit: LayeredCircuit) -> Callable[[BinaryIO], None]:
    """Return a function that writes a circuit to an open file."""
    return iden3_writer(KIND, VERSION, _sections(circuit))


def _sections(circuit: LayeredCircuit) -> list[tuple[int, list[Buffer]]]:
    field = circuit.field

    def u32(number: int) -> bytes:
        return number.to_bytes(4, "little")

    def u64(number: int) -> bytes:
        return number.to_bytes(8, "little")

    header: list[Buffer] = [
        _prime(field), u32(circuit.log_inputs), u64(circuit.public), u64(circuit.zeros),
        u64(len(circuit.coefficients)), u32(len(circuit.layers)),
    ]  # fmt: skip
    tags = {int: _NUMBER, Public: _PUBLIC, Random: _RANDOM}
    numbers = [c if isinstance(c, int) else c.number for c in circuit.coefficients]
    table: list[Buffer] = [
        bytes(tags[type(c)] for c in circuit.coefficients),
        b"".join(number.to_bytes(field.bytes, "little") for number in numbers),
    ]
    layers: list[Buffer] = []
    for number, layer in enumerate(circuit.layers):
        layers.append(u32(layer.log_size))
        for kind, inputs in KINDS.items():
            gates = layer.gates[kind]
            limits = [1 << layer.log_size, *[1 << circuit.log_below(number)] * inputs]
            limits.append(len(circuit.coefficients))
            columns: list[NDArray[np.uint32]] = [gates.output, *gates.inputs, gates.coefficient]
            layers.append(u64(len(gates)))
            layers += [
                column.astype(_dtype(limit)) for column, limit in zip(columns, limits, strict=True)
            ]
    return [(1, header), (2, table), (3, layers), (4, [circuit.digest])]


def _prime(field: Modulus) -> bytes:
    # Containers store primes in whole 64-bit words.
    length = max(8, field.bytes)
    return length.to_bytes(4, "little") + field.value.to_bytes(length, "little")
