"""Public names of packages: each is there, and none is hidden by a module of its name."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

from quod.lazy import re_exports

PACKAGES = ["quod", *(f"quod.{name}" for name in (
    "ceremony", "codegen", "commitment", "curve", "device", "field", "filecoin",
    "filecoin.circuits", "filecoin.parameters", "formats", "gkr", "groth16", "groth16.phase2",
    "hash", "inference", "inference.transformer.proof", "kernel", "layered", "layered.gadgets",
    "lookup", "msm", "ntt", "r1cs",
    "r1cs.gadgets", "r1cs.gadgets.bellman", "r1cs.reference", "service.client", "service.keys",
    "service.queue", "service.worker", "sumcheck", "tensor", "tensor.quantised", "transcript",
    "web", "witness", "zcash",
))]  # fmt: skip


@pytest.mark.parametrize("name", PACKAGES)
def test_public_names(name: str) -> None:
    package = importlib.import_module(name)
    assert len(set(package.__all__)) == len(package.__all__)
    assert set(package.__all__) <= set(dir(package))
    for public in package.__all__:
        assert getattr(package, public) is not None
    with pytest.raises(AttributeError, match=rf"'{name}' has no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize("name", PACKAGES[1:])
def test_public_names_do_not_collide_with_modules(name: str) -> None:
    package = importlib.import_module(name)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(package.__all__)


@pytest.mark.parametrize("name", sorted({*PACKAGES} - {"quod.kernel"}))
def test_runtime_exports_match_type_checker_exports(name: str) -> None:
    package = importlib.import_module(name)
    assert package.__file__ is not None
    modules = {
        alias.name: node.module
        for node in ast.walk(ast.parse(Path(package.__file__).read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == alias.asname
    }
    source = Path(package.__file__).read_text()
    assert re_exports(source) == modules
    assert package.__all__ == list(re_exports(source))


def test_a_star_import_binds_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from quod.curve import *", namespace)
    curve = importlib.import_module("quod.curve")
    assert namespace.keys() - {"__builtins__"} == set(curve.__all__)
