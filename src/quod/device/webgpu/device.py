"""GPUs through WebGPU: kernels are WGSL, and recordings are submitted in chunks.

The package `wgpu` and a driver for Vulkan, Metal or Direct3D 12 suffice. Software drivers, such as
Mesa's, are adapters, too.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from quod.codegen.wgsl.machine import DEFAULT_WORKGROUP_SIZE, WgslLimits, WgslTarget
from quod.device.cache.cache import CompileCache
from quod.device.memory.budget import budget, check_budget
from quod.device.memory.buffer import Array, Buffer, Space, check_same_size
from quod.device.protocol import Device, OpenedDevice
from quod.device.runtime.arguments import LaunchArgument
from quod.device.runtime.kernel_table import KernelTable, lanes_of
from quod.device.runtime.recording import Recording
from quod.device.runtime.staging import begin_launch
from quod.device.webgpu import copies as webgpu_copies
from quod.device.webgpu.adapter import (
    adapter_limits,
    check_portable,
    list_adapters,
    required_limits,
    select,
)
from quod.device.webgpu.choice import default_limbs, store_limbs, stored_limbs
from quod.device.webgpu.compiler import KernelSource
from quod.device.webgpu.encoding import Encoding, Parameters, bind_group
from quod.device.webgpu.kernel import WebGpuKernel, grid
from quod.device.webgpu.names import Strength
from quod.device.webgpu.native import Native, WebGpuError, open_native
from quod.device.webgpu.probe import probe
from quod.device.webgpu.program import Programs
from quod.device.webgpu.session import Session
from quod.device.webgpu.submission import WebGpuSubmission
from quod.environment import number_from_environment
from quod.errors import DeviceError
from quod.frozen import replace
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Machine
from quod.validation import whole_number

if TYPE_CHECKING:
    from quod.device.memory.array_protocols import ForeignArray
    from quod.device.runtime.stream import IdleStream
    from quod.device.runtime.timeline import Stage, Timeline
    from quod.kernel.launcher import Groups

_WATCHDOG_SECONDS = 60.0
_SOFTWARE_WATCHDOG_SECONDS = 600.0
_LANES_PER_MULTIPROCESSOR = 1024

# More bindings than any kernel has pointers; some drivers offer half a million.
_MAX_BINDINGS = 64

# Devices that must never be released: the driver would wait for work that never ends.
_leaked_devices: list[Any] = []


class WebGpuDevice(OpenedDevice):
    """Runs kernels on one adapter of WebGPU.

    adapter: its number or a part of its name; default: the best adapter.
    strength: with ``portable``, kernels stay within the limits of every implementation of WebGPU,
    including browsers; by default they use the limits of the adapter.
    lanes: default number of instances of a workgroup.
    limbs: representation of field elements (see `quod.field.strategies.limb_choice`); default: the
    one measured and stored for this adapter.
    memory_budget: bytes that buffers may use; default: ``QUOD_WEBGPU_MEMORY`` or an estimate for
    the kind of adapter, since WebGPU does not report a size.
    watchdog: seconds after which a submission counts as hung; default: ``QUOD_WEBGPU_WATCHDOG``,
    else 60, and 600 for software drivers.
    synchronous: submit recorded steps one by one, so that an error names its kernel; also set by
    ``QUOD_WEBGPU_SYNCHRONOUS=1``.

    With ``QUOD_WEBGPU_CHECKED=1`` the driver adds bounds to every index and loop. Several threads
    may call the device's methods at once. Once the device is lost, hangs or was found not to
    compute, every later call raises a DeviceError that names the cause. Close the device and open
    it again.
    """

    kind = "webgpu"
    strategy = "portable"
    host_memory = False
    kernel_type: type = WebGpuKernel
    single_queue = True

    def __init__(
        self,
        adapter: int | str = "",
        *,
        strength: Strength = "extended",
        lanes: int = DEFAULT_WORKGROUP_SIZE,
        limbs: str | None = None,
        memory_budget: int | None = None,
        watchdog: float | None = None,
        synchronous: bool | None = None,
        cache: CompileCache | None = None,
        native: Native | None = None,
    ) -> None:
        memory_budget = budget(memory_budget)
        native = native or open_native()
        adapters = list_adapters(native)
        self.properties, adapter_object = select(adapters, str(adapter))
        check_portable(self.properties)
        self.strength = strength
        self.name = f"webgpu:{self.properties.number}" + (
            ":portable" if strength == "portable" else ""
        )
        self.space = Space(self.name)
        self.lanes = whole_number("lanes", lanes, 1, error=DeviceError)
        self.resident_lanes = self.properties.resident_lanes
        self.multiprocessors = max(1, self.resident_lanes // _LANES_PER_MULTIPROCESSOR)
        if synchronous is None:
            synchronous = os.environ.get("QUOD_WEBGPU_SYNCHRONOUS", "0") not in ("", "0")
        if watchdog is None:
            watchdog = number_from_environment(
                "QUOD_WEBGPU_WATCHDOG",
                _SOFTWARE_WATCHDOG_SECONDS if self.properties.is_software else _WATCHDOG_SECONDS,
            )
        self.memory_budget = memory_budget or int(
            number_from_environment("QUOD_WEBGPU_MEMORY", self.properties.default_budget)
        )
        self._lock = threading.Lock()
        self._cache = cache or CompileCache()
        self._kernels: KernelTable[WebGpuKernel] = KernelTable()
        self._closed = False
        gpu = self._open(native, adapter_object)
        self.limits = self._limits(gpu)
        self.largest_buffer = min(self.limits.binding_bytes, self.limits.buffer_bytes // 2)
        self.session = Session(
            native, gpu, self.space, self.limits, self._cache,
            memory_budget=self.memory_budget, watchdog=watchdog, synchronous=synchronous,
        )  # fmt: skip
        self._programs = Programs(self.session)
        with self.session.using(lambda: "opening the device"):
            probed = probe(self.session, self.properties)
        self.drops_long_loops = probed.drops_long_loops
        if self.drops_long_loops:
            if adapter_limits(gpu.limits).storage_buffers <= self.limits.storage_buffers:
                raise DeviceError(
                    f"{self.name} ({self.properties.name}) ends long loops early and "
                    "has no spare binding in which kernels could report it; use "
                    "another device"
                )
            self.session.watch_loops()
        u64 = "shader-int64" in gpu.features
        stored = stored_limbs(self._cache, self.properties, u64=u64)
        self.limbs_are_chosen = limbs is not None or stored is not None
        self.target = WgslTarget(
            self.limits, u64, probed.subgroup_size,
            limbs or stored or default_limbs(self.properties, u64=u64), self.drops_long_loops,
        )  # fmt: skip

    def _open(self, native: Native, adapter: Any) -> Any:
        features = ["timestamp-query"]
        if self.strength == "extended":
            features += ["shader-int64", "subgroup"]
            limits = self.properties.limits
        else:
            portable, max_bindings = WgslLimits(), self.properties.limits.storage_buffers
            bindings = min(portable.storage_buffers + self._reserved_bindings, max_bindings)
            limits = replace(portable, storage_buffers=bindings)
        try:
            with native.errors():
                return adapter.request_device_sync(
                    required_features=[name for name in features if name in adapter.features],
                    required_limits=required_limits(limits),
                )
        except WebGpuError as error:
            raise DeviceError(
                f"{self.name} ({self.properties.name}) cannot be opened: {error}"
            ) from error

    def _limits(self, gpu: Any) -> WgslLimits:
        """Return the limits that kernels are compiled for."""
        if self.strength == "portable":
            return WgslLimits()
        limits = adapter_limits(gpu.limits)
        bindings = min(limits.storage_buffers - self._reserved_bindings, _MAX_BINDINGS)
        return replace(limits, storage_buffers=bindings)

    @property
    def _reserved_bindings(self) -> int:
        """The number of bindings that report loops ended by the driver; GPU drivers end none."""
        return 1 if self.properties.is_software else 0

    # --- kernels

    @property
    def limbs(self) -> str:
        """The limbs of field elements in kernels compiled from now on."""
        return self.target.limbs

    @property
    def limbs_are_open(self) -> bool:  # type: ignore[override]
        """True if limbs should be measured.

        Software drivers keep the default, because compiling the candidates would take longer than
        most work.
        """
        return not (self.limbs_are_chosen or self.properties.is_software)

    def choose_limbs(self, limbs: str) -> None:
        """Use these limbs from now on, here and in later processes on this adapter."""
        store_limbs(self._cache, self.properties, limbs, u64=self.target.u64)
        self.target = replace(self.target, limbs=limbs)
        self.limbs_are_chosen = True

    def machine(self, lanes: int, *, limbs: str | None = None) -> Machine:
        """Return the machine for tracing kernels with workgroups of `lanes` instances."""
        if not 1 <= lanes <= self.limits.largest_workgroup:
            raise DeviceError(
                f"a workgroup of {self.name} has 1 to {self.limits.largest_workgroup} instances, "
                f"not {lanes}"
            )
        target = self.target
        if limbs is not None:
            target = replace(target, limbs=limbs)
        return target.machine(lanes)

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, limbs: str | None = None,
        **static: Any,
    ) -> WebGpuKernel:  # fmt: skip
        """Return the kernel for this adapter, from memory, from disk or traced now.

        The pipeline is compiled concurrently; a launch or the run of a recording waits for it.
        limbs: representation of field elements, by default the device's.
        static: keyword arguments of the kernel: hashable, with a `repr` that shows everything that
        distinguishes them.
        Raises KernelError if the kernel is invalid.
        """
        self.space.check()
        lanes = lanes_of(definition, lanes, self.lanes)
        machine = self.machine(lanes, limbs=limbs)

        def build() -> WebGpuKernel:
            source = KernelSource(definition, machine, static, self._cache)
            return WebGpuKernel(
                source, self.session.compiler, self.limits, self.space, self._kernels.forget
            )

        named_options = {**static, "limbs of the machine": machine.limbs}
        return self._kernels.get(definition, lanes, named_options, build)

    def emit(
        self, definition: KernelDefinition, *, lanes: int | None = None, limbs: str | None = None,
        **static: Any,
    ) -> str:  # fmt: skip
        """Return the WGSL that `compile` passes to the driver."""
        machine = self.machine(lanes_of(definition, lanes, self.lanes), limbs=limbs)
        return KernelSource(definition, machine, static, self._cache).text().module.text

    # --- memory

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Allocate device memory, which WebGPU always zeroes.

        Raises DeviceError if there is too little memory.
        """
        return self.session.allocate(nbytes)

    def pinned(self, nbytes: int) -> Array:
        """Return host memory as `nbytes` u8; WebGPU copies through its own staging memory."""
        return Buffer.empty(nbytes).view(np.uint8)

    def upload(self, array: Array | ForeignArray, *, into: Buffer | None = None) -> Buffer:
        """Copy host data to device memory: to `into`, of the same size, or to a new buffer."""
        source = Buffer.to_read(array)
        target = self.allocate(source.nbytes, zero=False).like(source) if into is None else into
        check_same_size(source, target)
        self._check_own(target)
        if not source.nbytes:
            return target
        data = source.view(np.uint8)
        with self.session.using(lambda: "copying memory"):
            webgpu_copies.upload(self.session, data, target)
        return target

    def download(self, buffer: Buffer, array: Array | ForeignArray) -> None:
        """Copy a buffer into a host array of the same number of bytes, contiguous in C order."""
        target = Buffer.to_write(array)
        check_same_size(buffer, target)
        self._check_own(buffer)
        if not target.nbytes:
            return
        with self.session.using(lambda: "copying memory"):
            webgpu_copies.download(self.session, buffer, target.view(np.uint8))

    def _check_own(self, buffer: Buffer) -> None:
        if buffer.space is not self.space:
            raise DeviceError(f"the buffer is memory of {buffer.space.name}, not of {self.name}")

    def check_budget(
        self, what: str, needed: int, *, fixed: int = 0, items: int = 0, unit: str = "items"
    ) -> None:
        """Raise DeviceError if a plan needs more bytes than the memory budget.

        See `quod.device.memory.budget.check_budget`.
        """
        check_budget(what, needed, self.memory_budget, fixed=fixed, items=items, unit=unit)

    # --- execution

    def launch(self, kernel: WebGpuKernel, groups: Groups, *arguments: LaunchArgument) -> None:
        """Run `groups` workgroups and wait for them.

        Arrays are copied to the adapter and, where the kernel stores through them, back. Ctrl-C
        ends the wait; the GPU still finishes work that has started, and the contents of memory that
        this work stores to are undefined.
        """
        count, staged, packed = begin_launch(self, kernel, groups, arguments)
        if count == 0:
            return

        def doing() -> str:
            return f"kernel {kernel}"

        session = self.session
        with session.using(doing):
            parameters = Parameters()
            block = packed.parameters(count)
            parameters.add(block)
            uniform = parameters.buffer(session)
            group = bind_group(session, uniform, len(block), packed.ranges)
            encoding = Encoding(session)
            shape = grid(count, self.limits.groups_per_dimension)
            encoding.dispatch(packed.variant.pipeline(), group, 0, shape)
            keep = (staged, packed, uniform, group)
            session.wait_for(session.queue.submit(encoding.encoder, doing, keep))
        staged.bring_back(self)

    def stream(self, name: str = "stream") -> IdleStream:
        """Return a new stream, whose work runs concurrently with the caller.

        name: track of the stream in a timeline.
        """
        from quod.device.runtime.stream import IdleStream

        return IdleStream(self, name)

    def submit(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> WebGpuSubmission:
        """Start recorded work on a new thread; streams call it."""
        self.space.check()
        return WebGpuSubmission(self.session, self._programs, recording, name, timeline, parent)

    def close(self) -> None:
        """Free all memory. Buffers and kernels of the device cannot be used any more."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        was_lost = self.space.is_lost
        self.space.lose("the device was closed; open it again")
        session = self.session
        if not session.is_of_this_process:
            return
        session.compiler.close()
        if was_lost or session.queue.is_dead:
            self._leak()
            return
        try:
            session.queue.wait(lambda: session.queue.is_idle)
        except DeviceError:
            self._leak()
            raise
        self._programs.clear()
        with session.native.errors():
            session.gpu.destroy()

    def _leak(self) -> None:
        """Leak a device whose work does not end, because releasing it would wait for ever."""
        gpu = self.session.gpu
        _leaked_devices.append(gpu)
        for handle in (gpu, gpu.queue):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


if TYPE_CHECKING:
    _: Device[WebGpuKernel] = WebGpuDevice()
