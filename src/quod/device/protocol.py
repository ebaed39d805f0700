"""The interface of devices: the CPU, GPUs and other backends.

device.compile   compiles a kernel definition with its static arguments
device.launch    runs a compiled kernel over workgroups, and waits
device.stream    opens a stream, which records work and replays it concurrently with the caller
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeGuard, TypeVar

import numpy as np

from quod.device.memory.buffer import Array, Buffer, Space
from quod.device.runtime.arguments import Argument, LaunchArgument
from quod.device.runtime.kernel_table import CompiledKernel
from quod.device.runtime.timeline import Stage, Timeline
from quod.kernel.definition import KernelDefinition, declared
from quod.kernel.machine import Capability, Machine

if TYPE_CHECKING:
    from quod.device.limits import Limits
    from quod.device.memory.array_protocols import ForeignArray
    from quod.device.runtime.recording import Recording, Submission
    from quod.device.runtime.stream import IdleStream
    from quod.kernel.launcher import Groups


Kernel = TypeVar("Kernel", bound=CompiledKernel)

# A vector of four instances of a curve's kernel takes as long as two or three of a single lane.
_FEW_A_THREAD = 4


class Device(Protocol[Kernel]):
    """A device that runs kernels.

    lanes: the default number of instances of a workgroup.
    resident_lanes: the number of instances that fill the device.
    multiprocessors: the number of units among which the instances are distributed.
    strategy: the representation of field elements.
    memory_budget: the bytes that a plan may use.
    space: the address space that kernels access.
    host_memory: whether `space` is the host's memory, so that kernels access arrays in place.
    single_queue: whether work of different streams never overlaps; work submitted after `upload`
        has returned then sees the uploaded data.
    largest_buffer: the maximum bytes that a kernel accesses through one argument; a buffer has at
        most twice as many.
    address_alignment: the alignment of kernel arguments in bytes; in host memory, the alignment of
        the element type if it is less.
    limbs_are_open: whether the limbs of field elements have not been chosen yet;
        `quod.field.strategies.calibration` chooses them by measurement.
    kernel_type: the class of the kernels that `compile` returns.
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
        """Return the `Machine` for tracing kernels with workgroups of `lanes` instances."""

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> Kernel:
        """Compile a kernel for this device; raises KernelError for an invalid kernel.

        lanes: the number of instances of a workgroup; default: that of the device.
        static: the static arguments of the kernel.
        """

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Allocate memory of `space`, zeroed by default; raises DeviceError if it does not fit."""

    def pinned(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Allocate page-locked host memory, for the fastest copies to and from the device.

        Returns an uninitialised array of bytes, which owns the memory.
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
        """Run a kernel over workgroups, and wait for it.

        groups: the number of workgroups; for a grid of several axes, the number along each axis.
        Arguments may be arrays. A device with its own memory copies an array to the device and, if
        the kernel stores to it, back.
        """

    def stream(self, name: str = "stream") -> IdleStream:
        """Return a new stream, whose work runs concurrently with the caller."""

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
        """Report whether the cache appears to have the kernel's compiled code."""

    def execute(
        self, kernel: Any, groups: int, slots: Any, arguments: tuple[Argument, ...]
    ) -> None:  # fmt: skip
        """Launch with arguments that the kernel's `pack` has already packed into `slots`."""


class RecordingDevice(Device[Any], Protocol):
    """A device whose recordings run elsewhere; it tracks memory with constant initial data."""

    def is_constant(self, buffer: Buffer) -> bool:
        """Report whether the buffer's allocation had data before any recording ran."""

    def whole_allocation(self, buffer: Buffer) -> Buffer:
        """Return the whole allocation of a buffer."""


def in_host_memory(device: AnyDevice) -> TypeGuard[HostDevice]:
    """Report whether a device computes in host memory, with threads of this process."""
    return device.host_memory


def lanes_for(device: AnyDevice, count: int) -> int:
    """Return the number of lanes of a workgroup that suits `count` independent instances.

    On a CPU a kernel of one lane takes half as long to compile as one of vectors. For a few
    instances it takes about as long to run.
    """
    if in_host_memory(device) and count <= _FEW_A_THREAD * device.threads:
        return 1
    return device.lanes


def has_ifma(device: AnyDevice) -> bool:
    """Report whether vector lanes multiply 52-bit words, as those of CPUs with AVX-512 IFMA do."""
    return device.machine(device.lanes).has(Capability.IFMA52)


def word_lanes(device: AnyDevice, bits: int) -> int:
    """Return the number of lanes of a workgroup on a CPU, for field elements of one word.

    bits: the length of the modulus.
    Eight words of 64 bits are two vectors of AVX2, which take twice as long to compile as one.
    """
    return device.lanes if bits > 32 and device.lanes == 4 else 8


class OpenedDevice:
    """The base class of devices: context management, `repr` and default methods."""

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
        """Submit recorded work and wait for it; streams call this."""
        self.submit(recording, name, timeline=timeline, parent=parent).wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self: AnyDevice, *_: object) -> None:
        self.close()

    def __repr__(self: AnyDevice) -> str:
        lost_text = ", whose memory is gone" if self.space.is_lost else ""
        return (
            f"<{type(self).__name__} {self.name}: workgroups of {self.lanes}, elements held as "
            f"{self.strategy}{lost_text}>"
        )


class KernelRepr:
    """The `repr` of compiled kernels; `early` is None on devices without overlapping launches."""

    early: frozenset[int] | None = None

    def __repr__(self: CompiledKernel) -> str:
        static = "".join(f", {name}={value!r}" for name, value in self.static.items())
        return (
            f"<{type(self).__name__} {self.name}({declared(self.parameters)}{static}): workgroups "
            f"of {self.lanes}>"
        )
