"""Check docstring starts, local names, the width of Markdown lines, and commit subjects.

`python -m tools.words` prints each hit, and exits with 1 if there is one: a docstring that starts
without a noun or verb, a name that does not say what its value is, a line of prose that is too
wide, or a commit's subject that is too long.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.wrap import ROOT, WIDTH, pages, paragraphs, words

SOURCES = ("src", "tests", "tools", "benchmarks", "examples")
MAX_SUBJECT = 72

PRIVATE_NAMES = {
    "found", "own", "given", "made", "left", "more", "one", "whole", "known", "rest", "begun", "by",
}  # fmt: skip

_PRIVATE_START = re.compile(r"\s*(What|Where|Who|How|Whether|That|The same|Of)\b")
_IDENTITY = re.compile(r"\.one\b|\bconstant\(1[,)]")

# Tuples, as isinstance takes several times as long with unions.
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.NamedExpr)
_LEAVES = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)
_CAPTURES = (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


@dataclass(frozen=True)
class Hit:
    """A line of a file that a rule rejects, and why; the file is relative to the root."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(frozen=True)
class Binding:
    """A name that a scope binds, its line, and the value assigned to it, if any."""

    name: str
    line: int
    value: ast.expr | None


def docstring_starts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and reason of each docstring, also of variables, that starts without a noun."""
    for node in _statements(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str) and (start := _PRIVATE_START.match(text)):
                yield node.lineno, f'docstring starts with "{start[1]}", not with a noun or verb'


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements below a node, at any depth."""
    for child in _children(node):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, ast.expr):
            yield from _statements(child)


def private_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and reason of each local name that does not say what its value is."""
    for bindings in _scopes(tree):
        names = {binding.name for binding in bindings}
        for binding in bindings:
            if binding.name in PRIVATE_NAMES and not _allowed(binding, names):
                yield binding.line, f"name `{binding.name}` does not say what the value is"


def _allowed(binding: Binding, names: set[str]) -> bool:
    """Return whether a name is one of a pair of sides, or the identity of a ring."""
    if binding.name == "left":
        return "right" in names
    return (
        binding.name == "one"
        and binding.value is not None
        and bool(_IDENTITY.search(ast.unparse(binding.value)))
    )


def _scopes(tree: ast.Module) -> list[list[Binding]]:
    """Return the bindings of the module and of each function; fields of classes are left out."""
    scopes: list[list[Binding]] = [[]]

    def visit(node: ast.AST, scope: list[Binding], value: ast.expr | None) -> None:
        for child in _children(node):
            inner_scope, inner_value = scope, value
            if isinstance(child, ast.Name):
                if isinstance(child.ctx, ast.Store):
                    scope.append(Binding(child.id, child.lineno, value))
                continue
            if isinstance(child, ast.arg):
                scope.append(Binding(child.arg, child.lineno, None))
            elif isinstance(child, _CAPTURES) and child.name:
                scope.append(Binding(child.name, child.lineno, None))
            elif isinstance(child, _ASSIGNMENTS):
                inner_value = child.value
            elif isinstance(child, ast.comprehension):
                inner_value = None
            elif isinstance(child, _FUNCTIONS):
                inner_scope, inner_value = [], None
                scopes.append(inner_scope)
            elif isinstance(child, ast.ClassDef):
                inner_scope = []
            visit(child, inner_scope, inner_value)

    visit(tree, scopes[0], None)
    return scopes


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes directly below a node, without operators and contexts."""
    for field in node._fields:
        value = getattr(node, field)
        if isinstance(value, list):
            yield from (item for item in value if isinstance(item, ast.AST))
        elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
            yield value


def source_hits(root: Path) -> list[Hit]:
    """Return the docstrings and names that are rejected; generated files are left out."""
    hits: list[Hit] = []
    for path in sorted(path for folder in SOURCES for path in (root / folder).rglob("*.py")):
        if not path.stem.endswith("_pb2"):
            file, tree = path.relative_to(root).as_posix(), ast.parse(path.read_text())
            hits += [Hit(file, *hit) for hit in (*docstring_starts(tree), *private_names(tree))]
    return hits


def wide_lines(page: str) -> list[tuple[int, int]]:
    """Return number and width of each line of prose that is too wide and could be broken."""
    lines = page.split("\n")
    return [
        (number + 1, len(lines[number]))
        for paragraph in paragraphs(page)
        for number in range(paragraph.first, paragraph.end)
        if len(lines[number]) > WIDTH
        and len(words(lines[number].removeprefix(paragraph.prefix).lstrip(" >"))) > 1
    ]


def page_hits(root: Path) -> list[Hit]:
    """Return the lines of prose that are too wide."""
    return [
        Hit(path.relative_to(root).as_posix(), line, f"{width} columns, {WIDTH} allowed")
        for path in pages(root)
        for line, width in wide_lines(path.read_text())
    ]


def _git(root: Path, *arguments: str) -> str:
    """Return git's output; empty without git, and for commits that the clone does not have."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def branch_base(root: Path) -> str:
    """Return the commit where HEAD leaves main or origin/main; empty if there is none."""
    head = _git(root, "rev-parse", "HEAD")
    bases = (_git(root, "merge-base", "HEAD", branch) for branch in ("main", "origin/main"))
    return next((base for base in bases if base not in ("", head)), "")


def long_subjects(root: Path) -> list[str]:
    """Return a report of each long commit subject on the branch, or of HEAD's if it has no base.

    Merge commits, whose subjects git writes, are left out.
    """
    if not (root / ".git").exists():  # an archive, perhaps inside another repository
        return []
    base = branch_base(root)
    commits = [f"{base}..HEAD"] if base else ["-1", "HEAD"]
    log = _git(root, "log", "--no-merges", "--format=%h %s", *commits, "--")
    reports = []
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > MAX_SUBJECT:
            width = f"subject of {len(subject)} characters, {MAX_SUBJECT} allowed"
            reports.append(f"commit {commit}: {width}: {subject}")
    return reports


def main(root: Path = ROOT) -> int:
    """Print the hits; return 1 if there are any."""
    reports = [*map(str, source_hits(root)), *map(str, page_hits(root)), *long_subjects(root)]
    if reports:
        print("\n".join(reports))
    return int(bool(reports))


if __name__ == "__main__":
    sys.exit(main())
