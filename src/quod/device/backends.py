"""Kinds of devices: one row each, in the folder of that kind.

A new one is a folder ``quod/device/NAME`` whose module `backend` has its row as ``BACKEND``, and
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

    `threads` is how many instances of a kernel it runs at a time, vector lanes not counted.
    `memory_bytes` is 0 where the system does not say.
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

    `name` is what its devices' names are, or begin with before a colon; `title` says of a machine
    what it has none of. `examples` are names of devices, for hints. `parse` gives the name under
    which a device is kept open, the same for each of its names; None if a name is none of this
    kind, whether there is such a device or not. `list` looks for the devices, without an error
    where there are none, and `open` opens one by a name that `parse` knows; DeviceError if it is
    not there. `facts` are what figures measured on one depend on, beside the processor.

    Devices `of_the_processor` compute on threads of this process: they are opened with any
    `Options`, others with a budget alone; they need no time to warm up, and they live on in a
    process that is forked.
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
