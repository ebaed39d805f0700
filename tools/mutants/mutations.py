"""The mutations of one statement: small changes of its text that a test should notice.

A mutation replaces one expression, or the whole statement, and keeps the number of lines. Messages
of exceptions and assertions, string constants, annotations and the bodies of lambdas stay as they
are: no test has to notice a change there.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}  # fmt: skip

_EASY = "assigned value replaced"

_OPAQUE = (ast.Lambda, ast.JoinedStr)
"""Expressions whose parts are not mutated: code that runs later, and texts."""


@dataclass(frozen=True)
class Mutation:
    """One change of a statement: the name of its rule, the node and the text in its place."""

    rule: str
    node: ast.expr | ast.stmt
    text: str

    def apply(self, source: str) -> str:
        """Return a file's source with this change, which moves no other line."""
        lines = source.splitlines(keepends=True)
        first, last = self.node.lineno - 1, (self.node.end_lineno or self.node.lineno) - 1
        before = lines[first].encode()[: self.node.col_offset].decode()
        after = lines[last].encode()[self.node.end_col_offset :].decode()
        padding = "\n" * (last - first)
        # An expression over several lines stands in brackets, so the padding goes inside its own.
        text = f"({self.text}{padding})" if isinstance(self.node, ast.expr) else self.text
        middle = before + text + after
        if isinstance(self.node, ast.stmt):
            middle += padding
        return "".join([*lines[:first], middle, *lines[last + 1 :]])


def mutations(statement: ast.stmt) -> list[Mutation]:
    """Return all mutations of a statement, in a fixed order; those of its body are not among them.

    Empty for statements that a test cannot miss or need not notice: definitions, imports,
    declarations, docstrings, `pass` and the headers of `try`.
    """
    return list(_mutations(statement))


def can_change(statement: ast.stmt) -> bool:
    """Return whether a statement has a mutation."""
    return next(_mutations(statement), None) is not None


def choose(statement: ast.stmt, random: Random) -> Mutation:
    """Choose one mutation: first a rule, so that long expressions do not favour one.

    An assigned value is replaced only where there is nothing else to change: most tests notice it.
    """
    choices = mutations(statement)
    rules = {mutation.rule for mutation in choices}
    rule = random.choice(sorted(rules - {_EASY} or rules))
    return random.choice([mutation for mutation in choices if mutation.rule == rule])


def _mutations(statement: ast.stmt) -> Iterator[Mutation]:
    match statement:
        case ast.If(test=test) | ast.While(test=test):
            yield _negated(test)
            yield from _of_expression(test)
        case ast.Assert(test=test):
            yield from _of_expression(test)
        case ast.For(iter=values) | ast.AsyncFor(iter=values):
            yield from _of_expression(values)
            yield Mutation("loop skipped", values, "()")
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                yield from _of_expression(item.context_expr)
        case ast.Return(value=ast.expr() as value):
            yield from _of_expression(value)
            if not isinstance(value, ast.Constant):
                yield Mutation("return value replaced", value, "None")
        case ast.Raise():
            yield Mutation("raise deleted", statement, "pass")
        case ast.Break():
            yield Mutation("break and continue swapped", statement, "continue")
        case ast.Continue():
            yield Mutation("break and continue swapped", statement, "break")
        case ast.AugAssign(op=op, value=value):
            if type(op) in _OPERATORS:
                changed = copy.deepcopy(statement)
                changed.op = _OPERATORS[type(op)]()
                yield Mutation("arithmetic operator swapped", statement, ast.unparse(changed))
            yield from _of_expression(value)
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            yield from _of_expression(value)
            if not isinstance(value, ast.Constant):
                yield Mutation(_EASY, value, "None")
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Expr(value=value):
            yield from _of_expression(value)
            yield Mutation("statement deleted", statement, "pass")


def _of_expression(root: ast.expr) -> Iterator[Mutation]:
    for node in _expressions(root):
        match node:
            case ast.Compare(ops=[op], left=left, comparators=[right]):
                swapped = ast.Compare(left, [_COMPARISONS[type(op)]()], [right])
                yield Mutation("comparison swapped", node, ast.unparse(swapped))
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS and not (
                _is_text(left) or _is_text(right)
            ):
                binary = ast.BinOp(left, _OPERATORS[type(op)](), right)
                yield Mutation("arithmetic operator swapped", node, ast.unparse(binary))
            case ast.BoolOp(op=op, values=values):
                other = ast.Or() if isinstance(op, ast.And) else ast.And()
                boolean = ast.BoolOp(other, values)
                yield Mutation("and and or swapped", node, ast.unparse(boolean))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield Mutation("not removed", node, ast.unparse(operand))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                yield Mutation("sign removed", node, ast.unparse(operand))
            case ast.IfExp(test=test):
                yield _negated(test)
            case ast.Constant(value=bool() as flag):
                yield Mutation("constant changed", node, repr(not flag))
            case ast.Constant(value=int() | float() as number):
                yield Mutation("constant changed", node, repr(number + 1))


def _negated(test: ast.expr) -> Mutation:
    return Mutation("condition negated", test, f"not ({ast.unparse(test)})")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _expressions(root: ast.AST) -> Iterator[ast.expr]:
    """Yield an expression and those inside it, without the parts of opaque ones."""
    if isinstance(root, ast.expr):
        yield root
    if not isinstance(root, _OPAQUE):
        for child in ast.iter_child_nodes(root):
            if not isinstance(child, ast.expr_context):
                yield from _expressions(child)
