"""Measure the shape of the repository: modules a folder, prefix families, import cycles, lines.

`python -m tools.house` prints the tables; with `--check` the exit code is 1 if a folder of src
holds more than 22 modules, four of its modules share a prefix, or imports form a cycle. Imports
inside functions, for type checking and by `import_module` count.
"""

from __future__ import annotations

import argparse
import ast
import functools
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

MAX_MODULES = 22
MIN_FAMILY = 4

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src"

Graph = dict[str, set[str]]


def modules(root: Path) -> dict[str, Path]:
    """Return the modules below a folder by dotted name; generated ones are left out."""
    named = {}
    for path in sorted(root.rglob("*.py")):
        if path.stem.endswith("_pb2"):
            continue
        parts = path.relative_to(root).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def modules_per_folder(paths: Iterable[Path]) -> Counter[Path]:
    """Count the modules of each folder, `__init__.py` excluded."""
    return Counter(path.parent for path in paths if path.name != "__init__.py")


def prefix_families(paths: Iterable[Path]) -> list[tuple[Path, str, int]]:
    """Return folder, prefix and size of each family of modules with one first word."""
    words: dict[Path, Counter[str]] = defaultdict(Counter)
    for path in paths:
        if not path.stem.startswith("_"):
            words[path.parent][path.stem.split("_")[0]] += 1
    return sorted(
        (folder, word, size)
        for folder, sizes in words.items()
        for word, size in sizes.items()
        if size >= MIN_FAMILY
    )


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def import_graph(named: dict[str, Path]) -> Graph:
    """Return the imports of each module, at any depth of its source.

    A string that is the name of a module counts as an import of it, as `import_module` may read the
    string. A name of a package counts as an import of the module that defines it: the names in a
    package's `__all__` load on first use, and are no imports of the package itself.
    """
    nodes = {name: list(ast.walk(_tree(path))) for name, path in named.items()}
    imports = {name: list(_imports(name, path, nodes[name])) for name, path in named.items()}
    homes = {
        f"{name}.{alias}": f"{base}.{source}"
        for name, path in named.items()
        if path.name == "__init__.py"
        for base, source, alias in imports[name]
    }

    def target(base: str, source: str) -> str:
        full = f"{base}.{source}" if source else base
        seen = set()
        while full in homes and full not in seen and full not in named:
            seen.add(full)
            full = homes[full]
        return full if full in named else full.rpartition(".")[0]

    graph: Graph = {}
    for name, path in named.items():
        offers = _offers(nodes[name]) if path.name == "__init__.py" else None
        targets = {
            target(base, source)
            for base, source, alias in imports[name]
            if offers is None or alias not in offers
        }
        if offers is None:
            targets |= _texts(nodes[name])
        graph[name] = {t for t in targets if t in named} - {name}
    return graph


def eager_imports(named: dict[str, Path]) -> Graph:
    """Return the imports of each module or package at load time and for type hints.

    A name of a package counts as an import of the package, whose `__init__` runs.
    """
    graph: Graph = {}
    for name, path in named.items():
        imports = set()
        for node in _loaded(_tree(path).body):
            if isinstance(node, ast.Import):
                imports |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                full = {alias.name: f"{base}.{alias.name}" for alias in node.names}
                imports |= {module if module in named else base for module in full.values()}
        graph[name] = (imports & named.keys()) - {name}
    return graph


def _loaded(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run, or are type-checked, when a module is imported."""
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in ("body", "orelse", "finalbody", "handlers"):
                for inner in getattr(statement, part, ()):
                    yield from _loaded(inner.body if part == "handlers" else [inner])


def _offers(nodes: list[ast.AST]) -> set[str]:
    """Return the names of `__all__`, and those imported under their own name (`x as x`)."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
        ):
            names |= set(ast.literal_eval(node.value))
    return names


def _texts(nodes: list[ast.AST]) -> set[str]:
    """Return the texts of a module that have a dot, as names of modules have."""
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value
    }


def _imports(name: str, path: Path, nodes: list[ast.AST]) -> Iterator[tuple[str, str, str]]:
    """Yield module, name in it (empty for the module itself) and local name of each import."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent_parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent_parts, *([base] if base else [])])
            yield from ((base, alias.name, alias.asname or alias.name) for alias in node.names)


def cycles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one module (Tarjan, iterative)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    components = []
    for root in graph:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = []

        def enter(module: str) -> None:
            index[module] = lowest[module] = len(index)
            stack.append(module)
            on_stack.add(module)
            work.append((module, iter(sorted(graph[module]))))  # noqa: B023

        enter(root)
        while work:
            module, targets = work[-1]
            for target in targets:
                if target not in index:
                    enter(target)
                    break
                if target in on_stack:
                    lowest[module] = min(lowest[module], index[target])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[module])
                if lowest[module] == index[module]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == module:
                            break
                    if len(component) > 1:
                        components.append(sorted(component))
    return sorted(components)


def lines_per_package(named: dict[str, Path]) -> Counter[str]:
    """Count the lines of each package directly below the root package."""
    lines: Counter[str] = Counter()
    for name, path in named.items():
        parts = name.split(".")
        lines[
            ".".join(parts[:2]) if path.name == "__init__.py" or len(parts) > 2 else parts[0]
        ] += path.read_text().count("\n")
    return lines


def main() -> int:
    """Print the tables; return 1 if `--check` is given and a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is exceeded")
    check = parser.parse_args().check
    named = modules(SOURCES)
    sizes = modules_per_folder(named.values())
    crowded = [(folder, size) for folder, size in sizes.most_common() if size > MAX_MODULES]
    families = prefix_families(named.values())
    import_cycles = cycles(import_graph(named))
    print(f"folders with more than {MAX_MODULES} modules: {len(crowded)}")
    for folder, size in crowded:
        print(f"  {size:4} {folder.relative_to(ROOT)}")
    print(f"families of {MIN_FAMILY} or more modules with one prefix: {len(families)}")
    for folder, word, size in families:
        print(f"  {size:4} {folder.relative_to(ROOT)}/{word}*")
    print(f"import cycles: {len(import_cycles)}")
    for cycle in import_cycles:
        print(f"  {len(cycle):4} {', '.join(cycle)}")
    lines = lines_per_package(named)
    print(f"lines of src: {lines.total()}")
    for package, count in sorted(lines.items()):
        print(f"  {count:6} {package}")
    tests = sum(path.read_text().count("\n") for path in (ROOT / "tests").rglob("*.py"))
    print(f"lines of tests: {tests}")
    return int(check and bool(crowded or families or import_cycles))


if __name__ == "__main__":
    sys.exit(main())
