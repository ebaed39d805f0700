"""The op table is the single source: rows are complete, correct and used."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pytest

import quod
from quod.codegen.int64 import rules as int64_pairs
from quod.codegen.llvm import emitter as llvm_emitter
from quod.codegen.ptx import emitter as ptx_emitter
from quod.codegen.wgsl import emitter as wgsl_emitter
from quod.codegen.wgsl.lowering import kernel as wgsl_lowering
from quod.codegen.wgsl.machine import PORTABLE
from quod.errors import KernelError
from quod.kernel import Builder, Machine, Value
from quod.kernel.analysis.lane_rules import RULES as LANE_RULES
from quod.kernel.interpreter import control as interpreter_control
from quod.kernel.interpreter import steps as interpreter_steps
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Location, Op, walk
from quod.kernel.ops import scalar as ops
from quod.kernel.ops import table as op_table
from quod.kernel.ops import type_rules as op_types
from quod.kernel.ops.definition import AccessKind, Cost, Effect, OpDefinition, Varies
from quod.kernel.ops.scalar import NUMPY_TYPES, OPS
from tests.conftest import REPOSITORY
from tests.kernel.op_kernels import OP_CASES, elementwise, op_kernel

PACKAGE = Path(quod.__file__).parent
ROWS = list(OPS.values())

# What the interpreter itself does.
STRUCTURAL = {"call", "const", "yield"}

UNWRITTEN = {row.name for row in ROWS if row.unwritten}


def parametrized(rows: list[OpDefinition]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


# --- rows are whole


@parametrized(ROWS)
def test_every_row_has_its_traits(row: OpDefinition) -> None:
    assert OPS[row.name] is row
    assert row.group
    assert row.doc.endswith(".")
    assert row.effect in get_args(Effect)
    assert row.cost in get_args(Cost)
    assert row.varies in get_args(Varies)
    assert row.access in (None, *get_args(AccessKind))
    assert row.lane_rule == "" or row.lane_rule in LANE_RULES
    assert not row.type_rule or callable(getattr(op_types, row.type_rule))
    assert not row.repeats or row.regions
    assert (row.access is None) <= (row.update is None)
    assert (row.update is not None) == (row.access == "atomic")
    assert (row.factors is not None) == (row.cost in ("product", "high product"))
    assert row.access is None or row.pointers
    assert (row.effect == "read") == (row.access == "load")
    assert row.access in (None, "load") or row.effect == "write"
    assert (row.regions > 0) <= (row.effect == "control")
    assert row.effect != "carry" or "cc" in (*row.operands, *row.results)


def test_unknown_traits_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_table, "OPS", {})
    with pytest.raises(TypeError, match="arguments"):
        op_table.define("Bits", "swap", "T -> T", "In reverse.", T=types.UNSIGNED, cots="other")


@parametrized(ROWS)
def test_interpreter_implements_every_op(row: OpDefinition) -> None:
    computes = row.evaluate is not None or row.evaluate_as is not None
    steps: Any = interpreter_control if row.regions else interpreter_steps
    handler = getattr(steps, row.interpreter_function or row.name, None)
    if row.name in STRUCTURAL or computes:
        assert handler is None or not row.interpreter_function
    else:
        assert callable(handler)


# --- what rows say is true

_WHOLE = [1, -1, 2, 3, 7, -5, 31, 0]


def integers(row: OpDefinition) -> list[types.Type]:
    if "T" in row.variables:
        return [type_ for type_ in row.variables["T"] if type_.is_integer]
    return [types.parse_type(name) for name in row.operands[:1]]


def results(row: OpDefinition, type_: types.Type, a: list[int], b: list[int]) -> list[Any]:
    kind = NUMPY_TYPES[type_]
    assert row.evaluate is not None
    with np.errstate(all="ignore"):
        computed = row.evaluate(np.array(a).astype(kind), np.array(b).astype(kind))
    assert isinstance(computed, np.ndarray)
    listed: list[Any] = computed.tolist()
    return listed


def as_type(values: list[int], type_: types.Type) -> list[Any]:
    listed: list[Any] = np.array(values).astype(NUMPY_TYPES[type_]).tolist()
    return listed


BINARY = [row for row in ROWS if row.pure and row.evaluate is not None and len(row.operands) == 2]


@parametrized(BINARY)
def test_commutative_flags_match_evaluation(row: OpDefinition) -> None:
    pairs = [(a, b) for a in _WHOLE for b in _WHOLE]
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    same = [
        results(row, type_, first, second) == results(row, type_, second, first)
        for type_ in integers(row)
    ]
    assert row.commutative == all(same)


@parametrized([row for row in BINARY if row.results == row.operands[:1]])
def test_identities_and_absorbers_match_evaluation(row: OpDefinition) -> None:
    kinds = integers(row)

    def holds(constant: int, first: bool) -> bool:
        second = [constant] * len(_WHOLE)
        return all(
            results(row, type_, _WHOLE, second) == as_type(_WHOLE if first else second, type_)
            for type_ in kinds
        )

    assert [n for n in (0, 1, -1) if holds(n, True)] == [
        n for n in (row.identity,) if n is not None
    ]
    assert [n for n in (0, 1, -1) if holds(n, False)] == [
        n for n in (row.absorber,) if n is not None
    ]


def test_no_other_op_has_an_identity() -> None:
    told = [row for row in ROWS if row.commutative or row.identity is not None or row.absorber]
    assert all(row in BINARY for row in told)


# --- a rule in each target


@pytest.mark.parametrize("emitter", [llvm_emitter, ptx_emitter], ids=["LLVM", "PTX"])
def test_every_op_has_a_rule_or_a_documented_reason(emitter: ModuleType) -> None:
    ruled = [name for table in emitter.TABLES for name in table]
    absent = emitter.RULES.absent
    assert len(ruled) == len(set(ruled))
    assert UNWRITTEN.isdisjoint(ruled)
    assert set(ruled).isdisjoint(absent)
    assert {*ruled, *absent, *UNWRITTEN} == set(OPS)
    assert all(reason for reason in absent.values())


LOWERED = {**wgsl_lowering.RULES, **int64_pairs.RULES}
"""Lowerings of ops before WGSL is written: to words, to other ops or to nothing."""

WRITTEN = {name for table in wgsl_emitter.TABLES for name in table}


def test_every_op_has_a_wgsl_rule_or_a_lowering() -> None:
    assert len(LOWERED) == len(wgsl_lowering.RULES) + len(int64_pairs.RULES)
    assert {*LOWERED, *WRITTEN, *wgsl_emitter.RULES.absent, "yield"} == set(OPS)
    assert wgsl_emitter.RULES.absent.keys().isdisjoint({*LOWERED, *WRITTEN})
    # What stays as it is is written.
    assert {row.name for row in ROWS if row.name not in LOWERED} <= (
        WRITTEN | UNWRITTEN | wgsl_emitter.RULES.absent.keys()
    )


@parametrized([row for row in ROWS if row.evaluate or row.evaluate_as])
def test_every_op_on_64_bits_has_a_rule_for_pairs(row: OpDefinition) -> None:
    kinds = {type_ for of_one in row.variables.values() for type_ in of_one}
    has = row.name in int64_pairs.RULES or row.name in int64_pairs.PAIRS
    assert has or kinds.isdisjoint({types.u64, types.i64})


def test_an_op_without_a_rule_is_refused_with_the_reason() -> None:
    op = Op(OPS["exp2"], (), (), {}, (), Location("kernel.py", 7))
    with pytest.raises(KernelError, match=r"kernel\.py:7: LLVM has no rule for .* exp2: proces"):
        llvm_emitter.RULES.of(op)


_OF_EACH = {case.name: case for case in reversed(OP_CASES) if types.f64 not in case.operand_types}


@pytest.mark.parametrize("name", sorted(_OF_EACH))
def test_wgsl_has_an_expression_for_every_pure_op(name: str) -> None:
    machine = PORTABLE.machine()
    assert wgsl_emitter.emit(op_kernel([_OF_EACH[name]]).trace(machine), machine)


# --- nobody keeps another table

ALLOWED = {
    ("kernel/ops/definition.py", ("load", "store")),  # the kinds of access, which have these names
}
"""Collections of op names outside the table: this may only shrink."""

HELD = [
    path
    for folder in ("kernel", "codegen", "device")
    for path in sorted((PACKAGE / folder).rglob("*.py"))
    # The instructions that it runs are NVIDIA's, some of which have names of ops.
    if PACKAGE / "codegen" / "ptx" / "interpreter" not in path.parents
]


def op_names(nodes: list[Any]) -> list[str]:
    return [n.value for n in nodes if isinstance(n, ast.Constant) and n.value in OPS]


def is_rule(node: ast.expr) -> bool:
    """Return whether an expression stands for a function: a target's rule of an op."""
    return isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Lambda))


