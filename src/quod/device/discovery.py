"""List devices, and open a device by its name.

Each kind of device defines its names: `quod.device.cpu.backend`, `quod.device.cuda.backend`,
`quod.device.webgpu.names` and `quod.device.emulated.backend`.
"""

from __future__ import annotations

import os
import threading

from quod.device.backends import DeviceInfo, Options, backend_of, backends
from quod.device.protocol import AnyDevice, HostDevice, in_host_memory
from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
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

    threads: the number of threads that a CPU device uses; default: all that the process may use.
    strategy: the representation of field elements on a CPU device, as after the colon of its name.
    memory_budget: the bytes that a plan may use; default: the memory that is free now.
    checked: a CPU device interprets kernels and raises an error with the line for behaviour that
        the language leaves undefined (`quod.device.emulated.checked`), as does ``cpu:checked``.
    Raises DeviceError if this machine has no such device.
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
    """Open this machine's CPU as a device; see `open_device`."""
    device = open_device("cpu", threads=threads, strategy=strategy)
    assert in_host_memory(device)
    return device


def resolve_device(device: DeviceChoice) -> AnyDevice:
    """Return an open device: the argument itself, or the shared device of a name.

    A named device is opened once per process, and opened again after it was closed, has failed or,
    for a GPU, the process was forked. Thread-safe. Raises DeviceError if `device` is neither a
    device nor the name of a device.
    """
    if not isinstance(device, str):
        if not is_device(device):
            raise DeviceError(
                f"a device must be a name or the result of open_device, not {shown_kind(device)}"
            )
        return device
    backend = backend_of(device)
    # Different names of the same GPU share a device.
    name = device if backend is None else backend.parse(device) or device
    with _opening:
        lock = _locks.setdefault(name, threading.Lock())
    # The lock is per name, so that devices of other names can be opened concurrently.
    with lock:
        opened = _opened_devices.get(name)
        if opened is not None and opened.space.is_lost:
            opened.close()
            opened = None
        if opened is None:
            opened = _opened_devices[name] = open_device(name)
        return opened


def open_ahead(device: DeviceChoice) -> Outcome[AnyDevice]:
    """Return the outcome of `resolve_device`, which opens a named GPU on another thread.

    Creating the context of a GPU takes a large part of a second.
    """
    backend = backend_of(device) if isinstance(device, str) else None
    if backend is None or backend.of_the_processor:
        return Outcome.of(resolve_device(device))
    return _opener.begin(lambda: resolve_device(device))


_opener = Background("quod-open", 1)
_opened_devices: dict[str, AnyDevice] = {}
_opening = threading.Lock()
_locks: dict[str, threading.Lock] = {}


def _forget_opened() -> None:
    """Forget the opened GPUs in a forked process, as their contexts do not exist there."""
    global _opening
    _opening = threading.Lock()
    _locks.clear()
    for name in tuple(_opened_devices):
        backend = backend_of(name)
        if backend is None or not backend.of_the_processor:
            # Keep a reference, so that the child does not close the parent's device.
            _inherited_devices.append(_opened_devices.pop(name))


_inherited_devices: list[AnyDevice] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_opened)
