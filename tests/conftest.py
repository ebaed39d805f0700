"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from quod.device.cpu import CpuDevice
from quod.device.llvm_jit import host_processor

# A kernel may be compiled within an example, and the machine may be busy.
settings.register_profile("quod", deadline=None)
settings.load_profile("quod")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_fixtures() -> Path:
    """The fixtures beside the checkout, which are no part of the repository."""
    folder = REPOSITORY.parent / "shared" / "fixtures"
    if not folder.is_dir():
        pytest.skip("needs the shared fixtures beside the checkout (../shared/fixtures)")
    return folder


@pytest.fixture(scope="session", params=["ifma", "scalar"])
def device(request: pytest.FixtureRequest) -> Iterator[CpuDevice]:
    """The processor, with each way of holding field elements in turn."""
    if request.param == "ifma" and not host_processor().has_ifma:
        pytest.skip("this processor has no AVX-512 IFMA")
    found = CpuDevice(strategy=request.param)
    yield found
    found.close()
