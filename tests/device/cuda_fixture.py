"""GPUs for the tests of the CUDA device: the machine's own, and one that is simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quod.device.cache.cache import CompileCache
from quod.device.cuda.device import CudaDevice


def open_gpu(kind: str, folder: Path, **options: Any) -> CudaDevice:
    """A GPU with a cache of its own: ``cuda``, or ``simulated``. Skips where there is none."""
    cache = CompileCache(folder)
    if kind == "cuda":
        # Programs that tests start need no devices of pytest.
        from tests.conftest import need_backend

        need_backend("cuda")
        return CudaDevice(cache=cache, **options)
    pytest.importorskip("cuda.bindings.driver", reason="needs the package cuda-bindings")
    from tests.device.fake_cuda import FakeCuda

    return CudaDevice(cache=cache, bindings=FakeCuda(), **options)
