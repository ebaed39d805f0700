"""`return`, `break` and `continue` out of a region: Python would leave it while tracing.

A region is recorded once, whatever its instances do at run time. A `return` in it would end the
trace and silently drop the rest of the kernel. A `with` statement cannot tell a `return` in its
body from the end of the body, so the source is parsed, once per file. Code without source (compiled
from a string) is not checked. User-defined context managers that enter a region in `__enter__` are
checked as well.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import linecache
from collections.abc import Iterator
from types import CodeType, FrameType

from quod.kernel.errors import TraceError
from quod.kernel.ir.nodes import Location

_CONTEXTLIB = contextlib.__file__

_Leave = ast.Return | ast.Break | ast.Continue


def check_leaving(frame: FrameType) -> None:
    """Raise TraceError if a statement leaves the body of the `with` that a frame is entering."""
    current: FrameType | None = frame
    while current is not None:
        _check_frame(current)
        current = _manager_user(current)


def _manager_user(frame: FrameType) -> FrameType | None:
    """Return the frame of the `with` statement, if `frame` is inside a context manager's entry."""
    caller = frame.f_back
    if frame.f_code.co_name == "__enter__":
        return caller
    is_generator = frame.f_code.co_flags & inspect.CO_GENERATOR
    if is_generator and caller is not None and caller.f_code.co_filename == _CONTEXTLIB:
        return caller
    return None


def _check_frame(frame: FrameType) -> None:
    code = frame.f_code
    if code.co_filename == _CONTEXTLIB:
        return
    statement = _leaving(code).get(frame.f_lineno)
    if statement is not None:
        word, line = statement
        raise TraceError(
            f"`{word}` leaves the region of a `with` while the kernel is traced, for every "
            "instance, and what follows is not recorded; put what follows in a branch of its own, "
            "or give a value with branch.yield_(...) or loop.next(...)",
            Location(code.co_filename, line),
        )


@functools.lru_cache(1024)
def _leaving(code: CodeType) -> dict[int, tuple[str, int]]:
    """Map the line of each `with` in the code to the keyword and line that leave it early."""
    lines = {line for _, _, line in code.co_lines()}
    leaving = leaving_statements(_source_of(code.co_filename))
    # Skip lines that the code does not have: the file has changed since it was compiled.
    return {
        start: (word, line) for start, word, line in leaving if start in lines and line in lines
    }


@functools.lru_cache(64)
def _source_of(file: str) -> str:
    return "".join(linecache.getlines(file))


@functools.lru_cache(64)
def leaving_statements(source: str) -> tuple[tuple[int, str, int], ...]:
    """List each `with` left early: its line, the leaving keyword and that statement's line."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    statements = []
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            for leave in _leaves(node.body, in_loop=False):
                word = type(leave).__name__.lower()
                statements += [
                    (item.context_expr.lineno, word, leave.lineno) for item in node.items
                ]
                break
    return tuple(statements)


def _leaves(body: list[ast.stmt], *, in_loop: bool) -> Iterator[_Leave]:
    """Yield the statements that leave a body, without `break` and `continue` of loops inside it."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, ast.Return) or (
            isinstance(node, (ast.Break, ast.Continue)) and not in_loop
        ):
            yield node
        loops = isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        for name, field in ast.iter_fields(node):
            if name == "handlers":
                for handler in field:
                    yield from _leaves(handler.body, in_loop=in_loop)
            elif name == "cases":
                for case in field:
                    yield from _leaves(case.body, in_loop=in_loop)
            elif isinstance(field, list) and field and isinstance(field[0], ast.stmt):
                # In the `else` of a loop, `break` refers to the loop around it.
                inside = in_loop or (loops and name == "body")
                yield from _leaves(field, in_loop=inside)
