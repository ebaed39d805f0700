"""When NVIDIA GPUs computed and copied, as NVIDIA's CUPTI tells: for busy shares and hidden copies.

The activity records of CUPTI are read as its documentation lays them out: the kind of a record is
in the first four bytes; a kernel and a copy have begin and end, nanoseconds by CUPTI's clock, at
bytes 16 and 24, and a copy has from where to where in byte 4.
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
from quod.device.runtime.intervals import union
from quod.errors import DeviceError, InputError
from quod.frozen import frozen

# CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: kernels that run side by side stay so.
_KERNELS = 10
# CUPTI_ACTIVITY_KIND_MEMCPY, and of its kinds those from the host and to it.
_COPIES, _WITH_HOST = 1, (1, 2)
_FLUSH_ALL = 1
_BUFFER_BYTES = 8 << 20
_ALIGNMENT = 8
_COPY_KIND, _BEGIN, _END = 4, 16, 24
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


@frozen
class Ran:
    """Begin and end of each kernel, and of each copy from or to the host, in seconds by the wall
    clock."""

    kernels: list[Interval]
    copies: list[Interval]

    @property
    def not_hidden(self) -> float:
        """Seconds in which something was copied from or to the host and nothing computed."""
        return _sum(union(self.kernels + self.copies)) - _sum(union(self.kernels))


def _sum(intervals: list[Interval]) -> float:
    return sum(end - begin for begin, end in intervals)


def recorder_of(device: str, *, processes: bool = False) -> KernelRecorder:
    """What records the kernels of a device; a usage error for those that it does not see."""
    if processes or device.partition(":")[0] != "cuda":
        raise WrongUsage("--cupti records kernels of CUDA in this process, not --process")
    return KernelRecorder(load_cupti())


class KernelRecorder:
    """Records when kernels of this process run, and what is copied from and to the host, from
    `begin` to `end`. One at a time."""

    def __init__(self, library: Any, clock: Callable[[], int] = time.time_ns) -> None:
        self._library, self._clock = library, clock
        self._lock = threading.Lock()
        self._buffers: dict[int, Any] = {}
        self._found: dict[int, list[tuple[int, int]]] = {_KERNELS: [], _COPIES: []}
        # As long as the library may call them.
        self._callbacks = _Request(self._request), _Complete(self._complete)
        self._call("cuptiActivityRegisterCallbacks", *self._callbacks)

    def begin(self) -> None:
        """From now on."""
        with self._lock:
            for found in self._found.values():
                found.clear()
        for kind in self._found:
            self._call("cuptiActivityEnable", kind)

    def end(self) -> Ran:
        """What ran since."""
        self._call("cuptiActivityFlushAll", _FLUSH_ALL)
        for kind in self._found:
            self._call("cuptiActivityDisable", kind)
        own = ctypes.c_uint64()
        self._call("cuptiGetTimestamp", ctypes.byref(own))
        to_wall = self._clock() - own.value
        with self._lock:
            kernels, copies = (
                [((begin + to_wall) / 1e9, (end + to_wall) / 1e9) for begin, end in found]
                for found in self._found.values()
            )
        return Ran(kernels, copies)

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
        found: dict[int, list[tuple[int, int]]] = {kind: [] for kind in self._found}
        # Ends with a status that says that there are no more.
        while valid and not self._library.cuptiActivityGetNextRecord(
            ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)
        ):
            address = record.value or 0
            kind = ctypes.c_uint32.from_address(address).value
            if kind == _KERNELS or (kind == _COPIES and _with_host(address)):
                begin = ctypes.c_uint64.from_address(address + _BEGIN).value
                found[kind].append((begin, ctypes.c_uint64.from_address(address + _END).value))
        with self._lock:
            for kind, some in found.items():
                self._found[kind] += some
            self._buffers.pop(buffer, None)


def _with_host(address: int) -> bool:
    return ctypes.c_uint8.from_address(address + _COPY_KIND).value in _WITH_HOST
