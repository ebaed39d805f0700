"""Listing of devices, and opening of one by its name.

Each kind of device defines its names in its own row: `quod.device.cpu.backend`,
`quod.device.cuda.backend`, `quod.device.webgpu.names` and `quod.device.emulated.backend`.
"""

from __future__ import annotations

import os
import threading

from quod.device.backends import DeviceInfo, Options, backend_of, backends
from quod.device.protocol import AnyDevice, HostDevice, in_host_memory
from quod.errors import DeviceError
from quod.validation import is_device, shown_kind

DeviceChoice = str | AnyDevice
"""The device argument of functions: a name, or an open device."""


def devices() -> list[DeviceInfo]:
    """List the devices of this machine; the first is the default choice.

    Raises DeviceError if there are none, not even the CPU.
    """
    infos: list[DeviceInfo] = []
    reasons = []
    for backend in backends():
        rows, why_not = backend.list()
        infos += rows
        if why_not is not None:
            reasons.append(why_not)
    if not infos and reasons:
        raise DeviceError(reasons[0])
    return infos


def open_device(
    name: str = "cpu",
    *,
    threads: int | None = None,
    strategy: str | None = None,
    memory_budget: int | None = None,
    checked: bool = False,
) -> AnyDevice:
    """Open a device by its name.

    `threads` is how many threads of a processor compute, by default all that the process may run
    on. `strategy` says the same as the part of its name behind the colon, `memory_budget` how many
    bytes plans may count on, by default what is free now. With `checked` a processor interprets
    kernels and refuses, with the line, what the language leaves undefined
    (`quod.device.emulated.checked`); so does the name ``cpu:checked``. Raises DeviceError if
    there is no such device on this machine.
    """
    backend = backend_of(name)
    if backend is None:
        import difflib

        names = [example for row in backends() for example in row.examples]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else "`quod devices` lists the available ones"
        raise DeviceError(f"there is no device {name!r}; {hint}")
    if not backend.of_the_processor:
        if checked:
            raise DeviceError(f"only the device cpu can check kernels; {name} cannot")
        if threads is not None or strategy is not None:
            raise DeviceError(f"threads and strategy apply to the device cpu only, not to {name}")
    return backend.open(name, Options(threads, strategy, memory_budget, checked))


def open_processor(*, threads: int | None = None, strategy: str | None = None) -> HostDevice:
    """Open this machine's processor; see `open_device`."""
    device = open_device("cpu", threads=threads, strategy=strategy)
    assert in_host_memory(device)
    return device


def resolve_device(device: DeviceChoice) -> AnyDevice:
    """Return a device itself, or the one with a name, which is opened once per process.

    A device that was closed or has failed is opened again, and so is one that was opened before the
    process was forked. Safe to call from any thread. Raises DeviceError if `device` is neither a
    device nor the name of one.
    """
    if not isinstance(device, str):
        if not is_device(device):
            raise DeviceError(
                f"a device must be a name or the result of open_device, not {shown_kind(device)}"
            )
        return device
    backend = backend_of(device)
    # Two names of one GPU are one device.
    name = device if backend is None else backend.parse(device) or device
    with _opening:
        lock = _locks.setdefault(name, threading.Lock())
    # Another name's device may be opened meanwhile.
    with lock:
        opened = _opened.get(name)
        if opened is not None and opened.space.is_lost:
            opened.close()
            opened = None
        if opened is None:
            opened = _opened[name] = open_device(name)
        return opened


_opened: dict[str, AnyDevice] = {}
_opening = threading.Lock()
_locks: dict[str, threading.Lock] = {}


def _forget_opened() -> None:
    """Forget the opened GPUs in a forked process, which has none of their contexts."""
    global _opening
    _opening = threading.Lock()
    _locks.clear()
    for name in tuple(_opened):
        backend = backend_of(name)
        if backend is None or not backend.of_the_processor:
            # Not let go of, for it is the parent's to close.
            _inherited.append(_opened.pop(name))


_inherited: list[AnyDevice] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_opened)
