"""Kernels by name."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import quod
from quod import catalogue
from quod.codegen.targets import emit_registered
from quod.errors import InputError, KernelError
from quod.kernel import registry
from quod.kernel.definition import KernelDefinition
from quod.kernel.examples import saxpy
from quod.kernel.ir.parse import parse
from quod.kernel.ir.text import to_text
from tests.kernel.machines import FOUR


def test_registered_kernels_are_listed() -> None:
    rows = catalogue.kernels()
    assert [row.name for row in rows] == sorted(row.name for row in rows)
    (row,) = [row for row in rows if row.name == "examples.saxpy"]
    assert row.parameters == ["n: u32", "a: f32", "x: ptr<f32, global>", "y: ptr<f32, global>"]
    assert row.doc == "For each i < n: y[i] = a * x[i] + y[i]."


def test_every_registered_kernel_has_a_docstring_and_text() -> None:
    for row in catalogue.kernels():
        if row.name.startswith("examples."):
            assert row.doc.endswith("."), row.name
            text = emit_registered(catalogue.find(row.name))
            assert to_text(parse(text)) == text


def test_every_registered_kernel_has_its_static_parameters() -> None:
    for row in catalogue.kernels():
        catalogue.find(row.name).check_static()


@pytest.mark.parametrize("package", ["sumcheck", "lookup", "commitment", "gkr"])
def test_all_kernels_of_a_package_are_listed(package: str) -> None:
    definitions = {catalogue.find(row.name).definition for row in catalogue.kernels()}
    package_module = importlib.import_module(f"quod.{package}")
    for module in pkgutil.walk_packages(package_module.__path__, f"quod.{package}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            assert not isinstance(value, KernelDefinition) or value in definitions, name


def test_find() -> None:
    row = catalogue.find("examples.saxpy")
    assert row.definition is saxpy
    assert row.trace(FOUR).workgroup_size == 4


LISTED = "`quod kernel list` shows the names; for a kernel of a file give path.py:name"


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
        catalogue.find(name)
    assert str(caught.value) == message


def test_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    assert registry.register("mine", saxpy) is saxpy
    assert catalogue.find("mine").definition is saxpy
    with pytest.raises(KernelError, match="the kernel name mine is taken; name each instance once"):
        registry.register("mine", saxpy)


def test_all_modules_that_register_kernels_are_in_the_table() -> None:
    """Only those of the table bring kernels: the others are imported by one of them."""
    packages = {module.name for module in pkgutil.iter_modules(quod.__path__, "quod.")}
    modules = {
        f"{package}.kernels"
        for package in packages
        if (Path(quod.__path__[0]) / package.removeprefix("quod.") / "kernels.py").exists()
    }
    assert {*modules, "quod.kernel.examples"} == set(catalogue.MODULES)
    script = "import sys\nfrom quod import catalogue\ncatalogue.kernels()\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    source = Path(quod.__path__[0])
    for path in source.rglob("*.py"):
        if "from quod.kernel.registry import register\n" in path.read_text():
            name = ".".join(("quod", *path.relative_to(source).with_suffix("").parts))
            assert name in loaded, name
