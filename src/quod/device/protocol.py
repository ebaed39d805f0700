"""The interface of devices: the CPU, GPUs and other backends.

device.compile   compile a kernel definition with its static arguments
device.launch    run it over workgroups, and wait
device.stream    record work, to run concurrently with the caller and repeatedly
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeGuard, TypeVar

import numpy as np

from quod.device.memory.buffer import Array, Buffer, Space
from quod.device.runtime.arguments import Argument, LaunchArgument
from quod.device.runtime.kernel_table import CompiledKernel
from quod.device.runtime.timeline import Stage, Timeline
from quod.kernel.definition import KernelDefinition, declared
from quod.kernel.machine import Machine

if TYPE_CHECKING:
    from quod.device.limits import Limits
    from quod.device.memory.array_protocols import ForeignArray
    from quod.device.runtime.recording import Recording, Submission
    from quod.device.runtime.stream import IdleStream
    from quod.kernel.launcher import Groups


Kernel = TypeVar("Kernel", bound=CompiledKernel)


class Device(Protocol[Kernel]):
    """A device that runs kernels.

    lanes: default number of instances of a workgroup.
    resident_lanes: number of instances that fill the device.
    multiprocessors: number of units that share the instances.
    strategy: representation of field elements.
    memory_budget: bytes that a plan may use.
    space: memory that kernels access.
    host_memory: `space` is the host's memory, so kernels access arrays in place.
    single_queue: work of several streams does not overlap, and work submitted after `upload` has
    returned sees the uploaded data.
    largest_buffer: maximum bytes that a kernel accesses through one argument; a buffer has at most
    twice as many.
    address_alignment: alignment of kernel arguments in bytes; in host memory, that of the element
    if it is less.
    limbs_are_open: the limbs of field elements have not been chosen; `quod.field.calibration`
    measures them.
    kernel_type: class of the kernels that `compile` returns.
    """

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def lanes(self) -> int: ...
    @property
    def strategy(self) -> str: ...
    @property
    def memory_budget(self) -> int: ...
    @property
    def host_memory(self) -> bool: ...
    @property
    def single_queue(self) -> bool: ...
    @property
    def resident_lanes(self) -> int: ...
    @property
    def multiprocessors(self) -> int: ...
    @property
    def largest_buffer(self) -> int: ...
    @property
    def space(self) -> Space: ...
    @property
    def address_alignment(self) -> int: ...
    @property
    def limbs_are_open(self) -> bool: ...
    @property
    def kernel_type(self) -> type: ...

    def throughput_limits(self) -> Limits | None:
        """Return upper bounds of the throughput, or None if the driver does not report them."""

    def machine(self, lanes: int) -> Machine:
        """Return the machine that kernels of `lanes` lanes are traced for."""

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> Kernel:
        """Compile a kernel for this device; raise KernelError if it is invalid."""

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Allocate memory of `space`, zeroed by default; raise DeviceError if it does not fit."""

    def pinned(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Allocate host memory for the fastest copies to and from the device, as bytes.

        It is uninitialised, and is freed with the array.
        """

    def upload(self, array: Array | ForeignArray, *, into: Buffer | None = None) -> Buffer:
        """Upload host data to a new buffer, or to `into` of the same size; return the buffer."""

    def download(self, buffer: Buffer, array: Array | ForeignArray) -> None:
        """Download a buffer's bytes to a host array."""

    def foreign_memory(self, value: object) -> Buffer | None:
        """Return the memory of another library's array in `space`; None for other objects."""

    def check_budget(
        self, what: str, needed: int, *, fixed: int = 0, items: int = 0, unit: str = "items"
    ) -> None:
        """Raise DeviceError, naming the amount that fits, if a plan exceeds the memory budget."""

    def launch(self, kernel: Kernel, groups: Groups, *arguments: LaunchArgument) -> None:
        """Run workgroups and wait for them; a grid of several axes has a number for each axis.

        Arrays are allowed as arguments. A device with its own memory copies them there and, if the
        kernel stores to them, back.
        """

    def stream(self, name: str = "stream") -> IdleStream:
        """Return a new stream, whose work runs concurrently with the caller's."""

    def submit(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> Submission:
        """Start recorded work under a name for messages and timelines; streams call this."""

    def run(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> None:
        """Submit recorded work and wait for it, in the caller's thread if that is faster."""

    def close(self) -> None:
        """Release the device's resources, such as threads."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None:
        """Close the device."""


AnyDevice = Device[Any]
"""A device of any kind."""


class HostDevice(Device[Any], Protocol):
    """A device that computes in the host's memory, with `threads` of this process."""

    @property
    def threads(self) -> int: ...

    def has(self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any) -> bool:
        """Return whether the cache appears to hold the kernel's code already."""

    def execute(
        self, kernel: Any, groups: int, slots: Any, arguments: tuple[Argument, ...]
    ) -> None:  # fmt: skip
        """Launch with arguments that the kernel's `pack` has already packed into `slots`."""


class RecordingDevice(Device[Any], Protocol):
    """A device whose recordings run elsewhere; it tracks memory with constant initial data."""

    def is_constant(self, buffer: Buffer) -> bool:
        """Return whether the buffer's allocation had data before a recording ran."""

    def whole(self, buffer: Buffer) -> Buffer:
        """Return the whole allocation of a buffer."""


def in_host_memory(device: AnyDevice) -> TypeGuard[HostDevice]:
    """Return whether a device computes in host memory with threads of this process."""
    return device.host_memory


class OpenedDevice:
    """The base class of devices: context management, repr and defaults."""

    limbs_are_open = False
    address_alignment = 4

    def throughput_limits(self) -> Limits | None:
        """Return None: the limits are unknown."""
        return None

    def foreign_memory(self, _value: object) -> Buffer | None:
        """Return None: no other library has memory of such a device."""
        return None

    def run(
        self: AnyDevice, recording: Recording, name: str, *, timeline: Timeline | None,
        parent: Stage | None,
    ) -> None:  # fmt: skip
        """Start recorded work and wait for it; streams call it."""
        self.submit(recording, name, timeline=timeline, parent=parent).wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self: AnyDevice, *_: object) -> None:
        self.close()

    def __repr__(self: AnyDevice) -> str:
        gone = ", whose memory is gone" if self.space.is_lost else ""
        return (
            f"<{type(self).__name__} {self.name}: workgroups of {self.lanes}, elements held as "
            f"{self.strategy}{gone}>"
        )


class ShownKernel:
    """The repr of compiled kernels; `early` is None for devices without overlapping launches."""

    early: frozenset[int] | None = None

    def __repr__(self: CompiledKernel) -> str:
        static = "".join(f", {name}={value!r}" for name, value in self.static.items())
        return (
            f"<{type(self).__name__} {self.name}({declared(self.parameters)}{static}): workgroups "
            f"of {self.lanes}>"
        )
