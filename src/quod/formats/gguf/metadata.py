"""The metadata of a GGUF file, by key.

A value keeps its type: numbers are NumPy scalars, arrays of numbers are read-only NumPy views of
the file, text is str, booleans are bool, and arrays of text are `GgufStrings`, which decode on
access. Arrays of arrays, which the format allows but no reader supports, raise InputError.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.formats.iden3 import SectionReader, as_bytes, little_u32
from quod.frozen import frozen
from quod.validation import plain_array, shown, shown_kind

MAX_KEY_BYTES = 65_535
MAX_STRINGS = 1 << 22
"""The maximum number of strings in all arrays of a file."""

_BOOL, _STRING, _ARRAY = 7, 8, 9
_NUMBERS: dict[int, np.dtype[Any]] = {
    number: np.dtype(name)
    for number, name in {
        0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4",
        10: "<u8", 11: "<i8", 12: "<f8",
    }.items()
}  # fmt: skip
_BY_DTYPE = {dtype: number for number, dtype in _NUMBERS.items()}
# The number of values of an array that a table shows.
_SHOWN_ITEMS = 4
_U64 = Struct("<Q")

_DAMAGED = "the file is damaged, make or copy it again"


@frozen(eq=False)
class GgufStrings(Sequence[str]):
    """An array of text within a file; accessing an item that is not UTF-8 raises `InputError`.

    `_ends` has the offset of the first length in `_data`, then the end of each text.
    """

    _path: str
    _label: str
    _data: memoryview
    _ends: array[int]

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        at = range(len(self))[index]
        start = self._ends[at] + _U64.size
        return _text(self._path, self._label, self._data[start : self._ends[at + 1]], start)


MetadataValue = bool | str | np.number[Any] | NDArray[Any] | Sequence[str]


class MetadataReader:
    """A reader of keys and values in order, which counts the strings of arrays in the file."""

    def __init__(self, reader: SectionReader, data: memoryview) -> None:
        self._reader = reader
        self._data = data
        self._strings = 0

    def read(self, pairs: int) -> dict[str, MetadataValue]:
        """Read `pairs` pairs; InputError, with key and offset, for any fault."""
        metadata: dict[str, MetadataValue] = {}
        reader = self._reader
        for _ in range(pairs):
            reader.label, start = "metadata", reader.offset
            key = read_string(reader, "a key", most=MAX_KEY_BYTES)
            if not key:
                reader.fail(f"a key is empty; {_DAMAGED}", start)
            if key in metadata:
                reader.fail(f"the key {shown(key)} occurs twice; {_DAMAGED}", start)
            reader.label = f"metadata {shown(key)}"
            metadata[key] = self._value(reader.u32("the type"))
        return metadata

    def _value(self, kind: int) -> MetadataValue:
        reader, start = self._reader, self._reader.offset
        if kind == _ARRAY:
            return self._array()
        if kind == _STRING:
            return read_string(reader, "the text")
        if kind == _BOOL:
            return bool(self._truths(1)[0])
        if kind not in _NUMBERS:
            self._unknown(kind, start)
        return np.frombuffer(reader.take(_NUMBERS[kind].itemsize, "the value"), _NUMBERS[kind])[0]  # type: ignore[no-any-return]

    def _array(self) -> MetadataValue:
        reader, start = self._reader, self._reader.offset
        kind, count = reader.u32("the type of the array"), reader.u64("the length of the array")
        what = f"an array of {count} values"
        if kind == _STRING:
            return self._texts(count)
        if kind == _BOOL:
            return self._truths(count).view(np.bool_)
        if kind == _ARRAY:
            reader.fail("is an array of arrays, which Quod does not support; remove the key", start)
        if kind not in _NUMBERS:
            self._unknown(kind, start + 4)
        dtype = _NUMBERS[kind]
        return np.frombuffer(reader.take(count * dtype.itemsize, what), dtype)

    def _truths(self, count: int) -> NDArray[np.uint8]:
        """Read `count` booleans as bytes, which must be 0 or 1."""
        start = self._reader.offset
        truths = np.frombuffer(self._reader.take(count, f"{count} truth values"), np.uint8)
        wrong = np.flatnonzero(truths > 1)
        if wrong.size:
            self._reader.fail(
                f"a truth value is {truths[wrong[0]]}, neither 0 nor 1; {_DAMAGED}",
                start + int(wrong[0]),
            )
        return truths

    def _texts(self, count: int) -> GgufStrings:
        """Read `count` strings of an array, without decoding them."""
        reader, start = self._reader, self._reader.offset
        if count > reader.remaining // _U64.size:
            reader.fail(
                f"states {count} strings, but the file is too short for them; {_DAMAGED}", start
            )
        self._strings += count
        if self._strings > MAX_STRINGS:
            reader.fail(
                f"{self._strings} strings in arrays are more than the limit of {MAX_STRINGS}",
                start,
            )
        end, position, ends = start + reader.remaining, start, array("Q", [start])
        length_at = _U64.unpack_from
        for _ in range(count):
            if position + _U64.size > end:
                break
            position += _U64.size + length_at(self._data, position)[0]
            if position > end:
                break
            ends.append(position)
        if len(ends) <= count:
            reader.fail(
                f"text {len(ends) - 1} of {count} runs past the end of the file; {_DAMAGED}",
                ends[-1],
            )
        reader.take(position - start, "the texts")
        return GgufStrings(reader.path, reader.label, self._data, ends)

    def _unknown(self, kind: int, offset_after_type: int) -> None:
        self._reader.fail(
            f"has the type {kind}, which no value has; {_DAMAGED}", offset_after_type - 4
        )


def read_string(reader: SectionReader, what: str, *, most: int | None = None) -> str:
    """Read a text with its length before it.

    Raises InputError if it exceeds the file, is not UTF-8, or is longer than `most` bytes.
    """
    start = reader.offset
    length = reader.u64(f"the length of {what}")
    if most is not None and length > most:
        reader.fail(f"{what} has {length} bytes, more than the limit of {most}; {_DAMAGED}", start)
    position = reader.offset
    return _text(reader.path, reader.label, reader.take(length, what), position)


def _text(path: str, label: str, data: memoryview, start: int) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"is not UTF-8; {_DAMAGED}", path=path, section=label, offset=start + error.start
        ) from error


def shown_metadata(value: MetadataValue) -> object:
    """Return a value in a form for JSON tables: of an array, its length and its first items."""
    if isinstance(value, np.number):
        number = value.item()
        return number if np.isfinite(value) else str(number)
    if isinstance(value, bool | str):
        return value
    kind = value.dtype.name if isinstance(value, np.ndarray) else "text"
    shown_items = (
        value[:_SHOWN_ITEMS].tolist() if isinstance(value, np.ndarray) else value[:_SHOWN_ITEMS]
    )
    first_items = ", ".join(map(shown, shown_items))
    return f"{len(value)} of {kind}: {first_items}{', ...' if len(value) > _SHOWN_ITEMS else ''}"


def metadata_bytes(metadata: Mapping[str, MetadataValue]) -> bytes:
    """Return the pairs in file form; InputError for a key or value that the format cannot hold."""
    parts = []
    for key, value in metadata.items():
        name = string_bytes("a key of metadata", key, most=MAX_KEY_BYTES)
        parts += [name, _value_bytes(f"metadata[{shown(key)}]", value)]
    return b"".join(parts)


def string_bytes(name: str, value: object, *, most: int | None = None) -> bytes:
    """Return a text with its length before it; with `most`, it must have 1 to `most` bytes."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, not {shown(value)}")
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name} cannot be encoded in UTF-8: {shown(value)}") from error
    if most is not None and not 0 < len(data) <= most:
        raise InputError(f"{name} must have 1 to {most} bytes, not {len(data)}")
    return _U64.pack(len(data)) + data


