"""Globals and captured variables that a kernel's Python code reads, and checks for changes.

A cached trace of a kernel depends on the values that these variables had during the trace, so later
changes would be ignored silently. The values are recorded at the first trace and compared whenever
the kernel is requested again. Quod's own kernels read constants only and are not checked.

The record covers the kernel's code and the user's functions and classes that it reaches.
Numbers, strings and containers are compared by content, other objects by identity. Names that the
kernel itself changes during the trace are left out.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePath, PurePosixPath
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from quod.frozen import frozen
from quod.kernel.errors import OWN_FILES, TraceError
from quod.kernel.ir.nodes import Location

_ATOMS = (int, float, complex, str, bytes, bool, type(None))
_MAX_DEPTH = 6
_MISSING = object()


class _IdentityKey:
    """An object that equals only itself."""

    def __init__(self, item: object) -> None:
        self.item = item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _IdentityKey) and self.item is other.item

    __hash__ = None  # type: ignore[assignment]


@frozen
class _CapturedVariable:
    """One variable: where and how it is read, and its value at the first trace."""

    name: str
    location: Location
    current: Callable[[], Any]
    value: Any
    shown: str
    frozen: Any

    @classmethod
    def of(cls, name: str, location: Location, current: Callable[[], Any]) -> _CapturedVariable:
        value = current()
        return cls(name, location, current, value, _short(value), _snapshot(value))

    def is_same(self) -> bool:
        """Return whether the variable has kept its value."""
        current_value = self.current()
        if current_value is self.value and isinstance(current_value, (*_ATOMS, ModuleType, type)):
            return True
        is_equal: bool = _snapshot(current_value) == self.frozen
        return is_equal


class CapturedVariables:
    """The variables that one kernel reads, from its first trace on."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._name = name
        self._reads: list[_CapturedVariable] | None = None
        code = getattr(function, "__code__", None)
        if code is None or code.co_filename.startswith(OWN_FILES):
            self._reads = []

    def watch(self, trace: Callable[[], None]) -> None:
        """Run `trace`; raise TraceError if a variable has changed since the first trace."""
        if self._reads is not None:
            self.check()
            trace()
            return
        reads = list(_variables_reached(self._function))
        trace()
        self._reads = [read for read in reads if read.is_same()]

    def check(self) -> None:
        """Raise TraceError, naming the variable, if one has changed since the first trace."""
        for read in self._reads or ():
            if not read.is_same():
                raise TraceError(
                    f"the kernel {self._name} was traced with {read.name} = {read.shown}, "
                    f"which is {_short(read.current())} now; make it a parameter behind the `*`, "
                    "or define the kernel again",
                    read.location,
                )


def _short(value: object) -> str:
    if value is _MISSING:
        return "gone"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# --- the variables that code reads


def _variables_reached(function: Callable[..., Any]) -> Iterator[_CapturedVariable]:
    seen: set[int] = set()
    pending: list[Any] = [function]
    while pending:
        item = _unwrapped(pending.pop())
        if id(item) in seen:
            continue
        seen.add(id(item))
        # `compile` accepts an empty file name.
        if isinstance(item, FunctionType) and _is_authors(item.__code__.co_filename or "<string>"):
            for read in _variables_read(item):
                yield read
                pending.append(read.value)
        elif isinstance(item, type) and _is_authors(_source_file(item)):
            pending += vars(item).values()
        elif _is_authors(_source_file(type(item))):
            pending.append(type(item))


def _unwrapped(item: Any) -> Any:
    """Return the function behind decorators, methods and partial applications."""
    while True:
        if isinstance(item, functools.partial):
            item = item.func
        elif isinstance(item, property):
            item = item.fget
        elif isinstance(item, functools.cached_property):
            item = item.func
        elif isinstance(item, (FunctionType, staticmethod, classmethod)) and hasattr(
            item, "__wrapped__"
        ):
            item = item.__wrapped__
        else:
            return item


def _source_file(kind: type) -> str:
    """Return the source file of a class, from its methods, or else from its module."""
    for member in vars(kind).values():
        code = getattr(_unwrapped(member), "__code__", None)
        if code is not None and not code.co_filename.startswith("<"):
            return str(code.co_filename)
    module = kind.__module__
    # Classes defined at the interactive prompt have no file.
    return getattr(sys.modules.get(module), "__file__", None) or (
        module if module == "__main__" else ""
    )


def _is_authors(file: str) -> bool:
    return bool(file) and not file.startswith((OWN_FILES, *_installed(_path())))


def _path() -> tuple[str, ...]:
    # Python ignores entries of sys.path that are not strings.
    entries: list[object] = [*sys.path]
    return tuple(entry for entry in entries if isinstance(entry, str))


