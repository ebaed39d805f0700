"""Processors for the tests of streams."""

from __future__ import annotations

import pytest

from quod.device import CpuDevice
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError


@pytest.fixture
def processor(device: AnyDevice) -> CpuDevice:
    """The CPU device, for tests of what only the CPU does; test_cuda.py has those of a GPU."""
    if not isinstance(device, CpuDevice):
        pytest.skip("the CPU alone runs recorded work this way")
    return device


@pytest.fixture
def faulty(processor: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> CpuDevice:
    """A processor whose launches fail when they are run."""

    def execute(*_: object) -> None:
        raise DeviceError("it does not run")

    monkeypatch.setattr(processor, "execute", execute)
    return processor
