"""An emulated GPU: an interpreter runs kernels that were traced for NVIDIA's GPUs or for WGSL.

Device memory is separate from host memory. So tests without a GPU find arrays passed in place of
buffers, missing uploads and missing dependencies. The device is slow and meant for small sizes.
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

# Limbs of 13 bits: the code over limbs is unrolled, which an interpreter runs faster than loops.
_WGSL = wgsl_machine.WgslTarget(limbs="13")

KernelForm = Literal["ir", "ptx", "wgsl"]
EXECUTORS: tuple[str, ...] = get_args(KernelForm)
"""Forms of a kernel that the device can execute: its IR, the PTX emitted from it, or the IR that
is traced for portable WGSL."""

_ADDRESS_ALIGNMENT = 16
_MAX_OVERLAP_DEPTH = 6
"""Maximum number of launches of a chain that may start before their predecessors have finished, if
the kernels wait for them (programmatic dependent launch)."""
_TILE_CAPABILITIES = {Capability.TILE_COPIES, Capability.WARPGROUPS}


class EmulatedKernel(InterpretedKernel):
    """A traced kernel and, on demand, the PTX emitted from it."""

    @functools.cached_property
    def module(self) -> PtxModule:
        """The PTX module of the kernel."""
        from quod.codegen.ptx import emitter as ptx

        return ptx.translate(self.traced, self.machine)


class EmulatedDevice(OpenedDevice):
    """Runs kernels traced for NVIDIA's GPUs or for WGSL in an interpreter.

    executor: ``ir`` runs the IR, ``ptx`` the emitted PTX, ``wgsl`` the IR traced for portable WGSL
    within the limits of `target`.
    workgroup: default number of instances of a workgroup.
    arch: GPU architecture that kernels are traced for, unless `executor` is ``wgsl``.
    shared_bytes_limit: limit of shared memory in bytes, if less than the architecture's.
    memory_budget: size of the device's memory in bytes, which is also the budget of plans.
    resident_lanes, multiprocessors: numbers that the device reports; it does not simulate them.
    largest_buffer: limit of an argument in bytes, if less than the executor's.
    tiles: with ``ptx``, let kernels use tile copies and warpgroups (without clusters).

    The steps of a recording run in a random order that its dependencies allow, drawn from `seed`,
    so that tests find a missing dependency. A launch that waits in the kernel for its predecessors
    may start before them; they are run when it reaches the wait.
    """

    kind = "emulated"
    address_alignment = _ADDRESS_ALIGNMENT
    host_memory = False
    kernel_type: type = EmulatedKernel
    single_queue = False

    def __init__(
        self,
        *,
        executor: KernelForm = "ir",
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
            raise DeviceError(f"executor {executor!r} is not one of {', '.join(EXECUTORS)}")
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
        max_buffer_bytes = self._wgsl.limits.binding_bytes if executor == "wgsl" else UNLIMITED
        self.largest_buffer = largest_buffer or max_buffer_bytes
        self._kernels: KernelTable[EmulatedKernel] = KernelTable()
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.machine(self.lanes)  # raises for an unknown architecture or workgroup size

    def machine(self, lanes: int) -> Machine:
        """Return the machine that kernels with `lanes` instances per workgroup are traced for."""
        if self.executor == "wgsl":
            return self._wgsl.machine(lanes)
        machine = ptx_machine.ptx_machine(
            lanes, self.arch, shared_bytes_limit=self._shared_bytes_limit
        )
        if self.executor == "ptx" and not self._tiles:
            return replace(machine, features=machine.features - _TILE_CAPABILITIES)
        return machine

    def tensor_maps(self, arrays: tuple[TiledMemory, ...]) -> Buffer:
        """Upload tensor maps of `arrays`, one row of MAP_BYTES bytes for each.

        The interpreter checks tile copies against the maps or, with PTX, reads them.
        """
        words = np.zeros((len(arrays), MAP_BYTES // 8), np.uint64)
        for row, array in zip(words, arrays, strict=True):
            row[:5] = array.length, array.height, array.planes, array.lines, array.address
        return self.upload(words)

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> EmulatedKernel:
        """Return the kernel, traced on the first call with these parameters.

        Raises KernelError if the definition is invalid.
        """
        workgroup_size = lanes_of(definition, lanes, self.lanes)

        def build() -> EmulatedKernel:
            machine = self.machine(workgroup_size)
            traced = definition.trace(machine, **static)
            return EmulatedKernel(
                definition, traced, machine, static, space=self.space, alignment=_ADDRESS_ALIGNMENT
            )

        return self._kernels.get(definition, workgroup_size, static, build)

    # --- memory

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Allocate device memory; unless zeroed it is filled with `POISON`.

        Raises DeviceError if the buffer is too large or the memory is exhausted.
        """
        check_reach("a buffer", byte_count(nbytes), 2 * self.largest_buffer)
        return self.memory.allocate(nbytes, zero=zero)

    def pinned(self, nbytes: int) -> Array:
        """Return host memory as `nbytes` u8, filled with `POISON`."""
        array = Buffer.empty(nbytes).view(np.uint8)
        array.fill(POISON)
        return array

    def upload(self, array: Array | ForeignArray, *, into: Buffer | None = None) -> Buffer:
        """Copy host data to device memory: to `into`, else to a new buffer; return the buffer."""
        source = Buffer.to_read(array)
        target = self.allocate(source.nbytes, zero=False).like(source) if into is None else into
        check_same_size(source, target)
        self.bytes_of(target)[:] = source.view(np.uint8)
        return target

    def download(self, buffer: Buffer, array: Array | ForeignArray) -> None:
        """Copy a buffer into a C-contiguous host array of the same number of bytes."""
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
        """Raise DeviceError if a plan needs more bytes than the memory budget.

        See `quod.device.memory.budget.check_budget`.
        """
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
        """Run a launch whose arguments are checked and in device memory.

        waiting: called when instances wait for earlier launches.
        """
        check_launch(kernel, groups)
        argument_list = list(arguments)
        arrays = kernel.arrays(argument_list, functools.partial(self._reached_bytes, kernel))
        if self.executor != "ptx":
            kernel.run(groups, arrays, waiting)
            return
        addresses = {
            index: argument.address
            for index, argument in enumerate(argument_list)
            if isinstance(argument, Buffer)
        }
        self._run_ptx(kernel, groups, arrays, waiting, addresses)

    def _reached_bytes(self, kernel: EmulatedKernel, memory: Memory) -> Array:
        check_reach(f"an argument of {kernel.name}", memory.nbytes, self.largest_buffer)
        return self.bytes_of(memory)

    def _run_ptx(
        self, kernel: EmulatedKernel, groups: int, arrays: list[Any],
        waiting: Callable[[], None] | None, addresses: Mapping[int, int],
    ) -> None:  # fmt: skip
        from quod.codegen.ptx.interpreter import interpret_ptx

        module = kernel.module
        interpret_ptx(
            module.text, groups, arrays, dynamic_shared=module.dynamic_shared_bytes,
            waiting=waiting, addresses=addresses,
        )  # fmt: skip

    def stream(self, name: str = "stream") -> IdleStream:
        """Return a new stream, whose work runs concurrently with the caller."""
        from quod.device.runtime.stream import IdleStream

        return IdleStream(self, name)

    def submit(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> EmulatedSubmission:
        """Start recorded work on a new thread. Streams call this method."""
        with self._lock:
            seed = self._random.random()
        return EmulatedSubmission(self, recording, name, timeline, parent, seed)

    def wrote(self, target: Memory) -> None:
        """Do nothing. Called after a step has written `target`; subclasses track writes with it."""

    def close(self) -> None:
        """Invalidate all buffers of the device."""
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
        """Yield the steps in random order, except those already run while a launch waited.

        With a timeline each step has its own stage, and steps do not overlap.
        """
        steps = self._recording.steps
        may_overlap = isinstance(self._timeline, NullTimeline)
        dependencies = [set(step.after) for step in steps]
        successors: list[list[int]] = [[] for _ in steps]
        early_successors: list[list[int]] = [[] for _ in steps]
        for index, step in enumerate(steps):
            overlapped_steps = step.overlapped if may_overlap and isinstance(step, Launch) else ()
            for dependency in step.after:
                (early_successors if dependency in overlapped_steps else successors)[
                    dependency
                ].append(index)
        ready: list[int] = []
        # For each step, how many launches of a chain up to it start before their predecessors end.
        depths = [0] * len(steps)

        def release(candidates: Iterable[int], dependency: int) -> None:
            """Let the candidates no longer wait for `dependency`; start those that may start."""
            for index in candidates:
                if dependency in dependencies[index]:
                    dependencies[index].remove(dependency)
                    if not dependencies[index]:
                        start(index)

        def start(index: int) -> None:
            """Make a step ready, and release the steps that may start before it has ended."""
            ready.append(index)
            if depths[index] < _MAX_OVERLAP_DEPTH:
                for successor in early_successors[index]:
                    depths[successor] = max(depths[successor], depths[index] + 1)
                release(early_successors[index], index)

        for index, step in enumerate(steps):
            if not step.after:
                start(index)
        while ready:
            position = self._random.randrange(len(ready))
            ready[position], ready[-1] = ready[-1], ready[position]
            index = ready.pop()
            if index not in self._begun:
                self._begun.add(index)
                yield steps[index]
            release((*successors[index], *early_successors[index]), index)

    def _launch(self, step: Launch) -> None:
        assert isinstance(step.kernel, EmulatedKernel)

        def run_overlapped() -> None:
            for index in step.overlapped:
                if index not in self._begun:
                    self._begun.add(index)
                    self._run_step(self._recording.steps[index])

        self._device.execute(step.kernel, step.groups, step.arguments, run_overlapped)

    def _copy(self, step: Copy) -> None:
        self._device.bytes_of(step.target)[:] = self._device.bytes_of(step.source)
        self._device.wrote(step.target)

    def _fill(self, step: Fill) -> None:
        self._device.bytes_of(step.target).view(np.uint32)[:] = step.word
        self._device.wrote(step.target)


if TYPE_CHECKING:
    _: Device[EmulatedKernel] = EmulatedDevice()
