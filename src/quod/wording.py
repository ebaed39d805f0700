"""Words of messages that depend on values."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number with its noun: ``1 key``, ``2,000 keys``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
