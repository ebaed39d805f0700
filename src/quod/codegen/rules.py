"""Rules of a target by the names of ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from quod.errors import KernelError
from quod.kernel.ir.nodes import Op
from quod.kernel.machine import Capability
from quod.kernel.ops.scalar import OPS

Rule = TypeVar("Rule")

_PLAIN_STORES = "instances store their own elements; write k.store"
_PLAIN_COPIES = "copies are done where they begin; load and store in a branch"
_INTEGERS = "it has no floats of 8 bits; write k.pack_float8 or k.unpack_float8, add products up"

_REASONS: Mapping[str, Mapping[Capability | None, str]] = {
    "LLVM": {
        Capability.EXP2: "processors have no such instruction; write k.exp2(a)",
        Capability.BF16: "few processors have such an instruction; write k.pack_bf16(a, b)",
        Capability.FLOATS8: _INTEGERS,
        Capability.FLOAT8_CORES: _INTEGERS,
        Capability.ASYNC_COPIES: _PLAIN_COPIES,
        Capability.NAMED_BARRIERS: "instances are lanes of one vector; write k.barrier()",
        Capability.TENSOR_CORES: "processors differ in what they have; add products up",
        Capability.MATRIX_STORES: _PLAIN_STORES,
        Capability.TILE_COPIES: _PLAIN_COPIES,
        Capability.WARPGROUPS: "processors differ in what they have; add products up",
    },
    "PTX": {},
    "WGSL": {
        Capability.F16: "it leaves rounding open; write k.pack_f16(a, b) or k.unpack_f16(word)",
        Capability.BF16: "it has no such type; write k.pack_bf16(a, b)",
        Capability.FLOATS8: _INTEGERS,
        Capability.FLOAT8_CORES: _INTEGERS,
        Capability.ASYNC_COPIES: _PLAIN_COPIES,
        Capability.NAMED_BARRIERS: "it has one barrier, where all come; write k.barrier()",
        Capability.TENSOR_CORES: "its subgroup matrices are a draft; add products up",
        Capability.MATRIX_STORES: _PLAIN_STORES,
        Capability.TILE_COPIES: _PLAIN_COPIES,
        Capability.WARPGROUPS: "its matrices are of one subgroup; add products up",
    },
}
"""Why a target has no rule for the ops of a capability."""

ABSENT: Mapping[str, Mapping[str, str]] = {
    target: {
        name: reasons[row.capability] for name, row in OPS.items() if row.capability in reasons
    }
    for target, reasons in _REASONS.items()
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
