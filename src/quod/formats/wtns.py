"""Witness files (`.wtns`), as circom's and snarkjs's witness calculators write them.

Section 1: u32 length of the prime in bytes, the prime, u32 count of values. Section 2: the values,
each as long as the prime, little-endian integers below it (not in Montgomery form). Value 0 is the
constant 1; then follow public outputs, public inputs, private inputs and inner wires.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.formats.curves import field_named, first_at_or_above, read_field
from quod.formats.iden3 import (
    Buffer,
    Iden3File,
    Words,
    iden3_writer,
    little_u32,
)
from quod.formats.output import write_atomically
from quod.formats.source import FileView, Path, read_file
from quod.frozen import frozen
from quod.validation import check_function, file_path, plain_array

KIND = "wtns"
VERSION = 2
# Bytes of a section's length, the last field of its header.
_LENGTH_BYTES = 8


@frozen
class WitnessHeader:
    """The header of a witness file, whose values need not have been read.

    path: The name of the file.
    curve: The name of the field, as in `Witness`.
    count: The number of values.
    """

    path: str
    curve: str
    count: int

    def __len__(self) -> int:
        return self.count

    @classmethod
    def of(cls, file: Iden3File) -> WitnessHeader:
        """Read the header of an open container, and check the sections' lengths against it.

        Reads only the first value, the constant 1. Raises `InputError`.
        """
        header = file.section(1, "header")
        curve, field = read_field(header)
        count = header.u32("the count of values")
        header.finish()
        section = file.section(2, "values")
        start = section.offset
        if count == 0:
            section.fail("has no values, not even the constant 1; make the witness again")
        section.skip(count * field.bytes, f"the witness of {count} values")
        section.finish()
        first = file.section(2, "values").take(field.bytes, "the constant 1")
        if int.from_bytes(first, "little") != 1:
            section.fail("value 0 must be the constant 1; make the witness again", start)
        return cls(file.path, curve, count)


@frozen(eq=False)
class Witness:
    """A validated witness.

    path: The name of the file.
    curve: Quod's name of the curve whose scalar field the values are in, or circom's name of a
        prime without a pairing curve.
    values: (n, words) uint32, read-only: canonical integers as little-endian 32-bit words.
    size: The length of the file in bytes.
    """

    path: str
    curve: str
    values: Words
    size: int

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def open(cls, path: Path, *, check: Callable[[WitnessHeader], object] | None = None) -> Witness:
        """Read a witness file into memory and check it.

        `check` gets the header before the values are read, and raises to refuse the witness. Raises
        `InputError` for a damaged container, an unknown prime, a count that does not fit the data,
        a value that is not below the prime, and a first value that is not 1.
        """

        if check is not None:
            check_function("the check of a witness", check)

        def check_header(file: Iden3File) -> None:
            header = WitnessHeader.of(file)
            if check is not None:
                check(header)

        return cls.of(Iden3File.open(path, KIND, VERSION, owned=True, check=check_header))

    @classmethod
    def of(cls, file: Iden3File) -> Witness:
        """Read an open container as `open` reads a file; values are views of it."""
        header = WitnessHeader.of(file)
        field = field_named(header.curve)
        section = file.section(2, "values")
        start = section.offset
        values = section.words(len(header), field.words, what="the values")
        bad_index = first_at_or_above(values, field)
        if bad_index is not None:
            section.fail(
                f"value {bad_index} is not below the prime of {header.curve}; "
                "make the witness again",
                start + bad_index * field.bytes,
            )
        # Not cls, because a subclass has witnesses that do not come from files.
        return Witness(file.path, header.curve, values, file.size)


def witness_bytes(path: Path) -> bytes:
    """Return the bytes of a witness file for a program that checks the values itself.

    The header is checked. Raises `InputError` for a file of another kind, before the values are
    read.
    """
    name = file_path(path)

    def check(view: FileView) -> None:
        WitnessHeader.of(Iden3File.parse(view, name, KIND, VERSION))

    return bytes(read_file(path, check))


def write_wtns(path: Path, curve: str, values: Words) -> None:
    """Write a witness atomically, to a file of mode 0600.

    curve: The name of the field, as in `Witness`.
    values: (n, words) uint32: canonical integers below the prime, of which the first is 1.
    Raises `InputError` for another shape or value, `OutputError` if writing fails.
    """
    write_atomically(path, wtns_writer(curve, values), private=True)


def wtns_writer(curve: str, values: Words) -> Callable[[BinaryIO], None]:
    """Return a function that writes a witness to an open file; see `write_wtns`."""
    fr = field_named(curve)
    values = plain_array("values", values)
    if values.dtype != np.uint32 or values.ndim != 2 or values.shape[1] != fr.words:
        raise InputError(f"values must be uint32 of shape (n, {fr.words})")
    if not len(values) or values[0, 0] != 1 or values[0, 1:].any():
        raise InputError("the first value must be 1")
    bad_index = first_at_or_above(values, fr)
    if bad_index is not None:
        raise InputError(f"value {bad_index} is not below the prime of {curve}")
    return iden3_writer(KIND, VERSION, [(1, _header(fr, len(values))), (2, [values])])


def wtns_head(curve: str, count: int) -> bytes:
    """Return the part of a file before its `count` values."""
    fr = field_named(curve)
    file = io.BytesIO()
    iden3_writer(KIND, VERSION, [(1, _header(fr, count)), (2, [])])(file)
    return file.getvalue()[:-_LENGTH_BYTES] + (count * fr.bytes).to_bytes(_LENGTH_BYTES, "little")


def _header(fr: Modulus, count: int) -> list[Buffer]:
    return [little_u32(fr.bytes), fr.value.to_bytes(fr.bytes, "little"), little_u32(count)]
