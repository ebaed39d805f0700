"""Launched kernels are collected with their emitted texts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from quod.device import CpuDevice, open_device
from quod.device.cache.cache import CompileCache
from quod.device.cache.compiled_code import text_digest
from quod.device.protocol import AnyDevice
from quod.device.runtime.launch_trace import LaunchedKernels
from quod.field.kernels import field_multiply
from quod.field.moduli import BN254_FR
from tests.device import kernels


def raise_to(device: AnyDevice, *amounts: int) -> str:
    """Launches a kernel of each amount; the digest of what was collected."""
    with LaunchedKernels() as launched:
        for amount in amounts:
            compiled = device.compile(kernels.raise_to, amount=amount)
            device.launch(compiled, 1, 1, np.zeros(4, np.uint32))
    return launched.digest()


def recorded(device: AnyDevice) -> Any:
    data = device.upload(np.zeros(4, np.uint32))
    recording = device.stream().record()
    recording.launch(device.compile(kernels.raise_to, amount=2), 1, 1, data)
    return recording.finish().recording


def test_digest_covers_the_set_of_kernel_texts(device: AnyDevice) -> None:
    assert raise_to(device) == ""
    both = raise_to(device, 1, 2)
    assert both == raise_to(device, 2, 1, 2)
    assert len({both, raise_to(device, 1), raise_to(device, 2)}) == 3


def test_checked_device_reports_launched_kernels() -> None:
    device = open_device("cpu", checked=True)
    assert raise_to(device, 1) == raise_to(device, 1) != raise_to(device, 2)


def test_replays_count_but_compilations_do_not(gpu_device: AnyDevice) -> None:
    recording = recorded(gpu_device)
    with LaunchedKernels() as idle:
        gpu_device.compile(kernels.raise_to, amount=3)
        recorded(gpu_device)
    assert idle.digest() == ""
    with LaunchedKernels() as replayed:
        gpu_device.stream().replay(recording).submit().wait()
    assert replayed.digest() == raise_to(gpu_device, 2)


def test_launches_of_other_threads_count_within_the_scope() -> None:
    device = CpuDevice(threads=1)
    with LaunchedKernels() as outer:
        raise_to(device, 1)
        with LaunchedKernels() as inner:
            thread = threading.Thread(target=raise_to, args=(device, 2))
            thread.start()
            thread.join()
    raise_to(device, 3)
    assert inner.digest() == raise_to(device, 2)
    assert outer.digest() == raise_to(device, 1, 2)


def test_code_from_the_cache_has_the_digest_of_its_text(tmp_path: Path) -> None:
    """Quod's own kernels are not even traced then."""
    devices = [CpuDevice(threads=1, cache=CompileCache(tmp_path)) for _ in range(2)]
    first, second = (d.compile(field_multiply, spec=BN254_FR) for d in devices)
    text = devices[0].emit(field_multiply, spec=BN254_FR)
    assert first.digest == second.digest == text_digest(text)
