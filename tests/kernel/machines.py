"""Machines that the tests trace for."""

from __future__ import annotations

from quod.kernel import Machine

EIGHT = Machine("llvm", 8, frozenset({"u64"}))
ONE = Machine("llvm", 1, frozenset({"u64", "carry"}))
FOUR = Machine("llvm", 4, frozenset({"u64"}))
MANY = Machine("llvm", 1024, frozenset({"u64"}))
