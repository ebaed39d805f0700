"""Folding of assertions in low layers by challenges, instead of relaying them to the outputs.

The outputs are the last layer. In a circuit with lookups, values above the first layer of fractions
are in the field of challenges anyway, so that an assertion folded there costs one gate instead of a
relay in each layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from math import isqrt

from quod.layered.layering import Levels
from quod.layered.lookups import LookupProgram
from quod.layered.nodes import Node
from quod.layered.wire import Wire, weighted_sum


def folded(
    program: LookupProgram, nodes: list[Node], late: Set[int], outputs: list[int]
) -> list[int]:
    """Fold outputs into fewer values, which are all 0 only if all outputs are (up to chance).

    nodes: the values of the program.
    late: the values that depend on a challenge.
    The outputs of a layer become one value if that takes fewer gates: they are arranged as a
    square, whose rows are summed with a challenge per column, then with a challenge per row.
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
        level_values, far = standing[level], top - level
        side = isqrt(len(level_values) - 1) + 1
        rows = [level_values[index : index + side] for index in range(0, len(level_values), side)]
        # Values between here and the first of the extension become dearer, each by about a gate.
        dearer = sum(width[index] for index in range(level + 1, of_extension))
        if far < 2 or len(level_values) * far <= len(level_values) + len(rows) + far - 2 + dearer:
            kept += level_values
            continue
        of_extension = min(of_extension, level + 1)
        for wires, count in zip(challenges, (side, len(rows)), strict=True):
            wires += [program.random() for _ in range(count - len(wires))]
        parts = [_combined(program, row, challenges[0]) for row in rows]
        sums.append(_combined(program, parts, challenges[1]))
    return kept + sums


def _combined(program: LookupProgram, numbers: list[int], challenges: list[Wire]) -> int:
    """Return the sum of values, each times a separate challenge."""
    parts = [
        challenge * Wire(program, {(number,): 1})
        for challenge, number in zip(challenges, numbers)
    ]  # fmt: skip
    return program.value_of(weighted_sum(program, parts).terms)
