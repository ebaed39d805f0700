"""quod devices says why there is no GPU, to people and not to programs."""

from __future__ import annotations

import json

import pytest

import quod.device
from quod.cli import entry
from quod.device import discovery
from quod.device.discovery import DeviceInfo
from quod.errors import DeviceError

GPU = DeviceInfo("cuda:0", "cuda", "A GPU", ("sm_90a",), 1000, 1 << 30)

ADAPTER = discovery.DeviceInfo(
    "webgpu:0", "webgpu", "an adapter", ("binding 128.0 MiB", "u64"), 512, 0
)


def test_why_there_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quod.device, "devices", discovery._processors, raising=False)
    monkeypatch.setattr(discovery, "why_no_gpu", lambda: "it is on holiday")
    monkeypatch.setattr(discovery, "why_no_webgpu", lambda: "so are adapters")
    assert entry.run(["devices"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "no NVIDIA GPU: it is on holiday\nno WebGPU: so are adapters\n"
    assert "holiday" not in captured.out
    assert entry.run(["devices", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out)[0]["name"] == "cpu"


def test_gpus_are_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(quod.device, "devices", lambda: [GPU, ADAPTER], raising=False)
    assert entry.run(["devices"]) == 0
    captured = capsys.readouterr()
    assert "sm_90a" in captured.out
    assert "0.0 GiB" not in captured.out
    assert "binding 128.0 MiB, u64" in captured.out
    assert captured.err == ""


def test_why_there_is_no_processor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under a limit on memory LLVM may not load, which GPUs do not need."""

    def fail() -> list[DeviceInfo]:
        raise DeviceError("LLVM could not be loaded")

    monkeypatch.setattr(discovery, "_processors", fail)
    monkeypatch.setattr(discovery, "_gpus", lambda: ([GPU], None))
    monkeypatch.setattr(discovery, "_adapters", lambda: ([ADAPTER], None))
    assert entry.run(["devices"]) == 0
    captured = capsys.readouterr()
    assert "sm_90a" in captured.out
    assert captured.err == "no processor: LLVM could not be loaded\n"
    monkeypatch.setattr(discovery, "_gpus", lambda: ([], "none"))
    monkeypatch.setattr(discovery, "_adapters", lambda: ([], "none"))
    assert entry.run(["devices"]) == 7
    assert capsys.readouterr() == ("", "quod: error: LLVM could not be loaded\n")
