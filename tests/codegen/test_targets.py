"""The table of targets, and the text of a kernel for each."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quod import catalogue
from quod.cli import entry
from quod.codegen import targets
from quod.codegen.targets import TARGETS, Target, emit, emit_registered
from quod.errors import InputError
from quod.frozen import replace
from quod.kernel import Machine
from quod.kernel.examples import saxpy, vector_add
from quod.kernel.ir.text import to_text
from tests.device import kernels
from tests.kernel.machines import EIGHT, FOUR

NAMES = ("ir", *TARGETS)
FOLDERS = tuple(f"quod.codegen.{name}" for name in TARGETS)


def test_emit() -> None:
    features = EIGHT.features | {"subgroup"}
    lanes = replace(EIGHT, features=features, subgroup_size=8)
    assert emit(saxpy) == to_text(saxpy.trace(lanes))
    assert "workgroup 4" in emit(saxpy, "ir", FOUR)
    assert "define void" in emit(saxpy, "llvm")
    assert ".maxntid 128" in emit(saxpy, "ptx")
    single_lane = Machine("llvm", 1, frozenset({"u64"}))
    assert "x i32>" not in emit(vector_add, "llvm", single_lane)
    assert "const 12345" in emit(kernels.raise_to, amount=12345)


@pytest.mark.parametrize("target", NAMES)
def test_registered_kernel_text_matches_its_definition(target: str) -> None:
    assert emit_registered(catalogue.find("examples.saxpy"), target) == emit(saxpy, target)


@pytest.mark.parametrize("target", ["metal", "llvm_control", "", "../x", "os.path"])
def test_unknown_targets(target: str) -> None:
    with pytest.raises(InputError) as caught:
        emit(saxpy, target)
    assert str(caught.value) == f"there is no target {target}; take one of {', '.join(NAMES)}"


@pytest.mark.parametrize("name", TARGETS)
def test_machines_match_their_target(name: str) -> None:
    assert TARGETS[name].machine().target == name


@pytest.mark.parametrize("name", TARGETS)
def test_loading_a_target_imports_no_other(name: str) -> None:
    script = f"""
import sys
from quod.codegen import emit
from quod.kernel.examples import saxpy
folders = {FOLDERS}
assert not [module for module in sys.modules if module.startswith(folders)]
assert "saxpy" in emit(saxpy, {name!r})
loaded = {{module.split(".")[2] for module in sys.modules if module.startswith(folders)}}
assert loaded == {{{name!r}}}, loaded
assert not {{"llvmlite", "cuda"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_table_loads_no_kernel_language() -> None:
    script = "import sys; import quod.codegen.targets; assert 'quod.kernel' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_table_row_defines_a_target(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = Target(
        lambda kernel, machine: f"{kernel.name} for {machine.workgroup_size}\n",
        lambda: Machine("next", 16, frozenset({"u64"})),
    )
    monkeypatch.setitem(targets.TARGETS, "next", row)
    assert emit(saxpy, "next") == "saxpy for 16\n"
    of_64 = replace(saxpy, workgroup=64)
    assert emit(of_64, "next") == "saxpy for 64\n"
    with pytest.raises(InputError, match=f"take one of {', '.join(NAMES)}, next"):
        emit(saxpy, "toi")
    assert entry.run(["kernel", "emit", "examples.saxpy", "--target", "toi"]) == 2
    assert "'toi'" in capsys.readouterr().err
