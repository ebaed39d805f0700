"""Serialisation of JSON values and arrays for the cache."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quod.device.cache.cache import CompileCache

T = TypeVar("T")

_LENGTH = struct.Struct("<Q")
_NATIVE_TYPES = {"<u4": np.uint32, "<i8": np.int64}


def pack(facts: object, arrays: Sequence[NDArray[Any]]) -> bytes:
    """Serialise a value that JSON can represent, and arrays of uint32 and int64."""
    little = [np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for array in arrays]
    types = [[array.dtype.str, array.shape] for array in little]
    head = json.dumps([facts, types]).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *(array.tobytes() for array in little)])


def unpack(data: bytes) -> tuple[Any, list[NDArray[Any]]]:
    """Return the value and the arrays that `pack` serialised.

    Raises ValueError, KeyError, TypeError or struct.error if `pack` did not make the bytes.
    """
    start = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    facts, types = json.loads(data[_LENGTH.size : start])
    arrays = []
    for kind, shape in types:
        native_type = _NATIVE_TYPES[kind]
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(data, kind, count, start).astype(native_type)
        arrays.append(array.reshape(shape))
        start += count * array.itemsize
    if start != len(data):
        raise ValueError(f"{len(data) - start} bytes follow the last array")
    return facts, arrays


def read_cached(cache: CompileCache, key: str, read: Callable[[bytes], T]) -> T | None:
    """Read an entry of the cache; return None if it is missing or malformed (then discarded)."""
    data = cache.get(key)
    if data is None:
        return None
    try:
        return read(data)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, struct.error):
        cache.discard(key)
        return None
