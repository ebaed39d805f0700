"""The CPU as a kind of device.

=============================  ==============================================================
``cpu``                        chooses the arithmetic that suits the processor
``cpu:ifma``, ``cpu:avx2``,    force the representation of field elements
``cpu:neon``, ``cpu:scalar``
``cpu:checked``                interprets kernels and checks every access, slowly
=============================  ==============================================================
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from quod.device import host
from quod.device.backends import Backend, DeviceInfo, DeviceListing, Options
from quod.device.cpu.device import STRATEGIES, CpuDevice
from quod.device.cpu.processor import host_processor
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError

_CHECKED = "cpu:checked"
_NAMES = ("cpu", *(f"cpu:{strategy}" for strategy in STRATEGIES), _CHECKED)
_STRATEGY_TEXTS = {
    "ifma": "eight lanes of 52-bit limbs (AVX-512 IFMA)",
    "avx2": "four lanes of 29-bit limbs (AVX2)",
    "neon": "four lanes of 29-bit limbs (NEON)",
    "scalar": "one lane of 64-bit limbs",
}
# The features that determine the speed of kernels; the processor's full list is long.
_RELEVANT_FEATURES = (
    "avx512f", "avx512ifma", "avx512vl", "avx512dq", "avx2", "bmi2", "adx", "neon", "sve",
)  # fmt: skip


def _parse(name: str) -> str | None:
    return name if name in _NAMES else None


def _list() -> DeviceListing:
    # If LLVM cannot be loaded for lack of memory, a GPU may still be usable.
    try:
        return _rows(), None
    except DeviceError as error:
        return [], str(error)


def _rows() -> list[DeviceInfo]:
    processor = host_processor()
    features = tuple(name for name in _RELEVANT_FEATURES if name in processor.features)
    description = host.processor_description()
    if description == os.uname().machine:
        # Linux on Arm does not name the CPU; LLVM knows it by its numbers.
        description = f"{processor.name} ({description})"
    rows = [("cpu", description)]
    rows += [
        (f"cpu:{name}", f"{description}, {_STRATEGY_TEXTS[name]}") for name in processor.strategies
    ]
    return [
        DeviceInfo(name, "cpu", text, features, host.usable_threads(), host.memory_bytes())
        for name, text in rows
    ]


def _open(name: str, options: Options) -> AnyDevice:
    strategy = options.strategy
    if name not in ("cpu", _CHECKED):
        name_strategy = name.removeprefix("cpu:")
        if strategy not in (None, name_strategy):
            raise DeviceError(f"the device {name} does not compute with the strategy {strategy!r}")
        strategy = name_strategy
    make: type[CpuDevice] = CpuDevice
    if options.checked or name == _CHECKED:
        from quod.device.emulated.checked import CheckedCpuDevice

        make = CheckedCpuDevice
    return make(strategy=strategy, threads=options.threads, memory_budget=options.memory_budget)


def _facts(_name: str) -> Mapping[str, str]:
    return {}


BACKEND = Backend(
    "cpu", "processor", _NAMES, _parse, _list, _open, _facts, of_the_processor=True
)  # fmt: skip
