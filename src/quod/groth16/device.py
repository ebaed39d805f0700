"""The device that a caller of this package names."""

from __future__ import annotations

from quod.device.cpu import CpuDevice
from quod.errors import DeviceError

DeviceChoice = str | CpuDevice


def resolve_device(device: DeviceChoice) -> CpuDevice:
    """A device itself, or the one of a name: ``cpu``, ``cpu:ifma`` or ``cpu:scalar``."""
    if isinstance(device, CpuDevice):
        return device
    kind, _, strategy = device.partition(":")
    if kind != "cpu":
        raise DeviceError(f"there is no device {device!r}; `quod devices` lists those there are")
    return CpuDevice(strategy=strategy or None)
