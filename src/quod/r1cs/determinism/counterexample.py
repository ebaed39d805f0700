"""Counterexamples as text, for people who look for the missing constraint, and as witnesses."""

from __future__ import annotations

from collections.abc import Iterable

from quod.field.array import integers_to_words
from quod.formats.curves import field_named
from quod.formats.wtns import Witness
from quod.r1cs.determinism.rows import Rows
from quod.r1cs.determinism.search.pairs import Pair

_MAX_SIGNALS = 8
"""The number of inputs, and of differing signals, that a text has."""


def pair_lines(rows: Rows, pair: Pair, wire: int) -> list[str]:
    """Return the inputs of two witnesses, and the signals besides a target that differ."""
    first, second = pair.first, pair.second
    inputs = [f"{rows.name(each)} = {first[each]}" for each in sorted(rows.inputs)]
    targets = set(rows.targets)
    differing = sorted(
        (each for each in range(1, rows.wires) if first[each] != second[each] and each != wire),
        key=lambda each: (each not in targets, each),
    )
    lines = [f"for the inputs {_listed(inputs)}"] if inputs else ["the system has no inputs"]
    if differing:
        texts = [f"{rows.name(each)} = {first[each]} or {second[each]}" for each in differing]
        lines.append(f"other signals that differ: {_listed(texts)}")
    return lines


def _listed(texts: list[str]) -> str:
    """Join the first texts; count the others."""
    others = len(texts) - _MAX_SIGNALS
    return ", ".join(texts[:_MAX_SIGNALS]) + (f" and {others:,} more" if others > 0 else "")


def witnesses_of(pair: Pair, curve: str) -> tuple[Witness, Witness]:
    """Return a pair as witnesses, which a proving key proves and `write_wtns` writes."""
    first, second = (_witness(curve, values) for values in (pair.first, pair.second))
    return first, second


def _witness(curve: str, values: Iterable[int]) -> Witness:
    words = integers_to_words(field_named(curve), list(values))
    words.flags.writeable = False
    return Witness("a witness of a counterexample", curve, words, words.nbytes)
