"""The processor alone, for what only its MSM has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quod.device.cpu.device import CpuDevice
from quod.device.cpu.processor import host_processor


@pytest.fixture(scope="session", params=["ifma", "scalar"])
def cpu_device(request: pytest.FixtureRequest) -> Iterator[CpuDevice]:
    """The processor, with each way of holding field elements in turn."""
    if request.param == "ifma" and not host_processor().has_ifma:
        pytest.skip("this processor has no AVX-512 IFMA")
    found = CpuDevice(strategy=request.param)
    yield found
    found.close()
