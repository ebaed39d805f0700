"""The processor alone, for what only its MSM has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quod.device.cpu.device import CpuDevice
from tests.support.devices import present


@pytest.fixture(scope="session", params=present("ifma", "avx2", "neon", "scalar"))
def cpu_device(request: pytest.FixtureRequest) -> Iterator[CpuDevice]:
    """The processor, with each way of holding field elements in turn."""
    processor = CpuDevice(strategy=request.param)
    yield processor
    processor.close()
