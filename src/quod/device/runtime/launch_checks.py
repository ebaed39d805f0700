"""Checks at the start of every launch, on all devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from quod.device.runtime import cancellation
from quod.errors import DeviceError
from quod.validation import offers, shown_kind

if TYPE_CHECKING:
    from quod.device.memory.buffer import Space
    from quod.device.runtime.cancellation import Cancellation
    from quod.kernel.compiled import Compiled

LOG2_GROUPS = 31
"""A launch has fewer than 2**31 workgroups: the limit of a CUDA grid, applied to all GPUs."""

LOG2_GROUPS_OF_PROCESSOR = 32
"""A launch on the CPU has fewer than 2**32 workgroups."""


class LaunchDevice(Protocol):
    """The properties of a device that launch checks use: its kernel class and memory space."""

    @property
    def name(self) -> str: ...
    @property
    def kernel_type(self) -> type[Any]: ...
    @property
    def space(self) -> Space: ...


def check_kernel(device: LaunchDevice, kernel: Any) -> None:
    """Raise an error unless `device` compiled `kernel`.

    Raises KernelError for a definition that is not compiled, else DeviceError.
    """
    if type(kernel) is not device.kernel_type or kernel.space is not device.space:
        _refuse(device, kernel)


def _refuse(device: LaunchDevice, kernel: Any) -> NoReturn:
    # Kernels have `slots`. Asking a definition for it raises KernelError: it is not compiled.
    if not offers(kernel, "slots"):
        raise DeviceError(
            f"{device.name} can launch only the result of its compile, not {shown_kind(kernel)}"
        )
    raise DeviceError(
        f"kernel {kernel.name} was compiled by another device; compile it with {device.name}"
    )


def check_groups(kernel: Compiled, groups: int, log2_groups: int = LOG2_GROUPS) -> None:
    """Raise DeviceError unless there are 0 to 2**log2_groups - 1 workgroups."""
    if not 0 <= groups < 1 << log2_groups:
        raise DeviceError(
            f"kernel {kernel.name} was launched with {groups} workgroups; the number "
            f"must be from 0 to 2**{log2_groups} - 1"
        )


def check_launch(
    kernel: Compiled, groups: int, log2_groups: int = LOG2_GROUPS
) -> Cancellation | None:
    """Return the current cancellation scope, or None outside one.

    Raises DeviceError for an invalid number of workgroups and after cancellation was requested.
    """
    check_groups(kernel, groups, log2_groups)
    scope = cancellation.current()
    if scope is not None:
        scope.check(f"the launch of {kernel.name}")
    return scope
