"""What all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from quod.device.cpu import CpuDevice
from quod.device.discovery import open_device, why_no_gpu
from quod.device.llvm_jit import host_processor
from quod.device.protocol import AnyDevice

# A kernel may be compiled within an example, and the machine may be busy.
settings.register_profile("quod", deadline=None)
settings.load_profile("quod")

# A shell ignores Ctrl-C for what it starts in the background; what tests start and interrupt would
# inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_fixtures() -> Path:
    """The fixtures beside the checkout, which are no part of the repository."""
    folder = REPOSITORY.parent / "shared" / "fixtures"
    if not folder.is_dir():
        pytest.skip("needs the shared fixtures beside the checkout (../shared/fixtures)")
    return folder


@pytest.fixture(scope="session", params=["ifma", "scalar", "cuda"])
def device(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    """The processor, with each way of holding field elements in turn, and the GPU."""
    if request.param == "ifma" and not host_processor().has_ifma:
        pytest.skip("this processor has no AVX-512 IFMA")
    found = _gpu() if request.param == "cuda" else CpuDevice(strategy=request.param)
    yield found
    found.close()


@pytest.fixture(scope="session", params=["emulated", "cuda"])
def gpu_device(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    """What GPU host code is tested on: an interpreter, slow and strict, and the GPU."""
    found = _gpu() if request.param == "cuda" else open_device(request.param)
    yield found
    found.close()


def _gpu() -> AnyDevice:
    reason = why_no_gpu()
    if reason is not None:
        if os.environ.get("QUOD_TEST_CUDA") == "required":
            pytest.fail(f"no GPU, and QUOD_TEST_CUDA says that there is one: {reason}")
        pytest.skip(f"no GPU: {reason}")
    return open_device("cuda")
