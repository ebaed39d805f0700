"""The memory of the model of NVIDIA's driver, which is host memory, and the driver's handles."""

from __future__ import annotations

import bisect
import ctypes
from typing import Any

import cuda.bindings.driver as real
import numpy as np

CONTEXT = 0x1234
_ALIGNMENT = 512


class Refusal(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class FakeMemory:
    """Memory of a GPU of `memory` bytes, of which others have `elsewhere`, and pinned memory."""

    def __init__(self, memory: int, elsewhere: int) -> None:
        self.memory, self.elsewhere = memory, elsewhere
        self.ordinals: dict[int, int] = {}
        self._regions: dict[int, np.ndarray[Any, Any]] = {}
        self._pinned: dict[int, np.ndarray[Any, Any]] = {}
        self._objects: dict[int, Any] = {}
        self._next = 0x1000

    @property
    def used(self) -> int:
        return sum(region.nbytes for region in self._regions.values())

    # --- handles

    def _keep(self, thing: Any, kind: Any) -> Any:
        self._next += 16
        self._objects[self._next] = thing
        return kind(self._next)

    def _of(self, handle: Any) -> Any:
        if int(handle) not in self._objects:
            raise Refusal("CUDA_ERROR_INVALID_HANDLE")
        return self._objects[int(handle)]

    def _drop(self, handle: Any) -> Any:
        thing = self._of(handle)
        del self._objects[int(handle)]
        return thing

    # --- memory

    def _cuMemGetInfo(self) -> tuple[int, int]:
        return self.memory - self.used - self.elsewhere, self.memory

    def _cuMemAlloc(self, size: int) -> Any:
        if size > self.memory - self.used - self.elsewhere:
            raise Refusal("CUDA_ERROR_OUT_OF_MEMORY")
        raw = np.empty(size + _ALIGNMENT, np.uint8)
        region = raw[-raw.ctypes.data % _ALIGNMENT :][:size]
        region[: 1 << 16] = 0xA5
        self._regions[region.ctypes.data] = region
        return real.CUdeviceptr(region.ctypes.data)

    def _cuMemFree(self, address: Any) -> None:
        self._regions.pop(int(address))[: 1 << 16] = 0x5A

    def _cuMemHostAlloc(self, size: int, flags: int) -> int:
        assert flags == 1
        if size > 1 << 40:
            raise Refusal("CUDA_ERROR_OUT_OF_MEMORY")
        memory = np.full(size, 0xA5, np.uint8)
        self._pinned[memory.ctypes.data] = memory
        return int(memory.ctypes.data)

    def _cuMemFreeHost(self, address: int) -> None:
        del self._pinned[address]

    def _cuPointerGetAttribute(self, attribute: Any, address: Any) -> int:
        try:
            self._memory(address, 1)
        except Refusal:
            raise Refusal("CUDA_ERROR_INVALID_VALUE") from None
        start = max(start for start in self._regions if start <= int(address))
        match attribute.name.removeprefix("CU_POINTER_ATTRIBUTE_"):
            case "DEVICE_ORDINAL":
                return self.ordinals.get(int(address), 0)
            case "RANGE_START_ADDR":
                return start
            case "RANGE_SIZE":
                return int(self._regions[start].nbytes)
        raise AssertionError(attribute.name)

    def _memory(self, address: Any, size: int) -> Any:
        """GPU memory as bytes; refused where there is none."""
        starts = sorted(self._regions)
        at = bisect.bisect_right(starts, int(address)) - 1
        if at >= 0:
            region = self._regions[starts[at]]
            offset = int(address) - starts[at]
            if offset + size <= region.nbytes:
                return region[offset : offset + size] if size else region[offset:]
        raise Refusal("CUDA_ERROR_ILLEGAL_ADDRESS")

    @staticmethod
    def _host(address: int, size: int) -> Any:
        return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)
