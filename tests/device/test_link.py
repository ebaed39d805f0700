"""Copies between devices: by peer access if the driver has it, else through host memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device.cache.cache import CompileCache
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.device.runtime import link as links
from quod.device.runtime.link import Link
from quod.device.runtime.stream import SubmittedStream
from quod.errors import DeviceError
from tests.support.submissions import are_under_way


def copied(link: Link, words: int) -> bool:
    """Return whether random words arrive unchanged."""
    words_sent = np.random.default_rng(words).integers(0, 1 << 32, words, np.uint32)
    into = link.target.allocate(words_sent.nbytes)
    link.copy(link.source.upload(words_sent), into)
    received = np.zeros_like(words_sent)
    link.target.download(into, received)
    return bool((received == words_sent).all())


@pytest.mark.parametrize("words", [1, 250, 251, 1000, 3333])
def test_copies_are_chunked_through_host_memory(
    monkeypatch: pytest.MonkeyPatch, words: int
) -> None:
    monkeypatch.setattr(links, "_CHUNK", 1000)
    link = Link(EmulatedDevice(), EmulatedDevice())
    assert not link.is_peer
    assert link.kind == "page-locked host memory"
    assert copied(link, words)
    assert copied(link, words + 1)
    assert link.bytes_per_second(4000) > 0


def test_different_sizes_are_rejected() -> None:
    link = Link(EmulatedDevice(), EmulatedDevice())
    with pytest.raises(DeviceError):
        link.copy(link.source.allocate(64), link.target.allocate(32))


def test_errors_leave_no_pending_copy(
    monkeypatch: pytest.MonkeyPatch, submitted: list[SubmittedStream]
) -> None:
    monkeypatch.setattr(links, "_CHUNK", 1000)
    link = Link(EmulatedDevice(), EmulatedDevice())
    assert copied(link, 1000)
    upload: Any = link.target.upload

    def fails(*arguments: Any, **named: Any) -> None:
        raise DeviceError("no memory")

    monkeypatch.setattr(link.target, "upload", fails)
    with pytest.raises(DeviceError, match="no memory"):
        copied(link, 1000)
    assert len(submitted) == 6
    assert not are_under_way(submitted)
    monkeypatch.setattr(link.target, "upload", upload)
    assert copied(link, 1001)


@pytest.mark.parametrize("reaches", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_peer_access_between_gpus(tmp_path: Path, reaches: bool, enabled: bool) -> None:
    pytest.importorskip("cuda.bindings.driver", reason="needs the package cuda-bindings")
    from quod.device.cuda.device import CudaDevice
    from tests.device.fake_cuda import FakeCuda

    driver, cache = FakeCuda(gpus=2), CompileCache(tmp_path)
    driver.reaches, driver.peer_access = reaches, enabled
    first, second = (CudaDevice(number, cache=cache, bindings=driver) for number in (0, 1))
    link = Link(first, second)
    assert link.is_peer == reaches
    assert copied(link, 3000)
    assert driver.calls["cuMemcpyPeerAsync"] == int(reaches)
    devices: list[AnyDevice] = [first, second]
    for device in devices:
        device.close()


def test_device_has_access_to_itself(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.driver", reason="needs the package cuda-bindings")
    from quod.device.cuda.device import CudaDevice
    from quod.device.cuda.peer import open_peer
    from tests.device.fake_cuda import FakeCuda

    with CudaDevice(cache=CompileCache(tmp_path), bindings=FakeCuda()) as device:
        assert open_peer(device, device)
