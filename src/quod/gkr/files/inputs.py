"""Inputs of circuits as files: JSON, or the witnesses of Expander's compiler.

JSON is an object with `inputs` and, if the circuit has public inputs, `public`. Each is a list with
one list of numbers per instance; for a single instance the inner list suffices. Numbers are
integers below the prime, as decimal strings or, up to 20 digits, as JSON numbers. A file of public
inputs is such a list of lists, or the same object, whose `inputs` are then ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from quod.device.protocol import AnyDevice
from quod.errors import InputError, MismatchError
from quod.field.array import Words, canonical, to_integers, to_montgomery
from quod.field.moduli import Modulus
from quod.formats.circuit6.witness import (
    Circuit6Witness,
    Circuit6WitnessHeader,
    is_circuit6_witness,
)
from quod.formats.output import write_atomically
from quod.formats.source import FileView, Path, check_length, is_pipe, read_file, read_small
from quod.formats.strict_json import JsonKind, json_type_of, parse_json, read_json, shown
from quod.frozen import frozen
from quod.layered.circuit import LayeredCircuit
from quod.validation import file_path, plain_array, shown_kind, whole_number

INPUTS = JsonKind("the inputs of a circuit", max_bytes=256 << 20, max_values=1 << 22)

_DECIMAL = re.compile(r"0|[1-9][0-9]*", re.ASCII)
# The largest prime has 157 digits, so longer numbers are rejected before int() reads them.
_MAX_DIGITS = 160


@frozen(eq=False)
class CircuitInputs:
    """Inputs of instances of a circuit, a row per instance.

    public: rows of int.
    inputs: rows of int, or canonical words of shape (instances, inputs, words).
    """

    circuit: LayeredCircuit
    inputs: list[list[int]] | Words
    public: list[list[int]]

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.public)

    def first(self, count: int) -> CircuitInputs:
        """Return the inputs of the first `count` instances; raise InputError if there are fewer."""
        count = whole_number("the instances", count, 1)
        if count > len(self):
            raise InputError(f"there are inputs for {len(self)} instances, not for {count}")
        return CircuitInputs(self.circuit, self.inputs[:count], self.public[:count])

    def for_prover(self, device: AnyDevice) -> list[list[int]] | Words:
        """Return the inputs in the form of `Prover.prove`; words are converted on a device."""
        if isinstance(self.inputs, list):
            return self.inputs
        field = self.circuit.field
        flat = self.inputs.reshape(-1, field.words)
        stored = flat if field.is_plain else to_montgomery(device, field, flat)
        return stored.reshape(self.inputs.shape)


def read_inputs(path: Path, circuit: LayeredCircuit) -> CircuitInputs:
    """Read the inputs in a file of either kind, or in a pipe of JSON.

    Raises InputError for malformed inputs, and MismatchError for those of another circuit.
    """
    name = file_path(path)
    if is_pipe(path):
        return parse_inputs(memoryview(read_json(path, INPUTS)), name, circuit)

    def check(view: FileView) -> None:
        if is_circuit6_witness(view):
            _check_witness(Circuit6WitnessHeader.read(view, name), circuit, name)
        else:
            check_length(len(view), INPUTS.max_bytes, INPUTS.what, name)

    return parse_inputs(read_file(path, check), name, circuit)


def parse_inputs(data: memoryview | bytes, name: str, circuit: LayeredCircuit) -> CircuitInputs:
    """Parse inputs in memory; see `read_inputs`. `name` is the name of the file in errors."""
    view = memoryview(data)
    if is_circuit6_witness(view):
        return _of_witness(view, name, circuit)
    document = _document(view, name)
    if not isinstance(document, dict) or "inputs" not in document:
        raise InputError(
            'must be an object with "inputs", or a witness of Expander; check that this is the '
            "right file",
            path=name,
        )
    for key in document:
        if key not in ("inputs", "public"):
            raise InputError(f'{shown(key)} is neither "inputs" nor "public"', path=name)
    inputs = _rows(document["inputs"], name, "inputs", circuit.field, 1 << circuit.log_inputs)
    public = _public(document.get("public"), name, circuit, len(inputs))
    if len(public) != len(inputs):
        raise InputError(
            f"there are inputs for {len(inputs)} instances, but public inputs for {len(public)}",
            path=name,
            section="public",
        )
    return CircuitInputs(circuit, inputs, public)


def read_public_inputs(path: Path, circuit: LayeredCircuit) -> list[list[int]]:
    """Read the public inputs of all instances from JSON; errors as `read_inputs`."""
    data = read_small(path, limit=INPUTS.max_bytes, what=INPUTS.what)
    return parse_public_inputs(data, file_path(path), circuit)


def parse_public_inputs(data: bytes, name: str, circuit: LayeredCircuit) -> list[list[int]]:
    """Parse public inputs in memory; see `read_public_inputs`. `name` is for errors."""
    document = _document(memoryview(data), name)
    if isinstance(document, dict):
        if "public" not in document:
            raise InputError('"public" is missing; check that this is the right file', path=name)
        document = document["public"]
    return _rows(document, name, "public", circuit.field, circuit.public)


def write_public_inputs(path: Path, public: Sequence[Sequence[int]]) -> None:
    """Write public inputs atomically, a list per instance. Raises `OutputError`."""
    write_atomically(path, public_inputs_to_json(public))


def write_inputs(
    path: Path, circuit: LayeredCircuit, inputs: Sequence[object] | Words,
    public: Sequence[object] = (),
) -> None:  # fmt: skip
    """Write the inputs of all instances atomically, to a file of mode 0600.

    They have the forms that `Prover.prove` accepts. Raises as `inputs_to_json`, and `OutputError`
    if writing fails.
    """
    text = inputs_to_json(circuit, inputs, public, file_path(path))
    write_atomically(path, text, private=True)


def inputs_to_json(
    circuit: LayeredCircuit, inputs: Sequence[object] | Words, public: Sequence[object], name: str
) -> bytes:
    """Return the text of a file of inputs; `name` is the file's name in errors.

    The text is read back. Raises InputError for malformed inputs, and MismatchError for inputs of
    another circuit.
    """
    values: object = inputs
    if isinstance(values, np.ndarray):
        values = _integers(circuit, values)
    document = {"inputs": _texts("inputs", values), "public": _texts("public inputs", public)}
    if not circuit.public and not document["public"]:
        del document["public"]
    data = json.dumps(document).encode() + b"\n"
    parse_inputs(data, name, circuit)
    return data


def _integers(circuit: LayeredCircuit, table: NDArray[Any]) -> list[list[int]]:
    """Return the rows of an array of elements, (instances, inputs, words) or (inputs, words)."""
    size, words = 1 << circuit.log_inputs, circuit.field.words
    if table.dtype != np.uint32 or table.ndim not in (2, 3) or table.shape[-2:] != (size, words):
        raise InputError(
            f"inputs must be uint32 of shape (instances, {size}, {words}), not {table.dtype} of "
            f"{table.shape}"
        )
    flat = plain_array("the inputs", table).reshape(-1, words)
    if not canonical(circuit.field, flat).all():
        raise InputError(f"inputs must be elements of {circuit.field.name}, below its prime")
    integers = to_integers(circuit.field, flat)
    return [integers[index : index + size] for index in range(0, len(integers), size)]


def _texts(what: str, values: object) -> list[Any]:
    """Convert numbers to decimal strings, in a list or in one list per instance."""
    if not isinstance(values, (list, tuple)):
        raise InputError(f"{what} must be a list of int per instance, not {shown_kind(values)}")
    nested = bool(values) and isinstance(values[0], (list, tuple))
    rows = values if nested else [values]
    if any(
        not isinstance(row, (list, tuple)) or any(type(value) is not int for value in row)
        for row in rows
    ):
        raise InputError(f"{what} must be a list of int per instance")
    # Readers reject larger numbers, and Python refuses to convert very large ones to text.
    if any(not 0 <= value < 10**_MAX_DIGITS for row in rows for value in row):
        raise InputError(f"{what} must be int in [0, prime)")
    texts = [[str(value) for value in row] for row in rows]
    return texts if nested else texts[0]


def public_inputs_to_json(public: Sequence[Sequence[int]]) -> bytes:
    """Return the text of a file of public inputs; raises InputError if they are malformed."""
    values: object = public
    if not isinstance(values, (list, tuple)) or any(
        not isinstance(row, (list, tuple)) or any(type(value) is not int for value in row)
        for row in values
    ):
        raise InputError("public inputs must be a list of int per instance")
    return json.dumps([[str(value) for value in row] for row in public]).encode() + b"\n"


def _document(data: memoryview, name: str) -> Any:
    if len(data) > INPUTS.max_bytes:
        raise InputError(
            f"is longer than {INPUTS.what} may be as JSON ({INPUTS.max_bytes:,} bytes); "
            "write a witness of Expander, which is shorter, or prove in parts",
            path=name,
        )
    return parse_json(bytes(data), name, INPUTS)


def _public(value: object, name: str, circuit: LayeredCircuit, instances: int) -> list[list[int]]:
    if value is None and not circuit.public:
        return [[] for _ in range(instances)]
    if value is None:
        raise MismatchError(
            f'the circuit has {circuit.public} public inputs, and "public" is missing', path=name
        )
    return _rows(value, name, "public", circuit.field, circuit.public)


def _rows(document: object, name: str, key: str, field: Modulus, length: int) -> list[list[int]]:
    """Return the rows of all instances, each of `length` numbers."""

    def fail(what: str) -> NoReturn:
        raise InputError(what, path=name, section=key)

    if not isinstance(document, list):
        fail(f"must be a list, not {json_type_of(document)}")
    if not document and length:
        fail("has no instance")
    rows = document if document and isinstance(document[0], list) else [document]
    checked_rows = []
    for instance, row in enumerate(rows):
        if not isinstance(row, list):
            fail(f"instance {instance} must be a list, not {json_type_of(row)}")
        if len(row) != length:
            what = "public inputs" if key == "public" else "inputs"
            raise MismatchError(
                f"instance {instance} has {len(row)} {what}, and the circuit {length}",
                path=name,
                section=key,
            )
        values = []
        for index, value in enumerate(row):
            parsed = _number(value, field)
            if parsed is None:
                fail(
                    f"value {index} of instance {instance} must be an integer from 0 to the prime "
                    f'of {field.name}, such as 7 or "7", not {shown(value)}'
                )
            values.append(parsed)
        checked_rows.append(values)
    return checked_rows


def _number(value: object, field: Modulus) -> int | None:
    if isinstance(value, str) and len(value) <= _MAX_DIGITS and _DECIMAL.fullmatch(value):
        value = int(value)
    return value if type(value) is int and 0 <= value < field.value else None


def _check_witness(header: Circuit6WitnessHeader, circuit: LayeredCircuit, name: str) -> None:
    """Raise MismatchError for the witnesses of another circuit."""
    if header.field.value != circuit.field.value:
        raise MismatchError(
            f"the witness is over {header.field.name} and the circuit over {circuit.field.name}",
            path=name,
        )
    for what, count, needed in (
        ("inputs", header.private, 1 << circuit.log_inputs),
        ("public inputs", header.public, circuit.public),
    ):
        if count != needed:
            raise MismatchError(
                f"the witness has {count} {what}, and the circuit {needed}", path=name
            )


def _of_witness(view: memoryview, name: str, circuit: LayeredCircuit) -> CircuitInputs:
    field = circuit.field
    _check_witness(Circuit6WitnessHeader.read(view, name), circuit, name)
    witness = Circuit6Witness.parse(view, name)
    data = witness.public.astype("<u4").tobytes()
    size = field.bytes
    public_values = [
        int.from_bytes(data[index : index + size], "little") for index in range(0, len(data), size)
    ]
    width = circuit.public
    public = [public_values[index * width : (index + 1) * width] for index in range(len(witness))]
    return CircuitInputs(circuit, witness.private, public)
