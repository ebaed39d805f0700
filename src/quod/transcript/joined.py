"""Proofs as bytes, many at a time.

Memory that a process has not written yet is asked of the system a page at a time, which takes
longer than what is copied there: of 61 us for a proof of 92 kB the copy is 10. So threads write
several proofs side by side.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import partial

import numpy as np

from quod.device.runtime.concurrent import together

Part = bytes | memoryview

# A thread takes longer to start than a copy of fewer bytes.
_BYTES_A_THREAD = 1 << 20
_MOST_THREADS = min(8, os.cpu_count() or 1)

# CPython's own way to make bytes: memory that nobody has seen yet is filled, and then given away.
_make = ctypes.pythonapi.PyBytes_FromStringAndSize
_make.restype, _make.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.c_ssize_t]
_address = ctypes.pythonapi.PyBytes_AsString
_address.restype, _address.argtypes = ctypes.c_void_p, [ctypes.py_object]


def joined(messages: Sequence[Sequence[Part]]) -> list[bytes]:
    """The parts of each message one after the other."""
    sizes = [sum(memoryview(part).nbytes for part in parts) for parts in messages]
    threads = min(_MOST_THREADS, len(messages), sum(sizes) // _BYTES_A_THREAD)
    if threads < 2:
        return [b"".join(parts) for parts in messages]
    found: list[bytes] = [_make(None, size) for size in sizes]

    def fill(numbers: range) -> None:
        for number in numbers:
            at = _address(found[number])
            for part in messages[number]:
                source = np.frombuffer(part, np.uint8)
                # It leaves the interpreter to others meanwhile.
                ctypes.memmove(at, source.ctypes.data, source.nbytes)
                at += source.nbytes

    shares = [partial(fill, range(at, len(found), threads)) for at in range(threads)]
    together(
        {f"share {at}": share for at, share in enumerate(shares)}, threads, "quod-join", _nothing
    )
    return found


def _nothing() -> None:
    """What stops shares that are at work: they end by themselves."""
