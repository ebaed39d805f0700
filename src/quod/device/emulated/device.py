"""A GPU without a GPU: kernels as NVIDIA's compiler would get them, run by an interpreter.

Memory is the device's own, so that the host code of a GPU is tested where there is none: an array
given in place of a buffer, a missing upload, a step that was recorded without its dependency show
as they would there, or as errors. It is slow, and meant for small sizes.
"""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from quod.codegen.ptx import machine as ptx_machine
from quod.codegen.wgsl import machine as wgsl_machine
from quod.device.emulated.interpreted import InterpretedKernel
from quod.device.emulated.memory import POISON, EmulatedMemory
from quod.device.memory.budget import UNLIMITED, budget, byte_count, check_budget, check_reach
from quod.device.memory.buffer import Array, Buffer, Space, check_same_size, host_bytes
from quod.device.memory.tensor_map import MAP_BYTES, TiledMemory
from quod.device.protocol import Device, OpenedDevice
from quod.device.runtime.arguments import Argument, LaunchArgument
from quod.device.runtime.kernel_table import KernelTable, lanes_of
from quod.device.runtime.launch_checks import check_launch
from quod.device.runtime.recording import Copy, Fill, Launch, Memory, Recording, Step
from quod.device.runtime.staging import begin_launch
from quod.device.runtime.thread_stream import ThreadSubmission
from quod.device.runtime.timeline import NullTimeline, Stage, Timeline
from quod.errors import DeviceError
from quod.frozen import replace
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Capability, Machine

if TYPE_CHECKING:
    from quod.codegen.ptx.module import PtxModule
    from quod.device.memory.array_protocols import ForeignArray
    from quod.device.runtime.stream import IdleStream
    from quod.kernel.launcher import Groups

# Without loops over limbs, which an interpreter is slow at.
_WGSL = wgsl_machine.WgslTarget(limbs="13")

Executor = Literal["ir", "ptx", "wgsl"]
EXECUTORS: tuple[str, ...] = get_args(Executor)
"""The executed form of a kernel: its IR, the PTX emitted for the assembler, or its IR as traced for
portable WGSL."""

_ADDRESS_ALIGNMENT = 16
_MOST_EARLY = 6
"""Launches that begin within each other, of a chain of those that wait by themselves."""
_TILES = {Capability.TILE_COPIES, Capability.WARPGROUPS}


class EmulatedKernel(InterpretedKernel):
    """A kernel as the emulated device runs it."""

    @functools.cached_property
    def module(self) -> PtxModule:
        """The text that the assembler would get."""
        from quod.codegen.ptx import emitter as ptx

        return ptx.translate(self.traced, self.machine)


