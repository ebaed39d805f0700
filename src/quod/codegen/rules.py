"""Rules of a target by the names of ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from quod.errors import KernelError
from quod.kernel.ir.nodes import Op
from quod.kernel.machine import Capability
from quod.kernel.ops.scalar import OPS

Rule = TypeVar("Rule")

# Reasons that several targets share.
PLAIN_STORES = "instances store their own elements; write k.store"
PLAIN_COPIES = "copies are done where they begin; load and store in a branch"
NO_FLOATS8 = "it has no floats of 8 bits; write k.pack_float8 or k.unpack_float8, add products up"


class Rules(Generic[Rule]):
    """The rules of one target: how it writes each op, or why it cannot.

    target: the target's name in messages.
    tables: the rules by op.
    lacking: the capabilities whose ops have no rule, and why.
    """

    def __init__(
        self, target: str, tables: Iterable[Mapping[str, Rule]], lacking: Mapping[Capability, str]
    ) -> None:
        self.target = target
        self.written = {name: rule for table in tables for name, rule in table.items()}
        self.absent = {
            name: lacking[row.capability]
            for name, row in OPS.items()
            if row.capability is not None and row.capability in lacking
        }

    def of(self, op: Op) -> Rule:
        """Return the rule of an op.

        Raises KernelError, which names the Python line, if there is none.
        """
        rule = self.written.get(op.name)
        if rule is None:
            reason = self.absent.get(op.name, "")
            because = f": {reason}" if reason else ""
            raise KernelError(
                f"{op.location}: {self.target} has no rule for the op {op.name}{because}"
            )
        return rule
