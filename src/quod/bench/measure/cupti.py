"""Recording of kernels and copies on NVIDIA GPUs with CUPTI.

The busy share of a GPU follows from it.
Activity records are read with the layout in CUPTI's documentation: the kind is in the first four
bytes; kernels and copies have their begin and end, in nanoseconds of CUPTI's clock, at bytes 16 and
24; byte 4 of a copy is its direction.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quod.cli.parameters import WrongUsage
from quod.errors import DeviceError, InputError
from quod.frozen import frozen

# CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, which does not serialise kernels.
_KERNELS = 10
# CUPTI_ACTIVITY_KIND_MEMCPY, and the values of byte 4 for copies to and from the host:
# CUPTI_ACTIVITY_MEMCPY_KIND_HTOD and CUPTI_ACTIVITY_MEMCPY_KIND_DTOH.
_COPIES, _WITH_HOST = 1, (1, 2)
# CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, which also returns buffers that are not full.
_FLUSH_ALL = 1
_BUFFER_BYTES = 8 << 20
_ALIGNMENT = 8
_COPY_KIND, _BEGIN, _END = 4, 16, 24
"""Byte offsets in an activity record."""
_PLACES = (
    "nvidia/*/lib/libcupti.so.*", "/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.*",
    "/usr/local/cuda*/lib64/libcupti.so.*",
)  # fmt: skip

_Request = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)  # fmt: skip
_Complete = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)

Interval = tuple[float, float]


def load_cupti() -> Any:
    """Load CUPTI from an NVIDIA package or toolkit; raises InputError if it is missing."""
    libraries: list[Path] = []
    for pattern in _PLACES:
        if pattern.startswith("/"):
            libraries += Path("/").glob(pattern[1:])
        else:
            for folder in sys.path:
                libraries += Path(folder).glob(pattern)
    for path in sorted(libraries, reverse=True):
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    raise InputError(
        "CUPTI's library was not found; install NVIDIA's CUDA toolkit or the package "
        "nvidia-cuda-cupti"
    )


@frozen
class RecordedIntervals:
    """Time intervals of kernels and host copies, in seconds of the wall clock.

    copies: copies from or to the host.
    """

    kernels: list[Interval]
    copies: list[Interval]


def recorder_of(device: str, *, processes: bool = False) -> KernelRecorder:
    """Create the recorder of a device.

    processes: the measured work runs in other processes, which CUPTI does not record.
    Raises WrongUsage for such work, and for devices other than CUDA devices.
    """
    if processes or device.partition(":")[0] != "cuda":
        raise WrongUsage("--cupti records only CUDA kernels of this process; leave out --process")
    return KernelRecorder(load_cupti())


class KernelRecorder:
    """A recorder of this process's kernels and host copies from `begin` to `end`.

    Only one recorder may be active at a time.
    """

    def __init__(self, library: Any, clock: Callable[[], int] = time.time_ns) -> None:
        self._library, self._clock = library, clock
        self._lock = threading.Lock()
        self._buffers: dict[int, Any] = {}
        self._intervals: dict[int, list[tuple[int, int]]] = {_KERNELS: [], _COPIES: []}
        # Kept alive while the library may call them.
        self._callbacks = _Request(self._request), _Complete(self._complete)
        self._call("cuptiActivityRegisterCallbacks", *self._callbacks)

    def begin(self) -> None:
        """Start recording."""
        with self._lock:
            for intervals in self._intervals.values():
                intervals.clear()
        for kind in self._intervals:
            self._call("cuptiActivityEnable", kind)

    def end(self) -> RecordedIntervals:
        """Stop recording; return the intervals since `begin`."""
        self._call("cuptiActivityFlushAll", _FLUSH_ALL)
        for kind in self._intervals:
            self._call("cuptiActivityDisable", kind)
        cupti_time = ctypes.c_uint64()
        self._call("cuptiGetTimestamp", ctypes.byref(cupti_time))
        to_wall = self._clock() - cupti_time.value
        with self._lock:
            kernels, copies = (
                [((begin + to_wall) / 1e9, (end + to_wall) / 1e9) for begin, end in intervals]
                for intervals in self._intervals.values()
            )
        return RecordedIntervals(kernels, copies)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise DeviceError(f"CUPTI does not record kernels: {name} gives {status}")

    # --- callbacks of the library, on threads of its own

    def _request(self, buffer: Any, size: Any, max_records: Any) -> None:
        """Give CUPTI a buffer for records."""
        record_memory = ctypes.create_string_buffer(_BUFFER_BYTES + _ALIGNMENT)
        address = -(-ctypes.addressof(record_memory) // _ALIGNMENT) * _ALIGNMENT
        with self._lock:
            self._buffers[address] = record_memory
        buffer[0], size[0], max_records[0] = address, _BUFFER_BYTES, 0

    def _complete(self, _: Any, __: int, buffer: int, ___: int, valid: int) -> None:
        """Read the intervals from a buffer that CUPTI has filled with `valid` bytes."""
        record = ctypes.c_void_p()
        intervals_by_kind: dict[int, list[tuple[int, int]]] = {kind: [] for kind in self._intervals}
        # The last call returns a status other than 0.
        while valid and not self._library.cuptiActivityGetNextRecord(
            ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)
        ):
            address = record.value or 0
            kind = ctypes.c_uint32.from_address(address).value
            if kind == _KERNELS or (kind == _COPIES and is_host_copy(address)):
                begin = ctypes.c_uint64.from_address(address + _BEGIN).value
                intervals_by_kind[kind].append(
                    (begin, ctypes.c_uint64.from_address(address + _END).value)
                )
        with self._lock:
            for kind, new_intervals in intervals_by_kind.items():
                self._intervals[kind] += new_intervals
            self._buffers.pop(buffer, None)


def is_host_copy(address: int) -> bool:
    return ctypes.c_uint8.from_address(address + _COPY_KIND).value in _WITH_HOST
