"""Candidate lines: the statements of src/quod that a mutation can change.

A candidate is a statement inside a function. Statements of modules and class bodies run when a
module is imported, thus for every test, and are left out; so are statements without a mutation
(see `tools.mutants.mutations`), blocks for type checkers and generated modules.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from tools.mutants.mutations import can_change

PACKAGE = Path("src") / "quod"

_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Candidate:
    """A statement of a tree.

    path: its file, relative to the tree.
    line: its first line, from 1.
    text: that line without indentation.
    function: the qualified name of the innermost function around it, without the module.
    statement: the statement in normal form, without its body.
    """

    path: str
    line: int
    text: str
    function: str
    statement: str


@dataclass(frozen=True)
class CandidateSyntax:
    """A candidate with its syntax: the statement and the list of statements that holds it."""

    candidate: Candidate
    statement: ast.stmt
    block: list[ast.stmt]


def places_of(tree: Path, path: Path) -> tuple[ast.Module, list[CandidateSyntax]]:
    """Return the syntax of a file, given by its path in the tree, and its candidates."""
    source = (tree / path).read_text()
    module = ast.parse(source)
    lines = source.splitlines()
    places: dict[int, CandidateSyntax] = {}
    for function, statement, block in _statements(module, "", ""):
        if function and can_change(statement):
            candidate = Candidate(
                path.as_posix(), statement.lineno, lines[statement.lineno - 1].strip(), function,
                _normal_form(statement),
            )  # fmt: skip
            # The first of several statements on a line stands for that line.
            places.setdefault(statement.lineno, CandidateSyntax(candidate, statement, block))
    return module, list(places.values())


def draw(tree: Path, count: int, seed: int) -> list[Candidate]:
    """Draw candidates of a tree at random, uniformly over their lines."""
    every = [place.candidate for path in files_of(tree) for place in places_of(tree, path)[1]]
    return Random(seed).sample(every, min(count, len(every)))


def files_of(tree: Path) -> list[Path]:
    """Return the files of the package that are written by hand, relative to the tree."""
    files = sorted((tree / PACKAGE).rglob("*.py"))
    return [file.relative_to(tree) for file in files if not file.stem.endswith("_pb2")]


def locate(tree: Path, candidates: Iterable[Candidate]) -> list[Candidate | None]:
    """Find candidates of another tree in this one: None for those that it does not have.

    A statement is the same if its text and its function's name are. Of several, that of the same
    file and the same line counts, then that of the same file, then that of the same file name; it
    counts as absent if more than one is left.
    """
    named: dict[tuple[str, str], list[Candidate]] = {}
    for path in files_of(tree):
        for place in places_of(tree, path)[1]:
            key = (place.candidate.function, place.candidate.statement)
            named.setdefault(key, []).append(place.candidate)
    return [
        _closest(wanted, named.get((wanted.function, wanted.statement), []))
        for wanted in candidates
    ]


def write(path: Path, candidates: Iterable[Candidate]) -> None:
    """Write candidates as JSON, one a line."""
    rows = ",\n".join(json.dumps(asdict(candidate)) for candidate in candidates)
    path.write_text(f"[\n{rows}\n]\n")


def read(path: Path) -> list[Candidate]:
    """Read the candidates that `write` wrote."""
    return [Candidate(**row) for row in json.loads(path.read_text())]


def _closest(wanted: Candidate, equal: list[Candidate]) -> Candidate | None:
    name = Path(wanted.path).name
    for group in (
        [
            candidate
            for candidate in equal
            if (candidate.path, candidate.line) == (wanted.path, wanted.line)
        ],
        [candidate for candidate in equal if candidate.path == wanted.path],
        [candidate for candidate in equal if Path(candidate.path).name == name],
        equal,
    ):
        if group:
            return group[0] if len(group) == 1 else None
    return None


def _statements(
    node: ast.AST, scope: str, function: str
) -> Iterator[tuple[str, ast.stmt, list[ast.stmt]]]:
    """Yield the statements below a node with the function and the list that hold them.

    `scope` is the qualified name around the node, `function` the same if code there runs in a
    function, and empty if it runs on import.
    """
    for _, block in ast.iter_fields(node):
        if not isinstance(block, list):
            continue
        for child in block:
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.stmt):
                yield function, child, block
            if isinstance(child, _DEFINITIONS):
                inner = f"{scope}.{child.name}" if scope else child.name
                runs_on_import = isinstance(child, ast.ClassDef) and not function
                yield from _statements(child, inner, "" if runs_on_import else inner)
            elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield from _statements(child, scope, function)


def _normal_form(statement: ast.stmt) -> str:
    """Return a statement's text with one layout, without its body."""
    if not hasattr(statement, "body"):
        return ast.unparse(statement)
    bodies: dict[str, list[ast.stmt]] = {
        name: [] for name in ("body", "orelse", "finalbody", "handlers") if hasattr(statement, name)
    }
    fields = {**dict(ast.iter_fields(statement)), **bodies}
    header = type(statement)(**fields)
    ast.copy_location(header, statement)
    return ast.unparse(header)
