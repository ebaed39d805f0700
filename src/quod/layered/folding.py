"""Assertions that hold low in a circuit, added up with challenges instead of carried to its top.

The outputs are the last layer. Above a sum of fractions' first layer values are of the challenges'
field anyway, so that what is asserted below costs a gate there, and no relay in each layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from math import isqrt

from quod.layered.layering import Levels
from quod.layered.lookups import Challenged
from quod.layered.nodes import Node
from quod.layered.wire import Wire, weighted_sum


def folded(program: Challenged, nodes: list[Node], late: Set[int], outputs: list[int]) -> list[int]:
    """Fewer values that are 0 if and, but by chance, only if all outputs are.

    `nodes` are the values of the program, and `late` those that depend on a challenge. The outputs
    of a layer become one where that takes fewer gates. Were they a square, its rows are added up
    with one challenge for each column, and then with one for each row.
    """
    levels = Levels(nodes)
    standing: dict[int, list[int]] = {}
    for number in outputs:
        standing.setdefault(levels.of(number), []).append(number)
    values = [number for number, node in enumerate(nodes) if isinstance(node, dict)]
    width = Counter(map(levels.of, values))
    top, kept, sums = max(standing), list[int](), list[int]()
    of_extension = min((levels.of(number) for number in values if number in late), default=top)
    challenges: tuple[list[Wire], list[Wire]] = [], []
    for level in sorted(standing, reverse=True):
        own, far = standing[level], top - level
        side = isqrt(len(own) - 1) + 1
        rows = [own[at : at + side] for at in range(0, len(own), side)]
        # Values between here and the first of the extension become dearer, each by about a gate.
        dearer = sum(width[at] for at in range(level + 1, of_extension))
        if far < 2 or len(own) * far <= len(own) + len(rows) + far - 2 + dearer:
            kept += own
            continue
        of_extension = min(of_extension, level + 1)
        for known, count in zip(challenges, (side, len(rows)), strict=True):
            known += [program.random() for _ in range(count - len(known))]
        parts = [_combined(program, row, challenges[0]) for row in rows]
        sums.append(_combined(program, parts, challenges[1]))
    return kept + sums


def _combined(program: Challenged, numbers: list[int], challenges: list[Wire]) -> int:
    """The sum of values, each times a challenge of its own."""
    parts = [
        challenge * Wire(program, {(number,): 1})
        for challenge, number in zip(challenges, numbers)
    ]  # fmt: skip
    return program.value_of(weighted_sum(program, parts).terms)
