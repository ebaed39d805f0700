"""No module of Quod imports, through others, itself: not even for its type hints.

What a function imports when it is called is left out: that is loaded when all modules are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"


def modules() -> dict[str, ast.Module]:
    """All modules of the package, by their full names."""
    found = {}
    for path in sorted((SOURCE / "quod").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(), str(path))
    return found


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run, or are type-checked, when a module is imported."""
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in ("body", "orelse", "finalbody", "handlers"):
                for inner in getattr(statement, part, ()):
                    yield from statements(inner.body if part == "handlers" else [inner])


def imports(tree: ast.Module, known: Mapping[str, object]) -> set[str]:
    """Which of the known modules a module imports."""
    found = set()
    for statement in statements(tree.body):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, "imports here are absolute"
            for alias in statement.names:
                name = f"{statement.module}.{alias.name}"
                found.add(name if name in known else str(statement.module))
    return found & known.keys()


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The strongly connected components of more than one module, or of one that imports itself.

    Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1972.
    """
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = set()

    def visit(name: str) -> None:
        numbers[name] = lowest[name] = len(numbers)
        stack.append(name)
        for other in graph[name]:
            if other not in numbers:
                visit(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == numbers[name]:
            at = stack.index(name)
            component = frozenset(stack[at:])
            del stack[at:]
            if len(component) > 1 or name in graph[name]:
                found.add(component)

    for name in graph:
        if name not in numbers:
            visit(name)
    return found


@pytest.fixture(scope="module")
def found() -> set[frozenset[str]]:
    trees = modules()
    assert len(trees) > 200
    graph = {name: imports(tree, trees) for name, tree in trees.items()}
    assert "quod.device.protocol" in graph["quod.device.discovery"]
    return circles(graph)


def test_no_module_imports_itself_through_others(found: set[frozenset[str]]) -> None:
    assert [sorted(circle) for circle in found] == []


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": {"e"}, "f": {"a"}}
    assert circles(graph) == {frozenset("bc"), frozenset("e")}


def test_hints_count_and_what_functions_import_does_not() -> None:
    known = dict.fromkeys(("p", "p.a", "p.b", "p.c", "p.d", "p.e"))
    text = (
        "from typing import TYPE_CHECKING\nimport p.a\n"
        "if TYPE_CHECKING:\n from p import b\n"
        "try:\n from p.c import x\nexcept ImportError:\n from p import y\n"
        "class C:\n import p.d\n def f(self):\n  import p.e\n"
    )
    assert imports(ast.parse(text), known) == {"p", "p.a", "p.b", "p.c", "p.d"}
