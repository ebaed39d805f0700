"""Fragments of messages: counted nouns and lists of names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def counted(number: int, noun: str) -> str:
    """Format a number and its noun, in the plural unless the number is 1: ``2,000 keys``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Mapping[str, Sequence[str]]) -> str:
    """Format titled lists of names, without the empty ones: ``missing: x, y; unknown: z``."""
    return "; ".join(f"{title}: {', '.join(items)}" for title, items in names.items() if items)


def alternatives(words: Iterable[str]) -> str:
    """Join words by commas and "or": ``a``, ``a or b``, ``a, b or c``."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
