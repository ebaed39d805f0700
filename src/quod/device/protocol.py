"""What a device is: the CPU now, other backends beside it.

device.compile   a kernel definition, with its static arguments, to code
device.launch    runs it over workgroups and waits
device.stream    records work, to run beside the caller and again
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
    """A place where kernels run.

    `lanes` is how many instances a workgroup has by default, `resident_lanes` how many instances
    fill the device, `multiprocessors` how many parts of it share them out, `strategy` how field
    elements are held, `memory_budget` how many bytes a plan may count on. Kernels reach the memory
    of `space`, which is the host's where `host_memory` is true: they read and write arrays in place
    there. With a `single_queue` work of several streams does not overlap, and what is submitted
    after `upload` has returned finds what that has brought. `largest_buffer` is how many bytes a
    kernel reaches through one argument at most; a buffer has at most twice as many. What a kernel
    is given begins at a multiple of `address_alignment` bytes, or on the host of its element's if
    they are fewer. With `limbs_are_open` nobody has chosen yet in which limbs field elements are
    held, which `quod.field.calibration` measures. `kernel_type` is the class of what `compile`
    gives.
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
        """What it can do at most, as far as its driver tells; None where that is not known."""

    def machine(self, lanes: int) -> Machine:
        """What kernels of so many lanes are traced for."""

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> Kernel:
        """A kernel for this device; KernelError if it is wrong."""

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Memory of `space`, zeroed unless told not to be; DeviceError if there is too little."""

    def pinned(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Host memory that copies to and from the device are fastest with, as bytes.

        Its content is undefined; it is given back when the array goes.
        """

    def upload(self, array: Array | ForeignArray, *, into: Buffer | None = None) -> Buffer:
        """Host data as a buffer, or into one of as many bytes, which is given back."""

    def download(self, buffer: Buffer, array: Array | ForeignArray) -> None:
        """A buffer's bytes into a host array."""

    def foreign_memory(self, value: object) -> Buffer | None:
        """Memory of `space` that an array of another library is; None where it is none such."""

    def check_budget(
        self, what: str, needed: int, *, fixed: int = 0, items: int = 0, unit: str = "items"
    ) -> None:
        """DeviceError if a plan needs more than the budget; says how much fits."""

    def launch(self, kernel: Kernel, groups: Groups, *arguments: LaunchArgument) -> None:
        """Runs workgroups and waits for them; of a grid of several axes, so many along each.

        Arrays are arguments as buffers are. A device with memory of its own copies them
        there and, where the kernel stores through them, back.
        """

    def stream(self, name: str = "stream") -> IdleStream:
        """A stream of its own, on which work goes on beside the caller's."""

    def submit(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> Submission:
        """Begins to run recorded work, shown as `name`; what streams are made of."""

    def run(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> None:
        """`submit`, and waits; in the caller's thread where that is faster."""

    def close(self) -> None:
        """Gives back what the device holds, such as threads."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None:
        """Closes the device."""


AnyDevice = Device[Any]
"""A device as code takes it that runs on each."""


class HostDevice(Device[Any], Protocol):
    """A device that computes in the host's memory, with `threads` of this process."""

    @property
    def threads(self) -> int: ...

    def has(self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any) -> bool:
        """Whether `compile` has nothing to compile, as far as the cache tells by a look."""

    def execute(
        self, kernel: Any, groups: int, slots: Any, arguments: tuple[Argument, ...]
    ) -> None:  # fmt: skip
        """`launch` of arguments that the kernel's `pack` has made `slots` of before."""


class RecordingDevice(Device[Any], Protocol):
    """A device whose recordings run elsewhere: of their memory it knows what is there before."""

    def is_constant(self, buffer: Buffer) -> bool:
        """Whether the allocation that a buffer belongs to had data before a recording ran."""

    def whole(self, buffer: Buffer) -> Buffer:
        """All of the allocation that a buffer belongs to."""


def in_host_memory(device: AnyDevice) -> TypeGuard[HostDevice]:
    """Whether work is for the algorithms that compute in the host's memory with its threads."""
    return device.host_memory


class OpenedDevice:
    """What most devices have in common: `with`, how they are shown, nothing out of the ordinary."""

    limbs_are_open = False
    address_alignment = 4

    def throughput_limits(self) -> Limits | None:
        """None: they are not known."""
        return None

    def foreign_memory(self, _value: object) -> Buffer | None:
        """None: other libraries know no memory of such a device."""
        return None

    def run(
        self: AnyDevice, recording: Recording, name: str, *, timeline: Timeline | None,
        parent: Stage | None,
    ) -> None:  # fmt: skip
        """Begins to run recorded work, and waits for it; streams call it."""
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
    """How compiled kernels are shown; most devices have no launches that overlap."""

    early: frozenset[int] | None = None

    def __repr__(self: CompiledKernel) -> str:
        static = "".join(f", {name}={value!r}" for name, value in self.static.items())
        return (
            f"<{type(self).__name__} {self.name}({declared(self.parameters)}{static}): workgroups "
            f"of {self.lanes}>"
        )
