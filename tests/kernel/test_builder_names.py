"""Methods of `k` are the kernel language, and nothing of how it is recorded."""

from __future__ import annotations

import re

import pytest

from quod.kernel import Builder, Machine
from quod.kernel.ops.definition import OpDefinition
from quod.kernel.ops.scalar import OPS
from tests.conftest import REPOSITORY

K = Builder(Machine("any", 4, frozenset(), subgroup_size=4))
PUBLIC = {name for name in dir(K) if not name.startswith("_")}
PAGE = (REPOSITORY / "docs" / "language.md").read_text()

METHODS = {
    "const": "constant", "convert": "cast", "pointer_cast": "cast", "if": "if_", "for": "range",
    "while": "while_", "assert": "assert_", "min": "minimum", "max": "maximum",
    "unpack_f16_low": "unpack_f16", "unpack_f16_high": "unpack_f16",
    "copy_async_or_zero": "copy_async", "load_matrices_transposed": "load_matrices",
    "mma_f16": "mma", "mma_bf16": "mma", "mma_tf32": "mma", "mma_i8": "mma",
    "mma_e4m3": "mma", "mma_e5m2": "mma", "mma_e4m3_e5m2": "mma", "mma_e5m2_e4m3": "mma",
    "pack_e4m3": "pack_float8", "pack_e5m2": "pack_float8", "unpack_e4m3": "unpack_float8",
    "subgroup_min": "subgroup_minimum", "subgroup_max": "subgroup_maximum",
}  # fmt: skip
"""The methods that record an op of another name."""

OTHERS = {
    "all_lanes", "any_lane", "cluster", "emit", "emit_many", "exp", "global_id", "lane_id", "log",
    "log2", "machine", "operand", "resident_workgroups", "subgroup_id", "subgroup_size", "tanh",
    "unpack_bf16", "workgroup_size",
}  # fmt: skip
"""Methods that are no op of the table: made of ops, or queries."""


def method_of(row: OpDefinition) -> str:
    return METHODS.get(row.name, row.name)


def test_every_builder_name_is_an_op_or_documented() -> None:
    of_ops = {method_of(row) for row in OPS.values()} & PUBLIC
    assert of_ops.isdisjoint(OTHERS)
    assert of_ops | OTHERS == PUBLIC
    assert set(METHODS.values()) <= PUBLIC


@pytest.mark.parametrize("name", sorted(name for name, row in OPS.items() if not row.pure))
def test_ops_with_effects_have_a_method(name: str) -> None:
    row = OPS[name]
    if name == "yield":
        assert row.unwritten  # regions end with it by themselves
    elif row.effect == "carry":
        assert not row.special  # k.emit_many records it
    else:
        assert method_of(row) in PUBLIC


@pytest.mark.parametrize("name", sorted(name for name, row in OPS.items() if row.special))
def test_special_ops_have_a_method(name: str) -> None:
    assert name == "yield" or method_of(OPS[name]) in PUBLIC


def test_guide_lists_every_builder_name() -> None:
    table = PAGE.partition("## All that `k` has\n")[2].partition("\n## ")[0]
    listed = re.findall(r"`k\.(\w+)`", "\n".join(re.findall(r"^\|.*\|$", table, re.MULTILINE)))
    assert len(listed) == len(set(listed))
    assert set(listed) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC - {"machine"}))
def test_every_builder_name_has_a_docstring(name: str) -> None:
    assert (getattr(Builder, name).__doc__ or "").split()
