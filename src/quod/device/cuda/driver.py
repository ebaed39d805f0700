"""NVIDIA's driver through `cuda-bindings`, with every result code checked.

    driver = open_driver()
    address = driver.cuMemAlloc(1 << 20)      # raises CudaError unless the driver says success

A function is called by its name in the driver. It returns what the driver returns after the result
code: None, one value, or a tuple.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from quod.errors import DeviceError
from quod.extras import installation

OLDEST_DRIVER = 12000
"""The first version of CUDA, as ``1000 * major + 10 * minor``, whose functions suffice."""

# After one of these errors, every later call in the context fails (CUDA driver API, "CUresult").
_STICKY = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ILLEGAL_ADDRESS", "LAUNCH_FAILED", "LAUNCH_TIMEOUT", "HARDWARE_STACK_ERROR",
        "ILLEGAL_INSTRUCTION", "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "INVALID_PC",
        "ASSERT", "ECC_UNCORRECTABLE", "NVLINK_UNCORRECTABLE", "CONTAINED", "EXTERNAL_DEVICE",
        "MPS_CLIENT_TERMINATED", "TENSOR_MEMORY_LEAK", "CONTEXT_IS_DESTROYED",
        "DEVICE_UNAVAILABLE", "DEINITIALIZED", "UNKNOWN",
    )
)  # fmt: skip
_OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
_NOT_READY = "CUDA_ERROR_NOT_READY"

# Streams and the branches of graphs share the hardware queues, of which a process has 8 by default
# and at most 32. Work in a queue waits for all earlier work there, also for another stream's.
_QUEUES = ("CUDA_DEVICE_MAX_CONNECTIONS", "32")


class CudaError(DeviceError):
    """An error of the driver.

    call: the driver's function.
    code: the name of the error, such as ``CUDA_ERROR_ILLEGAL_ADDRESS``.
    """

    def __init__(self, call: str, code: str, text: str) -> None:
        self.call = call
        self.code = code
        self.text = text
        super().__init__(f"CUDA: {code} ({text}) from {call}")

    @property
    def is_sticky(self) -> bool:
        """True if all further calls in the context fail as well."""
        return self.code in _STICKY

    @property
    def is_out_of_memory(self) -> bool:
        return self.code == _OUT_OF_MEMORY


class Driver:
    """The driver's functions by their names; a result code other than success raises CudaError.

    `api` is the module with the driver's functions and types.
    """

    def __init__(self, api: Any) -> None:
        self.api = api
        self._success = api.CUresult.CUDA_SUCCESS

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("cu"):
            raise AttributeError(name)
        function = getattr(self.api, name, None)
        if function is None:
            raise DeviceError(
                f"this version of cuda-bindings has no {name}; install another version"
            )
        success = self._success

        def call(*arguments: Any) -> Any:
            try:
                answer = function(*arguments)
            except RuntimeError as error:
                # The bindings look a function up when it is first called.
                raise DeviceError(
                    f"the NVIDIA driver has no {name} ({_one_line(error)}); update the driver"
                ) from error
            code = answer[0]
            if code != success:
                raise self.error(name, code)
            return None if len(answer) == 1 else answer[1] if len(answer) == 2 else answer[1:]

        self.__dict__[name] = call
        return call

    def error(self, call: str, code: Any) -> CudaError:
        """Make an exception from a result code of the driver."""
        name, text = getattr(code, "name", str(code)), "no such result code is known"
        status, description = self.api.cuGetErrorString(code)
        if status == self._success and description:
            text = description.decode(errors="replace")
        return CudaError(call, name, text)

    def is_ready(self, query: str, handle: Any) -> bool:
        """Return whether a stream or event is done, by the driver's function `query`."""
        (code, *_) = getattr(self.api, query)(handle)
        if code == self._success:
            return True
        if code.name == _NOT_READY:
            return False
        raise self.error(query, code)


def open_driver(bindings: Any = None) -> Driver:
    """Open and initialise the driver, with as many hardware queues as a GPU has.

    bindings: replaces the module of cuda-bindings.
    Raises DeviceError, which says what is missing: the bindings, the driver or a GPU.
    """
    if bindings is None:
        bindings = _bindings()
    os.environ.setdefault(*_QUEUES)
    driver = Driver(bindings)
    try:
        driver.cuInit(0)
        version = driver.cuDriverGetVersion()
    except CudaError as error:
        raise DeviceError(_why_absent(error)) from error
    except DeviceError as error:
        raise DeviceError(
            "there is no NVIDIA driver on this machine; install one, or use --device cpu"
        ) from error
    if version < OLDEST_DRIVER:
        raise DeviceError(
            f"the NVIDIA driver is for CUDA {version_text(version)}, and Quod needs "
            f"{version_text(OLDEST_DRIVER)}; update the driver"
        )
    return driver


def _bindings() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise DeviceError(
            f"CUDA needs the package cuda-bindings ({_one_line(error)}); {installation('cuda')}"
        ) from error


def _why_absent(error: CudaError) -> str:
    match error.code:
        case "CUDA_ERROR_NO_DEVICE":
            return "the NVIDIA driver sees no GPU (is CUDA_VISIBLE_DEVICES set?)"
        case "CUDA_ERROR_STUB_LIBRARY":
            return "the libcuda on this machine is a stub of the toolkit; install the NVIDIA driver"
        case "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH":
            return (
                "the NVIDIA driver's library and kernel module differ in version; "
                "restart the machine"
            )
    return f"the NVIDIA driver cannot start: {error}"


def version_text(version: int) -> str:
    """Format a version of CUDA: 13000 is ``13.0``."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
