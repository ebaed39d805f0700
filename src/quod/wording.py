"""Wording of messages that depends on values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def counted(number: int, noun: str) -> str:
    """Format a number with its noun: ``1 key``, ``2,000 keys``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Mapping[str, Sequence[str]]) -> str:
    """Format the non-empty lists after their titles: ``missing: x, y; unknown: z``."""
    return "; ".join(f"{title}: {', '.join(each)}" for title, each in names.items() if each)


def alternatives(words: Iterable[str]) -> str:
    """Join alternatives: ``a``, ``a or b``, ``a, b or c``."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
