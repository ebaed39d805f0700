"""Devices by name, and their descriptions."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import quod.device
from quod.device import CpuDevice, devices, discovery, host, open_device
from quod.device.cpu.processor import host_processor
from quod.errors import DeviceError


def test_cpu_is_listed_first_and_all_rows_open() -> None:
    rows = [row for row in devices() if row.kind == "cpu"]
    assert devices()[0].name == "cpu"
    for row in rows:
        assert row.description
        assert row.threads >= 1
        assert row.memory_bytes > 1 << 20
        device: Any = open_device(row.name)
        assert device.threads == row.threads
        if ":" in row.name:
            assert row.name == f"cpu:{device.strategy}"


def test_rows_show_the_vector_strategies() -> None:
    rows = {row.name: row for row in devices()}
    for strategy, feature in (("ifma", "avx512ifma"), ("avx2", "avx2"), ("neon", "neon")):
        present = strategy in host_processor().strategies
        assert (f"cpu:{strategy}" in rows) == present
        assert (feature in rows["cpu"].features) == present
    assert "cpu:scalar" in rows


def test_open_device_options_are_passed_on() -> None:
    device: Any = open_device("cpu:scalar", threads=3, memory_budget=12345)
    assert device.memory_budget == 12345
    assert (device.strategy, device.lanes, device.threads) == ("scalar", 1, 3)
    assert open_device(strategy="scalar").strategy == "scalar"
    assert open_device("cpu:scalar", strategy="scalar").strategy == "scalar"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("metal", "there is no device 'metal'; `quod devices` lists the available ones"),
        ("cuda:", "there is no device 'cuda:'; did you mean cuda:0?"),
        ("cuda:-1", "there is no device 'cuda:-1'; did you mean cuda:0?"),
        ("cuda:one", "there is no device 'cuda:one'; did you mean cuda:0?"),
        ("CPU", "there is no device 'CPU'; `quod devices` lists the available ones"),
        ("", "there is no device ''; `quod devices` lists the available ones"),
        ("cpus", "there is no device 'cpus'; did you mean cpu?"),
        ("cpu:imfa", "there is no device 'cpu:imfa'; did you mean cpu:ifma?"),
        ("cpu:", "there is no device 'cpu:'; did you mean cpu?"),
        ("cpu:scalar:", "there is no device 'cpu:scalar:'; did you mean cpu:scalar?"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(DeviceError) as caught:
        open_device(name)
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [CpuDevice, re, None, 0, b"cpu", compile])
def test_non_devices_are_rejected(value: Any) -> None:
    """A class of devices, and a module that compiles, too."""
    with pytest.raises(
        DeviceError, match="a device must be a name or the result of open_device, not"
    ):
        discovery.resolve_device(value)


def test_contradictory_options_are_rejected() -> None:
    with pytest.raises(DeviceError, match="cpu:scalar does not compute with the strategy 'ifma'"):
        open_device("cpu:scalar", strategy="ifma")
    with pytest.raises(
        DeviceError, match="strategy must be ifma, avx2, neon or scalar, not 'simd'"
    ):
        open_device("cpu", strategy="simd")
    with pytest.raises(DeviceError, match="threads must be a whole number from 1 on, not 0"):
        open_device(threads=0)
    with pytest.raises(DeviceError, match="memory_budget must be a whole number from 1 on, not 0"):
        quod.device.CpuDevice(memory_budget=0)


def test_thread_count_without_affinity_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert host.usable_threads() == os.cpu_count()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert host.usable_threads() == 1


def test_free_memory_is_at_most_total_memory() -> None:
    assert 0 < host.available_memory_bytes() <= host.memory_bytes()


@pytest.mark.parametrize("version", [1, 2])
def test_memory_respects_container_limits(
    version: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = {
        "memory.max": "8000000\n",
        "memory.current": "5000000\n",
        "memory.stat": "anon 1\ninactive_file 700000\nactive_file 300000\n",
    }
    if version == 1:
        files = {
            "memory/memory.limit_in_bytes": "8000000\n",
            "memory/memory.usage_in_bytes": "5000000\n",
            "memory/memory.stat": (
                "inactive_file 7\ntotal_inactive_file 700000\ntotal_active_file 300000\n"
            ),
        }
    (tmp_path / "memory").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(host, "CONTROL_GROUPS", tmp_path)
    host.memory_bytes.cache_clear()
    try:
        assert host.memory_bytes() == 8_000_000
        assert host.available_memory_bytes() == 4_000_000
        for name in files:
            if "limit" in name or "max" in name:
                (tmp_path / name).write_text("max\n" if version == 2 else f"{1 << 62}\n")
            if "stat" in name:
                (tmp_path / name).write_text("nonsense\n\ninactive_file x\n")
        host.memory_bytes.cache_clear()
        assert 16_000_000 < host.memory_bytes() < 1 << 60
        assert 16_000_000 < host.available_memory_bytes() <= host.memory_bytes()
    finally:
        host.memory_bytes.cache_clear()


def test_the_package_imports_nothing_heavy() -> None:
    script = "import sys, quod.device; print('numpy' in sys.modules, 'llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert done.stdout.split() == [b"False", b"False"]


class FakeDevice:
    def __init__(self) -> None:
        self.space = type("Space", (), {"is_lost": False})()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the devices that were opened, slowly."""
    names: list[str] = []

    def slowly(name: str) -> FakeDevice:
        names.append(name)
        time.sleep(0.05)
        return FakeDevice()

    monkeypatch.setattr(discovery, "open_device", slowly)
    monkeypatch.setattr(discovery, "_opened_devices", {})
    return names


def test_threads_open_a_device_once(opened: list[str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        devices = list(pool.map(discovery.resolve_device, ["cuda", "cuda:0"] * 4))
    assert len({id(device) for device in devices}) == 1
    assert opened == ["cuda:0"]


def test_a_gpu_is_opened_ahead(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = discovery.open_ahead("cuda")
    assert not gpu.done()
    assert discovery.resolve_device("cuda:0") is gpu.result(60)
    assert opened == ["cuda:0"]
    processor = discovery.open_ahead("cpu")
    assert processor.done()
    assert discovery.open_ahead(CpuDevice()).done()
    with pytest.raises(DeviceError, match="there is no device 'metal'"):
        monkeypatch.undo()
        discovery.open_ahead("metal")


def test_a_failure_to_open_ahead_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> FakeDevice:
        raise DeviceError(f"no {name}")

    monkeypatch.setattr(discovery, "open_device", fail)
    monkeypatch.setattr(discovery, "_opened_devices", {})
    with pytest.raises(DeviceError, match="no cuda:0"):
        discovery.open_ahead("cuda").result(60)


def test_threads_open_different_devices_concurrently(
    opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(2, timeout=60)
    monkeypatch.setattr(discovery, "open_device", lambda name: together.wait() or FakeDevice())
    with ThreadPoolExecutor(2) as pool:
        assert len(list(pool.map(discovery.resolve_device, ["cuda:0", "cuda:1"]))) == 2


def test_a_forked_process_opens_its_own(opened: list[str]) -> None:
    gpu, processor = discovery.resolve_device("cuda"), discovery.resolve_device("cpu")
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 1
        try:
            child_gpu = discovery.resolve_device("cuda")
            kept = discovery.resolve_device("cpu") is processor
            status = 0 if kept and child_gpu is not gpu and opened.count("cuda:0") == 2 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert discovery.resolve_device("cuda") is gpu
