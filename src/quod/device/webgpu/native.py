"""WebGPU through the package `wgpu`, and functions of its native library that the package lacks.

The package polls a device by a call that blocks until all submitted work is done, and its promises
use that call. So mapping and polling are implemented here, without blocking.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from quod.device.memory.buffer import Array
from quod.device.webgpu.cffi import parse_types
from quod.errors import DeviceError
from quod.extras import installation

READ, WRITE = 1, 2
"""Modes of mapping memory (WebGPU, "GPUMapMode")."""

_BACKENDS = ("Vulkan", "Metal", "DX12")
_REQUIRED_FUNCTIONS = (
    "wgpuAdapterGetInfo", "wgpuBufferGetConstMappedRange", "wgpuBufferGetMappedRange",
    "wgpuBufferMapAsync", "wgpuBufferUnmap", "wgpuDeviceCreateShaderModuleTrusted",
    "wgpuDevicePoll", "wgpuQueueGetTimestampPeriod",
)  # fmt: skip
_LOST = "device is lost"
_MESSAGE_LINES = 3


class WebGpuError(DeviceError):
    """An error of WebGPU, possibly `is_out_of_memory` or `is_lost`."""

    def __init__(
        self, message: str, *, is_out_of_memory: bool = False, is_lost: bool = False
    ) -> None:
        super().__init__(message)
        self.is_out_of_memory = is_out_of_memory
        self.is_lost = is_lost


class Mapping:
    """A mapping of a buffer that the host requested.

    is_done: it is complete or was refused. refusal: the reason for a refusal.
    """

    __slots__ = ("is_done", "refusal")

    def __init__(self) -> None:
        self.is_done = False
        self.refusal = ""


class Native:
    """The package's classes as `wgpu`, and functions of the library beneath it."""

    def __init__(self, wgpu: Any, library: Any, ffi: Any, extras: Any) -> None:
        self.wgpu = wgpu
        self._library = library
        self._ffi = ffi
        missing = [name for name in _REQUIRED_FUNCTIONS if not hasattr(library, name)]
        if missing:
            raise DeviceError(f"this version of wgpu has no {missing[0]}; install version 0.32")
        parse_types(ffi)
        self._limit_backends(extras)
        self._log = _Log()
        self._lock = threading.Lock()
        # Keys whose pointers the library has, kept alive until it calls back.
        self._pending: dict[int, tuple[Any, Mapping]] = {}
        self._numbers = iter(range(1, 1 << 62))
        self._on_mapped = ffi.callback(
            "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)", self._complete_mapping
        )

    def _limit_backends(self, extras: Any) -> None:
        # OpenGL has no compute shaders worth having, and looking for it prints warnings.
        try:
            extras.set_instance_extras(backends=_BACKENDS)
        except RuntimeError:
            # Another user of the package has opened it already; `adapters` leaves OpenGL's out.
            return

    # --- adapters

    def adapters(self) -> list[Any]:
        """List the system's adapters, except those of OpenGL, in the system's order."""
        with self.errors(), _no_display():
            found_adapters = list(self.wgpu.gpu.enumerate_adapters_sync())
        return [adapter for adapter in found_adapters if adapter.info["backend_type"] != "OpenGL"]

    def subgroup_sizes(self, adapter: Any) -> tuple[int, int]:
        """Return the minimum and maximum subgroup size of an adapter."""
        info = self._ffi.new("WGPUAdapterInfo *")
        self._library.wgpuAdapterGetInfo(adapter._internal, info)
        sizes = int(info.subgroupMinSize), int(info.subgroupMaxSize)
        self._library.wgpuAdapterInfoFreeMembers(info[0])
        return sizes

    def timestamp_nanoseconds(self, device: Any) -> float:
        """Return the tick of a device's clock in nanoseconds."""
        return float(self._library.wgpuQueueGetTimestampPeriod(device.queue._internal))

    # --- modules

    def shader_module(self, device: Any, label: str, text: str, *, checked: bool) -> Any:
        """Make a WGSL module; without `checked`, no code is added that bounds loops and indices."""
        if checked:
            return device.create_shader_module(label=label, code=text)
        ffi, library = self._ffi, self._library
        data, name = text.encode(), label.encode()
        c_strings = ffi.new("char[]", data), ffi.new("char[]", name)
        source = ffi.new("WGPUShaderSourceWGSL *")
        source.chain.sType = library.WGPUSType_ShaderSourceWGSL
        source.code.data, source.code.length = c_strings[0], len(data)
        descriptor = ffi.new("WGPUShaderModuleDescriptor *")
        descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", source)
        descriptor.label.data, descriptor.label.length = c_strings[1], len(name)
        # The wrapper around the library raises the errors that it reports.
        create = self._checked_call("wgpuDeviceCreateShaderModuleTrusted")
        handle = create(device._internal, descriptor, 0)  # 0: no run-time checks
        return self._backend.GPUShaderModule(label, handle, device)

    @property
    def _backend(self) -> Any:
        return importlib.import_module("wgpu.backends.wgpu_native")

    def _checked_call(self, name: str) -> Any:
        return getattr(importlib.import_module("wgpu.backends.wgpu_native._api").libf, name)

    # --- memory that the host reaches

    def map(self, buffer: Any, mode: int, nbytes: int) -> Mapping:
        """Request to map the first `nbytes` of a buffer, once the submitted work is done."""
        mapping = Mapping()
        with self._lock:
            number = next(self._numbers)
            key = self._ffi.cast("void *", number)
            self._pending[number] = key, mapping
        info = self._ffi.new("WGPUBufferMapCallbackInfo *")
        info.mode = self._library.WGPUCallbackMode_AllowProcessEvents
        info.callback = self._on_mapped
        info.userdata1 = key
        self._library.wgpuBufferMapAsync(buffer._internal, mode, 0, nbytes, info[0])
        return mapping

    def _complete_mapping(self, status: int, message: Any, key: Any, _unused: Any) -> None:
        with self._lock:
            _, mapping = self._pending.pop(int(self._ffi.cast("uintptr_t", key)))
        if status != self._library.WGPUMapAsyncStatus_Success:
            text = self._ffi.string(message.data, message.length) if message.length else b""
            mapping.refusal = text.decode(errors="replace") or f"status {status}"
        mapping.is_done = True

    def mapped_bytes(self, buffer: Any, nbytes: int, *, mode: int) -> Array:
        """Return the mapped memory of a buffer as bytes, valid until it is unmapped."""
        name = "wgpuBufferGetConstMappedRange" if mode == READ else "wgpuBufferGetMappedRange"
        address = getattr(self._library, name)(buffer._internal, 0, nbytes)
        if address == self._ffi.NULL:
            raise WebGpuError("the memory of a staging buffer cannot be reached")
        raw = self._ffi.buffer(self._ffi.cast("char *", address), nbytes)
        return np.frombuffer(raw, np.uint8)

    def unmap(self, buffer: Any) -> None:
        """Unmap a buffer's memory."""
        self._library.wgpuBufferUnmap(buffer._internal)

    def poll(self, device: Any) -> None:
        """Complete the mappings of a device that can be completed, without waiting."""
        self._library.wgpuDevicePoll(device._internal, False, self._ffi.NULL)

    # --- errors

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert errors of the package to WebGpuError."""
        try:
            yield
        except self.wgpu.GPUError as error:
            text = shortened(str(error))
            raise WebGpuError(
                text,
                is_out_of_memory=isinstance(error, self.wgpu.GPUOutOfMemoryError),
                is_lost=_LOST in text,
            ) from error
        except RuntimeError as error:
            raise WebGpuError(shortened(str(error))) from error

    def take_loss_report(self) -> str:
        """Return and clear the library's report of a lost device that no caller has received."""
        return self._log.take()


