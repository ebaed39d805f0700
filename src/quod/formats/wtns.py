"""Witness files (`.wtns`), as circom's and snarkjs's witness calculators write them.

Section 1: u32 length of the prime in bytes, the prime, u32 count of values. Section 2: the values,
each as long as the prime, little-endian integers below it (not in Montgomery form). Value 0 is the
constant 1; then follow public outputs, public inputs, private inputs and inner wires.
"""

from __future__ import annotations

import io

import numpy as np

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.formats.curves import curve_named, first_at_or_above, read_scalar_curve
from quod.formats.iden3 import (
    Buffer,
    Iden3File,
    Words,
    iden3_writer,
    little_u32,
    write_iden3,
)
from quod.formats.source import Path
from quod.frozen import frozen
from quod.validation import plain_array

KIND = "wtns"
VERSION = 2
# Of a section, with which its header ends.
_LENGTH_BYTES = 8


@frozen(eq=False)
class Witness:
    """A checked witness.

    `curve` is Quod's name of the curve whose scalar field the values are in. `values` has shape
    (n, words): canonical integers below r as 32-bit little-endian words, read-only. `size` is the
    length of the file in bytes.
    """

    path: str
    curve: str
    values: Words
    size: int

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def open(cls, path: Path) -> Witness:
        """Read a witness file into memory and check it.

        Raises `InputError` for a damaged container, an unknown prime, a count that does not fit
        the data, a value that is not below the prime, and a first value that is not 1.
        """
        return cls.of(Iden3File.open(path, KIND, VERSION, owned=True))

    @classmethod
    def of(cls, file: Iden3File) -> Witness:
        """As `open`, for an open container; values are views of it."""
        header = file.section(1, "header")
        curve = read_scalar_curve(header)
        count = header.u32("the count of values")
        header.finish()
        section = file.section(2, "values")
        start = section.offset
        if count == 0:
            section.fail("has no values, not even the constant 1; make the witness again")
        values = section.words(count, curve.fr.words, what=f"the witness of {count} values")
        section.finish()
        bad = first_at_or_above(values, curve.fr)
        if bad is not None:
            section.fail(
                f"value {bad} is not below the prime of {curve.name}; make the witness again",
                start + bad * curve.fr.bytes,
            )
        if values[0, 0] != 1 or values[0, 1:].any():
            section.fail("value 0 must be the constant 1; make the witness again", start)
        # Of a class below, whose witnesses are not of files, it is none.
        return Witness(file.path, curve.name, values, file.size)


def write_wtns(path: Path, curve: str, values: Words) -> None:
    """Write a witness atomically, to a file of mode 0600.

    `values` has shape (n, words): canonical integers below the scalar prime of `curve`, the first
    of them 1. Raises `InputError` for another shape or value, `OutputError` if writing fails.
    """
    fr = curve_named(curve).fr
    values = plain_array("values", values)
    if values.dtype != np.uint32 or values.ndim != 2 or values.shape[1] != fr.words:
        raise InputError(f"values must be uint32 of shape (n, {fr.words})")
    if not len(values) or values[0, 0] != 1 or values[0, 1:].any():
        raise InputError("the first value must be 1")
    bad = first_at_or_above(values, fr)
    if bad is not None:
        raise InputError(f"value {bad} is not below the prime of {curve}")
    header = _header(fr, len(values))
    write_iden3(path, KIND, VERSION, [(1, header), (2, [values])], private=True)


def wtns_head(curve: str, count: int) -> bytes:
    """All of a file that comes before its `count` values."""
    fr = curve_named(curve).fr
    file = io.BytesIO()
    iden3_writer(KIND, VERSION, [(1, _header(fr, count)), (2, [])])(file)
    return file.getvalue()[:-_LENGTH_BYTES] + (count * fr.bytes).to_bytes(_LENGTH_BYTES, "little")


def _header(fr: Modulus, count: int) -> list[Buffer]:
    return [little_u32(fr.bytes), fr.value.to_bytes(fr.bytes, "little"), little_u32(count)]