class EmulatedDevice(OpenedDevice):
    """Runs kernels traced for NVIDIA's GPUs in an interpreter.

    `executor` says what is run: ``ir`` what was traced, ``ptx`` the text that is emitted of it,
    ``wgsl`` what is traced for portable WGSL, within the limits of that.
    `workgroup` is how many instances a workgroup has by default, `arch` the architecture that
    kernels are traced for, `shared_bytes_limit` less shared memory than it has,
    where it is ``ptx`` kernels may have `tiles`, without clusters,
    `memory_budget` both what plans may count on and all the memory there is, `largest_buffer` a
    smaller one than the executor's, and `target` what WGSL is traced for.

    The steps of a recording are run in an order drawn from `seed` among those that the recorded
    dependencies allow, so that one that is missing shows. A launch that waits for those before it
    may be drawn before they have run; they then run where it waits.
    """

    kind = "emulated"
    address_alignment = _ADDRESS_ALIGNMENT
    host_memory = False
    kernel_type: type = EmulatedKernel
    single_queue = False

    def __init__(
        self,
        *,
        executor: Executor = "ir",
        workgroup: int = 64,
        arch: str = ptx_machine.DEFAULT_ARCH,
        shared_bytes_limit: int | None = None,
        memory_budget: int | None = None,
        resident_lanes: int = 256,
        multiprocessors: int = 2,
        largest_buffer: int | None = None,
        target: wgsl_machine.WgslTarget = _WGSL,
        seed: int = 1,
        tiles: bool = False,
    ) -> None:
        if executor not in EXECUTORS:
            raise DeviceError(f"executor {executor!r} is none of {', '.join(EXECUTORS)}")
        self.name = "emulated" if executor == "ir" else f"emulated:{executor}"
        self.executor = executor
        self.strategy = "portable" if executor == "wgsl" else "carry32"
        self.lanes, self.resident_lanes = workgroup, resident_lanes
        self.multiprocessors = multiprocessors
        self.arch = arch
        self.memory_budget = budget(memory_budget) or 1 << 30
        self.space = Space(f"the device {self.name}")
        self.memory = EmulatedMemory(self.space, self.memory_budget)
        self._shared_bytes_limit = shared_bytes_limit
        self._wgsl = target
        self._tiles = tiles
        reach = self._wgsl.limits.binding_bytes if executor == "wgsl" else UNLIMITED
        self.largest_buffer = largest_buffer or reach
        self._kernels: KernelTable[EmulatedKernel] = KernelTable()
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.machine(self.lanes)

    def machine(self, lanes: int) -> Machine:
        """Return the machine that kernels of `lanes` lanes are traced for."""
        if self.executor == "wgsl":
            return self._wgsl.machine(lanes)
        machine = ptx_machine.ptx_machine(
            lanes, self.arch, shared_bytes_limit=self._shared_bytes_limit
        )
        if self.executor == "ptx" and not self._tiles:
            return replace(machine, features=machine.features - _TILES)
        return machine

    def tensor_maps(self, arrays: tuple[TiledMemory, ...]) -> Buffer:
        """Memory for the maps of some arrays: what the interpreter compares copies with, or reads
        instead where it runs PTX."""
        words = np.zeros((len(arrays), MAP_BYTES // 8), np.uint64)
        for row, array in zip(words, arrays, strict=True):
            row[:5] = array.length, array.height, array.planes, array.lines, array.address
        return self.upload(words)

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> EmulatedKernel:
        """The kernel, traced now or before; KernelError if it is wrong."""
        width = lanes_of(definition, lanes, self.lanes)

        def build() -> EmulatedKernel:
            machine = self.machine(width)
            traced = definition.trace(machine, **static)
            return EmulatedKernel(
                definition, traced, machine, static, space=self.space, alignment=_ADDRESS_ALIGNMENT
            )

        return self._kernels.get(definition, width, static, build)

    # --- memory

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Memory of the device; what is not zeroed holds a pattern (`emulated_memory.POISON`)."""
        check_reach("a buffer", byte_count(nbytes), 2 * self.largest_buffer)
        return self.memory.allocate(nbytes, zero=zero)

    def pinned(self, nbytes: int) -> Array:
        """Host memory as bytes; its content is a pattern."""
        array = Buffer.empty(nbytes).view(np.uint8)
        array.fill(POISON)
        return array

    def upload(self, array: Array | ForeignArray, *, into: Buffer | None = None) -> Buffer:
        """A copy of host data in memory of the device."""
        source = Buffer.to_read(array)
        target = self.allocate(source.nbytes, zero=False).like(source) if into is None else into
        check_same_size(source, target)
        self.bytes_of(target)[:] = source.view(np.uint8)
        return target

    def download(self, buffer: Buffer, array: Array | ForeignArray) -> None:
        """Copy a buffer into a host array of as many bytes, contiguous in C order."""
        target = Buffer.to_write(array)
        check_same_size(buffer, target)
        target.view(np.uint8)[:] = self.bytes_of(buffer)

    def bytes_of(self, memory: Memory) -> Array:
        """Return the bytes of a buffer or an array, for copies."""
        if isinstance(memory, Buffer) and memory.space is self.space:
            return self.memory.bytes_of(memory)
        return host_bytes(memory)

    def check_budget(
        self, what: str, needed: int, *, fixed: int = 0, items: int = 0, unit: str = "items"
    ) -> None:
        """DeviceError if a plan needs more than the memory budget; see `memory.check_budget`."""
        check_budget(what, needed, self.memory_budget, fixed=fixed, items=items, unit=unit)

    # --- execution

    def launch(self, kernel: EmulatedKernel, groups: Groups, *arguments: LaunchArgument) -> None:
        """Run `groups` workgroups and wait for them; arrays are copied to the device and back."""
        count, staged, _ = begin_launch(self, kernel, groups, arguments)
        self.execute(kernel, count, staged.arguments)
        staged.bring_back(self)

    def execute(
        self, kernel: EmulatedKernel, groups: int, arguments: Iterable[Argument],
        waiting: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """A launch with its arguments checked and in memory of the device.

        `waiting` is called where instances wait for the launches before this one.
        """
        check_launch(kernel, groups)
        values = list(arguments)
        arrays = kernel.arrays(values, functools.partial(self._reached_bytes, kernel))
        if self.executor != "ptx":
            kernel.run(groups, arrays, waiting)
            return
        addresses = {
            number: argument.address
            for number, argument in enumerate(values)
            if isinstance(argument, Buffer)
        }
        self._run_text(kernel, groups, arrays, waiting, addresses)

    def _reached_bytes(self, kernel: EmulatedKernel, memory: Memory) -> Array:
        check_reach(f"an argument of {kernel.name}", memory.nbytes, self.largest_buffer)
        return self.bytes_of(memory)

    def _run_text(
        self, kernel: EmulatedKernel, groups: int, values: list[Any],
        waiting: Callable[[], None] | None, addresses: Mapping[int, int],
    ) -> None:  # fmt: skip
        from quod.codegen.ptx.interpreter import interpret_ptx

        module = kernel.module
        interpret_ptx(
            module.text, groups, values, dynamic_shared=module.dynamic_shared_bytes,
            waiting=waiting, addresses=addresses,
        )  # fmt: skip

    def stream(self, name: str = "stream") -> IdleStream:
        """A stream of its own, on which work goes on beside the caller's."""
        from quod.device.runtime.stream import IdleStream

        return IdleStream(self, name)

    def submit(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> EmulatedSubmission:
        """Start recorded work on a new thread; streams call it."""
        with self._lock:
            seed = self._random.random()
        return EmulatedSubmission(self, recording, name, timeline, parent, seed)

    def wrote(self, target: Memory) -> None:
        """A step of a recording has written to memory; for devices that follow that."""

    def close(self) -> None:
        """Gives back the memory: buffers of the device cannot be used any more."""
        self.space.lose("the device was closed")


class EmulatedSubmission(ThreadSubmission):
    """One run of a recording, in a random order that the dependencies allow."""

    def __init__(
        self, device: EmulatedDevice, recording: Recording, name: str,
        timeline: Timeline | None, parent: Stage | None, seed: float,
    ) -> None:  # fmt: skip
        self._device = device
        self._random = random.Random(seed)
        self._begun: set[int] = set()
        super().__init__(recording, name, timeline, parent)

    def _order(self) -> Iterator[Step]:
        """Steps that have not been run where another one waited.

        With a timeline each has a stage of its own, and none begins before another one has ended.
        """
        steps = self._recording.steps
        overlap = isinstance(self._timeline, NullTimeline)
        waiting = [set(step.after) for step in steps]
        followers: list[list[int]] = [[] for _ in steps]
        overlapping: list[list[int]] = [[] for _ in steps]
        for number, step in enumerate(steps):
            overlapped = step.overlapped if overlap and isinstance(step, Launch) else ()
            for before in step.after:
                (overlapping if before in overlapped else followers)[before].append(number)
        ready: list[int] = []
        early = [0] * len(steps)

        def goes_on(freed: Iterable[int], before: int) -> None:
            for number in freed:
                if before in waiting[number]:
                    waiting[number].remove(before)
                    if not waiting[number]:
                        begins(number)

        def begins(number: int) -> None:
            ready.append(number)
            if early[number] < _MOST_EARLY:
                for later in overlapping[number]:
                    early[later] = max(early[later], early[number] + 1)
                goes_on(overlapping[number], number)

        for number, step in enumerate(steps):
            if not step.after:
                begins(number)
        while ready:
            at = self._random.randrange(len(ready))
            ready[at], ready[-1] = ready[-1], ready[at]
            number = ready.pop()
            if number not in self._begun:
                self._begun.add(number)
                yield steps[number]
            goes_on((*followers[number], *overlapping[number]), number)

    def _launch(self, step: Launch) -> None:
        assert isinstance(step.kernel, EmulatedKernel)

        def run_overlapped() -> None:
            for number in step.overlapped:
                if number not in self._begun:
                    self._begun.add(number)
                    self._run_step(self._recording.steps[number])

        self._device.execute(step.kernel, step.groups, step.arguments, run_overlapped)

    def _copy(self, step: Copy) -> None:
        self._device.bytes_of(step.target)[:] = self._device.bytes_of(step.source)
        self._device.wrote(step.target)

    def _fill(self, step: Fill) -> None:
        self._device.bytes_of(step.target).view(np.uint32)[:] = step.word
        self._device.wrote(step.target)


if TYPE_CHECKING:
    _: Device[EmulatedKernel] = EmulatedDevice()
