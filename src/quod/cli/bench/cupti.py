"""When kernels ran on NVIDIA GPUs, as NVIDIA's CUPTI tells: what a busy share is compared with.

The activity records of CUPTI are read as its documentation lays them out: a kernel's has its kind
in the first four bytes, and begin and end, nanoseconds by CUPTI's clock, at bytes 16 and 24.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quod.errors import DeviceError, InputError

# CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: kernels that run side by side stay so.
_KERNELS = 10
_FLUSH_ALL = 1
_BUFFER_BYTES = 8 << 20
_ALIGNMENT = 8
_BEGIN, _END = 16, 24
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
    """CUPTI's library, of a package of NVIDIA's or a toolkit; `InputError` if there is none."""
    found: list[Path] = []
    for place in _PLACES:
        if place.startswith("/"):
            found += Path("/").glob(place[1:])
        else:
            for folder in sys.path:
                found += Path(folder).glob(place)
    for path in sorted(found, reverse=True):
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    raise InputError(
        "CUPTI's library is not there; it comes with NVIDIA's toolkit, and with the package "
        "nvidia-cuda-cupti"
    )


class KernelRecorder:
    """Records when kernels of this process run, from `begin` to `end`. One at a time."""

    def __init__(self, library: Any, clock: Callable[[], int] = time.time_ns) -> None:
        self._library, self._clock = library, clock
        self._lock = threading.Lock()
        self._buffers: dict[int, Any] = {}
        self._found: list[tuple[int, int]] = []
        # As long as the library may call them.
        self._callbacks = _Request(self._request), _Complete(self._complete)
        self._call("cuptiActivityRegisterCallbacks", *self._callbacks)

    def begin(self) -> None:
        """From now on."""
        with self._lock:
            self._found.clear()
        self._call("cuptiActivityEnable", _KERNELS)

    def end(self) -> list[Interval]:
        """Begin and end of each kernel since, in seconds by the wall clock."""
        self._call("cuptiActivityFlushAll", _FLUSH_ALL)
        self._call("cuptiActivityDisable", _KERNELS)
        own = ctypes.c_uint64()
        self._call("cuptiGetTimestamp", ctypes.byref(own))
        to_wall = self._clock() - own.value
        with self._lock:
            return [((begin + to_wall) / 1e9, (end + to_wall) / 1e9) for begin, end in self._found]

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise DeviceError(f"CUPTI does not record kernels: {name} gives {status}")

    # --- what the library calls, from threads of its own

    def _request(self, buffer: Any, size: Any, most: Any) -> None:
        own = ctypes.create_string_buffer(_BUFFER_BYTES + _ALIGNMENT)
        address = -(-ctypes.addressof(own) // _ALIGNMENT) * _ALIGNMENT
        with self._lock:
            self._buffers[address] = own
        buffer[0], size[0], most[0] = address, _BUFFER_BYTES, 0

    def _complete(self, _: Any, __: int, buffer: int, ___: int, valid: int) -> None:
        record = ctypes.c_void_p()
        found: list[tuple[int, int]] = []
        # Ends with a status that says that there are no more.
        while valid and not self._library.cuptiActivityGetNextRecord(
            ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)
        ):
            address = record.value or 0
            if ctypes.c_uint32.from_address(address).value == _KERNELS:
                begin = ctypes.c_uint64.from_address(address + _BEGIN).value
                found.append((begin, ctypes.c_uint64.from_address(address + _END).value))
        with self._lock:
            self._found += found
            self._buffers.pop(buffer, None)
