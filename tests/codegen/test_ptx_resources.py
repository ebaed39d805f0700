"""Every registered kernel assembled with no GPU: registers, spills, stack.

The table beside this file has what each kernel needed when it was last assembled, and of which text
by which assembler that is. A kernel whose text is that one is not assembled again, which takes
minutes; it is where the text or the assembler is another. `make test` compares each kernel's text
over one field or curve (`one_of_each`) for one architecture, and for all where `representatives`
has the kernel. `make test-all` compares all texts, and assembles short kernels always.
`QUOD_ASSEMBLE=all` assembles all but the pairings, `QUOD_ASSEMBLE=large` those too. After a wanted
change, `QUOD_UPDATE_GOLDEN=1 pytest tests/codegen/test_ptx_resources.py` writes the rows anew that
are out of date; read the diff.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from quod import catalogue
from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from tests.codegen.representatives import one_of_each, representatives
from tests.support.ptx_assembler import ARCHITECTURES, assemble, usage
from tests.support.remembered import remembered
from tests.support.selection import runs_all
from tests.support.thorough import one_and_others

TABLE = Path(__file__).parent / "ptx_resources.json"
SHORT = 500
"""Lines of a text below which it is assembled in each run of `make test-all`."""

SAMPLED = "sm_90a"
"""The architecture for which `make test` compares the texts of all kernels."""

LARGE = 40_000
"""Lines of a text above which it is assembled only where QUOD_ASSEMBLE=large says so.

