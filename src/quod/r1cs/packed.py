"""Serialisation of JSON values and arrays for the cache.

The arrays describe circuits, which repeat their gadgets with other wires. So the differences of
successive rows repeat, and compress well: those of 2.7 million constraints to a thirtieth.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quod.device.cache.cache import CompileCache

T = TypeVar("T")

_LENGTH = struct.Struct("<Q")
# The fastest level: higher ones save little.
_LEVEL = 1
_NATIVE_TYPES = {"<u4": np.uint32, "<i8": np.int64}


def pack(facts: object, arrays: Sequence[NDArray[Any]]) -> bytes:
    """Serialise a value that JSON can represent, and arrays of uint32 and int64."""
    types, chunks = [], []
    for array in arrays:
        chunks.append(zlib.compress(_differences(array), _LEVEL))
        kind = array.dtype.newbyteorder("<").str
        types.append([kind, array.shape, len(chunks[-1])])
    head = json.dumps([facts, types]).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *chunks])


def unpack(data: bytes) -> tuple[Any, list[NDArray[Any]]]:
    """Return the value and the arrays that `pack` serialised.

    Raises ValueError, KeyError, TypeError, struct.error or zlib.error if `pack` did not make the
    bytes.
    """
    start = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    facts, types = json.loads(data[_LENGTH.size : start])
    arrays = []
    for kind, shape, size in types:
        differences = np.frombuffer(zlib.decompress(memoryview(data)[start : start + size]), kind)
        arrays.append(_sums(differences.astype(_NATIVE_TYPES[kind], copy=False), shape))
        start += size
    if start != len(data):
        raise ValueError(f"{len(data) - start} bytes follow the last array")
    return facts, arrays


def _differences(array: NDArray[Any]) -> bytes:
    """Return the differences of successive rows, column by column, in little-endian order."""
    columns = array.reshape(len(array), prod(array.shape[1:])).T
    differences = columns.copy(order="C")
    # Differences of unsigned integers wrap around, and so do their sums.
    differences[:, 1:] -= columns[:, :-1]
    return differences.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _sums(differences: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    """Return the array of a shape with these differences of rows."""
    rows, width = shape[0], prod(shape[1:])
    array = np.empty((rows, width), differences.dtype)
    np.cumsum(differences.reshape(width, rows), axis=1, out=array.T)
    return array.reshape(shape)


def read_cached(cache: CompileCache, key: str, read: Callable[[bytes], T]) -> T | None:
    """Read an entry of the cache; return None if it is missing or malformed (then discarded)."""
    data = cache.get(key)
    if data is None:
        return None
    try:
        return read(data)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, struct.error, zlib.error):
        cache.discard(key)
        return None