@contextmanager
def _no_display() -> Iterator[None]:
    """Keep drivers from looking for a display if the session has none.

    Drivers look for a display in the folder `XDG_RUNTIME_DIR`, and libwayland prints an error for
    each try if the variable is unset or relative. Nothing can be below a file, so with /dev/null
    the try fails in silence. Other messages of drivers still go to standard error.
    """
    runtime_dir = os.environ.get("XDG_RUNTIME_DIR")
    if runtime_dir and os.path.isabs(runtime_dir):
        yield
        return
    os.environ["XDG_RUNTIME_DIR"] = os.devnull
    try:
        yield
    finally:
        if runtime_dir is None:
            os.environ.pop("XDG_RUNTIME_DIR", None)
        else:
            os.environ["XDG_RUNTIME_DIR"] = runtime_dir


class _Log(logging.Handler):
    """Collects the package's log messages about lost devices, which are reported nowhere else."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._reports: list[str] = []
        logging.getLogger("wgpu").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "lost (" in text:
            self._reports.append(shortened(text))

    def take(self) -> str:
        reports, self._reports = self._reports, []
        return reports[0] if reports else ""


def shortened(message: str) -> str:
    """Return the first three informative lines of a message as one line."""
    lines = [line.strip() for line in message.splitlines()]
    skipped = ("", "Validation Error", "Caused by:")
    relevant = [line for line in lines if line not in skipped and not line.startswith("In wgpu")]
    return "; ".join(relevant[:_MESSAGE_LINES]) or message.strip() or "no reason was given"


_native: Native | None = None
_open_lock = threading.Lock()


def open_native() -> Native:
    """Load the package, once per process; raises DeviceError, which says what is missing."""
    global _native
    with _open_lock:
        if _native is None:
            try:
                wgpu = importlib.import_module("wgpu")
                backend = importlib.import_module("wgpu.backends.wgpu_native")
                extras = importlib.import_module("wgpu.backends.wgpu_native.extras")
            except ImportError as error:
                raise DeviceError(
                    f"WebGPU needs the package wgpu ({error}); {installation('webgpu')}"
                ) from error
            except (OSError, RuntimeError) as error:
                raise DeviceError(
                    f"the package wgpu cannot be loaded: {shortened(str(error))}"
                ) from error
            _native = Native(wgpu, backend.lib, backend.ffi, extras)
        return _native
