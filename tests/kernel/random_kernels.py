"""Hypothesis strategies: random expressions and random kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from quod.kernel import Builder, KernelDefinition, Location, Value, pointer
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from tests.kernel.hostile import Number, hostile
from tests.kernel.op_kernels import OP_CASES

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Leaf:
    """A number that stands in an expression."""

    type: Type
    number: Number


@dataclass(frozen=True)
class Node:
    """A pure op of one result; `name` is of the table, or `convert`."""

    name: str
    type: Type
    operands: tuple[Expression, ...]


Expression = Leaf | Node

_BY_RESULT: dict[Type, list[tuple[str, tuple[Type, ...]]]] = {}
for _case in OP_CASES:
    if len(_case.result_types) == 1 and types.cc not in _case.operand_types:
        _BY_RESULT.setdefault(_case.result_types[0], []).append((_case.name, _case.operand_types))


@st.composite
def expressions(draw: Draw, type_: Type, depth: int = 4) -> Expression:
    """Expressions of a type over hostile numbers."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return Leaf(type_, draw(st.sampled_from(hostile(type_))))
    if draw(st.integers(0, 4)) == 0:
        source = draw(st.sampled_from([t for t in types.SCALARS if t is not type_]))
        return Node("convert", type_, (draw(expressions(source, depth - 1)),))
    name, operand_types = draw(st.sampled_from(_BY_RESULT[type_]))
    operands = tuple(draw(expressions(operand, depth - 1)) for operand in operand_types)
    return Node(name, type_, operands)


def build(k: Builder, expression: Expression, leaf: Callable[[Leaf], Value]) -> Value:
    """Records an expression; `leaf` says how a number is made."""
    if isinstance(expression, Leaf):
        return leaf(expression)
    operands = [build(k, operand, leaf) for operand in expression.operands]
    if expression.name == "convert":
        return operands[0].cast(expression.type)
    return k.emit(expression.name, operands)


def leaves(expression: Expression) -> list[Leaf]:
    if isinstance(expression, Leaf):
        return [expression]
    return [leaf for operand in expression.operands for leaf in leaves(operand)]


@st.composite
def kernels(draw: Draw) -> KernelDefinition:
    """Kernels of random statements over two arrays, `x` to read and `y` of what each gives.

    Instance i reads x[16 * i] to x[16 * i + 15] and writes the same places of y.
    """
    script = draw(_scripts(2))

    def body(k: Builder, x: Value, y: Value) -> None:
        _Player(k, x, y, script).run()

    u64 = pointer(types.u64)
    return KernelDefinition("random", body, {"x": u64, "y": u64}, Location("random", 1))


@st.composite
def _scripts(draw: Draw, depth: int) -> list[tuple[Any, ...]]:
    """Statements: an op with the numbers of its operands, or a region op with its inner scripts."""
    statements: list[tuple[Any, ...]] = []
    for _ in range(draw(st.integers(1, 6))):
        kinds = ["op", "op", "op", "store", "rows", "load", "carry", "call"]
        kinds += ["if", "for", "while", "if"] if depth else []
        kind = draw(st.sampled_from(kinds))
        picks = tuple(draw(st.lists(st.integers(0, 1000), min_size=4, max_size=4)))
        if kind == "op":
            statements.append((kind, draw(st.sampled_from(_WORD_OPS)), picks))
        elif kind in ("if", "for", "while"):
            inner = [draw(_scripts(depth - 1)) for _ in range(2)]
            statements.append((kind, inner, picks))
        elif kind == "call":
            statements.append((kind, draw(st.integers(0, 2)), picks))
        else:
            statements.append((kind, picks))
    return statements


_WORD_OPS = [
    case.name
    for case in OP_CASES
    if set(case.operand_types) == {types.u64} and case.result_types == (types.u64,)
]


