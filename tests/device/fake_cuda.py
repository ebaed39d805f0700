"""A model of NVIDIA's driver for machines without a GPU: the functions that Quod calls.

It takes the place of the module `cuda.bindings.driver`, whose types it uses. Every call can be told
to fail. See `fake_cuda_memory` for its memory and `fake_cuda_execution` for what it runs.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from typing import Any

import cuda.bindings.driver as real

from tests.device.fake_cuda_execution import FakeExecution
from tests.device.fake_cuda_memory import CONTEXT, Refusal

# Illegal address, timeout, assert, stack, instruction, alignment, space, counter, launch, ECC.
_STICKY_CODES = (700, 702, 710, 714, 715, 716, 717, 718, 719, 214)


class FakeCuda(FakeExecution):
    """One driver with `gpus` GPUs of `memory` bytes; `version` is ``1000 * major + 10 * minor``."""

    def __init__(
        self, *, gpus: int = 1, memory: int = 1 << 30, version: int = 13000,
        capability: tuple[int, int] = (9, 0), elsewhere: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(memory, elsewhere)
        self.gpus, self.version = gpus, version
        self.capability = capability
        self.reaches = False
        self.calls: Counter[str] = Counter()
        self.sticky: str | None = None
        self.contexts = 0
        self._current = threading.local()
        self._lock = threading.RLock()

    # --- how tests steer it

    def fail(self, function: str, code: str, after: int = 0) -> None:
        """The call of a function answers `code`, once, `after` calls from now."""
        self._failures[function] = (after, code)

    # --- how calls arrive

    def __getattr__(self, name: str) -> Any:
        if not re.match(r"cu[A-Z]", name):
            return getattr(real, name)
        implementation = getattr(type(self), f"_{name}")

        def call(*arguments: Any) -> tuple[Any, ...]:
            with self._lock:
                return self._answer(name, implementation, arguments)

        return call

    def _answer(self, name: str, implementation: Any, arguments: tuple[Any, ...]) -> Any:
        self.calls[name] += 1
        try:
            if name in self._failures:
                after, code = self._failures[name]
                if after == 0:
                    del self._failures[name]
                    raise Refusal(code)
                self._failures[name] = (after - 1, code)
            if self.sticky is not None and name not in _ALWAYS:
                raise Refusal(self.sticky)
            if name not in _WITHOUT_CONTEXT and getattr(self._current, "context", 0) != CONTEXT:
                raise Refusal("CUDA_ERROR_INVALID_CONTEXT")
            answer = implementation(self, *arguments)
        except Refusal as refusal:
            code = getattr(real.CUresult, refusal.code)
            if int(code) in _STICKY_CODES:
                self.sticky = refusal.code
            return (code,) + (None,) * _RESULTS.get(name, 0)
        if _RESULTS.get(name, 0) == 0:
            return (real.CUresult.CUDA_SUCCESS,)
        results = answer if isinstance(answer, tuple) else (answer,)
        return real.CUresult.CUDA_SUCCESS, *results

    # --- the driver and its GPUs

    def _cuInit(self, flags: int) -> None:
        assert flags == 0
        if self.gpus == 0:
            raise Refusal("CUDA_ERROR_NO_DEVICE")

    def _cuGetErrorString(self, code: Any) -> bytes:
        return b"as the test wants it"

    def _cuDriverGetVersion(self) -> int:
        return self.version

    def _cuDeviceGetCount(self) -> int:
        return self.gpus

    def _cuDeviceGet(self, ordinal: int) -> Any:
        return real.CUdevice(ordinal)

    def _cuDeviceGetName(self, length: int, device: Any) -> bytes:
        return f"Model {int(device)}".encode().ljust(length, b"\0")

    def _cuDeviceTotalMem(self, device: Any) -> int:
        return self.memory

    def _cuDeviceGetAttribute(self, attribute: Any, device: Any) -> int:
        attributes = {
            "COMPUTE_CAPABILITY_MAJOR": self.capability[0],
            "COMPUTE_CAPABILITY_MINOR": self.capability[1],
            "MULTIPROCESSOR_COUNT": 4,
            "MAX_THREADS_PER_MULTIPROCESSOR": 256,
            "MAX_THREADS_PER_BLOCK": 1024,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
            "CLOCK_RATE": 1000000,
            "MEMORY_CLOCK_RATE": 2000000,
            "GLOBAL_MEMORY_BUS_WIDTH": 256,
        }
        return attributes[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def _cuDevicePrimaryCtxRetain(self, device: Any) -> Any:
        self.contexts += 1
        return real.CUcontext(CONTEXT)

    def _cuDevicePrimaryCtxRelease(self, device: Any) -> None:
        self.contexts -= 1

    def _cuDevicePrimaryCtxReset(self, device: Any) -> None:
        self.sticky, self.contexts = None, 0
        self._regions.clear()
        self._objects.clear()

    def _cuCtxSetCurrent(self, context: Any) -> None:
        self._current.context = int(context)

    def _cuCtxGetCurrent(self) -> Any:
        return self.CUcontext(self._current.context)

    def _cuDeviceCanAccessPeer(self, device: Any, other: Any) -> int:
        return int(self.reaches and int(device) != int(other))

    def _cuCtxEnablePeerAccess(self, context: Any, flags: int) -> None:
        if int(context) != CONTEXT or flags != 0:
            raise Refusal("CUDA_ERROR_INVALID_VALUE")
        if self.peer_access:
            raise Refusal("CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED")
        self.peer_access = True


_WITHOUT_CONTEXT = {
    "cuInit", "cuGetErrorString",
    "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
    "cuDeviceTotalMem", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset", "cuCtxSetCurrent",
}  # fmt: skip
_ALWAYS = _WITHOUT_CONTEXT - {"cuDevicePrimaryCtxRetain"}

# How many values a function gives beside the result code, where it gives any.
_RESULTS = dict.fromkeys(
    (
        "cuGetErrorString",
        "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
        "cuDeviceTotalMem", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuMemAlloc",
        "cuMemHostAlloc", "cuStreamCreateWithPriority", "cuEventCreate", "cuEventElapsedTime",
        "cuLinkCreate", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleGetFunction",
        "cuFuncGetAttribute", "cuPointerGetAttribute", "cuCtxGetCurrent", "cuDeviceCanAccessPeer",
        "cuGraphCreate", "cuGraphAddEmptyNode", "cuGraphAddKernelNode", "cuGraphAddMemcpyNode",
        "cuGraphAddMemsetNode", "cuGraphInstantiate",
    ),
    1,
) | {"cuMemGetInfo": 2, "cuLinkComplete": 2}  # fmt: skip
FUNCTIONS = sorted(name[1:] for name in dir(FakeCuda) if re.match(r"_cu[A-Z]", name))
