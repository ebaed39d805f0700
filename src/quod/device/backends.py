"""The backends: a `Backend` record for each kind of device, in the folder of that kind.

To add a kind, add a folder ``quod/device/NAME`` whose module `backend` has the record as
``BACKEND``, and add the name to `NAMES`. The module is imported when a device of the kind is first
named. GPU drivers are loaded when devices are listed or opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from quod.frozen import frozen

if TYPE_CHECKING:
    from quod.device.protocol import AnyDevice

NAMES = ("cpu", "cuda", "webgpu", "emulated")
"""The kinds of devices, in the order in which their devices are listed."""


@frozen
class DeviceInfo:
    """A device that `open_device` can open.

    name: the name for `open_device`, such as ``cuda:0``.
    features: the optional capabilities of the device.
    threads: the number of kernel instances that run concurrently, not counting vector lanes.
    memory_bytes: the size of its memory; 0 if the system does not report it.
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
"""The devices of a kind, and the reason if there are none or fewer than possible, else None."""


@frozen
class Backend:
    """A kind of device.

    name: the name of the kind, with which the names of its devices begin (before a colon).
    title: the kind in the message that a machine has no such device.
    examples: names of devices, for hints.
    parse: returns the canonical name of a device, which need not exist; None if the name does not
        belong to this kind.
    list: finds the devices; returns a `DeviceListing`.
    open: opens a device by a name that `parse` accepts; raises DeviceError if it does not exist.
    facts: returns the facts, other than the CPU, on which figures measured on a device depend.
    of_the_processor: whether devices compute on threads of this process. Such devices accept all
        `Options`, need no warm-up and survive a fork; other devices accept only a memory budget.
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
