"""Rules of a target by the names of ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from quod.errors import KernelError
from quod.kernel.ir import Op

Rule = TypeVar("Rule")

ABSENT: Mapping[str, Mapping[str, str]] = {
    "LLVM": {"exp2": "processors have no such instruction; write k.exp2(a)"},
    "PTX": {},
    "WGSL": {},
}
"""The ops that a target has no rule for, and why."""


def rule_of(rules: Mapping[str, Rule], op: Op, target: str) -> Rule:
    """How a target writes an op; KernelError, naming the Python line, if it cannot."""
    rule = rules.get(op.name)
    if rule is None:
        reason = ABSENT[target].get(op.name, "")
        because = f": {reason}" if reason else ""
        raise KernelError(f"{op.location}: {target} has no rule for the op {op.name}{because}")
    return rule
