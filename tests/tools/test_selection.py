"""The selection of tests: by the devices of this machine, by the environment and by marks."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from quod.device.backends import NAMES, Backend
from tests import conftest
from tests.support import devices


@pytest.fixture(autouse=True)
def without_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without GPUs."""
    monkeypatch.setattr(Backend, "why_not", lambda row: None if row.name == "cpu" else "absent")
    monkeypatch.delenv("QUOD_TEST_CUDA", raising=False)
    monkeypatch.delenv("QUOD_TEST_WEBGPU", raising=False)
    devices.why_absent.cache_clear()
    yield
    devices.why_absent.cache_clear()


def test_absent_devices_are_not_parameters() -> None:
    assert set(NAMES) >= {"cuda", "webgpu"}
    names = devices.present("cpu", "cpu:checked", "scalar", "cuda", "webgpu:portable", "simulated")
    assert names == ["cpu", "cpu:checked", "scalar", "simulated"]


@pytest.mark.parametrize("value", ["required", "all"])
def test_a_required_device_is_a_parameter(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUOD_TEST_WEBGPU", value)
    assert devices.present("cuda", "webgpu", "webgpu:portable") == ["webgpu", "webgpu:portable"]
    with pytest.raises(pytest.fail.Exception, match="QUOD_TEST_WEBGPU says that it is there"):
        conftest.need_backend("webgpu")


def test_marked_tests_are_deselected(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = request.node
    items = [item]
    conftest.pytest_collection_modifyitems(request.config, items)
    assert items == [item]
    item.add_marker(pytest.mark.device("cuda"))
    monkeypatch.setattr(request.config.hook, "pytest_deselected", lambda items: None)
    conftest.pytest_collection_modifyitems(request.config, items)
    assert items == []
    monkeypatch.setenv("QUOD_TEST_CUDA", "required")
    items = [item]
    conftest.pytest_collection_modifyitems(request.config, items)
    assert items == [item]


def test_thorough_tests_run_with_all_tests(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.node.add_marker(pytest.mark.thorough)
    deselected: list[pytest.Item] = []
    monkeypatch.setattr(
        request.config.hook, "pytest_deselected", lambda items: deselected.extend(items)
    )
    monkeypatch.setattr(request.config.option, "markexpr", "")
    for value, runs in (("", False), ("all", True)):
        monkeypatch.setenv("QUOD_TEST", value)
        items = [request.node]
        conftest.pytest_collection_modifyitems(request.config, items)
        assert bool(items) == runs
    assert deselected == [request.node]
    monkeypatch.setenv("QUOD_TEST", "")
    monkeypatch.setattr(request.config.option, "markexpr", "thorough")
    items = [request.node]
    conftest.pytest_collection_modifyitems(request.config, items)
    assert items


def test_slower_strategies_run_with_the_fields_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = SimpleNamespace(strategies=("avx2", "scalar"))
    monkeypatch.setattr(conftest, "host_processor", lambda: processor)
    items: list[Any] = [
        SimpleNamespace(
            nodeid=f"tests/{folder}/test_x.py::test_x[{device}]",
            callspec=SimpleNamespace(params={"device": device}),
            get_closest_marker=lambda name: None,
        )
        for folder in ("field", "msm")
        for device in ("avx2", "scalar", "webgpu")
    ]
    deselected = [item.nodeid for item in conftest.thorough(items)]
    assert deselected == ["tests/msm/test_x.py::test_x[scalar]"]


def test_crossed_parameters_vary_one_at_a_time() -> None:
    mark = pytest.mark.crossed("row", "column")
    items: list[Any] = [
        SimpleNamespace(
            nodeid=f"{test}[{row}-{column}]",
            callspec=SimpleNamespace(params={"row": row, "column": column, "other": other}),
            get_closest_marker=lambda name: mark if name == "crossed" else None,
        )
        for test in ("a", "b")
        for row in "pqr"
        for column in ("x", "y", "webgpu")
        for other in "st"
    ]
    deselected = {item.nodeid for item in conftest.thorough(items)}
    assert deselected == {f"{test}[{row}-y]" for test in "ab" for row in "qr"}
