"""Devices that bind each launch as the real device does, and run nothing.

What a plan gives to kernels must be what the device takes: whole numbers of elements, addresses
that are aligned, pieces of memory within what a binding reaches, workgroups that a grid has. Here
the device's own kernel objects check that, of kernels that are neither traced nor compiled, in
memory that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from quod.codegen.pointers import PointerUses
from quod.codegen.wgsl.machine import WgslTarget
from quod.device.cuda.planning import GpuModel, PlanningDevice, refuse_to_load
from quod.device.memory.budget import bytes_text
from quod.device.memory.buffer import Buffer, Space
from quod.device.runtime.arguments import Argument
from quod.device.runtime.kernel_table import CompiledKernel
from quod.device.runtime.launch_checks import check_groups
from quod.device.runtime.staging import stage
from quod.device.runtime.stream import IdleStream, RecordingStream
from quod.device.webgpu import kernel as webgpu_kernel
from quod.device.webgpu.compiler import KernelSource, PipelineCompiler
from quod.device.webgpu.kernel import WebGpuKernel
from quod.device.webgpu.memory import Allocation
from quod.errors import DeviceError
from quod.kernel.builder.composites import split
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Machine

H200 = GpuModel("H200", "sm_90a", 129 << 30, 132 * 2048, 132)
RTX = GpuModel("RTX of 8 GB", "sm_89", 7 << 30, 24 * 1536, 24)
# Without an architecture: of WebGPU.
PORTABLE = GpuModel("portable WebGPU", "", 4 << 30, 1 << 17, 128)
SMALL_PORTABLE = GpuModel("small portable WebGPU", "", 1 << 30, 1 << 14, 16)
PROFILES = (H200, RTX, PORTABLE, SMALL_PORTABLE)

_LARGEST_WORKGROUP = 1024
_PORTABLE_WORKGROUP = 256


class LayoutDevice(PlanningDevice):
    """Takes recordings and runs none; `downloads` is the byte in all that comes back.

    But for a few words, which are ones: so a kernel says that it has run.
    """

    kind = "layout"

    def __init__(self, profile: GpuModel, *, downloads: int = 0) -> None:
        super().__init__(profile, answer=downloads)
        self.profile = profile
        self._target = None if profile.arch else WgslTarget()
        self.name = f"a layout for {profile.name}"
        if self._target:
            self.kernel_type = WebGpuKernel
            self.strategy = "portable"
            self.single_queue = True
            self.lanes = 64
            self.largest_buffer = self._target.limits.binding_bytes
        self.space = Space(self.name)
        self.launches = 0

    def machine(self, lanes: int) -> Machine:
        """Return the machine that kernels of so many lanes are traced for."""
        if not 1 <= lanes <= (_PORTABLE_WORKGROUP if self._target else _LARGEST_WORKGROUP):
            raise DeviceError(f"{self.name} has no workgroups of {lanes} instances")
        return self._target.machine(lanes) if self._target else super().machine(lanes)

    def untraced(
        self, definition: KernelDefinition, lanes: int, static: Mapping[str, Any],
        uses: PointerUses,
    ) -> CompiledKernel:  # fmt: skip
        """The device's kernel object, which may store through any pointer."""
        if self._target is None:
            return super().untraced(definition, lanes, static, uses)
        source = cast(KernelSource, _Source(definition, self.machine(lanes), static, uses))
        compiler = cast(PipelineCompiler, _Compiler())
        return WebGpuKernel(source, compiler, self._target.limits, self.space, refuse_to_load)

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Addresses and no memory; DeviceError beyond the budget, or what one buffer may have."""
        if self._target is not None and nbytes > self._target.limits.buffer_bytes:
            raise DeviceError(f"a buffer of {bytes_text(nbytes)} is too large for {self.name}")
        return super().allocate(nbytes, zero=zero)

    def allocation(self, address: int, nbytes: int, size: int) -> Any:
        """Memory as WebGPU's kernels take it."""
        return Allocation(address, nbytes, None, size)

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
        self, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any],
        uses: PointerUses,
    ) -> None:  # fmt: skip
        self.definition, self.machine, self.static = definition, machine, static
        self._text = _Text(uses, _Module())

    def text(self, bindings: Any = None) -> _Text:
        return self._text


class _Compiler:
    def begin(self, source: Any, module: Any) -> Any:
        return refuse_to_load
