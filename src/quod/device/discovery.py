"""Which devices there are, and how to open one by its name.

==============================  ================================================================
``cpu``                         computes as suits the processor
``cpu:ifma``, ``cpu:scalar``    force how field elements are held
``cpu:checked``                 interprets kernels and checks all they do, slowly
``cuda``, ``cuda:1``            the first NVIDIA GPU, or the one of that number
``webgpu``, ``webgpu:1``        any GPU, through WebGPU: the best adapter, or the one of that number
``webgpu:llvmpipe``             the adapter that has this in its name
``webgpu:portable``             the same within what every browser has; also ``webgpu:1:portable``
``emulated``, ``emulated:ptx``  a GPU without a GPU, for tests: runs kernels, or their PTX, slowly
``emulated:wgsl``               the same for kernels as they are traced for portable WGSL
==============================  ================================================================
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from quod.device import host
from quod.device.cpu.device import STRATEGIES, CpuDevice
from quod.device.cpu.processor import host_processor
from quod.device.protocol import AnyDevice
from quod.device.webgpu.names import is_webgpu_name, parse_name
from quod.errors import DeviceError, KernelError
from quod.frozen import frozen

if TYPE_CHECKING:
    from quod.device.emulated.device import Executor

_EMULATED: dict[str, Executor] = {
    "emulated": "ir", "emulated:ptx": "ptx", "emulated:wgsl": "wgsl",
}  # fmt: skip

DeviceChoice = str | AnyDevice
"""How functions take a device: its name, or one that is open."""

# What decides how fast kernels run; the processor's full list is long.
_TELLING_FEATURES = (
    "avx512f", "avx512ifma", "avx512vl", "avx512dq", "avx2", "bmi2", "adx", "neon", "sve",
)  # fmt: skip


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


def devices() -> list[DeviceInfo]:
    """The devices of this machine; the first is the one to take without a reason for another.

    DeviceError where there are none, not even the processor (see `why_no_processor`).
    """
    gpus, _ = _gpus()
    adapters, _ = _adapters()
    processors, why = _present_processors()
    if why is not None and not gpus and not adapters:
        raise DeviceError(why)
    return processors + gpus + adapters


def why_no_processor() -> str | None:
    """What keeps this machine from computing on its processor; None where it does."""
    return _present_processors()[1]


def why_no_gpu() -> str | None:
    """What keeps this machine from computing on a GPU; None where it does."""
    return _gpus()[1]


def why_no_webgpu() -> str | None:
    """What keeps this machine from computing through WebGPU; None where it does."""
    return _adapters()[1]


def _adapters() -> tuple[list[DeviceInfo], str | None]:
    from quod.device.webgpu.adapter import list_adapters
    from quod.device.webgpu.native import open_native

    try:
        found = list_adapters(open_native())
    except DeviceError as error:
        return [], str(error)
    rows = [
        DeviceInfo(
            name=f"webgpu:{adapter.number}",
            kind="webgpu",
            description=adapter.description,
            features=adapter.telling_features(),
            threads=adapter.resident_lanes,
            memory_bytes=0,
        )
        for adapter, _ in found
    ]
    return rows, None


def _gpus() -> tuple[list[DeviceInfo], str | None]:
    from quod.device.cuda.driver import open_driver
    from quod.device.cuda.properties import count_gpus, properties_of

    rows = []
    try:
        driver = open_driver()
        for ordinal in range(count_gpus(driver)):
            gpu = properties_of(driver, ordinal)
            rows.append(
                DeviceInfo(
                    name=f"cuda:{ordinal}",
                    kind="cuda",
                    description=gpu.description,
                    features=(gpu.arch,),
                    threads=gpu.resident_lanes,
                    memory_bytes=gpu.memory_bytes,
                )
            )
    except (DeviceError, KernelError) as error:
        return rows, str(error)
    return rows, None


def _present_processors() -> tuple[list[DeviceInfo], str | None]:
    # Without the memory to load LLVM, a GPU may still be there.
    try:
        return _processors(), None
    except DeviceError as error:
        return [], str(error)


def _processors() -> list[DeviceInfo]:
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
    checked: bool = False,
) -> AnyDevice:
    """Opens a device by its name.

    `threads` is how many threads of a processor compute, by default all that the process may run
    on. `strategy` says the same as the part of its name behind the colon, `memory_budget` how many
    bytes plans may count on, by default what is free now. With `checked` a processor interprets
    kernels and refuses, with the line, what the language leaves undefined
    (`quod.device.emulated.checked`); so does the name ``cpu:checked``. Raises DeviceError if there
    is no such device on this machine.
    """
    if name == "cpu:checked":
        name, checked = "cpu", True
    kind, colon, way = name.partition(":")
    if kind == "cpu" and (way in STRATEGIES or not colon):
        if way and strategy not in (None, way):
            raise DeviceError(f"the device {name} does not compute with the strategy {strategy!r}")
        if checked:
            from quod.device.emulated.checked import CheckedCpuDevice

            return CheckedCpuDevice(
                strategy=way or strategy, threads=threads, memory_budget=memory_budget
            )
        return CpuDevice(strategy=way or strategy, threads=threads, memory_budget=memory_budget)
    is_cuda = kind == "cuda" and ((way.isascii() and way.isdecimal()) or not colon)
    is_webgpu = is_webgpu_name(name)
    if not is_cuda and not is_webgpu and name not in _EMULATED:
        names = ["cpu", *(f"cpu:{way}" for way in STRATEGIES), "cpu:checked", "cuda", "cuda:0"]
        names += ["webgpu", "webgpu:0", *_EMULATED]
        import difflib

        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else "`quod devices` lists those there are"
        raise DeviceError(f"there is no device {name!r}; {hint}")
    if checked:
        raise DeviceError(
            f"kernels are checked on the processor, cpu; {name} runs them as they are"
        )
    if threads is not None or strategy is not None:
        raise DeviceError(f"threads and strategies are a processor's; {name} takes neither")
    if is_cuda:
        from quod.device.cuda.device import CudaDevice

        return CudaDevice(int(way or 0), memory_budget=memory_budget)
    if is_webgpu:
        from quod.device.webgpu.device import WebGpuDevice

        adapter, strength = parse_name(name)
        return WebGpuDevice(adapter, strength=strength or "extended", memory_budget=memory_budget)
    from quod.device.emulated.device import EmulatedDevice

    return EmulatedDevice(executor=_EMULATED[name], memory_budget=memory_budget)


def resolve_device(device: DeviceChoice) -> AnyDevice:
    """A device itself, or the one of a name, which is opened once a process.

    One that was closed, or that has failed, is opened again, and so is one that was opened before
    the process was forked. For use from any thread.
    """
    if not isinstance(device, str):
        return device
    name = _NUMBERED.get(device, device)
    with _opening:
        lock = _locks.setdefault(name, threading.Lock())
    # Another name's device may be opened meanwhile.
    with lock:
        found = _opened.get(name)
        if found is not None and found.space.is_lost:
            found.close()
            found = None
        if found is None:
            found = _opened[name] = open_device(name)
        return found


# Two names of one GPU are one device.
_NUMBERED = {"cuda": "cuda:0", "webgpu": "webgpu:0", "webgpu:portable": "webgpu:0:portable"}
_opened: dict[str, AnyDevice] = {}
_opening = threading.Lock()
_locks: dict[str, threading.Lock] = {}


def _forget_opened() -> None:
    """A forked process has none of the contexts that GPUs were opened with."""
    global _opening
    _opening = threading.Lock()
    _locks.clear()
    for name, device in tuple(_opened.items()):
        if device.kind != "cpu":
            # Not let go of, for it is the parent's to close.
            _inherited.append(_opened.pop(name))


_inherited: list[AnyDevice] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_opened)
