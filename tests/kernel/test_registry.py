"""Kernels by name."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

import pytest

import quod
from quod.errors import InputError, KernelError
from quod.frozen import replace
from quod.kernel import Machine, registry
from quod.kernel.definition import KernelDefinition
from quod.kernel.examples import saxpy
from quod.kernel.ir.parse import parse
from quod.kernel.ir.text import to_text
from tests.kernel.machines import EIGHT, FOUR


def test_rows() -> None:
    rows = registry.kernels()
    assert [row.name for row in rows] == sorted(row.name for row in rows)
    (row,) = [row for row in rows if row.name == "examples.saxpy"]
    assert row.parameters == ["n: u32", "a: f32", "x: ptr<f32, global>", "y: ptr<f32, global>"]
    assert row.doc == "y[i] = a * x[i] + y[i], for i below n."


def test_every_registered_kernel_says_what_it_does_and_prints() -> None:
    for row in registry.kernels():
        if row.name.startswith("examples."):
            assert row.doc.endswith("."), row.name
            text = registry.emit(row.name)
            assert to_text(parse(text)) == text


def test_every_registered_kernel_has_its_static_parameters() -> None:
    for row in registry.kernels():
        registry.find(row.name).check_static()


@pytest.mark.parametrize("package", ["sumcheck", "lookup", "commitment", "gkr"])
def test_all_kernels_of_a_package_are_listed(package: str) -> None:
    found = {registry.find(row.name).definition for row in registry.kernels()}
    own = importlib.import_module(f"quod.{package}")
    for module in pkgutil.walk_packages(own.__path__, f"quod.{package}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            assert not isinstance(value, KernelDefinition) or value in found, name


def test_find() -> None:
    found = registry.find("examples.saxpy")
    assert found.definition is saxpy
    assert found.trace(FOUR).workgroup_size == 4


LISTED = "`quod kernel list` shows the names, and a kernel of a file is path.py:name"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("examples.saxpi", "there is no kernel examples.saxpi; did you mean examples.saxpy?"),
        ("saxpy", "there is no kernel saxpy; did you mean examples.saxpy?"),
        ("zzzzzz", f"there is no kernel zzzzzz; {LISTED}"),
        ("mine.py", f"there is no kernel mine.py; {LISTED}"),
        ("", f"there is no kernel ; {LISTED}"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        registry.find(name)
    assert str(caught.value) == message


def test_emit() -> None:
    features = EIGHT.features | {"subgroup"}
    lanes = replace(EIGHT, features=features, subgroup_size=8)
    assert registry.emit("examples.saxpy") == to_text(saxpy.trace(lanes))
    assert "workgroup 4" in registry.emit("examples.saxpy", "ir", FOUR)
    assert "define void" in registry.emit("examples.saxpy", "llvm")
    assert ".maxntid 128" in registry.emit("examples.saxpy", "ptx")
    one = Machine("llvm", 1, frozenset({"u64"}))
    assert "x i32>" not in registry.emit("examples.vector_add", "llvm", one)


@pytest.mark.parametrize("target", ["metal", "llvm_control", "", "../x", "os.path"])
def test_unknown_targets(target: str) -> None:
    with pytest.raises(InputError) as caught:
        registry.emit("examples.saxpy", target)
    assert str(caught.value) == f"there is no target {target}; take one of ir, llvm, ptx, wgsl"


def test_emitters_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    def emit(kernel: object, machine: Machine) -> str:
        return f"for {machine.workgroup_size}"

    monkeypatch.setitem(registry.emitters, "other", emit)
    assert registry.emit("examples.saxpy", "other") == "for 8"


def test_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    assert registry.register("mine", saxpy) is saxpy
    assert registry.find("mine").definition is saxpy
    with pytest.raises(KernelError, match="the kernel name mine is taken; name each instance once"):
        registry.register("mine", saxpy)


def test_packages_bring_their_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package with a module `kernels` is asked; one without is not even imported."""
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(quod, "__path__", [str(tmp_path)])
    for package, files in {
        "with_kernels": {
            "__init__": "",
            "kernels": "from quod.kernel.examples import saxpy\n"
            "from quod.kernel.registry import register\nregister('with.saxpy', saxpy)\n",
        },
        "without_kernels": {"__init__": "raise RuntimeError('was imported')"},
    }.items():
        (tmp_path / package).mkdir()
        for name, text in files.items():
            (tmp_path / package / f"{name}.py").write_text(text)
    try:
        assert [row.name for row in registry.kernels()] == ["with.saxpy"]
        assert [row.name for row in registry.kernels()] == ["with.saxpy"]
    finally:
        sys.modules.pop("quod.with_kernels", None)
        sys.modules.pop("quod.with_kernels.kernels", None)
