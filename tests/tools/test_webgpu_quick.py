"""The list of quick WebGPU tests names existing tests."""

from __future__ import annotations

import re

import pytest

from tests.conftest import REPOSITORY
from tests.support import webgpu_quick
from tests.support.webgpu_quick import ON_GPUS_ALONE, PACKAGES, QUICK, THOROUGH, is_left_out


def test_every_row_is_a_test() -> None:
    for row in QUICK + ON_GPUS_ALONE + THOROUGH:
        path, _, test = row.replace("\\.", ".").partition("::")
        assert path.startswith(PACKAGES) == (row not in ON_GPUS_ALONE), row
        pattern = test.partition("\\[")[0]
        text = (REPOSITORY / path).read_text()
        assert re.search(rf"^def {pattern}\(", text, re.MULTILINE), row


def test_every_package_has_some() -> None:
    assert {package for package in PACKAGES for row in QUICK if row.startswith(package)} == {
        *PACKAGES
    }


def test_slow_webgpu_tests_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    node = "tests/field/test_strategy.py::test_sums_of_products[webgpu-3-bn254.fr]"
    other = node.replace("fr]", "fq]")
    on_webgpu = {"device": "webgpu", "spec": object()}
    monkeypatch.delenv("QUOD_TEST_WEBGPU", raising=False)
    monkeypatch.setattr(webgpu_quick, "is_software", lambda: True)
    assert not is_left_out(node, on_webgpu)
    assert is_left_out(other, on_webgpu)
    sapling = "tests/zcash/test_devices.py::test_the_same_proof_on_every_device[webgpu]"
    assert is_left_out(sapling, on_webgpu)
    assert not is_left_out(sapling.replace("webgpu", "ifma"), {"device": "ifma"})
    several = "tests/groth16/gpu/test_key.py::test_many_witnesses[webgpu:portable]"
    for selection in ("", "all"):
        monkeypatch.setenv("QUOD_TEST", selection)
        assert is_left_out(several, {"gpu_device": "webgpu:portable"}) == (selection == "")
    assert is_left_out(other, {"gpu_device": "webgpu:portable"})
    assert not is_left_out(other, {"device": "scalar"})
    assert not is_left_out("tests/device/test_launch.py::test_x[webgpu]", on_webgpu)
    monkeypatch.setattr(webgpu_quick, "is_software", lambda: False)
    assert not is_left_out(other, on_webgpu)
    monkeypatch.setattr(webgpu_quick, "is_software", lambda: True)
    monkeypatch.setenv("QUOD_TEST_WEBGPU", "all")
    assert not is_left_out(other, on_webgpu)
