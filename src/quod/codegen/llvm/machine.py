"""The default machine for printing LLVM IR."""

from __future__ import annotations

from quod.kernel.machine import Capability, Machine

EIGHT_LANES = Machine("llvm", 8, frozenset({Capability.U64, Capability.SUBGROUPS}), subgroup_size=8)
"""Eight lanes that form one subgroup, without special features."""
