"""Entries of an MSM's buckets: a u32 with the index of a point and a sign bit."""

from __future__ import annotations

INDEX_MASK = (1 << 31) - 1
"""The bits with the index of the point in its array."""

SIGN_BIT = 1 << 31
"""The bit that is set if the point is to be negated."""
