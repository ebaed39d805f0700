"""Kernels compiled side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quod.device import CpuDevice
from quod.device.cache import CompileCache
from quod.device.compile_many import CompileRequest, compile_many
from quod.errors import KernelError
from quod.kernel import U32, Builder, Pointer, kernel
from tests.device import kernels


@kernel
def wrong(k: Builder, a: Pointer[U32]) -> None:
    a[0] = a[0] + 1.5


def test_kernels_come_in_the_order_of_the_requests(tmp_path: Path) -> None:
    device = CpuDevice(strategy="scalar", cache=CompileCache(tmp_path))
    requests = [CompileRequest(kernels.raise_to, {"amount": n % 5}) for n in range(12)]
    requests.append(CompileRequest(kernels.increment, lanes=8))
    found = compile_many(device, requests, threads=4)
    assert [each.static for each in found[:12]] == [{"amount": n % 5} for n in range(12)]
    assert (found[12].name, found[12].lanes) == ("increment", 8)
    assert found[0] is found[5] is device.compile(kernels.raise_to, amount=0)
    out = np.zeros(1, np.uint32)
    for each in found[:5]:
        device.launch(each, 1, 1, out)
    assert out[0] == 10
    assert compile_many(device, []) == []


def test_the_first_error_is_raised(tmp_path: Path) -> None:
    device = CpuDevice(strategy="scalar", cache=CompileCache(tmp_path))
    requests = [CompileRequest(kernels.increment), CompileRequest(wrong)]
    with pytest.raises(KernelError, match=r"test_compile_many\.py"):
        compile_many(device, requests)