def asks_for_ops(compare: ast.Compare) -> bool:
    """Spaces of memory have names of ops too."""
    operand = compare.left
    return not (isinstance(operand, ast.Attribute) and operand.attr in ("declares", "space"))


def collections_of_ops(source: str, *, rules: bool = False) -> Iterator[tuple[str, ...]]:
    """The op names in each collection, or match over names, that holds several.

    With `rules` a table of rules by the names of ops is none.
    """
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            names = op_names(node.elts)
        elif isinstance(node, ast.Dict):
            values = [value for key, value in zip(node.keys, node.values, strict=True) if key]
            names = [] if rules and all(map(is_rule, values)) else op_names(node.keys)
        elif isinstance(node, ast.Match):
            patterns = [inner for case in node.cases for inner in ast.walk(case.pattern)]
            names = op_names([p.value for p in patterns if isinstance(p, ast.MatchValue)])
        elif isinstance(node, ast.BoolOp):
            compared = [p for p in node.values if isinstance(p, ast.Compare) and asks_for_ops(p)]
            names = op_names([item for part in compared for item in part.comparators])
        if len(set(names)) > 1 and not set(names) <= set(get_args(types.Space)):
            yield tuple(sorted(set(names)))


def test_no_other_module_lists_ops() -> None:
    collections = {
        (path.relative_to(PACKAGE).as_posix(), names)
        for path in HELD
        for names in collections_of_ops(path.read_text(), rules=PACKAGE / "codegen" in path.parents)
    }
    assert collections == ALLOWED


