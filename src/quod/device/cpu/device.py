"""The CPU as a device: a workgroup is a vector; threads share the workgroups of a launch."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from quod.device import host
from quod.device.cache.cache import CompileCache
from quod.device.cpu import compiler as cpu_compiler
from quod.device.cpu.compiler import CpuKernel, SizeClass
from quod.device.cpu.machine import LANES, machine_of
from quod.device.cpu.processor import host_processor
from quod.device.cpu.workers import Job, WorkerPool, run_inline
from quod.device.memory.budget import UNLIMITED, budget, check_budget
from quod.device.memory.buffer import HOST, Array, Buffer, check_same_size
from quod.device.protocol import Device, OpenedDevice
from quod.device.runtime.arguments import Argument, LaunchArgument, Slots, adopt
from quod.device.runtime.kernel_table import KernelTable, lanes_of
from quod.device.runtime.large_stack_thread import LargeStackThread, room_on_stack
from quod.device.runtime.launch_checks import LOG2_GROUPS_OF_PROCESSOR, check_launch
from quod.device.runtime.launch_trace import report_launch
from quod.errors import DeviceError
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Machine
from quod.validation import choice, whole_number_or_none

if TYPE_CHECKING:
    from quod.device.cpu.program import Programs
    from quod.device.memory.array_protocols import ForeignArray
    from quod.device.runtime.cancellation import Cancellation
    from quod.device.runtime.kernel_table import CompiledKernel
    from quod.device.runtime.recording import Recording, Submission
    from quod.device.runtime.stream import IdleStream
    from quod.device.runtime.timeline import Stage, Timeline
    from quod.kernel.launcher import Groups

__all__ = ["STRATEGIES", "Argument", "CpuDevice", "CpuKernel"]

STRATEGIES = tuple(LANES)
"""Strategies, which are representations of field elements."""

_MISSING = {"ifma": "no AVX-512 IFMA", "avx2": "no AVX2", "neon": "no NEON"}

# Bytes of shared memory for which any thread's stack has room.
_INLINE_SHARED_BYTES = 32 << 10
# Handing work to workers takes 10 to 40 us, so a launch that is known to be shorter than this runs
# on the caller's thread.
_INLINE_SECONDS = 50e-6
# A launch for a single worker also runs on the caller's thread if that is the main thread, whose
# stack is always large, and the launch ends before a user would notice that Ctrl-C has to wait.
_INLINE_SECONDS_ALONE = 5e-3
# In a launch that is shorter than this, or has a single worker, the calling thread works too if its
# stack is large enough: a woken worker may wait longer than this for the interpreter's lock (GIL).
_HELPED_SECONDS = 5e-3


class CpuDevice(OpenedDevice):
    """Runs kernels on this machine's CPU.

    strategy: representation of field elements: ``ifma`` (eight lanes of 52-bit limbs, AVX-512
    IFMA), ``avx2`` or ``neon`` (four lanes of 29-bit limbs, on x86-64 or Arm) or ``scalar`` (one
    lane of 64-bit limbs); default: the fastest that the CPU has.
    threads: number of threads that compute; default: all that the process may use.
    memory_budget: bytes that plans may use; default: the memory that is free at opening.

    Several threads may launch, compile and allocate concurrently.
    """

    kind = "cpu"
    name = "cpu"
    host_memory = True
    kernel_type: type = CpuKernel
    single_queue = False
    space = HOST

    def __init__(
        self,
        *,
        strategy: str | None = None,
        threads: int | None = None,
        cache: CompileCache | None = None,
        memory_budget: int | None = None,
    ) -> None:
        processor = host_processor()
        if strategy is None:
            strategy = processor.strategies[0]
        choice("strategy", strategy, STRATEGIES, error=DeviceError)
        if strategy not in processor.strategies:
            fastest = processor.strategies[0]
            raise DeviceError(f"this CPU has {_MISSING[strategy]}; use the strategy {fastest!r}")
        threads = whole_number_or_none("threads", threads, 1, error=DeviceError)
        self.strategy = strategy
        self.threads = threads or host.usable_threads()
        self.memory_budget = budget(memory_budget) or host.available_memory_bytes()
        self._cache = cache or CompileCache()
        self._kernels: KernelTable[CpuKernel] = KernelTable()
        self._pool = WorkerPool(self.threads)
        self._programs: Programs | None = None
        self._machines: dict[int, Machine] = {}

    @property
    def lanes(self) -> int:
        """Instances (vector lanes) per workgroup of kernels on field elements."""
        return LANES[self.strategy]

    @property
    def largest_buffer(self) -> int:
        """Maximum bytes that a kernel accesses through one argument."""
        return UNLIMITED

    @property
    def resident_lanes(self) -> int:
        """Number of instances that keep all threads busy."""
        return self.lanes * self.threads

    @property
    def multiprocessors(self) -> int:
        """Number of threads that run workgroups."""
        return self.threads

    def machine(self, lanes: int) -> Machine:
        """Return the machine that kernels of `lanes` lanes are traced for."""
        machine = self._machines.get(lanes)
        if machine is None:
            machine = self._machines[lanes] = self._machine(lanes)
        return machine

    def _machine(self, lanes: int) -> Machine:
        processor = host_processor()
        return machine_of(
            self.strategy, lanes, has_f16=processor.has_f16,
            pair_product_lanes=processor.pair_product_lanes,
        )  # fmt: skip

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> CpuKernel:
        """Return the kernel for this CPU, from memory, from disk or compiled now.

        static: keyword arguments of the kernel: hashable, with a `repr` that shows everything that
        distinguishes them.
        Raises KernelError if the kernel is invalid.
        """
        lanes = lanes_of(definition, lanes, self.lanes)
        machine = self.machine(lanes)
        return self._kernels.get(
            definition, lanes, static,
            lambda: cpu_compiler.build(definition, machine, static, self._cache, self.threads),
        )  # fmt: skip

    def has(self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any) -> bool:
        """Return whether the kernel is loaded, or the cache appears to hold its code."""
        lanes = lanes_of(definition, lanes, self.lanes)
        return self._kernels.holds(definition, lanes, static) or cpu_compiler.is_known(
            definition, self.machine(lanes), static, self._cache
        )

    def emit(self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any) -> str:
        """Return the LLVM IR that `compile` compiles."""
        machine = self.machine(lanes_of(definition, lanes, self.lanes))
        return cpu_compiler.emit(definition, machine, static)[1]

    # --- memory

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Allocate memory, zeroed by default; raises DeviceError if there is too little."""
        return Buffer.zeros(nbytes) if zero else Buffer.empty(nbytes)

    def pinned(self, nbytes: int) -> Array:
        """Return host memory as `nbytes` u8; the CPU needs no page-locked memory."""
        return Buffer.empty(nbytes).view(np.uint8)

    def upload(self, array: Array | ForeignArray, *, into: Buffer | None = None) -> Buffer:
        """Wrap host data as a buffer of the same memory, which must not change while it is used.

        An array that is not contiguous is copied. With `into`, the data is copied to that buffer.
        """
        source = Buffer.to_read(array)
        if into is None:
            return source
        check_same_size(source, into)
        into.view(np.uint8)[:] = source.view(np.uint8)
        return into

    def download(self, buffer: Buffer, array: Array | ForeignArray) -> None:
        """Copy a buffer into a host array of the same number of bytes, contiguous in C order."""
        target = Buffer.to_write(array)
        check_same_size(buffer, target)
        target.view(np.uint8)[:] = buffer.view(np.uint8)

    def check_budget(
        self, what: str, needed: int, *, fixed: int = 0, items: int = 0, unit: str = "items"
    ) -> None:
        """Raise DeviceError if a plan needs more bytes than the memory budget.

        See `quod.device.memory.budget.check_budget`.
        """
        check_budget(what, needed, self.memory_budget, fixed=fixed, items=items, unit=unit)

    # --- execution

    def launch(self, kernel: CpuKernel, groups: Groups, *arguments: LaunchArgument) -> None:
        """Run `groups` workgroups and wait for them.

        Ctrl-C stops the launch, and so does another thread through a `Cancellation`: workgroups
        that have started still finish, and the contents of memory that the kernel stores to are
        undefined.
        """
        self.launch_adopted(kernel, *adopt(self, kernel, groups, arguments))

    def launch_adopted(
        self, kernel: CpuKernel, groups: int, arguments: tuple[Argument, ...]
    ) -> None:
        """Launch a kernel with the arguments that `adopt` returns: one for each slot."""
        slots = kernel.pack(arguments)
        report_launch(kernel)
        self.execute(kernel, groups, slots, arguments)

    def execute(
        self, kernel: CompiledKernel, groups: int, slots: Slots, arguments: tuple[Argument, ...],
        size: SizeClass | None = None,
    ) -> None:  # fmt: skip
        """Run a launch whose arguments are packed; `size` is its size class, if known."""
        cancellation = check_launch(kernel, groups, LOG2_GROUPS_OF_PROCESSOR)
        if groups:
            self._run(kernel, groups, slots, arguments, cancellation, size)

    def _run(
        self, kernel: CompiledKernel, groups: int, slots: Slots, arguments: tuple[Argument, ...],
        cancellation: Cancellation | None, size: SizeClass | None,
    ) -> None:  # fmt: skip
        assert isinstance(kernel, CpuKernel)
        workers = min(self.threads, groups)
        if size is None:
            size = kernel.size_class(groups, arguments)
        expected = kernel.expected_seconds(size)
        thread = threading.current_thread()
        alone = workers == 1 and thread is threading.main_thread()
        if (
            expected is not None
            and expected < (_INLINE_SECONDS_ALONE if alone else _INLINE_SECONDS)
            and (
                kernel.shared_bytes <= _INLINE_SHARED_BYTES
                or kernel.shared_bytes <= room_on_stack()
            )
        ):
            kernel.observe(size, run_inline(kernel.entry, slots, groups))
            return
        job = Job(kernel.entry, slots, arguments, groups, workers, expected)
        caller_helps = workers == 1 or (expected is not None and expected < _HELPED_SECONDS)
        if caller_helps and isinstance(thread, LargeStackThread):
            # This is not the main thread, which receives Ctrl-C and can cancel the job, so this
            # thread is free to compute.
            self._pool.help(job, workers - 1, cancellation)
        else:
            self._pool.run(job, workers, cancellation)
        if job.cancelled:
            raise DeviceError(f"the launch of {kernel.name} was stopped")
        kernel.observe(size, job.seconds)

    def stream(self, name: str = "stream") -> IdleStream:
        """Return a new stream, whose work runs concurrently with the caller.

        name: track of the stream in a timeline.
        """
        return _idle_stream_class()(self, name)

    def submit(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> Submission:
        """Start recorded work on a new thread; streams call it."""
        from quod.device.cpu.stream import CpuSubmission

        return CpuSubmission(self.execute, recording, name, timeline, parent)

    def run(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> None:
        """Run recorded work and wait for it; streams call it.

        The work runs in the caller's thread if its stack is large enough for kernels. This saves
        waking another thread and being woken by it, which takes as long as several small kernels.
        With a timeline it runs in another thread, which has the stream's name as its track.
        """
        in_this_thread = timeline is None and room_on_stack() > 0
        if in_this_thread:
            from quod.device.cpu import program

            self._programs = self._programs or program.Programs()
            calls = self._programs.of(recording)
            if calls is not None:
                program.run_calls(self.execute, calls)
                return
        from quod.device.cpu.stream import CpuSubmission

        CpuSubmission(self.execute, recording, name, timeline, parent, here=in_this_thread).wait()

    def close(self) -> None:
        """End the worker threads. The device may be used again; it then starts new threads."""
        self._pool.close()


@functools.cache
def _idle_stream_class() -> type[IdleStream]:
    """Return the class `IdleStream`, imported once: imports take a tenth of a short run."""
    from quod.device.runtime.stream import IdleStream

    return IdleStream


if TYPE_CHECKING:
    _: Device[CpuKernel] = CpuDevice()
