"""Which devices there are, and how to open one by its name.

A name is ``cpu``, which computes as suits the processor, or ``cpu:ifma`` or ``cpu:scalar``, which
force how field elements are held. ``emulated`` and ``emulated:ptx`` are no devices but interpreters
of what a GPU would run, for tests.
"""

from __future__ import annotations

import difflib
import functools
from dataclasses import dataclass

from quod.device import host
from quod.device.cpu import STRATEGIES, CpuDevice
from quod.device.llvm_jit import host_processor
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError

DeviceChoice = str | AnyDevice
"""How functions take a device: its name, or one that is open."""

# What decides how fast kernels run; the processor's full list is long.
_TELLING_FEATURES = (
    "avx512f", "avx512ifma", "avx512vl", "avx512dq", "avx2", "bmi2", "adx", "neon", "sve",
)  # fmt: skip


@dataclass(frozen=True)
class DeviceInfo:
    """A device that `open_device` can open. `memory_bytes` is 0 where the system does not say."""

    name: str
    kind: str
    description: str
    features: tuple[str, ...]
    threads: int
    memory_bytes: int


def devices() -> list[DeviceInfo]:
    """The devices of this machine; the first is the one to take without a reason for another."""
    processor = host_processor()
    features = tuple(name for name in _TELLING_FEATURES if name in processor.features)
    description = host.processor_description()
    ways = {
        "ifma": "eight lanes of 52-bit limbs (AVX-512 IFMA)",
        "scalar": "one lane of 64-bit limbs",
    }
    present = [way for way in STRATEGIES if way == "scalar" or processor.has_ifma]
    rows = [("cpu", description)]
    rows += [(f"cpu:{way}", f"{description}, {ways[way]}") for way in present]
    return [
        DeviceInfo(name, "cpu", text, features, host.usable_threads(), host.memory_bytes())
        for name, text in rows
    ]


def open_device(
    name: str = "cpu",
    *,
    threads: int | None = None,
    strategy: str | None = None,
    memory_budget: int | None = None,
) -> AnyDevice:
    """Opens a device by its name.

    `threads` is how many threads compute, by default all that the process may run on. `strategy`
    says the same as the part of the name behind the colon, `memory_budget` how many bytes plans may
    count on, by default what is free now. Raises DeviceError if there is no such device on this
    machine.
    """
    if name in ("emulated", "emulated:ptx"):
        from quod.device.emulated import EmulatedDevice

        return EmulatedDevice(
            executor="ptx" if name.endswith("ptx") else "ir", memory_budget=memory_budget
        )
    kind, colon, way = name.partition(":")
    if kind != "cpu" or (colon and way not in STRATEGIES):
        names = ["cpu", *(f"cpu:{way}" for way in STRATEGIES)]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else "`quod devices` lists those there are"
        raise DeviceError(f"there is no device {name!r}; {hint}")
    if way and strategy not in (None, way):
        raise DeviceError(f"the device {name} does not compute with the strategy {strategy!r}")
    return CpuDevice(strategy=way or strategy, threads=threads, memory_budget=memory_budget)


def resolve_device(device: DeviceChoice) -> AnyDevice:
    """A device itself, or the one of a name, which is opened once a process."""
    return _opened(device) if isinstance(device, str) else device


@functools.cache
def _opened(name: str) -> AnyDevice:
    return open_device(name)
