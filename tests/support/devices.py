"""The devices of this machine, for the parameters and the selection of tests.

A device that the machine lacks is no parameter of tests, unless ``QUOD_TEST_CUDA`` or
``QUOD_TEST_WEBGPU`` is set to ``required``: then its tests fail.
"""

from __future__ import annotations

import functools
import os

from quod.device.backends import NAMES, backend
from quod.device.cpu.processor import host_processor

KINDS = ("ifma", "avx2", "neon", "cuda", "webgpu")
"""The kinds of devices that a machine may lack."""


def present(*names: str) -> list[str]:
    """The names of devices that tests run on here."""
    return [name for name in names if is_present(name)]


def is_present(name: str) -> bool:
    """Return whether tests run on a device of this name here.

    Names of no device, such as ``scalar`` or ``simulated``, are present everywhere; ``vectors`` is
    any strategy with several lanes.
    """
    kind, _, detail = name.partition(":")
    if name == "vectors":
        return len(host_processor().strategies) > 1
    for strategy in ("ifma", "avx2", "neon"):
        if strategy in (kind, detail):
            return strategy in host_processor().strategies
    return is_required(kind) or why_absent(kind) is None


def is_required(kind: str) -> bool:
    """Return whether the environment says that the machine has such a device."""
    return os.environ.get(f"QUOD_TEST_{kind.upper()}") in ("required", "all")


@functools.cache
def why_absent(kind: str) -> str | None:
    """The reason for which this machine has no such device; None if it has one."""
    return backend(kind).why_not() if kind in NAMES else None


def absent_kinds() -> list[str]:
    """The kinds whose tests are left out on this machine."""
    return [kind for kind in KINDS if not is_present(kind)]
