"""Probes: calls before candidate statements that note which test runs them.

`plant` compiles the files that hold candidates with a call of a probe before each one, and `start`
makes this process load those files in place of the originals. The sources on disk and the line
numbers stay as they are, so that digests of sources, kernel texts and tracebacks do too. Processes
find the planted files by an environment variable, and children inherit it.

A process that pytest runs in keeps the numbers of the candidates until its test ends; any other
process appends each one at once to a file of its own, so that a killed process loses nothing.
"""

from __future__ import annotations

import ast
import builtins
import marshal
import os
from importlib.machinery import SourceFileLoader
from types import CodeType

# What every process of the run loads: nothing here imports more than the interpreter has loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tools.mutants.candidates import Candidate

FOLDER = "QUOD_MUTANTS_FOLDER"
"""The environment variable with the folder of a record."""

OWNER = "QUOD_MUTANTS_OWNER"
"""The environment variable with the test, or the shared fixture, that is running."""

HITS = "hits"
TESTS = "tests"

_PROBE = "__quod_mutants_probe__"
_INDEX = "planted"

seen: set[int] = set()
"""The candidates that this process ran since the test began."""

_keeper: int | None = None
_output: tuple[int, int] | None = None


def plant(tree: Path, candidates: Iterable[Candidate | None], folder: Path) -> None:
    """Compile the files of a tree that hold candidates, with probes that have their numbers.

    Writes the compiled files and their index into a folder, for processes of this Python version.
    """
    from tools.mutants.candidates import places_of

    numbers: dict[str, dict[int, int]] = {}
    for number, candidate in enumerate(candidates):
        if candidate is not None:
            numbers.setdefault(candidate.path, {})[candidate.line] = number
    index: dict[str, str] = {}
    for path, lines in numbers.items():
        file = (tree / path).resolve()
        module, places = places_of(tree, file.relative_to(tree.resolve()))
        for place in places:
            if place.candidate.line in lines:
                _insert_probe(place.block, place.statement, lines[place.candidate.line])
        code = compile(module, str(file), "exec", dont_inherit=True)
        target = folder / f"{len(index)}.code"
        target.write_bytes(marshal.dumps(code))
        index[str(file)] = str(target)
    for name in (HITS, TESTS):
        (folder / name).mkdir(exist_ok=True)
    (folder / _INDEX).write_bytes(marshal.dumps(index))


def start() -> None:
    """Load planted files in this process from now on."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    with open(os.path.join(folder, _INDEX), "rb") as file:
        index = marshal.loads(file.read())
    original = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        planted = index.get(os.path.abspath(self.path)) if "quod" in self.path else None
        if planted is None:
            return original(self, fullname)
        with open(planted, "rb") as file:
            code: CodeType = marshal.loads(file.read())
        return code

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
    setattr(builtins, _PROBE, probe)


def keep() -> None:
    """Keep the numbers in `seen`, for a caller that writes them; forked children write theirs."""
    global _keeper
    _keeper = os.getpid()


def probe(number: int) -> None:
    """Note that a candidate runs."""
    if number not in seen:
        seen.add(number)
        if os.getpid() != _keeper:
            _append(number)


def _append(number: int) -> None:
    """Append a line to the file of this process."""
    global _output
    pid = os.getpid()
    if _output is None or _output[0] != pid:
        path = os.path.join(os.environ[FOLDER], HITS, str(pid))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        _output = pid, os.open(path, flags, 0o600)
    os.write(_output[1], f"{number} {os.environ.get(OWNER, '')}\n".encode())


def _insert_probe(block: list[ast.stmt], statement: ast.stmt, number: int) -> None:
    call = ast.Call(ast.Name(_PROBE, ast.Load()), [ast.Constant(number)], [])
    node = ast.copy_location(ast.Expr(call), statement)
    for part in ast.walk(node):
        ast.copy_location(part, statement)
    block.insert(block.index(statement), node)
