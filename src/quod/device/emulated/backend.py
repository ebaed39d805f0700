"""Emulated GPUs as a kind of device, which can be opened by name but are not listed.

==============================  ================================================================
``emulated``, ``emulated:ptx``  for tests: runs kernels, or their PTX, slowly
``emulated:wgsl``               for tests: runs kernels traced for portable WGSL
==============================  ================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quod.device.backends import Backend, DeviceListing, Options
from quod.device.protocol import AnyDevice

if TYPE_CHECKING:
    from quod.device.emulated.device import KernelForm

_EXECUTORS: dict[str, KernelForm] = {
    "emulated": "ir", "emulated:ptx": "ptx", "emulated:wgsl": "wgsl",
}  # fmt: skip


def _parse(name: str) -> str | None:
    return name if name in _EXECUTORS else None


def _list() -> DeviceListing:
    return [], None


def _open(name: str, options: Options) -> AnyDevice:
    from quod.device.emulated.device import EmulatedDevice

    return EmulatedDevice(executor=_EXECUTORS[name], memory_budget=options.memory_budget)


def _facts(_name: str) -> Mapping[str, str]:
    return {}


BACKEND = Backend("emulated", "emulated GPU", tuple(_EXECUTORS), _parse, _list, _open, _facts)
