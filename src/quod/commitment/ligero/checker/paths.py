"""Hashes that lead from opened leaves to the root, as rows that a kernel goes through by level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quod.commitment.ligero.checker.kernels import NODE_ROW, NONE
from quod.frozen import frozen

Rows = NDArray[np.uint32]


@frozen
class Paths:
    """Memory for `opened` leaves of 2**log_leaves: they come first, then the digests of a proof,
    then what is computed, level by level, in each as many places as there can be nodes."""

    log_leaves: int
    opened: int

    @property
    def widths(self) -> list[int]:
        """The most nodes that are computed in each level, from the leaves' parents to the root."""
        return [min(self.opened, 1 << level) for level in reversed(range(self.log_leaves))]

    @property
    def most_others(self) -> int:
        """The most digests that a proof has."""
        return self.opened * self.log_leaves

    @property
    def root(self) -> int:
        """The index of the root among the nodes."""
        return self.nodes - 1

    @property
    def nodes(self) -> int:
        """Nodes in memory."""
        return self.opened + self.most_others + sum(self.widths)

    def rows(self, places: list[int]) -> tuple[Rows, int]:
        """For leaves at some places, in rising order, the row of each node that is computed, `NONE`
        in those behind; and how many digests a proof has, those of the nodes of `siblings`."""
        rows = np.full((sum(self.widths), NODE_ROW), NONE, np.uint32)
        nodes = np.array(places, np.int64)
        at = np.arange(len(nodes))
        first, others, out = 0, self.opened, self.opened + self.most_others
        for width in self.widths:
            missing = (nodes ^ 1)[~np.isin(nodes ^ 1, nodes)]
            numbers = np.concatenate([nodes, missing])
            order = np.argsort(numbers)
            where = np.concatenate([at, others + np.arange(len(missing))])[order]
            others += len(missing)
            nodes = numbers[order][::2] >> 1
            at = out + np.arange(len(nodes))
            rows[first : first + len(nodes)] = np.stack([where[::2], where[1::2], at], axis=1)
            first, out = first + width, out + width
        return rows, others - self.opened