Those are the pairings, which the CPU computes for every proof; they take the assembler minutes.
"""

CPU_ONLY = {
    r"curve\.subgroup_multiples\[": "a few points, which the lanes of a CPU multiply together",
    r"msm\.accumulate\[": "buckets of CPUs, in limbs of 64 bits; msm.gpu.accumulate is for GPUs",
    r"msm\.(combine|weigh|precompute)\[": "MSMs on GPUs reduce and double by msm.gpu's kernels",
    r"ntt_(ascending|descending)_pass\.": "passes of CPUs; ntt_*_tiles are for GPUs",
    r"ntt_(to_limbs|fill_column_table)\.": "rows of CPUs, in their limbs",
    r"ntt_reverse_bits$": "a tile in the registers of one lane, as CPUs want it",
}
"""Kernels that no GPU is given, and why."""

WGSL_ONLY = {
    r"msm\.gpu\.sum_round\[": "where lanes cannot shuffle; CUDA has sum_lines and sum_short_lines",
    r"msm\.gpu\.(sum_terms|accumulate_completely)\[": "for browsers, which compile WGSL",
}
"""Kernels that CUDA is given none of, and why."""

HOT = r"field\.|msm\.gpu\.accumulate\[[^,]*g1, |ntt_.*_tiles"
"""Kernels on which the time goes: they may not spill."""

BOUND: dict[str, tuple[str, ...]] = {
    r"msm\.gpu\.accumulate\[bls12_377\.g1, weierstrass\]": ARCHITECTURES,
    r"msm\.gpu\.accumulate\[(bls12_381\.g1, weierstrass|bls12_377\.g1, edwards)\]": ("sm_120",),
}
"""Hot kernels whose registers are limited for more resident workgroups, at a small spill there."""


def _may_spill(name: str, arch: str) -> bool:
    if not re.match(HOT, name):
        return True
    return any(re.match(pattern, name) and arch in archs for pattern, archs in BOUND.items())


THOROUGH = r"curve\.(miller_loops|pairing_final)\[|ntt_point_butterflies\."
"""Kernels whose texts take seconds to emit."""


@functools.cache
def _names() -> tuple[str, ...]:
    names = [row.name for row in catalogue.kernels()]
    return tuple(name for name in names if not any(re.match(p, name) for p in CPU_ONLY | WGSL_ONLY))


def _in_every_run() -> list[str]:
    update = "QUOD_UPDATE_GOLDEN" in os.environ
    chosen = one_of_each(_names())
    return [
        name for name in _names() if update or (name in chosen and not re.match(THOROUGH, name))
    ]


def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(TABLE.read_text())
    return table


def _emitted(name: str, arch: str) -> str:
    machine = ptx_machine(arch=arch)
    return ptx.emit(catalogue.find(name).trace(machine), machine)


_assembler = functools.cache(functools.partial(version, "nvidia-nvjitlink"))


def _digest(text: str) -> str:
    """Which text this is, and which assembler would have it."""
    return hashlib.sha256(f"{_assembler()}\n{text}".encode()).hexdigest()[:16]


def _measured(text: str, arch: str) -> dict[str, Any]:
    resources = usage(assemble(text, arch)[1])
    return {
        "text": _digest(text),
        "registers": resources.registers,
        "spilled": resources.spill_store_bytes + resources.spill_load_bytes,
        "stack": resources.stack_bytes,
    }


def _must_assemble(lines: int) -> bool:
    wanted = os.environ.get("QUOD_ASSEMBLE")
    return (
        (runs_all() and lines < SHORT) or wanted == "large" or (wanted == "all" and lines <= LARGE)
    )


def is_unchanged(name: str, recorded: dict[str, Any]) -> bool:
    """Return whether the texts of a kernel that `make test` compares are those of its row."""
    compared = ARCHITECTURES if name in representatives(_names()) else (SAMPLED,)
    return all(recorded[arch]["text"] == _remembered_digest(name, arch) for arch in compared)


def _remembered_digest(name: str, arch: str) -> str:
    return remembered(
        __file__, _assembler(), catalogue.find(name), ptx_machine(arch=arch),
        lambda: _digest(_emitted(name, arch)),
    )  # fmt: skip


def row_of(name: str, recorded: dict[str, Any] | None) -> dict[str, Any]:
    """The row of a kernel as it is now; what is `known` of the same texts stands."""
    row: dict[str, Any] = {}
    for arch in ARCHITECTURES:
        text = _emitted(name, arch)
        row["lines"] = text.count("\n")
        same = recorded is not None and recorded[arch]["text"] == _digest(text)
        if recorded is not None and same and not _must_assemble(row["lines"]):
            row[arch] = recorded[arch]
        elif row["lines"] > LARGE and os.environ.get("QUOD_ASSEMBLE") != "large":
            pytest.skip(f"{row['lines']} lines; QUOD_ASSEMBLE=large has them assembled")
        else:
            row[arch] = _measured(text, arch)
    return row


def _close(measured: int, recorded: int) -> bool:
    """Within a tenth, or a granule of what the assembler hands out."""
    return abs(measured - recorded) <= max(recorded / 10, 8)


def write_table(table: dict[str, dict[str, Any]]) -> None:
    """A line a kernel, in the order of their names."""
    registered = {key: table[key] for key in sorted(table) if key in _names()}
    rows = (f"{json.dumps(key)}: {json.dumps(row)}" for key, row in registered.items())
    TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n")


@pytest.mark.parametrize(
    "name",
    one_and_others(_names(), _in_every_run()),
)
def test_resources(name: str) -> None:
    recorded, update = _table().get(name), "QUOD_UPDATE_GOLDEN" in os.environ
    complete = update or runs_all() or "QUOD_ASSEMBLE" in os.environ
    if recorded is not None and not complete and is_unchanged(name, recorded):
        current = recorded
    else:
        current = row_of(name, recorded)
    if update:
        write_table(_table() | {name: current})
        return
    assert recorded is not None, f"{name} is new: write its row with QUOD_UPDATE_GOLDEN=1"
    for arch in ARCHITECTURES:
        row, before = current[arch], recorded[arch]
        assert _close(row["registers"], before["registers"]), f"registers on {arch}: {row}"
        # Less is fine, and the next update notes it.
        for what in ("spilled", "stack"):
            assert row[what] <= before[what] * 1.1 + 16, f"{what} on {arch}: {row}"
        if not _may_spill(name, arch):
            assert row["spilled"] == 0, f"{name} spills on {arch}"


def test_the_table_has_the_registered_kernels() -> None:
    assert sorted(_table()) == sorted(_names())
    assert any(re.match(HOT, name) for name in _names())


def test_only_the_text_of_a_row_is_not_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    assembled = []
    monkeypatch.setenv("QUOD_TEST", "")
    monkeypatch.setitem(globals(), "_measured", lambda text, arch: assembled.append(arch))
    name = "field.sum[bn254.fq]"
    recorded = _table()[name]
    assert row_of(name, recorded) == recorded
    assert not assembled
    row_of(name, {arch: recorded[arch] | {"text": "another"} for arch in ARCHITECTURES})
    row_of(name, None)
    assert assembled == [*ARCHITECTURES, *ARCHITECTURES]


def test_a_changed_text_is_seen() -> None:
    name = "field.sum[bn254.fq]"
    assert name not in representatives(_names())
    recorded = _table()[name]
    assert is_unchanged(name, recorded)
    assert not is_unchanged(name, recorded | {SAMPLED: {"text": "another"}})
    name = next(row for row in representatives(_names()) if row.startswith("field."))
    recorded = _table()[name]
    assert is_unchanged(name, recorded)
    for arch in ARCHITECTURES:
        assert not is_unchanged(name, recorded | {arch: {"text": "another"}})


@pytest.mark.parametrize("pattern", CPU_ONLY | WGSL_ONLY)
def test_listed_exceptions_are_registered_kernels(pattern: str) -> None:
    """An exception without a kernel is out of date."""
    assert any(re.match(pattern, row.name) for row in catalogue.kernels())
