"""The devices whose MSMs are those of GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quod.device.protocol import AnyDevice
from tests.conftest import open_for_test


@pytest.fixture(scope="session", params=["emulated", "webgpu:portable", "cuda"])
def gpu_device(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    """An interpreter, slow and strict, an adapter of WebGPU, and the GPU."""
    found = open_for_test(request.param)
    yield found
    found.close()


@pytest.fixture(scope="session", params=["emulated", "emulated:wgsl", "webgpu:portable", "cuda"])
def sort_device(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    """The same, and the interpreter within the limits of portable WGSL: for kernels without
    fields, which it runs fast enough."""
    found = open_for_test(request.param)
    yield found
    found.close()
