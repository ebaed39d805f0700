"""Reading model files of llama.cpp (`.gguf`), versions 2 and 3: metadata by key, named tensors.

All integers are little-endian: the letters GGUF, u32 version, u64 count of tensors, u64 count of
pairs. A pair is a key (u64 length and UTF-8), u32 type and its value: of types 0 to 6 and 10 to 12
a number (u8 i8 u16 i16 u32 i32 f32, u64 i64 f64), 7 a byte 0 or 1, 8 text as a key is, 9 an array:
u32 type, u64 count and the values. A tensor is its name, u32 n, n times a u64 dimension, the
contiguous one first, u32 type, and the u64 offset of its data from the start of all data. That
start and all offsets are multiples of `general.alignment` (default 32). Version 3 differs from
version 2 only in allowing big-endian files, which Quod does not read; version 1 has counts and
lengths of 32 bits. Specification: ggml, docs/gguf.md.

The file is mapped: opening it reads the part before the data, and tensors are read on access.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.formats.gguf.metadata import (
    MAX_KEY_BYTES,
    MetadataReader,
    MetadataValue,
    read_string,
)
from quod.formats.gguf.types import BY_NUMBER, GgufType, unknown_type
from quod.formats.iden3 import SectionReader
from quod.formats.source import (
    Bytes,
    FileIdentity,
    FileView,
    Path,
    check_length,
    map_identified,
    read_file,
)
from quod.frozen import frozen
from quod.validation import file_path, flag, shown, whole_number_or_none
from quod.wording import counted

MAGIC = "GGUF"
VERSION = 3
"""The version that is written."""
VERSIONS = (2, 3)
"""The versions that are read."""
ALIGNMENT = "general.alignment"
DEFAULT_ALIGNMENT = 32

MAX_PAIRS = 1 << 16
MAX_TENSORS = 1 << 16
MAX_DIMENSIONS = 4
_MAX_BYTES = 1 << 62
_MIN_PAIR_BYTES = 8 + 1 + 4 + 1
_MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8

_DAMAGED = "the file is damaged, make or copy it again"


@frozen(eq=False)
class GgufTensor:
    """A tensor of a GGUF file.

    name: Its name.
    type: Its type.
    shape: The shape as in NumPy, with the contiguous dimension last.
    offset: The offset of its data in the file.
    data: Its bytes, not read yet; empty for an unknown type (`type.is_known` is false), whose
        length is unknown.
    """

    name: str
    type: GgufType
    shape: tuple[int, ...]
    offset: int
    data: memoryview

    def require_known(self) -> None:
        """Raise InputError for a tensor of a type that Quod does not know."""
        if not self.type.is_known:
            raise InputError(
                f"tensor {shown(self.name)} has {self.type.name} of GGUF, which Quod "
                "does not support; convert the model to another type"
            )

    def array(self) -> NDArray[Any]:
        """Return the data as a read-only view.

        Numbers have the shape `shape`, with BF16 as the upper halves of f32 in uint16; blocks are
        uint8 of shape (*shape[:-1], bytes of a row). Raises InputError for a type that Quod does
        not know.
        """
        self.require_known()
        if self.type.dtype is not None:
            return np.frombuffer(self.data, self.type.dtype).reshape(self.shape)
        row_bytes = self.shape[-1] // self.type.elements * self.type.bytes
        return np.frombuffer(self.data, np.uint8).reshape(*self.shape[:-1], row_bytes)


@frozen(eq=False)
class Gguf:
    """A validated GGUF file.

    path: The name of the file.
    metadata: The values by key, in file order; see `quod.formats.gguf.metadata`.
    tensors: The tensors by name, in file order.
    alignment: The alignment of tensors' data in bytes.
    data_offset: The offset of all data in the file.
    size: The length of the file in bytes.
    identity: Detects changes of a mapped file; None if the file was read.
    version: The version of the format.
    """

    path: str
    metadata: Mapping[str, MetadataValue]
    tensors: Mapping[str, GgufTensor]
    alignment: int
    data_offset: int
    size: int
    identity: FileIdentity | None = None
    version: int = VERSION

    @classmethod
    def open(cls, path: Path, *, owned: bool = False, max_bytes: int | None = None) -> Gguf:
        """Map a file, or read it if `owned`; raise InputError if it has more than `max_bytes`.

        Raises `InputError`, with section, key and offset, for another version; counts, lengths or
        dimensions that exceed the file; duplicate keys or names; unknown types of values; booleans
        other than 0 and 1; nested arrays; rows that are not whole blocks; data that exceed the
        file, overlap or are not aligned; and more than MAX_PAIRS pairs, MAX_TENSORS tensors or
        MAX_STRINGS strings in arrays.
        """
        name, max_size = file_path(path), whole_number_or_none("max_bytes", max_bytes, 1)

        def check(view: FileView) -> None:
            _start(view, name)
            if max_size is not None:
                check_length(len(view), max_size, "the model", name)

        if flag("owned", owned):
            return cls.parse(read_file(path, check), name)
        data, identity = map_identified(path, check)
        return cls.parse(data, name, identity)

    @classmethod
    def parse(cls, data: memoryview, name: str, identity: FileIdentity | None = None) -> Gguf:
        """Read bytes as `open` reads a file; `name` stands for the path in errors."""
        reader, version, tensors, pairs = _start(data, name)
        metadata = MetadataReader(reader, data).read(pairs)
        alignment = _alignment(metadata, reader)
        reader.label = "tensors"
        descriptions = _TensorDescriptions(reader, alignment)
        for _ in range(tensors):
            descriptions.read()
        data_start = aligned(reader.offset, alignment)
        placed_tensors = descriptions.placed(data, data_start)
        return cls(
            name, MappingProxyType(metadata), MappingProxyType(placed_tensors), alignment,
            data_start, len(data), identity, version,
        )  # fmt: skip


def _start(data: Bytes, name: str) -> tuple[SectionReader, int, int, int]:
    """Read the header; return a reader after it, the version, and the counts of tensors and pairs.

    Raises InputError for another version, and for counts that the file cannot hold.
    """
    reader = SectionReader(name, "header", data, 0, len(data))
    version = _version(reader)
    start = reader.offset
    tensors = reader.u64("the count of tensors")
    _check_count(reader, tensors, "tensors", MAX_TENSORS, _MIN_TENSOR_BYTES, start)
    pairs = reader.u64("the count of pairs")
    _check_count(reader, pairs, "pairs of metadata", MAX_PAIRS, _MIN_PAIR_BYTES, start + 8)
    return reader, version, tensors, pairs


def aligned(offset: int, alignment: int) -> int:
    """Round an offset up to a multiple of the alignment."""
    return -(-offset // alignment) * alignment


def is_alignment(value: object) -> bool:
    """Return true if a metadata value is a valid alignment: a u32 that is a power of two."""
    return isinstance(value, np.uint32) and int(value).bit_count() == 1


def _version(reader: SectionReader) -> int:
    """Read the magic number and the version, which must be one that Quod reads."""
    magic = bytes(reader.take(min(4, reader.remaining), "the magic number"))
    if magic != MAGIC.encode():
        reader.fail(
            f"is not a GGUF file (it begins with {magic!r}, not {MAGIC.encode()!r}); check that "
            "the right file was given",
            0,
        )
    start = reader.offset
    version = reader.u32("the version")
    # A small number with its bytes reversed.
    if version.to_bytes(4, "big")[0] and not version & 0xFFFFFF:
        reader.fail("is big-endian; Quod reads only little-endian GGUF files, so convert it", start)
    if version not in VERSIONS:
        why = ", with counts and lengths of 32 bits," if version == 1 else ""
        reader.fail(
            f"has version {version} of GGUF{why} and Quod reads versions 2 and 3; make it again "
            "with a current tool",
            start,
        )
    return version


def _check_count(
    reader: SectionReader, count: int, what: str, limit: int, min_bytes: int, offset: int
) -> None:
    if count > reader.remaining // min_bytes:
        reader.fail(f"states {count} {what}, but is too short for them; {_DAMAGED}", offset)
    if count > limit:
        reader.fail(f"has {count} {what}, more than the limit of {limit}", offset)


def _alignment(metadata: Mapping[str, MetadataValue], reader: SectionReader) -> int:
    value = metadata.get(ALIGNMENT, np.uint32(DEFAULT_ALIGNMENT))
    if not is_alignment(value):
        raise InputError(
            f"{ALIGNMENT} must be a u32 that is a power of two; {_DAMAGED}",
            path=reader.path, section=f"metadata {ALIGNMENT!r}",
        )  # fmt: skip
    return int(value)  # type: ignore[arg-type]


class _TensorDescriptions:
    """Descriptions of tensors: type, shape, position of the offset field, offset of the data."""

    def __init__(self, reader: SectionReader, alignment: int) -> None:
        self._reader = reader
        self._alignment = alignment
        self._tensors: dict[str, tuple[GgufType, tuple[int, ...], int, int]] = {}

    def read(self) -> None:
        """Read the next description."""
        reader = self._reader
        reader.label, start = "tensors", reader.offset
        name = read_string(reader, "a name", most=MAX_KEY_BYTES)
        if not name:
            reader.fail(f"a name is empty; {_DAMAGED}", start)
        if name in self._tensors:
            reader.fail(f"the name {shown(name)} occurs twice; {_DAMAGED}", start)
        reader.label, start = _label(name), reader.offset
        count = reader.u32("the count of dimensions")
        if count > MAX_DIMENSIONS:
            reader.fail(f"has {count} dimensions, more than {MAX_DIMENSIONS}; {_DAMAGED}", start)
        start = reader.offset
        shape = tuple([reader.u64("a dimension") for _ in range(count)])[::-1]
        tensor_type = self._type(shape)
        # NumPy arrays cannot exceed this, even without elements.
        size = max(tensor_type.bytes, 1)
        if prod([max(length, 1) for length in shape]) * size > _MAX_BYTES * tensor_type.elements:
            reader.fail(f"has dimensions whose product overflows; {_DAMAGED}", start)
        offset_position = reader.offset
        offset = reader.u64("the offset")
        if offset % self._alignment:
            reader.fail(
                f"its data's offset {offset} is not a multiple of {self._alignment}; {_DAMAGED}",
                offset_position,
            )
        self._tensors[name] = tensor_type, shape, offset_position, offset

    def _type(self, shape: tuple[int, ...]) -> GgufType:
        start = self._reader.offset
        number = self._reader.u32("the type")
        kind = BY_NUMBER.get(number) or unknown_type(number)
        if (shape[-1] if shape else 1) % kind.elements:
            self._reader.fail(
                f"rows of {shape[-1] if shape else 1} values are not whole blocks of "
                f"{kind.name}, which have {kind.elements} values; {_DAMAGED}",
                start,
            )
        return kind

    def placed(self, data: memoryview, data_start: int) -> dict[str, GgufTensor]:
        """Return all tensors with their data, which begin at offset `data_start`."""
        placed = {}
        for name, (kind, shape, offset_position, offset) in self._tensors.items():
            length = prod(shape) // kind.elements * kind.bytes
            # Values of an unknown type have at least one byte.
            min_length = length if kind.is_known else min(prod(shape), 1)
            start = data_start + offset
            if start + min_length > len(data):
                self._fail(
                    name, offset_position,
                    f"its {counted(min_length, 'byte')} of data at {start} run past the end "
                    f"of the file at {len(data)} bytes; it is truncated or damaged, "
                    "copy it again",
                )  # fmt: skip
            placed[name] = GgufTensor(name, kind, shape, start, data[start : start + length])
        nonempty = (tensor for tensor in placed.values() if prod(tensor.shape))
        for lower, higher in pairwise(sorted(nonempty, key=lambda tensor: tensor.offset)):
            if lower.offset + max(len(lower.data), 1) > higher.offset:
                offset_position = self._tensors[higher.name][2]
                what = f"its data overlap those of tensor {shown(lower.name)}; {_DAMAGED}"
                self._fail(higher.name, offset_position, what)
        return placed

    def _fail(self, name: str, offset: int, message: str) -> NoReturn:
        self._reader.label = _label(name)
        self._reader.fail(message, offset)


def _label(name: str) -> str:
    return f"tensor {shown(name)}"
