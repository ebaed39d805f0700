"""The device that a caller of this package names."""

from __future__ import annotations

import functools

from quod.device.cpu import CpuDevice
from quod.device.discovery import open_device

DeviceChoice = str | CpuDevice


def resolve_device(device: DeviceChoice) -> CpuDevice:
    """A device itself, or the one of a name, which is opened once a process."""
    return device if isinstance(device, CpuDevice) else _opened(device)


@functools.cache
def _opened(name: str) -> CpuDevice:
    return open_device(name)
