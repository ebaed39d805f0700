"""quod devices says why there is no GPU, to people and not to programs."""

from __future__ import annotations

import importlib
import json

import pytest

from quod.cli import entry
from quod.device.backends import DeviceInfo, DeviceListing, backend
from quod.frozen import replace

GPU = DeviceInfo("cuda:0", "cuda", "A GPU", ("sm_90a",), 1000, 1 << 30)

ADAPTER = DeviceInfo("webgpu:0", "webgpu", "an adapter", ("binding 128.0 MiB", "u64"), 512, 0)


def finds(monkeypatch: pytest.MonkeyPatch, kind: str, listing: DeviceListing) -> None:
    """Replace the device listing of a kind on this machine, until the test ends."""
    module = importlib.import_module(f"quod.device.{kind}.backend")
    monkeypatch.setattr(module, "BACKEND", replace(backend(kind), list=lambda: listing))


def test_missing_gpu_reports_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finds(monkeypatch, "cuda", ([], "it is on holiday"))
    finds(monkeypatch, "webgpu", ([], "so are adapters"))
    assert entry.run(["devices"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "no NVIDIA GPU: it is on holiday\nno WebGPU: so are adapters\n"
    assert "holiday" not in captured.out
    assert entry.run(["devices", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out)[0]["name"] == "cpu"


def test_gpus_are_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    finds(monkeypatch, "cuda", ([GPU], "another one has failed"))
    finds(monkeypatch, "webgpu", ([ADAPTER], None))
    assert entry.run(["devices"]) == 0
    captured = capsys.readouterr()
    assert "sm_90a" in captured.out
    assert "0.0 GiB" not in captured.out
    assert "binding 128.0 MiB, u64" in captured.out
    assert captured.err == ""


def test_missing_cpu_device_reports_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under a limit on memory LLVM may not load, which GPUs do not need."""
    finds(monkeypatch, "cpu", ([], "LLVM could not be loaded"))
    finds(monkeypatch, "cuda", ([GPU], None))
    finds(monkeypatch, "webgpu", ([ADAPTER], None))
    assert entry.run(["devices"]) == 0
    captured = capsys.readouterr()
    assert "sm_90a" in captured.out
    assert captured.err == "no processor: LLVM could not be loaded\n"
    finds(monkeypatch, "cuda", ([], "none"))
    finds(monkeypatch, "webgpu", ([], "none"))
    assert entry.run(["devices"]) == 7
    assert capsys.readouterr() == ("", "quod: error: LLVM could not be loaded\n")
