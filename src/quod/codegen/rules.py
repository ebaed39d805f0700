"""Rules of a target by the names of ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from quod.errors import KernelError
from quod.kernel.ir import Op

Rule = TypeVar("Rule")


def rule_of(rules: Mapping[str, Rule], op: Op, target: str) -> Rule:
    """How a target writes an op; KernelError, naming the Python line, if it cannot."""
    rule = rules.get(op.name)
    if rule is None:
        raise KernelError(f"{op.location}: {target} has no rule for the op {op.name}")
    return rule
