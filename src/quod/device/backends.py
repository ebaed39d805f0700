"""Kinds of devices: one row each, in the folder of that kind.

A new kind is a folder ``quod/device/NAME``, whose module `backend` has the row as ``BACKEND``, and
its name in `NAMES`. A row is loaded when a device of its kind is first named. Rows of GPUs load
their drivers when devices are listed or opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from quod.frozen import frozen

if TYPE_CHECKING:
    from quod.device.protocol import AnyDevice

NAMES = ("cpu", "cuda", "webgpu", "emulated")
"""The kinds, in the order in which their devices are listed."""


@frozen
class DeviceInfo:
    """A device that `open_device` can open.

    threads: number of kernel instances that run at a time, not counting vector lanes.
    memory_bytes: size of its memory; 0 if the system does not report it.
    """

    name: str
    kind: str
    description: str
    features: tuple[str, ...]
    threads: int
    memory_bytes: int


@frozen
class Options:
    """The options of opening a device; see `quod.device.discovery.open_device`."""

    threads: int | None = None
    strategy: str | None = None
    memory_budget: int | None = None
    checked: bool = False


DeviceListing = tuple[list[DeviceInfo], str | None]
"""The devices of a kind that this machine has, and what keeps it from having more or any."""


@frozen
class Backend:
    """A kind of device.

    name: name of its devices, or its part before the colon.
    title: name of the kind in the message that a machine has no such device.
    examples: names of devices, for hints.
    parse: returns the canonical name of a device, under which it is kept open; None if the name is
    not of this kind. The device need not exist.
    list: finds the devices; returns them, and the reason if there are none or fewer than possible.
    open: opens a device by a name that `parse` accepts; raises DeviceError if it does not exist.
    facts: returns the facts, other than the CPU, that figures measured on a device depend on.
    of_the_processor: devices compute on threads of this process. They accept all `Options`, other
    devices only a budget; they need no warm-up and survive a fork.
    """

    name: str
    title: str
    examples: tuple[str, ...]
    parse: Callable[[str], str | None]
    list: Callable[[], DeviceListing]
    open: Callable[[str, Options], AnyDevice]
    facts: Callable[[str], Mapping[str, str]]
    of_the_processor: bool = False

    def why_not(self) -> str | None:
        """Return the reason why devices of this kind are unavailable, or None."""
        return self.list()[1]


def backend(name: str) -> Backend:
    """Return the backend of a kind, one of `NAMES`."""
    row: Backend = import_module(f"quod.device.{name}.backend").BACKEND
    return row


def backends() -> list[Backend]:
    """Return the backends of all kinds."""
    return [backend(name) for name in NAMES]


def backend_of(device: str) -> Backend | None:
    """Return the backend that accepts a device's name, or None."""
    kind = device.partition(":")[0]
    row = backend(kind) if kind in NAMES else None
    return row if row is not None and row.parse(device) is not None else None
