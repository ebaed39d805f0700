"""No module of Quod imports itself through others, and imports only go down the ladder.

Imports of every kind count: at the top of a module, in a function, for type hints, and by name.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools.house import ROOT, SOURCES, Graph, cycles, eager_imports, import_graph, modules


@pytest.fixture(scope="module")
def named() -> dict[str, Path]:
    return modules(SOURCES)


@pytest.fixture(scope="module")
def graph(named: dict[str, Path]) -> Graph:
    return import_graph(named)


def test_the_graph_has_every_kind_of_import(graph: Graph) -> None:
    assert len(graph) > 200
    for importing, imported in {
        "quod.device.discovery": "quod.device.protocol",  # at the top
        "quod.codegen.targets": "quod.codegen.ptx.emitter",  # in a function
        "quod.kernel.definition": "quod.kernel.launcher",  # for type hints
        "quod.catalogue": "quod.field.kernels",  # by name
    }.items():
        assert imported in graph[importing]


def test_no_module_imports_itself_through_others(graph: Graph) -> None:
    assert cycles(graph) == []


def test_no_package_loads_itself_through_its_modules(named: dict[str, Path]) -> None:
    """Modules that a package's own `__init__` imports import no name of the package."""
    assert cycles(eager_imports(named)) == []


def ladder() -> list[set[str]]:
    """The layers of the import contract, from the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (row["layers"] for row in contracts["contracts"] if row["type"] == "layers")
    return [{name.strip("() ") for name in layer.replace(":", "|").split("|")} for layer in layers]


def above(graph: Graph, layers: list[set[str]]) -> list[str]:
    """The imports that go up, as `a imports b`."""
    heights = {name: -number for number, layer in enumerate(layers) for name in layer}

    def height(module: str) -> int | None:
        return heights.get(module.split(".")[1]) if "." in module else None

    return [
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in sorted(others)
        if (low := height(module)) is not None
        and (high := height(other)) is not None
        and high > low
    ]


def test_imports_follow_the_layers(graph: Graph) -> None:
    layers = ladder()
    assert layers[0] == {"cli", "bench", "catalogue", "resident"}
    assert layers[-1] == {"kernel"}
    assert above(graph, layers) == []
    assert above({"quod.kernel.ir.text": {"quod.codegen.rules"}}, layers) == [
        "quod.kernel.ir.text imports quod.codegen.rules"
    ]
