"""A device kind is one table row that listing, opening, benchmarks and names read."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from quod.bench.measure import harness, results
from quod.device import backends, discovery
from quod.device.backends import Backend, DeviceInfo, Options, backend, backend_of
from quod.errors import DeviceError

ROW = DeviceInfo("abacus:0", "abacus", "ten rods", ("wooden",), 10, 0)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Options]]:
    """The names and options that devices of one more kind are opened with."""
    calls: list[tuple[str, Options]] = []

    def open_one(name: str, options: Options) -> Any:
        calls.append((name, options))
        return calls

    module: Any = ModuleType("quod.device.abacus.backend")
    module.BACKEND = Backend(
        "abacus", "abacus", ("abacus", "abacus:0"),
        {"abacus": "abacus:0", "abacus:0": "abacus:0"}.get,
        lambda: ([ROW], "another one is broken"), open_one, lambda _name: {"rods": "ten"},
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "quod.device.abacus", ModuleType("quod.device.abacus"))
    monkeypatch.setitem(sys.modules, "quod.device.abacus.backend", module)
    monkeypatch.setattr(backends, "NAMES", (*backends.NAMES, "abacus"))
    return calls


def test_backend_row_adds_a_device_kind(opened: list[tuple[str, Options]]) -> None:
    assert discovery.devices()[-1] == ROW
    discovery.open_device("abacus", memory_budget=5)
    assert opened == [("abacus", Options(memory_budget=5))]
    assert harness.warm_up_of("abacus:0") > 0
    assert results.machine("abacus")["rods"] == "ten"
    assert backend("abacus").why_not() == "another one is broken"


def test_new_kind_is_suggested_and_rejects_cpu_options(
    opened: list[tuple[str, Options]],
) -> None:
    with pytest.raises(DeviceError, match="there is no device 'abbacus'; did you mean abacus"):
        discovery.open_device("abbacus")
    with pytest.raises(DeviceError, match=r"threads and strategy .*, not to abacus:0"):
        discovery.open_device("abacus:0", threads=2)
    with pytest.raises(DeviceError, match="device cpu can check kernels; abacus cannot"):
        discovery.open_device("abacus", checked=True)
    assert opened == []


@pytest.mark.parametrize("name", backends.NAMES)
def test_rows(name: str) -> None:
    row = backend(name)
    assert row.name == name
    assert name in row.examples
    for example in row.examples:
        assert backend_of(example) is row
    infos, why_not = row.list()
    assert {info.kind for info in infos} <= {name}
    assert all(backend_of(info.name) is row for info in infos)
    assert why_not == row.why_not()


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("cpu", "cpu"), ("cpu:ifma", "cpu:ifma"), ("cuda", "cuda:0"), ("cuda:3", "cuda:3"),
        ("webgpu", "webgpu:0"), ("webgpu:portable", "webgpu:0:portable"),
        ("webgpu:llvmpipe", "webgpu:llvmpipe"), ("emulated:ptx", "emulated:ptx"),
    ],
)  # fmt: skip
def test_devices_are_cached_under_their_full_name(name: str, kept: str) -> None:
    row = backend_of(name)
    assert row is not None
    assert row.parse(name) == kept


@pytest.mark.parametrize("name", ["", "cpu:", "CPU", "cuda:", "cuda:²", "webgpu:", "emulated:ir"])
def test_names_of_unknown_devices(name: str) -> None:
    assert backend_of(name) is None
