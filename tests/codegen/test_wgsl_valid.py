"""Every kernel for GPUs as WGSL, accepted by naga and by Tint; and how much text it is.

The table beside this file has the size of each kernel when it was last looked at: drivers that
compile in software, and Metal's, take seconds for hundreds of kilobytes. It has a digest of the
text, too: `make test` looks at each kernel over one field or curve (`one_of_each`), and compiles
those whose portable text has another digest, and those that `representatives` has. `make test-all`
looks at all and compiles them. After a wanted change,
`QUOD_UPDATE_GOLDEN=1 pytest tests/codegen/test_wgsl_valid.py` writes the rows anew that are out of
date; read the diff.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from quod import catalogue
from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.machine import PORTABLE, WgslTarget
from quod.codegen.wgsl.module import Binding
from quod.frozen import replace
from quod.kernel import Machine
from quod.kernel.ir.nodes import Kernel
from quod.kernel.ir.types import PointerType
from quod.ntt.gpu.schedule import DEFAULT_TUNING
from tests.codegen.representatives import one_of_each, representatives
from tests.codegen.test_ptx_resources import CPU_ONLY
from tests.support.remembered import remembered
from tests.support.selection import runs_all
from tests.support.thorough import one_and_others
from tests.support.tint import Tint

TABLE = Path(__file__).parent / "wgsl_sizes.json"

LARGE = 250_000
"""Bytes of a text above which it is compiled only where QUOD_COMPILE_LARGE is set.

Those are kernels of twisted points, whose functions are checked in smaller kernels, and the
pairings, which the CPU computes for every proof.
"""
SMALL = 40_000
"""Bytes of a portable text up to which the kernel is compiled with what adapters offer, too."""

THOROUGH = (
    r"msm\.gpu\.combine_lines\[|ntt_point_(butterflies|multiples)\.|ceremony\.scalar_multiples"
)
"""Kernels of points whose texts take long; curve.add and curve.multiply have the same parts."""

NATIVE = WgslTarget(u64=True, subgroup_size=32)
BROWSER = WgslTarget(subgroup_size=32)

Errors = Callable[[str], list[str]]


@functools.cache
def _names() -> tuple[str, ...]:
    names = [row.name for row in catalogue.kernels()]
    return tuple(name for name in names if not any(re.match(p, name) for p in CPU_ONLY))


def _traced(name: str, target: WgslTarget) -> tuple[Kernel, Machine]:
    entry = catalogue.find(name)
    machine = target.machine()
    static = dict(entry.static)
    if re.match(r"ntt_.*_tiles", name):
        # A tile of the registered size would not fit.
        tile = replace(DEFAULT_TUNING, log_tile=8).tile(8)
        static["shape"] = replace(static["shape"], tile=tile)
    return entry.definition.trace(machine, **static), machine


def _text(name: str, target: WgslTarget, dialect: Any) -> str:
    kernel, machine = _traced(name, target)
    pointers = sum(isinstance(a.type, PointerType) for a in kernel.block.arguments)
    # Where there are too many, those at the end share a binding, as the device has it.
    last = target.limits.storage_buffers - 1
    shared = pointers > last + 1
    bindings = [Binding(min(i, last), offset=shared and i >= last) for i in range(pointers)]
    return wgsl.translate(kernel, machine, dialect=dialect, bindings=bindings).text


def _digest(text: str) -> str:
    """A digest of a text and of the version of naga."""
    return hashlib.sha256(f"{version('wgpu')}\n{text}".encode()).hexdigest()[:16]


def sizes_of(text: str) -> dict[str, int]:
    """The sizes of a text that the table has."""
    return {
        "bytes": len(text),
        "functions": len(re.findall(r"^fn ", text, re.MULTILINE)),
        "statements": text.count(";\n"),
    }


def _portable_text(name: str) -> str:
    # Without subgroups the dialects are the same.
    return _text(name, PORTABLE, "naga")


def _row(name: str) -> dict[str, Any]:
    text = _portable_text(name)
    return sizes_of(text) | {"text": _digest(text)}


def _in_every_run() -> list[str]:
    """Each kernel over one field or curve."""
    update = "QUOD_UPDATE_GOLDEN" in os.environ
    chosen = one_of_each(_names())
    return [
        name for name in _names() if update or (name in chosen and not re.match(THOROUGH, name))
    ]


def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    return table


def _write(table: dict[str, dict[str, Any]]) -> None:
    """A line a kernel, in the order of their names."""
    registered = {key: table[key] for key in sorted(table) if key in _names()}
    rows = (f"{json.dumps(key)}: {json.dumps(row)}" for key, row in registered.items())
    draft = TABLE.with_suffix(f".{os.getpid()}")
    draft.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    draft.replace(TABLE)


@pytest.mark.parametrize("name", one_and_others(_names(), _in_every_run()))
def test_all_kernels_are_valid_wgsl(name: str, tint: Tint, naga: Errors) -> None:
    update = "QUOD_UPDATE_GOLDEN" in os.environ
    recorded = _table().get(name, {})
    assert update or recorded, f"{name} is new: write its row with QUOD_UPDATE_GOLDEN=1"
    if not update and recorded["bytes"] > LARGE and "QUOD_COMPILE_LARGE" not in os.environ:
        pytest.skip(f"{recorded['bytes']} bytes; QUOD_COMPILE_LARGE=1 has them compiled")
    machine, entry = PORTABLE.machine(), catalogue.find(name)
    row = json.loads(
        remembered(__file__, version("wgpu"), entry, machine, lambda: json.dumps(_row(name)))
    )
    digest = row.pop("text")
    sizes: dict[str, int] = row
    if update:
        # The digest of a row says that the compilers accepted the text.
        compile_text(name, _portable_text(name), tint, naga)
        _write(_table() | {name: sizes | {"text": digest}})
        return
    for what, size in sizes.items():
        # Less is fine, too, and to be noted: a row that is out of date would let it grow again.
        assert abs(size - recorded[what]) <= recorded[what] * 0.1 + 256, f"{what}: {sizes}"
    if is_compiled(name, recorded, digest):
        compile_text(name, _portable_text(name), tint, naga)


def is_compiled(name: str, recorded: dict[str, Any], digest: str) -> bool:
    """Return whether this run compiles the kernel whose text has a digest."""
    return runs_all() or recorded["text"] != digest or name in representatives(_names())


def compile_text(name: str, text: str, tint: Tint, naga: Errors) -> None:
    """Have both compilers check a kernel's portable text, and that for adapters if it is small."""
    assert naga(text) == []
    assert tint.errors(text) == []
    if len(text) <= SMALL:
        assert naga(_text(name, NATIVE, "naga")) == []
        assert tint.errors(_text(name, BROWSER, "tint")) == []


def test_known_texts_are_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUOD_TEST", "")
    name = "field.sum[bn254.fq]"
    assert name not in representatives(_names())
    assert not is_compiled(name, {"text": "one"}, "one")
    assert is_compiled(name, {"text": "one"}, "another")
    assert is_compiled(min(_names()), {"text": "one"}, "one")
    monkeypatch.setenv("QUOD_TEST", "all")
    assert is_compiled(name, {"text": "one"}, "one")


def test_the_table_has_the_kernels() -> None:
    assert sorted(_table()) == sorted(_names())
