"""Devices that bind each launch as the real device does, and run nothing.

What a plan gives to kernels must be what the device takes: whole numbers of elements, addresses
that are aligned, pieces of memory within what a binding reaches, workgroups that a grid has. Here
the device's own kernel objects check that, of kernels that are neither traced nor compiled, in
memory that is not there.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from quod.codegen.pointers import PointerUses
from quod.codegen.ptx.machine import ptx_machine
from quod.codegen.wgsl.machine import WgslTarget
from quod.device.cache.compiled_code import KernelFacts
from quod.device.cuda.kernel import CudaKernel
from quod.device.memory.budget import UNLIMITED, bytes_text, check_budget
from quod.device.memory.buffer import Array, Buffer, Space, check_same_size
from quod.device.runtime.arguments import Argument
from quod.device.runtime.kernel_table import CompiledKernel, KernelTable
from quod.device.runtime.launch_checks import check_groups
from quod.device.runtime.recording import Recording
from quod.device.runtime.staging import stage
from quod.device.runtime.stream import IdleStream, RecordingStream
from quod.device.runtime.timeline import Stage, Timeline
from quod.device.webgpu import kernel as webgpu_kernel
from quod.device.webgpu.compiler import KernelSource, PipelineCompiler
from quod.device.webgpu.kernel import WebGpuKernel
from quod.device.webgpu.memory import Allocation
from quod.errors import DeviceError
from quod.kernel.builder.composites import split
from quod.kernel.definition import KernelDefinition
from quod.kernel.ir.types import PointerType
from quod.kernel.machine import Machine

_ALIGNMENT = 256


@dataclass(frozen=True)
class Profile:
    """A GPU as plans see it; of WebGPU if it has no `arch`."""

    name: str
    memory_budget: int
    resident_lanes: int
    multiprocessors: int
    arch: str = ""
    lanes: int = 128
    largest_workgroup: int = 1024


H200 = Profile("H200", 129 << 30, 132 * 2048, 132, "sm_90a")
RTX = Profile("RTX of 8 GB", 7 << 30, 24 * 1536, 24, "sm_89")
PORTABLE = Profile("portable WebGPU", 4 << 30, 1 << 17, 128, lanes=64, largest_workgroup=256)
SMALL_PORTABLE = Profile(
    "small portable WebGPU", 1 << 30, 1 << 14, 16, lanes=64, largest_workgroup=256
)
PROFILES = (H200, RTX, PORTABLE, SMALL_PORTABLE)


_FEW_BYTES = 16


class LayoutDevice:
    """Takes recordings and runs none; `downloads` is the byte in all that comes back.

    But for a few words, which are ones: so a kernel says that it has run.
    """

    host_memory = False
    address_alignment = 16
    limbs_are_open = False

    def __init__(self, profile: Profile, *, downloads: int = 0) -> None:
        self.profile = profile
        self._target = None if profile.arch else WgslTarget()
        self.name = f"a layout for {profile.name}"
        self.kernel_type: type = CudaKernel if profile.arch else WebGpuKernel
        self.kind = "layout"
        self.strategy = "carry32" if profile.arch else "portable"
        self.single_queue = not profile.arch
        self.lanes = profile.lanes
        self.memory_budget = profile.memory_budget
        self.resident_lanes = profile.resident_lanes
        self.multiprocessors = profile.multiprocessors
        self.largest_buffer = self._target.limits.binding_bytes if self._target else UNLIMITED
        self.space = Space(self.name)
        self.downloads = downloads
        self.in_use = 0
        self.launches = 0
        self._next = 1 << 59
        self._kernels: KernelTable[Any] = KernelTable()

    def machine(self, lanes: int) -> Machine:
        """Return the machine that kernels of so many lanes are traced for."""
        if not 1 <= lanes <= self.profile.largest_workgroup:
            raise DeviceError(f"{self.name} has no workgroups of {lanes} instances")
        return (
            self._target.machine(lanes) if self._target else ptx_machine(lanes, self.profile.arch)
        )

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> Any:
        """The device's kernel object, which may store through any pointer."""
        width = self.lanes if lanes is None else lanes
        return self._kernels.get(
            definition, width, static, lambda: self._kernel(definition, width, static)
        )

    def _kernel(self, definition: KernelDefinition, lanes: int, static: dict[str, Any]) -> Any:
        machine = self.machine(lanes)
        types = definition.parameters.values()
        pointers = tuple(i for i, type_ in enumerate(types) if isinstance(type_, PointerType))
        uses = PointerUses(pointers, pointers)
        if self._target is None:
            facts = KernelFacts(uses, 0, definition.name)
            return CudaKernel(definition, machine, static, facts, self.space, _never)
        source = cast(KernelSource, _Source(definition, machine, static, uses))
        compiler = cast(PipelineCompiler, _Compiler())
        return WebGpuKernel(source, compiler, self._target.limits, self.space, _never)

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Addresses and no memory; DeviceError beyond the budget, or what one buffer may have."""
        if self._target is not None and nbytes > self._target.limits.buffer_bytes:
            raise DeviceError(f"a buffer of {bytes_text(nbytes)} is too large for {self.name}")
        size = -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        if nbytes < 0 or self.in_use + size > self.memory_budget:
            raise DeviceError(
                f"no memory for {bytes_text(nbytes)}: {bytes_text(self.in_use)} are in use"
            )
        allocation = Allocation(self._next, nbytes, None, size)
        self._next += size + _ALIGNMENT
        self.in_use += size
        weakref.finalize(allocation, self._release, size)
        return Buffer(allocation, allocation.address, nbytes, space=self.space)

    def _release(self, size: int) -> None:
        self.in_use -= size

    def pinned(self, nbytes: int) -> Array:
        """Host memory as bytes."""
        return np.zeros(nbytes, np.uint8)

    def upload(self, array: Array, *, into: Buffer | None = None) -> Buffer:
        """Memory for the data, which goes nowhere."""
        source = Buffer.wrap(np.ascontiguousarray(array))
        target = self.allocate(source.nbytes, zero=False) if into is None else into
        check_same_size(source, target)
        return target

    def download(self, buffer: Buffer, array: Array) -> None:
        """Fill with the same byte everywhere, and ones in a few words."""
        check_same_size(buffer, Buffer.wrap(array))
        if array.nbytes == _FEW_BYTES:
            array.view(np.uint32).fill(1)
        else:
            array.view(np.uint8).fill(self.downloads)

    def check_budget(
        self, what: str, needed: int, *, fixed: int = 0, items: int = 0, unit: str = "items"
    ) -> None:
        """DeviceError if a plan needs more than the budget."""
        check_budget(what, needed, self.memory_budget, fixed=fixed, items=items, unit=unit)

    def launch(self, kernel: Any, groups: int, *arguments: Argument) -> None:
        """Binds the arguments, with arrays staged."""
        groups, arguments = split(kernel, groups, arguments)
        staged = stage(cast(Any, self), kernel.signature, arguments)
        kernel.pack(staged.arguments)
        self.check_launch(kernel, groups)
        staged.bring_back(cast(Any, self))

    def check_launch(self, kernel: Any, groups: int) -> None:
        """DeviceError for more workgroups than a grid has."""
        self.launches += 1
        check_groups(kernel, groups)
        if self._target is not None:
            webgpu_kernel.grid(groups, self._target.limits.groups_per_dimension)

    def stream(self, name: str = "stream") -> IdleStream:
        """A stream whose recordings check grids and copies as well."""
        return _Idle(cast(Any, self), name)

    def submit(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> _Done:
        """Nothing is done, at once."""
        return _Done()

    def run(self, *_: Any, **__: Any) -> None:
        """Nothing is done."""

    def close(self) -> None:
        """There is nothing to give back."""


class _Idle(IdleStream):
    def record(self) -> RecordingStream:
        self._consume("record")
        return _Recording(self._device, self.name)


class _Recording(RecordingStream):
    def launch(
        self, kernel: CompiledKernel, groups: int, *arguments: Argument, **described: Any
    ) -> None:
        super().launch(kernel, groups, *arguments, **described)
        cast(LayoutDevice, self._device).check_launch(kernel, groups)

    def _copy(self, direction: Any, source: Any, target: Any, label: str) -> None:
        # WebGPU copies words.
        super()._copy(direction, source, target, label)
        places = (buffer for buffer in (source, target) if isinstance(buffer, Buffer))
        if target.nbytes % 4 or any(buffer.address % 4 for buffer in places):
            raise DeviceError(f"{label} copies {target.nbytes} bytes, which are no whole words")


class _Done:
    is_done = True

    def wait(self) -> None:
        pass

    def cancel(self) -> None:
        pass


@dataclass(frozen=True)
class _Text:
    """Stands for a text that nobody needs."""

    uses: PointerUses
    module: Any


class _Module:
    text = ""


class _Source:
    """A kernel's source as `WebGpuKernel` takes it, with no text."""

    def __init__(
        self, definition: KernelDefinition, machine: Machine, static: dict[str, Any],
        uses: PointerUses,
    ) -> None:  # fmt: skip
        self.definition, self.machine, self.static = definition, machine, static
        self._text = _Text(uses, _Module())

    def text(self, bindings: Any = None) -> _Text:
        return self._text


class _Compiler:
    def begin(self, source: Any, module: Any) -> Any:
        return _never


def _never(*arguments: Any) -> Any:
    raise AssertionError("a layout runs nothing")
