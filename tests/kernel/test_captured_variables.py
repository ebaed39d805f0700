"""Variables outside a kernel that change after it was traced."""

from __future__ import annotations

import dis
import sys
from argparse import Namespace
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.kernel import U32, Builder, Pointer, TraceError, Value, function, kernel
from quod.kernel.builder import captured_variables as outside
from tests.kernel.machines import EIGHT

FACTOR = 3
TABLE = [1, 2, 3]


class Settings:
    width = 4


def helper(value: Value) -> Value:
    return value * TABLE[0] + Settings.width


@kernel
def reads(k: Builder, y: Pointer[U32]) -> None:
    y[k.local_id()] = helper(y[k.local_id()]) * FACTOR


def test_changed_global_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    device = open_device("cpu")
    device.compile(reads, lanes=8)
    monkeypatch.setitem(globals(), "FACTOR", int("3"))
    device.compile(reads, lanes=8)
    for change, name, before, now in (
        (lambda: monkeypatch.setitem(globals(), "FACTOR", 5), "FACTOR", "3", "5"),
        (lambda: TABLE.__setitem__(0, 9), "TABLE", "[1, 2, 3]", "[9, 2, 3]"),
        (lambda: monkeypatch.setattr(Settings, "width", 5), "Settings.width", "4", "5"),
    ):
        change()
        for use in (lambda: device.compile(reads, lanes=8), lambda: reads.trace(EIGHT)):
            with pytest.raises(TraceError) as caught:
                use()
            message = f"the kernel reads was traced with {name} = {before}, which is {now} now; "
            assert message in str(caught.value)
            assert str(caught.value).startswith(f"{__file__}:")
        monkeypatch.undo()
        TABLE[0] = 1
        device.compile(reads, lanes=8)


def test_changed_closure_variable_is_reported() -> None:
    factor = 3

    @function
    def scaled(k: Builder, value: Value) -> Value:
        return value * factor

    @kernel
    def captured(k: Builder, y: Pointer[U32]) -> None:
        y[0] = scaled(k, y[0])

    device = open_device("emulated")
    device.compile(captured)
    factor = 4
    with pytest.raises(TraceError, match=r"traced with factor = 3, which is 4 now"):
        device.compile(captured)


class Bare:
    """A class of the author, without a method that would show it."""


@dataclass
class Sizes:
    width: int


@dataclass(slots=True)
class Slotted:
    width: int


def by_default(width: int = 2, *, offset: int = 0) -> int:
    return width + offset


def chained() -> Bare:
    outer = Bare()
    outer.inner = Bare()  # type: ignore[attr-defined]
    outer.inner.width = 2  # type: ignore[attr-defined]
    outer.inner.back = outer  # type: ignore[attr-defined]
    return outer


@pytest.mark.parametrize(
    ("value", "read", "change"),
    [
        (Sizes(2), lambda v: v.width, lambda v: setattr(v, "width", 3)),
        (Slotted(2), lambda v: v.width, lambda v: setattr(v, "width", 3)),
        (SimpleNamespace(width=2), lambda v: v.width, lambda v: setattr(v, "width", 3)),
        (Namespace(width=2), lambda v: v.width, lambda v: setattr(v, "width", 3)),
        (chained(), lambda v: v.inner.width, lambda v: setattr(v.inner, "width", 3)),
        (deque([2]), lambda v: v[0], lambda v: v.append(v.popleft() + 1)),
        (bytearray(b"2"), lambda v: v[0], lambda v: v.__setitem__(0, 3)),
        (array("I", [2]), lambda v: v[0], lambda v: v.__setitem__(0, 3)),
        (by_default, lambda v: v(), lambda v: setattr(v, "__defaults__", (3,))),
        (by_default, lambda v: v(), lambda v: v.__kwdefaults__.update(offset=1)),
    ],
)
def test_object_mutated_in_place_is_reported(
    value: Any, read: Callable[[Any], int], change: Callable[[Any], None]
) -> None:
    @kernel
    def reading(k: Builder, y: Pointer[U32]) -> None:
        y[0] = read(value)

    reading.trace(EIGHT)
    reading.trace(EIGHT)
    change(value)
    with pytest.raises(TraceError, match="the kernel reading was traced with value = "):
        reading.trace(EIGHT)


def test_equal_replacement_value_is_accepted() -> None:
    value: Any = np.uint32(2)

    @kernel
    def reading(k: Builder, y: Pointer[U32]) -> None:
        y[0] = value if np.ndim(value) == 0 and not isinstance(value, range) else len(value)

    for equal in (lambda: np.uint32(2), lambda: range(2)):
        value = equal()
        again = kernel(reading.function)
        again.trace(EIGHT)
        value = equal()
        again.trace(EIGHT)


def test_variables_changed_by_the_kernel_are_ignored() -> None:
    traces: list[int] = []

    @kernel
    def counted(k: Builder, y: Pointer[U32], *, factor: int) -> None:
        traces.append(factor)
        y[0] = factor

    device = open_device("emulated")
    for factor in (1, 2, 1):
        device.compile(counted, factor=factor)
    assert traces == [1, 2]


def test_captured_variable_checks_are_fast() -> None:
    device, calls = open_device("cpu"), 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    device.compile(reads, lanes=8)
    sys.setprofile(count)
    try:
        device.compile(reads, lanes=8)
    finally:
        sys.setprofile(None)
    # Some 120, in as many microseconds; one that traces or compiles makes thousands.
    assert 0 < calls < 240


