"""Kinds of findings: likely causes of missing constraints, and signals without effect."""

from __future__ import annotations

NOT_A_BIT = "not constrained to a bit"
ALIAS = "decomposition without an alias check"
ZERO_DIVISOR = "divisor may be 0"
OPERAND_RANGE = "comparison of operands without a range"
UNUSED_COMPARISON = "comparison without effect"
FREE = "not tied to the inputs"
UNUSED_PUBLIC = "public input without effect"
UNUSED = "unused signal"