@pytest.mark.parametrize(
    "source",
    [
        "x = frozenset({'add', 'sub'})",
        "x = ['add', 'sub']",
        "def f(op):\n    return op.name in ('add', 'sub')",
        "x = {'add': 1, 'sub': 2}",
        "match x:\n    case 'add':\n        pass\n    case 'sub':\n        pass",
        "match x:\n    case 'add' | 'sub':\n        pass",
        "y = x == 'add' or x == 'sub'",
    ],
)
def test_op_collections_are_detected(source: str) -> None:
    assert list(collections_of_ops(source)) == [("add", "sub")]
    assert list(collections_of_ops(source, rules=True)) == [("add", "sub")]


def test_rule_tables_are_not_op_collections() -> None:
    source = "RULES = {'add': _same('add'), 'sub': _sub}"
    assert list(collections_of_ops(source)) == [("add", "sub")]
    assert not list(collections_of_ops(source, rules=True))


# --- every op is of use


def records_ops(path: Path) -> bool:
    """Return whether a module may use ops: the methods of the language do, and all kernels."""
    folder, *parts = path.relative_to(PACKAGE).parts
    is_language = parts[:1] == ["builder"] or parts == ["ir", "value.py"]
    return folder != "codegen" and (folder != "kernel" or is_language)


def test_every_op_is_used_or_documented_as_unused() -> None:
    used: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if not records_ops(path):
            continue
        text = path.read_text()
        # Parsing all modules takes seconds.
        if not OPS.keys() & re.findall(r"[\"'](\w+)[\"']", text):
            continue
        tree = ast.parse(text)
        used |= {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value in OPS}
    assert {row.name for row in ROWS if row.kept_for} == set(OPS) - used


# --- an op is a row

_ROW = re.compile(r"\n        _row\(\n.*?\n        \)", re.DOTALL)


def test_the_row_of_the_guide_is_an_op(monkeypatch: pytest.MonkeyPatch) -> None:
    match = _ROW.search((REPOSITORY / "docs" / "extending.md").read_text())
    assert match is not None
    monkeypatch.setattr(op_table, "OPS", rows := dict(OPS))
    section = partial(op_table.define, "Arithmetic")
    exec(textwrap.dedent(match.group()), {**vars(ops), "_row": section})
    row = rows["add_sat"]
    monkeypatch.setitem(OPS, row.name, row)
    test_every_row_has_its_traits(row)
    test_commutative_flags_match_evaluation(row)
    test_identities_and_absorbers_match_evaluation(row)

    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        a, b = operands
        zero = k.constant(0, types.u32)
        return [k.emit(row.name, (a, b)), k.emit(row.name, (zero, a))]

    kernel = elementwise("saturated", [types.u32] * 2, [types.u32] * 2, compute).trace(
        Machine("any", 4, frozenset())
    )
    assert [op.name for op in walk(kernel.block)].count(row.name) == 1
    a, b = np.array([1, 2**32 - 1, 7, 2**31], "u4"), np.array([2, 1, 0, 2**31], "u4")
    out = [np.zeros(4, "u4"), np.zeros(4, "u4")]
    interpret(kernel, 1, [a, b, *out])
    assert out[0].tolist() == [3, 2**32 - 1, 7, 2**32 - 1]
    assert out[1].tolist() == a.tolist()
