"""Entries: a u32 each, which point of an array is meant and whether it is negated."""

from __future__ import annotations

INDEX_MASK = (1 << 31) - 1
"""The number of the point."""

SIGN_BIT = 1 << 31
"""Set where the point is negated."""
