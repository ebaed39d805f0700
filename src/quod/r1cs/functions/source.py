"""Functions of circuits, as commands name them: ``folder/age.py:age`` or ``package.module:age``."""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from quod.errors import InputError, QuodError
from quod.kernel.load import execute_file
from quod.names import nearest
from quod.r1cs.circuit import Circuit, trace

_SOURCE = re.compile(r"(.+\.py|[^\W\d][\w.]*):([^\W\d]\w*)", re.DOTALL)


def circuit_of_source(source: str | PathLike[str], curve: str) -> Circuit:
    """Trace the function of a Python file, which is executed, or of an installed module.

    The file may import modules of its folder. Raises InputError for another text than
    ``FILE.py:FUNCTION`` or ``MODULE:FUNCTION``, for a file that cannot be read or raises an
    exception, with its line, and for a function that the file does not define; and the errors of
    `trace`.
    """
    match = _SOURCE.fullmatch(fspath(source))
    if match is None:
        raise InputError(f"{fspath(source)!r} does not name a function as FILE.py:FUNCTION does")
    path, name = match.groups()
    function = getattr(_module(path), name, None)
    if not callable(function):
        raise InputError(f"has no function {name}{_suggestion(path, name)}", path=path)
    circuit: Circuit = _guarded(path, lambda: trace(function, curve))
    return circuit


def _suggestion(path: str, name: str) -> str:
    functions = [key for key, value in vars(_module(path)).items() if callable(value)]
    suggestion = nearest(name, functions)
    return "" if suggestion is None else f"; did you mean {suggestion}?"


def _module(path: str) -> Any:
    """Import a module, or execute a Python file as one; return that of an earlier call."""
    if not path.endswith(".py"):
        return _guarded(path, lambda: importlib.import_module(path))
    file = Path(path)
    if not file.is_file():
        raise InputError("is not a file that can be read", path=path)
    name = f"_quod_circuit_{file.resolve().as_posix()}"
    if name in sys.modules:
        return sys.modules[name]
    return _guarded(path, lambda: execute_file(file, name))


def _guarded(path: str, run: Callable[[], Any]) -> Any:
    """Translate an exception of the file's code to an InputError with the line."""
    try:
        return run()
    except (QuodError, KeyboardInterrupt):
        raise
    except BaseException as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(Path(path))
        ]
        if isinstance(error, SyntaxError) and error.filename == str(Path(path)):
            lines.append(error.lineno)
        where = f"line {lines[-1]}: " if lines else ""
        raise InputError(f"{where}{type(error).__name__}: {error}", path=path) from error
