"""A device that records for an NVIDIA GPU without having one, to collect the kernels that it uses.

Plans and recordings of proofs depend on a GPU's limits and not on the contents of its memory. So a
device with these limits, and without memory, is asked for the same kernels as the GPU.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from quod.codegen.pointers import PointerUses
from quod.codegen.ptx.machine import DEFAULT_WORKGROUP_SIZE, ptx_machine
from quod.device.cache.compiled_code import KernelFacts
from quod.device.cuda.kernel import ADDRESS_ALIGNMENT, CudaKernel
from quod.device.memory.budget import UNLIMITED, bytes_text, check_budget
from quod.device.memory.buffer import Array, Buffer, Space, check_same_size
from quod.device.protocol import OpenedDevice
from quod.device.runtime.kernel_table import CompiledKernel, KernelTable, lanes_of
from quod.errors import DeviceError
from quod.frozen import frozen
from quod.kernel.definition import KernelDefinition
from quod.kernel.ir.types import PointerType
from quod.kernel.machine import Machine

if TYPE_CHECKING:
    from quod.device.protocol import Device
    from quod.device.runtime.arguments import LaunchArgument
    from quod.device.runtime.recording import Recording
    from quod.device.runtime.stream import IdleStream
    from quod.device.runtime.timeline import Stage, Timeline
    from quod.kernel.launcher import Groups

_ALIGNMENT = 256
_FIRST_ADDRESS = 1 << 59
FLAG_BYTES = 16
"""The size of downloads that are flags: their first word is 0 or what a kernel reports."""


@frozen
class GpuModel:
    """The limits of a model of GPU, as plans read them.

    memory_budget: bytes that plans may use.
    resident_lanes: number of instances that all multiprocessors hold at a time.
    """

    name: str
    arch: str
    memory_budget: int
    resident_lanes: int
    multiprocessors: int


def _model(name: str, arch: str, gib: int, multiprocessors: int, lanes_each: int) -> GpuModel:
    return GpuModel(name, arch, gib << 30, multiprocessors * lanes_each, multiprocessors)


MODELS = (
    _model("A100", "sm_80", 36, 108, 2048),
    _model("L4", "sm_89", 20, 58, 1536),
    _model("RTX 4090", "sm_89", 21, 128, 1536),
    _model("H100", "sm_90a", 72, 132, 2048),
    _model("B200", "sm_100a", 160, 148, 2048),
    _model("RTX 5090", "sm_120a", 28, 170, 1536),
)
"""Usual GPUs: multiprocessors and threads of each by NVIDIA's data sheets, memory less a tenth. An
H200 is an H100 with more memory, which plans of the recorded sizes do not need."""


@frozen
class PlannedKernel:
    """A kernel as a device was asked for it: with its workgroup size and static arguments."""

    definition: KernelDefinition
    lanes: int
    static: Mapping[str, Any]


class PlanningDevice(OpenedDevice):
    """Takes recordings for a model of GPU and runs none; memory has addresses and no contents.

    answer: the byte that fills downloaded data, except for flags, of which each word is 1.
    """

    kind = "planning"
    address_alignment = ADDRESS_ALIGNMENT
    strategy = "carry32"
    host_memory = False
    kernel_type: type = CudaKernel
    single_queue = False
    largest_buffer = UNLIMITED
    lanes = DEFAULT_WORKGROUP_SIZE

    def __init__(self, model: GpuModel, *, answer: int = 0) -> None:
        self.name = f"a plan for {model.name}"
        self.arch = model.arch
        self.memory_budget = model.memory_budget
        self.resident_lanes = model.resident_lanes
        self.multiprocessors = model.multiprocessors
        self.space = Space(self.name)
        self.in_use = 0
        self.kernels: list[PlannedKernel] = []
        self._answer = answer
        self._next_address = _FIRST_ADDRESS
        self._kernels: KernelTable[Any] = KernelTable()

    def machine(self, lanes: int) -> Machine:
        """Return the machine that kernels of `lanes` lanes are traced for."""
        return ptx_machine(lanes, self.arch)

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> Any:
        """Return a kernel that is neither traced nor compiled; it may store to any pointer."""
        width = lanes_of(definition, lanes, self.lanes)

        def build() -> CompiledKernel:
            self.kernels.append(PlannedKernel(definition, width, static))
            types = definition.parameters_for(static)[1].values()
            pointers = tuple(i for i, type_ in enumerate(types) if isinstance(type_, PointerType))
            return self.untraced(definition, width, static, PointerUses(pointers, pointers))

        return self._kernels.get(definition, width, static, build)

    def untraced(
        self, definition: KernelDefinition, lanes: int, static: Mapping[str, Any],
        uses: PointerUses,
    ) -> CompiledKernel:  # fmt: skip
        """Return a kernel without code."""
        facts = KernelFacts(uses, 0, definition.name)
        return CudaKernel(
            definition, self.machine(lanes), static, facts, self.space, refuse_to_load
        )

    # --- memory

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Return addresses without memory; raises DeviceError beyond the budget."""
        size = -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        if nbytes < 0 or self.in_use + size > self.memory_budget:
            raise DeviceError(
                f"no memory for {bytes_text(nbytes)}: {bytes_text(self.in_use)} are in use"
            )
        address = self._next_address
        allocation = self.allocation(address, nbytes, size)
        self._next_address += size + _ALIGNMENT
        self.in_use += size
        weakref.finalize(allocation, self._release, size)
        return Buffer(allocation, address, nbytes, space=self.space)

    def allocation(self, _address: int, _nbytes: int, _size: int) -> Any:
        """Return an object whose end releases addresses."""
        return _Allocation()

    def _release(self, size: int) -> None:
        self.in_use -= size

    def pinned(self, nbytes: int) -> Array:
        """Return host memory as `nbytes` u8."""
        return np.zeros(nbytes, np.uint8)

    def upload(self, array: Any, *, into: Buffer | None = None) -> Buffer:
        """Return memory for the data, which is not copied."""
        target = self.allocate(array.nbytes, zero=False) if into is None else into
        if target.nbytes != array.nbytes:
            raise DeviceError(f"{array.nbytes} bytes do not fit {target.nbytes}")
        return target

    def download(self, buffer: Buffer, array: Any) -> None:
        """Fill the array with the answer, and a flag with ones."""
        check_same_size(buffer, Buffer.wrap(array))
        if array.nbytes == FLAG_BYTES:
            array.view(np.uint32).fill(1)
        else:
            array.view(np.uint8).fill(self._answer)

    def check_budget(
        self, what: str, needed: int, *, fixed: int = 0, items: int = 0, unit: str = "items"
    ) -> None:
        """Raise DeviceError if a plan needs more than the budget."""
        check_budget(what, needed, self.memory_budget, fixed=fixed, items=items, unit=unit)

    # --- execution

    def launch(self, kernel: CompiledKernel, groups: Groups, *arguments: LaunchArgument) -> None:
        """Return at once."""

    def stream(self, name: str = "stream") -> IdleStream:
        """Return a new stream, whose recordings may be submitted and do nothing."""
        from quod.device.runtime.stream import IdleStream

        return IdleStream(self, name)

    def submit(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> Any:
        """Return a submission that is done."""
        return _Done()

    def close(self) -> None:
        """Return at once, as there is nothing to release."""


class _Allocation:
    """The owner of a buffer's addresses."""


class _Done:
    is_done = True

    def wait(self) -> None:
        """Return at once."""

    def cancel(self) -> None:
        """Return at once."""


def refuse_to_load(*_: Any) -> Any:
    """Raise an error: kernels of a plan are not loaded."""
    raise DeviceError("a plan for a GPU runs no kernels")


if TYPE_CHECKING:
    _: Device[Any] = PlanningDevice(MODELS[0])
