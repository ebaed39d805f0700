"""NVIDIA GPUs as devices: kernels are PTX that the driver assembles, recordings are CUDA graphs.

Nothing but the driver and the package `cuda-bindings` is needed.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quod.codegen.ptx.machine import DEFAULT_WORKGROUP_SIZE, ptx_machine
from quod.device import host
from quod.device.cache.cache import CompileCache
from quod.device.cache.prebuilt import PrebuiltKernels
from quod.device.cpu.workers import GRACE_SECONDS
from quod.device.cuda import compiler as cuda_compiler
from quod.device.cuda.driver import CudaError, open_driver
from quod.device.cuda.enqueue import issue_launch
from quod.device.cuda.graph import Program, build_program, load_kernels
from quod.device.cuda.kernel import ADDRESS_ALIGNMENT, CudaKernel, LoadedCode
from quod.device.cuda.limits import limits_of
from quod.device.cuda.memory import MemoryPool, PoolStatistics
from quod.device.cuda.pinned import PinnedMemory
from quod.device.cuda.properties import properties_of
from quod.device.cuda.stream import StreamPool, Work, wait_until
from quod.device.cuda.submission import CudaSubmission
from quod.device.cuda.tensor_map import TensorMaps
from quod.device.limits import Limits
from quod.device.memory.budget import UNLIMITED, budget, byte_count, check_budget
from quod.device.memory.buffer import Array, Buffer, Space, check_same_size
from quod.device.memory.tensor_map import TiledMemory
from quod.device.protocol import Device, OpenedDevice
from quod.device.runtime.arguments import LaunchArgument
from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
from quod.device.runtime.kernel_table import KernelTable, lanes_of
from quod.device.runtime.recording import Recording
from quod.device.runtime.staging import begin_launch
from quod.errors import DeviceError, QuodError
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Machine
from quod.validation import whole_number

if TYPE_CHECKING:
    from quod.device.memory.array_protocols import ForeignArray
    from quod.device.runtime.stream import IdleStream
    from quod.device.runtime.timeline import Stage, Timeline
    from quod.kernel.launcher import Groups

# The fraction of the free memory that plans may use: the driver needs some for itself.
_BUDGET_SHARE = 0.92
# A copy from or to pageable host memory blocks the thread, so it is done in chunks: Python handles
# Ctrl-C between two chunks.
_COPY_BYTES = 256 << 20


class CudaDevice(OpenedDevice):
    """Runs kernels on one NVIDIA GPU.

    ordinal: index of the GPU among those that the process sees.
    lanes: default number of instances of a workgroup.
    memory_budget: bytes that buffers may use; default: 92 % of the memory that is free at opening.
    synchronous: run recorded steps one by one, so that an error names its kernel; also set by
    ``QUOD_CUDA_SYNCHRONOUS=1`` in the environment.
    cache: machine code on disk. Code that the cache lacks is taken from `prebuilt`, by default
    the installed kernels, or else compiled.

    The device uses the process's primary context, which other libraries may use at the same time.
    Several threads may call its methods at once. After a kernel has failed, the GPU refuses all
    work, and every later call raises a DeviceError that names the first failure. Close the device
    and open it again.
    """

    kind = "cuda"
    address_alignment = ADDRESS_ALIGNMENT
    strategy = "carry32"
    host_memory = False
    kernel_type: type = CudaKernel
    single_queue = False

    def __init__(
        self,
        ordinal: int = 0,
        *,
        lanes: int = DEFAULT_WORKGROUP_SIZE,
        memory_budget: int | None = None,
        synchronous: bool | None = None,
        cache: CompileCache | None = None,
        prebuilt: PrebuiltKernels | None = None,
        bindings: Any = None,
    ) -> None:
        ordinal = whole_number("the number of a GPU", ordinal, 0, error=DeviceError)
        memory_budget = budget(memory_budget)
        self.driver = open_driver(bindings)
        self.properties = properties_of(self.driver, ordinal)
        self.ordinal = ordinal
        self.name = f"cuda:{ordinal}"
        self.lanes = whole_number("lanes", lanes, 1, error=DeviceError)
        self.resident_lanes = self.properties.resident_lanes
        self.multiprocessors = self.properties.multiprocessors
        self.largest_buffer = UNLIMITED
        self.space = Space(self.name)
        if synchronous is None:
            synchronous = os.environ.get("QUOD_CUDA_SYNCHRONOUS", "0") not in ("", "0")
        self.synchronous = synchronous
        self._failed = False
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._cache = cache or CompileCache()
        self._prebuilt = prebuilt or PrebuiltKernels.installed(self.properties.arch)
        self._toolchain = cuda_compiler.toolchain(
            self.properties.driver_version, self.properties.arch
        )
        self._kernels: KernelTable[CudaKernel] = KernelTable()
        self._assemblers = Background("quod-assembler", host.usable_threads())
        self._modules: list[Any] = []
        self._running: set[Work] = set()
        self._programs: weakref.WeakKeyDictionary[Recording, Program] = weakref.WeakKeyDictionary()
        # Handles of collected objects. The garbage collector may run anywhere, so a later call
        # destroys them.
        self._discarded: deque[tuple[str, Any]] = deque()
        self._handle = self.driver.cuDeviceGet(ordinal)
        self._context, free = self._open_context()
        self.memory_budget = memory_budget or int(free * _BUDGET_SHARE)
        self.pool = MemoryPool(self.driver, self.space, self.name, self.memory_budget)
        self._pinned = PinnedMemory(self.driver)
        self._tensor_maps = TensorMaps(self.driver)
        self._streams = StreamPool(self.driver, 0)
        self._urgent_streams = StreamPool(self.driver, -1)

    def _open_context(self) -> tuple[Any, int]:
        try:
            context = self.driver.cuDevicePrimaryCtxRetain(self._handle)
            try:
                self.driver.cuCtxSetCurrent(context)
                free, _ = self.driver.cuMemGetInfo()
            except CudaError:
                self.driver.cuDevicePrimaryCtxRelease(self._handle)
                raise
        except CudaError as error:
            raise DeviceError(self._why_not_open(error)) from error
        return context, int(free)

    def _why_not_open(self, error: CudaError) -> str:
        described = f"{self.name} ({self.properties.name}) cannot be opened"
        if error.is_out_of_memory:
            return f"{described}: other processes hold its memory; end one, or wait"
        if error.code == "CUDA_ERROR_DEVICE_UNAVAILABLE":
            return (
                f"{described}: another process uses it exclusively; end that "
                f"process, or wait ({error})"
            )
        if error.is_sticky:
            return f"{described} in this process any more; start a new process: {error}"
        return f"{described}: {error}"

    # --- every call

    @contextmanager
    def using(self, doing: Callable[[], str] | None = None) -> Iterator[None]:
        """Make the context current; add `doing()`, the current operation, to a CUDA error.

        Raises DeviceError if the device has failed or was closed.
        """
        self.space.check()
        if os.getpid() != self._process:
            raise DeviceError(
                f"{self.name} was opened before this process was forked, which CUDA "
                "does not support; open the device in the process that uses it"
            )
        try:
            self.driver.cuCtxSetCurrent(self._context)
            self._destroy_discarded()
            yield
        except CudaError as error:
            during = "" if doing is None else f", in {doing()}"
            if error.is_sticky:
                self._failed = True
                self.space.lose(
                    f"{error}{during}, and the GPU has stopped; close the device and open it again"
                )
            raise DeviceError(f"{self.name}: {error}{during}") from error

    def _destroy_discarded(self) -> None:
        while True:
            try:
                destroy, handle = self._discarded.popleft()
            except IndexError:
                # Tried without a check first, as another thread may take the last handle in
                # between.
                return
            getattr(self.driver, destroy)(handle)

    def discard_events(self, handles: list[Any]) -> None:
        """Destroy the driver's events at a later call.

        May be called from any thread at any time.
        """
        self._discarded.extend(("cuEventDestroy", handle) for handle in handles)

    def _discard_graphs(self, handles: list[Any]) -> None:
        self._discarded.extend(("cuGraphExecDestroy", handle) for handle in handles)

    def event_is_passed(self, handle: Any) -> bool:
        """Return whether the GPU has passed an event."""
        with self.using(lambda: "waiting for an event"):
            return self.driver.is_ready("cuEventQuery", handle)

    # --- kernels

    def throughput_limits(self) -> Limits | None:
        """Return throughput limits, or None if the driver does not report the memory's clock."""
        return limits_of(self.properties)

    def machine(self, lanes: int) -> Machine:
        """Return the machine for tracing kernels with workgroups of `lanes` instances."""
        if not 1 <= lanes <= self.properties.largest_workgroup:
            raise DeviceError(
                f"a workgroup of {self.name} has 1 to {self.properties.largest_workgroup} "
                f"instances, not {lanes}"
            )
        return ptx_machine(
            lanes, self.properties.arch, shared_bytes_limit=self.properties.shared_bytes
        )

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> CudaKernel:
        """Return the kernel for this GPU, from memory, from disk or traced now.

        The kernel's text is assembled concurrently. Uses of the code wait for that: a launch, the
        first submission of a recording, and `CudaKernel.registers`.
        static: keyword arguments of the kernel: hashable, with a `repr` that shows everything that
        distinguishes them.
        Raises KernelError if the kernel is invalid.
        """
        self.space.check()
        lanes = lanes_of(definition, lanes, self.lanes)

        def build() -> CudaKernel:
            machine = self.machine(lanes)
            code = cuda_compiler.KernelCode(
                self.driver, definition, machine, static, self._cache, self._prebuilt,
                self._toolchain, self._assemble,
            )  # fmt: skip
            return CudaKernel(
                definition, machine, static, code.facts, self.space, partial(self._load, code)
            )

        return self._kernels.get(definition, lanes, static, build)

    def _assemble(self, task: Callable[[], bytes]) -> Outcome[bytes]:
        def in_context() -> bytes:
            with self.using(lambda: "assembling kernels"):
                return task()

        return self._assemblers.begin(in_context)

    def _load(self, code: cuda_compiler.KernelCode, kernel: CudaKernel) -> LoadedCode:
        try:
            with self.using(lambda: f"loading {kernel}"):
                loaded = code.load()
        except QuodError:
            # Do not keep the failure: a later attempt may find enough memory.
            self._kernels.forget(kernel)
            raise
        self._modules.append(loaded.module)
        return loaded

    def emit(self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any) -> str:
        """Return the PTX that `compile` assembles."""
        machine = self.machine(lanes_of(definition, lanes, self.lanes))
        return cuda_compiler.emit(definition, machine, static)[1].text

    def tensor_maps(self, arrays: tuple[TiledMemory, ...]) -> Buffer:
        """Return cached device memory with the tensor maps of `arrays`; see `cuda.tensor_map`."""
        return self._tensor_maps.get(arrays, self.upload)

    # --- memory

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Allocate GPU memory, zeroed by default; raises DeviceError if there is too little."""
        nbytes = byte_count(nbytes)
        with self.using(lambda: "allocating memory"):
            self._release_finished()
            buffer = self.pool.allocate(nbytes)
            if zero and nbytes:
                with self._working(buffer, lambda: "zeroing memory") as stream:
                    self.driver.cuMemsetD8Async(buffer.address, 0, nbytes, stream)
            return buffer

    def pinned(self, nbytes: int) -> Array:
        """Return page-locked host memory as `nbytes` u8, for asynchronous copies by the GPU."""
        with self.using(lambda: "allocating page-locked memory"):
            return self._pinned.allocate(nbytes)

    def upload(self, array: Array | ForeignArray, *, into: Buffer | None = None) -> Buffer:
        """Copy host data to GPU memory: to `into`, of the same size, or to a new buffer.

        GPU memory of another library is returned without a copy unless `into` is given.
        """
        foreign = self.foreign_memory(array)
        if foreign is not None and into is None:
            return foreign
        source = Buffer.to_read(array) if foreign is None else foreign
        target = self.allocate(source.nbytes, zero=False).like(source) if into is None else into
        check_same_size(source, target)
        function = "cuMemcpyHtoDAsync" if foreign is None else "cuMemcpyDtoDAsync"
        self._copy(function, target, source, local=target)
        return target

    def foreign_memory(self, value: object) -> Buffer | None:
        """Return the memory of an object with `__cuda_array_interface__`; see `cuda.foreign`."""
        if isinstance(value, (np.ndarray, Buffer)):
            return None
        from quod.device.cuda.foreign import foreign_memory

        return foreign_memory(self, value)

    def download(self, buffer: Buffer, array: Array | ForeignArray) -> None:
        """Copy a buffer into a host array of the same number of bytes, contiguous in C order."""
        target = Buffer.to_write(array)
        check_same_size(buffer, target)
        self._copy("cuMemcpyDtoHAsync", target, buffer, local=buffer)

    def _copy(self, function: str, target: Buffer, source: Buffer, *, local: Buffer) -> None:
        """Copy with a driver function; `local` is the buffer that must be memory of this GPU."""
        if local.space is not self.space:
            raise DeviceError(f"the buffer is memory of {local.space.name}, not of {self.name}")
        copy = getattr(self.driver, function)
        with (
            self.using(lambda: "copying memory"),
            self._working((target, source), lambda: "copying memory") as stream,
        ):
            for start in range(0, target.nbytes, _COPY_BYTES):
                size = min(_COPY_BYTES, target.nbytes - start)
                copy(target.address + start, source.address + start, size, stream)

    def check_budget(
        self, what: str, needed: int, *, fixed: int = 0, items: int = 0, unit: str = "items"
    ) -> None:
        """Raise DeviceError if a plan needs more bytes than the memory budget.

        See `quod.device.memory.budget.check_budget`.
        """
        check_budget(what, needed, self.memory_budget, fixed=fixed, items=items, unit=unit)

    def memory_statistics(self) -> PoolStatistics:
        """Return statistics of the GPU memory that this device reserves and uses."""
        with self.using():
            self._release_finished()
            return self.pool.statistics()

    # --- execution

    def launch(self, kernel: CudaKernel, groups: Groups, *arguments: LaunchArgument) -> None:
        """Run `groups` workgroups and wait for them.

        Arrays are copied to the GPU and, where the kernel stores through them, back. Ctrl-C ends
        the wait; the GPU still finishes work that has started, and the contents of memory that this
        work stores to are undefined.
        """
        count, staged, packed = begin_launch(self, kernel, groups, arguments)
        if count == 0:
            return

        def doing() -> str:
            return f"kernel {kernel}"

        with self.using(doing), self._working((staged, packed), doing) as stream:
            issue_launch(self.driver, kernel, count, packed.address, stream)
        staged.bring_back(self)

    @contextmanager
    def _working(self, keep: object, doing: Callable[[], str]) -> Iterator[Any]:
        """Yield a stream for work that the body issues, and wait for the work at the end.

        `keep` stays alive until the work is done, even if the wait is interrupted.
        """
        work = self.begin(keep)
        with self.using(doing):
            try:
                yield work.stream
            finally:
                work.mark_enqueued()
            try:
                wait_until(work.is_ready)
            except CudaError:
                raise
            except BaseException:
                wait_until(work.is_ready, GRACE_SECONDS)
                raise

    def begin(self, keep: object, *, urgent: bool = False) -> Work:
        """Take a stream for work that uses `keep`, which stays alive until the work is done."""
        streams = self._urgent_streams if urgent else self._streams
        work = Work(self.driver, streams, keep, self._work_ended)
        self._running.add(work)
        return work

    def _work_ended(self, work: Work) -> None:
        self._running.discard(work)
        if not self._failed:
            work.release_stream()

    def _release_finished(self) -> None:
        """Release the memory of finished work for which no thread waited."""
        for work in tuple(self._running):
            work.is_ready()

    def program(self, recording: Recording, doing: Callable[[], str]) -> Program:
        """Return the graphs of a recording, built at its first submission.

        doing: names the operation in error messages.
        """
        program = self._programs.get(recording)
        if program is not None:
            return program
        load_kernels(recording)
        with self._lock:
            program = self._programs.get(recording)
            if program is None:
                program = build_program(self.driver, self._context, recording)
                self._programs[recording] = program
                finalizer = weakref.finalize(recording, self._discard_graphs, program.handles)
                finalizer.atexit = False
                # Otherwise the first launch of each kernel would load it.
                with self._working(program, doing) as stream:
                    for handle in program.handles:
                        self.driver.cuGraphUpload(handle, stream)
            return program

    def stream(self, name: str = "stream") -> IdleStream:
        """Return a new stream, whose work runs concurrently with the caller.

        name: track of the stream in a timeline.
        """
        from quod.device.runtime.stream import IdleStream

        return IdleStream(self, name)

    def submit(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> CudaSubmission:
        """Start recorded work; streams call it."""
        return CudaSubmission(self, recording, name, timeline, parent)

    def close(self) -> None:
        """Free all memory. Buffers and kernels of the device cannot be used any more.

        After a failure the process's context is created anew, unless a page-locked array is still
        in use, so that the device can be opened again.
        """
        with self._lock:
            if self._context is None:
                return
            context, self._context = self._context, None
        self._tensor_maps.clear()
        self.space.lose("the device was closed; open it again")
        if os.getpid() != self._process:
            return
        self._assemblers.close()
        try:
            self.driver.cuCtxSetCurrent(context)
            self._pinned.close(lost=self._failed)
            keeps_context = self._pinned.is_in_use
            if self._failed:
                self._running.clear()
                if not keeps_context:
                    self.driver.cuDevicePrimaryCtxReset(self._handle)
                return
            for work in tuple(self._running):
                wait_until(work.is_ready)
            self._destroy_discarded()
            for program in list(self._programs.values()):
                for handle in program.handles:
                    self.driver.cuGraphExecDestroy(handle)
            self._programs.clear()
            for module in self._modules:
                self.driver.cuModuleUnload(module)
            self._streams.close()
            self._urgent_streams.close()
            self.pool.close()
            if not keeps_context:
                self.driver.cuDevicePrimaryCtxRelease(self._handle)
        except CudaError as error:
            raise DeviceError(f"{self.name} was closed: {error}") from error


if TYPE_CHECKING:
    _: Device[CudaKernel] = CudaDevice()
