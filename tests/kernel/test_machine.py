"""Machine capabilities are listed once, and unknown ones are rejected."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import pytest

from quod.codegen.ptx.machine import ptx_machine
from quod.codegen.wgsl.machine import PORTABLE
from quod.errors import KernelError
from quod.frozen import replace
from quod.kernel import machine as module
from quod.kernel.machine import Capability, Machine


def test_capabilities_equal_their_names() -> None:
    named = Machine("ptx", 32, frozenset({"u64", "carry32"}))
    listed = Machine("ptx", 32, frozenset({Capability.U64, Capability.MAD_CARRY_32}))
    assert named == listed
    assert repr(named.features) == repr(listed.features)
    assert all(isinstance(feature, Capability) for feature in named.features)
    assert named.has("carry32")
    assert named.has(Capability.U64)
    assert not named.has(Capability.CARRY)


def test_unknown_capabilities_are_rejected() -> None:
    machine = Machine("llvm", 1, frozenset())
    with pytest.raises(KernelError, match="has the capability 'carry64'; did you mean carry"):
        machine.has("carry64")
    with pytest.raises(KernelError, match="has the capability 'photons'; take one of u64, carry,"):
        Machine("llvm", 1, frozenset({"photons"}))
    with pytest.raises(KernelError, match="did you mean subgroup"):
        replace(machine, features=frozenset({"subgroups"}))


def test_capabilities_of_each_target() -> None:
    assert not ptx_machine().has(Capability.SHORT_KERNELS)
    portable = PORTABLE.machine()
    assert not portable.has(Capability.U64)
    assert portable.has(Capability.SLOW_SUBGROUPS)
    assert portable.has(Capability.SHORT_KERNELS)
    extended = replace(PORTABLE, u64=True, subgroup_size=32, watched_loops=True).machine()
    assert extended.features - portable.features == {Capability.U64, Capability.WATCHED_LOOPS}
    assert portable.features - extended.features == {Capability.SLOW_SUBGROUPS}


def test_every_capability_has_a_description() -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    rows = next(
        node.body for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "Capability"
    )  # fmt: skip
    described = [
        row.targets[0].id  # type: ignore[attr-defined]
        for row, text in pairwise(rows)
        if isinstance(row, ast.Assign) and isinstance(text, ast.Expr)
    ]
    assert described == [capability.name for capability in Capability]