def test_kernels_in_modules_loaded_from_files_are_checked(tmp_path: Path) -> None:
    """Kernels of a module loaded from a file are checked too."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from quod.kernel import *\n@kernel\ndef mine(k: Builder, n: U32) -> None:\n"
        "    with k.if_(n < 3):\n        return\n"
    )
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(TraceError, match=r"mine\.py:5: `return` leaves"):
        names["mine"].trace(EIGHT)


@pytest.mark.parametrize("file", ["", "<string>", "<stdin>", "mine.py"])
def test_kernels_of_compiled_text_are_tracked(file: str) -> None:
    names: dict[str, Any] = {}
    text = (
        "from quod.kernel import *\nFACTOR = 3\n@kernel\n"
        "def mine(k: Builder, y: Pointer[U32]) -> None:\n"
        "    y[k.local_id()] = y[k.local_id()] * FACTOR\n"
    )
    exec(compile(text, file, "exec"), names)
    names["mine"].trace(EIGHT)
    names["FACTOR"] = 4
    with pytest.raises(TraceError, match="with FACTOR = 3"):
        names["mine"].trace(EIGHT)


def test_installed_packages_are_not_tracked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package beside the author's own modules, as ``pip install --target .`` leaves it."""
    (tmp_path / "scales").mkdir()
    for name in ("scales/__init__.py", "levels.py"):
        (tmp_path / name).write_text("LEVEL = 1\ndef of(value):\n    return value * LEVEL\n")
    (tmp_path / "scales-1.0.dist-info").mkdir()
    record = "scales/__init__.py,,\nlevels.py,,\nscales-1.0.dist-info/RECORD,,\n"
    (tmp_path / "scales-1.0.dist-info" / "RECORD").write_text(record)
    (tmp_path / "levels_of_mine.py").write_text(
        "import levels, scales\nfrom quod.kernel import *\nFACTOR = 2\n@kernel\n"
        "def mine(k: Builder, y: Pointer[U32]) -> None:\n"
        "    y[k.local_id()] = levels.of(scales.of(y[k.local_id()])) * FACTOR\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module: Any = import_module("levels_of_mine")
    try:
        module.mine.trace(EIGHT)
        module.scales.LEVEL = module.levels.LEVEL = 5
        module.mine.trace(EIGHT)
        module.FACTOR = 3
        with pytest.raises(TraceError, match=r"was traced with FACTOR = 2, which is 3 now"):
            module.mine.trace(EIGHT)
    finally:
        for name in ("levels_of_mine", "levels", "scales"):
            del sys.modules[name]


@pytest.mark.parametrize(
    "record",
    [
        bytes(range(128, 256)), b"\n\n,,\n", b".,,\n", b"a,b,c,d,e\n", b"a/b.py,sha256=x,three\n",
        b"a" * 200_000 + b",,\n", b'"', b"\0,\0", None,
    ],
)  # fmt: skip
def test_damaged_record_files_are_tolerated(record: bytes | None, tmp_path: Path) -> None:
    about = tmp_path / "a-1.0.dist-info"
    about.mkdir()
    if record is None:
        (about / "RECORD").symlink_to("RECORD")
    else:
        (about / "RECORD").write_bytes(record)
    (tmp_path / "b-1.0.dist-info").write_text("no folder")
    (tmp_path / "c-1.0.dist-info" / "RECORD").mkdir(parents=True)
    (tmp_path / "d-1.0.dist-info").mkdir()
    (tmp_path / "d-1.0.dist-info" / "RECORD").write_text("theirs/__init__.py,,\n")
    prefixes = outside._installed((str(tmp_path),))
    assert f"{tmp_path}/theirs/" in prefixes
    assert not f"{tmp_path}/mine.py".startswith(prefixes)


def test_invalid_sys_path_entries_are_tolerated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    odd: list[Any] = [
        str(tmp_path / "file"), str(tmp_path / "none"), "", "a\0b", "\ud800", "a/" * 5000,
        None, 3, b"bytes", ["list"], tmp_path,
    ]  # fmt: skip
    monkeypatch.setattr(sys, "path", odd + sys.path)
    assert outside._is_authors(str(tmp_path / "mine.py"))
    assert not outside._is_authors(dis.__file__)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    outside._installed.cache_clear()
    assert outside._is_authors(str(tmp_path / "mine.py"))


def test_user_modules_are_not_treated_as_installed(tmp_path: Path) -> None:
    """Modules beside scripts, and in namespace packages."""
    (tmp_path / "a-1.0.dist-info").mkdir()
    (tmp_path / "a-1.0.dist-info" / "RECORD").write_text(
        "../../bin/a,,\n/usr/share/a.py,,\ncompany/theirs/__init__.py,,\ncompany/theirs/b/c.py,,\n"
        "company/also.py,,\n__init__.py,,\n"
    )
    prefixes = outside._installed((str(tmp_path),))
    mine = ("company/own.py", "company/mine/__init__.py", "../own/mine.py", "mine.py")
    assert not any(f"{tmp_path}/{name}".startswith(prefixes) for name in mine)
    theirs = ("company/theirs/__init__.py", "company/theirs/b/c.py", "company/also.py")
    assert all(f"{tmp_path}/{name}".startswith(prefixes) for name in theirs)