@functools.lru_cache(maxsize=8)
def _installed(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path prefixes of third-party code.

    These are Python's package folders and packages installed elsewhere on the path, such as by
    ``pip install --target`` next to the user's own code.
    """
    import sysconfig

    names = ("stdlib", "platstdlib", "purelib", "platlib")
    prefixes = {sysconfig.get_path(name) + os.sep for name in names}
    for entry in path:
        # An unreadable or missing folder has no installed packages.
        with suppress(OSError, ValueError):
            folder = os.path.abspath(entry)
            if folder + os.sep not in prefixes:
                for dist_info in Path(folder).glob("*.dist-info"):
                    prefixes |= {os.path.join(folder, name) for name in _names_of(dist_info)}
    return tuple(prefixes)


def _names_of(dist_info: Path) -> Iterator[str]:
    """List an installation's packages, with a trailing separator, and its top-level modules.

    Empty if the list of files is damaged. Namespace packages are listed by their modules, because
    the user's own code may share the folder.
    """
    files = _files_of(dist_info)
    packages = {file.parent for file in files if file.name.split(".")[0] == "__init__"}
    for file in files:
        parent_packages = [parent for parent in file.parents if parent.name and parent in packages]
        if parent_packages:
            yield str(parent_packages[-1]) + os.sep
        elif file.suffix == ".py":
            yield str(file)


def _files_of(dist_info: Path) -> list[PurePath]:
    """Return the files of one installed package in its site folder, relative to the folder."""
    import csv

    record = dist_info / "RECORD"
    try:
        # Reading a pipe or device may never end.
        text = record.read_text("utf-8") if record.is_file() else ""
        names = [row[0] for row in csv.reader(text.splitlines()) if row]
    except (OSError, ValueError, csv.Error):
        return []
    # Scripts are installed outside the folder.
    paths = (PurePath(*PurePosixPath(name).parts) for name in names)
    return [file for file in paths if not file.is_absolute() and ".." not in file.parts]


def _variables_read(function: FunctionType) -> Iterator[_CapturedVariable]:
    """Yield the variables that a function's code and its nested functions read."""
    file = function.__code__.co_filename
    definition = Location(file, function.__code__.co_firstlineno)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield _CapturedVariable.of(name, definition, functools.partial(_content, cell))
    variables = function.__globals__
    for code in _nested_code(function.__code__):
        names: list[str] = []
        for instruction in dis.get_instructions(code):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names = [str(instruction.argval)]
                if names[0] not in variables:
                    names = []
                    continue
                current: Callable[[], Any] = functools.partial(variables.get, names[0], _MISSING)
            elif names and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                holder = current()
                if not isinstance(holder, (ModuleType, type)):
                    names = []
                    continue
                names.append(str(instruction.argval))
                current = functools.partial(getattr, holder, names[-1], _MISSING)
            else:
                names = []
                continue
            line = instruction.positions.lineno if instruction.positions else None
            location = Location(file, line or code.co_firstlineno)
            yield _CapturedVariable.of(".".join(names), location, current)


def _content(cell: Any) -> Any:
    """Return the value of a captured variable; `_MISSING` if it is not assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _nested_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested_code(constant)


# --- snapshots of values


# Classes of the standard library whose instances are nothing but their attributes.
_PLAIN_CLASSES = {("types", "SimpleNamespace"), ("argparse", "Namespace")}


def _snapshot(value: Any) -> Any:
    """Return a snapshot of a value, for comparing it later."""
    return _Freezer().freeze(value, 0)


class _Freezer:
    """The snapshot of one value; repeated objects become references, so cycles terminate."""

    def __init__(self) -> None:
        self._visited: dict[int, int] = {}

    def freeze(self, value: Any, depth: int) -> Any:
        value = _unwrapped(value)
        if isinstance(value, float):
            return float, value.hex()
        if type(value) in _ATOMS:
            return type(value), value
        if isinstance(value, np.generic):
            return value.dtype.str, value.tobytes()
        if isinstance(value, range):
            return range, value.start, value.stop, value.step
        if depth >= _MAX_DEPTH:
            return _IdentityKey(value)
        freeze_inner = functools.partial(self.freeze, depth=depth + 1)
        if isinstance(value, FunctionType):
            # Captured variables of the user's functions are recorded separately.
            code = _IdentityKey(value) if value.__closure__ else value.__code__
            return code, freeze_inner(value.__defaults__), freeze_inner(value.__kwdefaults__)
        if isinstance(value, tuple):
            return type(value), [freeze_inner(item) for item in value]
        if id(value) in self._visited:
            return _Freezer, self._visited[id(value)]
        content = self._content(value, freeze_inner)
        return _IdentityKey(value) if content is None else (type(value), content)

    def _content(self, value: Any, freeze_inner: Callable[[Any], Any]) -> Any:
        """Return the content of a container or mutable object; None for other objects."""
        self._visited[id(value)] = len(self._visited)
        if isinstance(value, (list, deque)):
            return [freeze_inner(item) for item in value]
        if isinstance(value, dict):
            return [(freeze_inner(key), freeze_inner(item)) for key, item in value.items()]
        if isinstance(value, (set, frozenset)):
            return set(value)
        if isinstance(value, np.ndarray):
            return value.dtype.str, value.shape, value.tobytes()
        if isinstance(value, (bytearray, array)):
            return getattr(value, "typecode", ""), bytes(value)
        kind = type(value)
        if _is_authors(_source_file(kind)) or (kind.__module__, kind.__name__) in _PLAIN_CLASSES:
            return [(name, freeze_inner(item)) for name, item in _attributes(value)]
        del self._visited[id(value)]
        return None


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """Return the instance attributes of an object, including `__slots__`."""
    attributes = list(getattr(value, "__dict__", {}).items())
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                attributes.append((name, getattr(value, name)))
    return attributes
