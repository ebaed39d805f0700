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
    """Check a launch; return its number of workgroups, its staged arguments, and these packed.

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
    spans: list[list[int]] = []
    for start, stop in sorted(_span(array) for _, array, _ in arrays if array.nbytes):
        if spans and start < spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], stop)
        else:
            spans.append([start, stop])
    buffers = {start: device.allocate(stop - start, zero=False) for start, stop in spans}
    for _, array, _ in arrays:
        if array.nbytes:
            device.upload(array, into=_device_range(spans, buffers, array))
    staged = list(arguments)
    stored = []
    for index, array, is_stored in arrays:
        staged_buffer = _device_range(spans, buffers, array) if array.nbytes else device.allocate(0)
        staged[index] = staged_buffer
        if is_stored and array.nbytes:
            stored.append((staged_buffer, array))
    return Staged(tuple(staged), tuple(stored))


def _span(array: Array) -> tuple[int, int]:
    start = int(array.ctypes.data)
    return start, start + array.nbytes


def _device_range(spans: list[list[int]], buffers: dict[int, Buffer], array: Array) -> Buffer:
    start, stop = _span(array)
    span_start = next(low for low, high in spans if low <= start and stop <= high)
    return buffers[span_start].slice(start - span_start, stop - span_start)
