"""Host arrays as arguments on devices with their own memory: copies to the device and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from quod.device.memory.buffer import Array, Buffer
from quod.device.runtime.arguments import Argument, LaunchArgument, Signature, adopt
from quod.device.runtime.kernel_table import CompiledKernel
from quod.device.runtime.launch_checks import check_launch
from quod.device.runtime.launch_trace import report_launch
from quod.frozen import frozen

if TYPE_CHECKING:
    from quod.device.protocol import AnyDevice
    from quod.kernel.launcher import Groups


class StagedKernel(CompiledKernel, Protocol):
    """A kernel of a device with memory of its own."""

    @property
    def signature(self) -> Signature: ...


@frozen
class Staged:
    """The arguments of a launch with buffers in the place of arrays.

    `stored` are the buffers that the kernel may have written, each with the array that it stands
    for.
    """

    arguments: tuple[Argument, ...]
    stored: tuple[tuple[Buffer, Array], ...]

    def bring_back(self, device: AnyDevice) -> None:
        """Copy what the kernel stored to the arrays."""
        for buffer, array in self.stored:
            device.download(buffer, array)


def begin_launch(
    device: AnyDevice, kernel: StagedKernel, groups: Groups, arguments: tuple[LaunchArgument, ...]
) -> tuple[int, Staged, Any]:
    """Check a launch; return its number of workgroups, and its staged arguments, also packed.

    Raises DeviceError as `adopt` and `check_launch` do.
    """
    count, slots = adopt(device, kernel, groups, arguments)
    check_launch(kernel, count)
    staged = stage(device, kernel.signature, slots)
    packed = kernel.pack(staged.arguments)
    report_launch(kernel)
    return count, staged, packed


def stage(device: AnyDevice, signature: Signature, arguments: Sequence[Argument]) -> Staged:
    """Upload the arrays among the arguments; DeviceError for one that does not fit.

    Arrays that share memory share it on the device, too.
    """
    arrays = signature.arrays(arguments)
    if not arrays:
        return Staged(tuple(arguments), ())
    pieces: list[list[int]] = []
    for start, stop in sorted(_span(array) for _, array, _ in arrays if array.nbytes):
        if pieces and start < pieces[-1][1]:
            pieces[-1][1] = max(pieces[-1][1], stop)
        else:
            pieces.append([start, stop])
    buffers = {start: device.allocate(stop - start, zero=False) for start, stop in pieces}
    for _, array, _ in arrays:
        if array.nbytes:
            device.upload(array, into=_place(pieces, buffers, array))
    staged = list(arguments)
    stored = []
    for index, array, is_stored in arrays:
        place = _place(pieces, buffers, array) if array.nbytes else device.allocate(0)
        staged[index] = place
        if is_stored and array.nbytes:
            stored.append((place, array))
    return Staged(tuple(staged), tuple(stored))


def _span(array: Array) -> tuple[int, int]:
    start = int(array.ctypes.data)
    return start, start + array.nbytes


def _place(pieces: list[list[int]], buffers: dict[int, Buffer], array: Array) -> Buffer:
    start, stop = _span(array)
    first = next(low for low, high in pieces if low <= start and stop <= high)
    return buffers[first].slice(start - first, stop - first)
