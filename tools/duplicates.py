"""Find duplicate code: runs of statements that are equal up to the names in them.

`make lint` prints the longest ones, and fails where there are more than the number in
`pyproject.toml`, which may only fall. pylint's checker compares lines, in different files only: it
takes six times as long and finds one in five of these.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETTINGS = ROOT / "pyproject.toml"

MIN_STATEMENTS = 5
"""The minimum number of statements in a run."""

MAX_SHOWN = 5

Word = tuple[str, bool]
"""A word of the syntax tree, and whether it is a name that may be chosen freely."""

Fingerprint = tuple[str | int, ...]


@dataclass(frozen=True)
class Statement:
    """A statement, without the statements inside it."""

    path: Path
    line: int
    depth: int
    words: tuple[Word, ...]


def statements(path: Path) -> list[Statement]:
    """Return a file's statements by line, without imports, docstrings and declarations."""

    def visit(outer: ast.AST, depth: int) -> Iterator[Statement]:
        for node in _inner(outer):
            if not _declares(node):
                yield Statement(path, node.lineno, depth, tuple(_words(node)))
            yield from visit(node, depth + 1)

    return list(visit(ast.parse(path.read_text()), 0))


def _declares(node: ast.stmt) -> bool:
    """Return whether a statement imports or declares; a class that only declares fields counts."""
    if isinstance(node, ast.ClassDef):
        return not node.decorator_list and all(map(_declares, node.body))
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Pass) or (
        isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr)
        and (node.value is None or isinstance(node.value, ast.Constant))
    )


def _inner(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements directly inside a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif not isinstance(child, ast.expr):
            yield from _inner(child)


def _words(node: ast.AST) -> Iterator[Word]:
    """Yield the words of a statement, without those of the statements inside it.

    Attributes and keywords do not count as names, as they say what the statement does. Texts are
    replaced by a constant word.
    """
    yield type(node).__name__, False
    for field, value in ast.iter_fields(node):
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                if not isinstance(part, ast.stmt | ast.expr_context):
                    yield from _words(part)
            elif isinstance(part, str) and isinstance(node, ast.Constant):
                yield "text", False
            elif part is not None:
                name = field in ("id", "arg", "name") and not isinstance(node, ast.keyword)
                yield str(part), name


def fingerprint(run: Sequence[Statement]) -> Fingerprint:
    """Return the common form of runs that differ in names: each name is its index among them."""
    order: dict[str, int] = {}
    tokens: list[str | int] = []
    for statement in run:
        tokens.append(statement.depth - run[0].depth)
        for word, named in statement.words:
            tokens.append(order.setdefault(word, len(order)) if named else word)
    return tuple(tokens)


@dataclass(frozen=True)
class DuplicateRun:
    """A run of `count` statements in lines first to last; `twin` begins the earlier equal run."""

    path: Path
    first: int
    last: int
    count: int
    twin: Statement

    def __str__(self) -> str:
        here, there = (path.relative_to(ROOT) for path in (self.path, self.twin.path))
        return f"{self.count:4} {here}:{self.first}-{self.last} ~ {there}:{self.twin.line}"


def duplicates(files: Sequence[list[Statement]]) -> Iterator[DuplicateRun]:
    """Yield the longest runs of each file that occur earlier in that file or in another file."""
    places: dict[Fingerprint, list[tuple[int, int]]] = defaultdict(list)
    for number, file_statements in enumerate(files):
        for at in range(len(file_statements) - MIN_STATEMENTS + 1):
            places[fingerprint(file_statements[at : at + MIN_STATEMENTS])].append((number, at))
    first: dict[tuple[int, int], tuple[int, int]] = {}
    for occurrences in places.values():
        for place in occurrences[1:]:
            # Overlapping runs are repetitions in sequence, such as the rows of a table.
            if place[0] != occurrences[0][0] or place[1] - occurrences[0][1] >= MIN_STATEMENTS:
                first[place] = occurrences[0]
    for number, file_statements in enumerate(files):
        at = 0
        while at < len(file_statements):
            if (number, at) not in first:
                at += 1
                continue
            twin, end = first[number, at], at
            while (number, end) in first:
                end += 1
            run = file_statements[at : end + MIN_STATEMENTS - 1]
            yield DuplicateRun(
                run[0].path, run[0].line, run[-1].line, len(run), files[twin[0]][twin[1]]
            )  # fmt: skip
            at = end + MIN_STATEMENTS - 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; return 1 if there are more duplicates than recorded."""
    parser = argparse.ArgumentParser(description="Where the sources say a thing twice.")
    parser.add_argument("--all", action="store_true", help="show every place")
    parser.add_argument("--record", action="store_true", help="keep a number that has fallen")
    options = parser.parse_args(arguments)
    duplicate_runs = list(
        duplicates([statements(path) for path in sorted((ROOT / "src").rglob("*.py"))])
    )
    total = sum(twins.count for twins in duplicate_runs)
    ceiling: int = tomllib.loads(SETTINGS.read_text())["tool"]["quod"]["duplicates"]
    print(f"duplicates: {total} statements stand elsewhere in src; at most {ceiling} may")
    for twins in sorted(duplicate_runs, key=lambda twin: -twin.count)[
        : None if options.all else MAX_SHOWN
    ]:
        print(twins)
    if options.record and total < ceiling:
        text = SETTINGS.read_text()
        SETTINGS.write_text(re.sub(r"(?m)^duplicates = \d+$", f"duplicates = {total}", text))
    elif total > ceiling:
        print("Say it once, and call it from both places; `python -m tools.duplicates --all`.")
        return 1
    elif total < ceiling:
        print("Fewer than recorded: `python -m tools.duplicates --record`.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