def _value_bytes(name: str, value: object) -> bytes:
    if isinstance(value, bool | np.bool_):
        return little_u32(_BOOL) + bytes([bool(value)])
    if isinstance(value, str):
        return little_u32(_STRING) + string_bytes(name, value)
    if isinstance(value, np.generic):
        return little_u32(_number_of(name, value.dtype)) + as_bytes(np.array([value]))
    if isinstance(value, np.ndarray):
        value = plain_array(name, value)
        if value.ndim != 1:
            raise InputError(f"{name} must have one dimension, not {value.ndim}")
        kind = _BOOL if value.dtype == np.bool_ else _number_of(name, value.dtype)
        return _array_bytes(kind, len(value), bytes(as_bytes(value)))
    if isinstance(value, list | tuple | GgufStrings):
        if len(value) > MAX_STRINGS:
            raise InputError(f"{name} has {len(value)} texts, more than {MAX_STRINGS}")
        texts = [string_bytes(f"{name}[{index}]", text) for index, text in enumerate(value)]
        return _array_bytes(_STRING, len(value), b"".join(texts))
    raise InputError(
        f"{name} must be a string, a bool, a NumPy number or array, or a list of "
        f"strings, not {shown_kind(value)}"
    )


def _array_bytes(kind: int, count: int, content: bytes) -> bytes:
    return little_u32(_ARRAY) + little_u32(kind) + _U64.pack(count) + content


def _number_of(name: str, dtype: np.dtype[Any]) -> int:
    number = _BY_DTYPE.get(dtype.newbyteorder("<"))
    if number is None:
        raise InputError(f"{name} must be of 8 to 64 bit integers, float32 or float64, not {dtype}")
    return number
