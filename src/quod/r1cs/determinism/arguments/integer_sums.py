"""Integer sums of products of nodes: their bounds while nodes get values one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product as cartesian
from math import prod

from quod.r1cs.determinism.arithmetic import Polynomial, Range


class IntegerSum:
    """A polynomial without squares, whose nodes have ranges, and its bounds.

    Products connect nodes; the bounds of each connected group are those at corners of its ranges.

    low, high: the bounds for the values assigned so far.
    """

    def __init__(self, terms: Polynomial, ranges: Mapping[int, Range]) -> None:
        self._ranges = dict(ranges)
        self._group_of: dict[int, Polynomial] = {}
        for monomial, k in terms.items():
            group = {monomial: k}
            for node in monomial:
                group.update(self._group_of.get(node, {}))
            self._group_of.update((node, group) for each in group for node in each)
        self.low = self.high = terms.get((), 0)
        groups = {id(group): group for group in self._group_of.values()}
        self._bounds = {key: self._bounds_of(group) for key, group in groups.items()}
        for low, high in self._bounds.values():
            self.low, self.high = self.low + low, self.high + high

    def _bounds_of(self, group: Polynomial) -> Range:
        nodes = list(dict.fromkeys(node for monomial in group for node in monomial))
        values = [
            sum(k * prod(point[nodes.index(n)] for n in m) for m, k in group.items())
            for point in cartesian(*(self._ranges[node] for node in nodes))
        ]
        return min(values), max(values)

    def assign(self, node: int, bounds: Range) -> Range | None:
        """Replace the range of a node; return the previous one, or None if it does not occur."""
        group = self._group_of.get(node)
        if group is None:
            return None
        previous, self._ranges[node] = self._ranges[node], bounds
        (low, high), (new_low, new_high) = self._bounds[id(group)], self._bounds_of(group)
        self._bounds[id(group)] = new_low, new_high
        self.low, self.high = self.low + new_low - low, self.high + new_high - high
        return previous

    def is_between(self, least: int, most: int) -> bool:
        """Return whether the sum is in a range for all values of the nodes."""
        return least <= self.low and self.high <= most

    def excludes_zero(self) -> bool:
        """Return whether the sum is 0 for no values of the nodes."""
        return self.low > 0 or self.high < 0


def largest_group(terms: Polynomial) -> int:
    """Return the number of nodes that products connect, directly or through others, at most."""
    group_of: dict[int, set[int]] = {}
    for monomial in terms:
        group = set[int]().union(monomial, *(group_of.get(node, ()) for node in monomial))
        group_of.update(dict.fromkeys(group, group))
    return max(map(len, group_of.values()), default=0)
