"""A CPU other than the one the tests run on."""

from __future__ import annotations

import pytest

from quod.device.cpu import backend, processor
from quod.device.cpu import compiler as cpu_compiler
from quod.device.cpu import device as cpu
from quod.device.cpu import llvm as llvm_jit
from quod.device.cpu.processor import HostProcessor

ARM = HostProcessor("generic", frozenset({"neon"}), "+neon", "aarch64-unknown-linux-gnu")


def pretend_to_run_on(other: HostProcessor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code is compiled and found for another processor from now on, until the test ends."""
    for module in (cpu, cpu_compiler, backend, llvm_jit, processor):
        monkeypatch.setattr(module, "host_processor", lambda: other)
