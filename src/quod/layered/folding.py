"""Folding of assertions in low layers by challenges, instead of relaying them to the outputs.

The outputs are the last layer. In a circuit with lookups, values above the first layer of fractions
are in the field of challenges anyway, so an assertion folded there costs one gate instead of a
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
    outputs_by_level: dict[int, list[int]] = {}
    for number in outputs:
        outputs_by_level.setdefault(levels.of(number), []).append(number)
    sums_of_program = [number for number, node in enumerate(nodes) if isinstance(node, dict)]
    values_per_level = Counter(map(levels.of, sums_of_program))
    top, unfolded, sums = max(outputs_by_level), list[int](), list[int]()
    first_late_level = min(
        (levels.of(number) for number in sums_of_program if number in late), default=top
    )
    challenges: tuple[list[Wire], list[Wire]] = [], []
    for level in sorted(outputs_by_level, reverse=True):
        level_values, levels_above = outputs_by_level[level], top - level
        side = isqrt(len(level_values) - 1) + 1
        rows = [level_values[index : index + side] for index in range(0, len(level_values), side)]
        # Folding moves the values of the layers from here to the first layer in the extension into
        # the extension, which costs each about as much as another gate.
        extension_gates = sum(
            values_per_level[index] for index in range(level + 1, first_late_level)
        )
        # Relays take a gate per value and layer. Folding takes a gate per value, one per row, and
        # relays of one sum from two layers further up.
        if (
            levels_above < 2
            or len(level_values) * levels_above
            <= len(level_values) + len(rows) + levels_above - 2 + extension_gates
        ):
            unfolded += level_values
            continue
        first_late_level = min(first_late_level, level + 1)
        for wires, count in zip(challenges, (side, len(rows)), strict=True):
            wires += [program.random() for _ in range(count - len(wires))]
        parts = [_combined(program, row, challenges[0]) for row in rows]
        sums.append(_combined(program, parts, challenges[1]))
    return unfolded + sums


def _combined(program: LookupProgram, numbers: list[int], challenges: list[Wire]) -> int:
    """Return the sum of values, each times a separate challenge."""
    products = [
        challenge * Wire(program, {(number,): 1})
        for challenge, number in zip(challenges, numbers)
    ]  # fmt: skip
    return program.value_of(weighted_sum(program, products).terms)
