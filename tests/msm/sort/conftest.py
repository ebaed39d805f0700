"""The devices that sort as GPUs do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quod.device.protocol import AnyDevice
from tests.conftest import open_for_test
from tests.support.devices import present

DEVICES = present("emulated", "emulated:wgsl", "webgpu:portable", "cuda")


@pytest.fixture(scope="session", params=DEVICES)
def sort_device(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    """Interpreters, slow and strict, one within the limits of portable WGSL, for kernels without
    fields, which that runs fast enough; an adapter of WebGPU, and the GPU."""
    device = open_for_test(request.param)
    yield device
    device.close()
