"""Writing model files of llama.cpp (`.gguf`); `quod.formats.gguf.file` has the layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.formats.gguf.file import (
    ALIGNMENT,
    DEFAULT_ALIGNMENT,
    MAGIC,
    MAX_DIMENSIONS,
    MAX_PAIRS,
    MAX_TENSORS,
    VERSION,
    aligned,
    is_alignment,
)
from quod.formats.gguf.metadata import (
    MAX_KEY_BYTES,
    MetadataValue,
    metadata_bytes,
    string_bytes,
)
from quod.formats.gguf.types import GGUF_TYPES, GgufType
from quod.formats.iden3 import as_bytes, little_u32
from quod.formats.output import write_atomically
from quod.formats.source import Path
from quod.validation import choice, plain_array, shown, shown_kind


def write_gguf(
    path: Path,
    metadata: Mapping[str, MetadataValue],
    tensors: Mapping[str, tuple[str, NDArray[Any]]],
) -> None:
    """Write a file atomically, with pairs and tensors in the order of the mappings.

    The types of `metadata` are those of its values: NumPy scalars and 1-D arrays, bool, str, and
    lists of str. A tensor is the name of its type and an array as from `GgufTensor.array`: numbers
    of the type in the tensor's shape, or blocks as uint8 whose last dimension is the bytes of a
    row. Raises `InputError` for values that do not fit, `OutputError` if writing fails.
    """
    _check_mapping("metadata", metadata, MAX_PAIRS)
    _check_mapping("tensors", tensors, MAX_TENSORS)
    alignment = metadata.get(ALIGNMENT, np.uint32(DEFAULT_ALIGNMENT))
    if not is_alignment(alignment):
        raise InputError(f"metadata[{ALIGNMENT!r}] must be a np.uint32 that is a power of two")
    alignment_bytes = int(alignment)  # type: ignore[arg-type]
    head = [
        MAGIC.encode(), little_u32(VERSION), _u64(len(tensors)), _u64(len(metadata)),
        metadata_bytes(metadata),
    ]  # fmt: skip
    arrays, offset = [], 0
    for name, tensor in tensors.items():
        label = f"tensors[{shown(name)}]"
        kind, array = _tensor(label, tensor)
        shape = _shape(label, kind, array)
        head += [string_bytes("the name of a tensor", name, most=MAX_KEY_BYTES)]
        head += [little_u32(len(shape)), *map(_u64, shape[::-1])]
        head += [little_u32(kind.number), _u64(offset)]
        arrays.append(array)
        offset = aligned(offset + array.nbytes, alignment_bytes)
    header = b"".join(head)

    def write(file: BinaryIO) -> None:
        file.write(header)
        length = len(header)
        for array in arrays:
            file.write(bytes(aligned(length, alignment_bytes) - length))
            file.write(as_bytes(array))
            length = aligned(length, alignment_bytes) + array.nbytes
        file.write(bytes(aligned(length, alignment_bytes) - length))

    write_atomically(path, write)


def _check_mapping(name: str, value: object, most: int) -> None:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be a mapping, not {shown_kind(value)}")
    if len(value) > most:
        raise InputError(f"{name} has {len(value)} entries, more than a file may ({most})")


def _tensor(label: str, pair: object) -> tuple[GgufType, NDArray[Any]]:
    """Return the type and the array of a tensor, after checks."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise InputError(f"{label} must be a pair of a type's name and an array")
    kind = GGUF_TYPES[choice(f"the type of {label}", pair[0], tuple(GGUF_TYPES))]
    array = plain_array(label, pair[1])
    expected_dtype = np.dtype(np.uint8) if kind.dtype is None else kind.dtype
    if array.dtype.newbyteorder("<") != expected_dtype:
        raise InputError(
            f"{label} of type {kind.name} must be of {expected_dtype.name}, not {array.dtype}"
        )
    return kind, array


def _shape(label: str, kind: GgufType, array: NDArray[Any]) -> tuple[int, ...]:
    """Return the shape in values."""
    if array.ndim > MAX_DIMENSIONS:
        raise InputError(f"{label} must have at most {MAX_DIMENSIONS} dimensions")
    if kind.dtype is not None:
        return array.shape
    if not array.ndim or array.shape[-1] % kind.bytes:
        raise InputError(
            f"{label} of type {kind.name} must have rows of whole blocks of {kind.bytes} bytes"
        )
    return (*array.shape[:-1], array.shape[-1] // kind.bytes * kind.elements)


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")