class _Player:
    """Records a script: `values` are the u64 values that are visible."""

    def __init__(self, k: Builder, x: Value, y: Value, script: list[tuple[Any, ...]]) -> None:
        self._k, self._x, self._y = k, x, y
        self._script = script
        self._base = k.global_id() * 16
        self._stores = 0

    def run(self) -> None:
        k = self._k
        start = list(k.load(self._x, self._base, 3))
        start += [self._base.cast(types.u64), k.constant((1 << 64) - 1, types.u64)]
        for number, value in enumerate(self._play(self._script, start)[-6:]):
            self._y[self._base + number] = value

    def _play(self, script: list[tuple[Any, ...]], visible: list[Value]) -> list[Value]:
        values = list(visible)
        for statement in script:
            values += self._statement(statement, values)
        return values

    def _statement(self, statement: tuple[Any, ...], values: list[Value]) -> list[Value]:
        k, kind, picks = self._k, statement[0], statement[-1]
        a, b, c, d = (values[pick % len(values)] for pick in picks)
        if kind == "op":
            count = len(OP_ARITY[statement[1]])
            return [k.emit(statement[1], (a, b, c)[:count])]
        if kind == "store":
            self._stores += 1
            self._y[self._base + 6 + self._stores % 10] = a
            return []
        if kind == "rows":
            self._stores += 1
            self._y_rows(a, b, c, guard=d)
            return []
        if kind == "load":
            # What an instance that is not active would load from is anywhere.
            far = k.select(b < c, self._base, k.constant(0xFFFF_FFF0, types.u32))
            with k.if_(b < c) as branch:
                place = far + (a & 7).cast(types.u32)
                branch.yield_(*k.load(self._x, place, 4), k.pointer_add(self._x, place)[1])
            with branch.otherwise():
                branch.yield_(d, a, b, c, d)
            return list(branch.results)
        if kind == "carry":
            low, carry = k.emit_many("mad_lo_cc", (a, b, c))
            return [low, k.emit("madc_hi", (a, b, d, carry))]
        if kind == "call":
            name = ("fold", "scale", "mix")[statement[1]]
            return [k.call(name, _FUNCTIONS[name], a, b)]
        return self._region(kind, statement[1], (a, b, c, d), values)

    def _y_rows(self, *values: Value, guard: Value) -> None:
        k = self._k
        far = k.select(guard < values[0], self._base, k.constant(0xFFFF_FFF0, types.u32))
        with k.if_(guard < values[0]):
            k.store(self._y, far + (6 + self._stores % 8), *values)

    def _region(
        self, kind: str, inner: list[Any], picked: tuple[Value, ...], values: list[Value]
    ) -> list[Value]:
        k, (a, b, c, d) = self._k, picked
        if kind == "if":
            with k.if_(a < b) as branch:
                branch.yield_(self._play(inner[0], values)[-1], c)
            with branch.otherwise():
                branch.yield_(self._play(inner[1], values)[-1], d)
            return list(branch.results)
        if kind == "for":
            with k.range(a & 3, b & 7, carry=(c, d)) as loop:
                first, second = loop.carried
                played = self._play(inner[0], [*values, first, second, loop.index])
                loop.next((played[-1], played[-2]))
            return list(loop.results)
        with k.while_((c, d & 7)) as turns:
            first, remaining = turns.carried
            head = self._play(inner[0], [*values, first, remaining])
            turns.check(remaining != 0)
            played = self._play(inner[1], [*head, first])
            turns.next((played[-1] ^ head[-1], remaining - 1))
        return list(turns.results)


def _fold(k: Builder, a: Value, b: Value) -> Value:
    with k.if_((a & 1) == 0) as branch:
        branch.yield_(a ^ b)
    with branch.otherwise():
        branch.yield_(_scaled(k, a, b))
    return branch.results  # type: ignore[no-any-return]


def _scaled(k: Builder, a: Value, b: Value) -> Value:
    return k.call("scale", _FUNCTIONS["scale"], a, b)  # type: ignore[no-any-return]


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "fold": _fold,
    "scale": lambda k, a, b: a * 3 + b,
    "mix": lambda k, a, b: k.emit("mul_hi", (a, b)) ^ (a >> 7),
}
OP_ARITY = {case.name: case.operand_types for case in OP_CASES}
