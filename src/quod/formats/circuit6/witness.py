"""Witnesses of Expander's compiler, read and written.

Integers are little-endian. A file has, in order:

- the counts of witnesses, and of private and public inputs of each, as u64;
- the prime in 32 bytes;
- for each witness, its private inputs and then its public ones, as elements of the field's length.

Expander silently reduces an element at or above the prime; here it is an error, as it would be a
second encoding of the same witness.
"""

from __future__ import annotations

import numpy as np

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.formats.circuit6.fields import (
    FIELDS,
    MODULUS_BYTES,
    Circuit6Field,
    field_of,
    read_field,
)
from quod.formats.iden3 import SectionReader, Words
from quod.formats.output import write_atomically
from quod.formats.source import Bytes, Path, read_file
from quod.frozen import frozen
from quod.validation import file_path, plain_array

_HEADER_BYTES = 3 * 8 + MODULUS_BYTES


@frozen
class Circuit6WitnessHeader:
    """The header of a witness file: the numbers of witnesses, and of inputs of each."""

    field: Circuit6Field
    witnesses: int
    private: int
    public: int

    @property
    def values(self) -> int:
        """The number of elements in the file."""
        return self.witnesses * (self.private + self.public)

    @classmethod
    def read(cls, data: Bytes, name: str) -> Circuit6WitnessHeader:
        """Read the header; raise InputError if the length of the file does not fit it."""
        reader = SectionReader(name, "header", data, 0, len(data))
        count = reader.u64("the count of witnesses")
        private = reader.u64("the count of private inputs")
        public = reader.u64("the count of public inputs")
        field = read_field(reader)
        if not count:
            reader.fail("has no witnesses; make the file again", 0)
        if not private:
            reader.fail("has no private inputs; make the witness again", 8)
        reader.label = "values"
        header = cls(field, count, private, public)
        needed_bytes = header.values * field.element_bytes
        if needed_bytes != reader.remaining:
            reader.fail(
                f"{count} witnesses of {private} private and {public} public inputs of "
                f"{field.name} take {needed_bytes} bytes, and there are {reader.remaining}; "
                "the file is damaged or truncated, make or copy it again"
            )
        return header


@frozen(eq=False)
class Circuit6Witness:
    """Validated witnesses, one for each instance.

    path: The name of the file.
    field: The field.
    private: (instances, inputs, words) uint32: canonical integers as little-endian words.
    public: (instances, public inputs, words) uint32.
    size: The length of the file in bytes.
    """

    path: str
    field: Circuit6Field
    private: Words
    public: Words
    size: int = 0

    def __len__(self) -> int:
        return len(self.private)

    @classmethod
    def open(cls, path: Path) -> Circuit6Witness:
        """Read witnesses; InputError, with section and offset, for any fault."""
        name = file_path(path)
        return cls.parse(read_file(path, lambda view: Circuit6WitnessHeader.read(view, name)), name)

    @classmethod
    def parse(cls, data: memoryview, name: str) -> Circuit6Witness:
        """Read bytes as `open` reads a file; `name` stands for the path in errors."""
        header = Circuit6WitnessHeader.read(data, name)
        field, length = header.field, header.private + header.public
        start = _HEADER_BYTES
        words = field.words_of(data[start:], header.values)
        bad_index = field.first_wrong(words)
        if bad_index is not None:
            witness, value_index = divmod(bad_index, length)
            raise InputError(
                f"value {value_index} of witness {witness} is not below the prime of {field.name}; "
                "make the witness again",
                path=name, section="values", offset=start + bad_index * field.element_bytes,
            )  # fmt: skip
        values = words.reshape(header.witnesses, length, field.words)
        return cls(name, field, values[:, : header.private], values[:, header.private :], len(data))


def is_circuit6_witness(data: Bytes) -> bool:
    """Return whether the header has a known prime; witness files have no magic number."""
    if len(data) < _HEADER_BYTES:
        return False
    prime = int.from_bytes(data[_HEADER_BYTES - MODULUS_BYTES : _HEADER_BYTES], "little")
    return any(field.value == prime for field in FIELDS)


def write_circuit6_witness(path: Path, field: Modulus, private: Words, public: Words) -> None:
    """Write witnesses atomically, to a file of mode 0600; arrays are as in `Circuit6Witness`.

    Raises InputError for other arrays, `OutputError` if writing fails.
    """
    file_field = field_of(field)
    arrays = []
    for name, array in (("private", private), ("public", public)):
        words = plain_array(name, array)
        if words.dtype != np.uint32 or words.ndim != 3 or words.shape[2] != file_field.words:
            raise InputError(
                f"{name} must be uint32 of shape (instances, inputs, {file_field.words})"
            )
        if file_field.first_wrong(words.reshape(-1, file_field.words)) is not None:
            raise InputError(f"{name} has a value that is not below the prime of {field.name}")
        arrays.append(words)
    if len(arrays[0]) != len(arrays[1]) or not len(arrays[0]):
        raise InputError("private and public must have the same number of instances, at least one")
    if not arrays[0].shape[1]:
        raise InputError("private must have at least one input per instance")
    counts = (len(arrays[0]), arrays[0].shape[1], arrays[1].shape[1])
    header = b"".join(count.to_bytes(8, "little") for count in counts)
    header += file_field.value.to_bytes(MODULUS_BYTES, "little")
    values = np.concatenate(arrays, axis=1).reshape(-1, file_field.words)
    write_atomically(path, header + file_field.bytes_of(values), private=True)
