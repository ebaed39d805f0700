"""The hashes from opened leaves to a Merkle root, as rows that a kernel reads by level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quod.commitment.ligero.checker.kernels import NODE_ROW_WORDS, NONE
from quod.frozen import frozen

Rows = NDArray[np.uint32]


@frozen
class Paths:
    """The layout of nodes in memory, for a tree of which `opened` of 2**log_leaves leaves are open.

    The leaves come first, then the digests of a proof, then the computed nodes level by level, each
    level padded to its largest possible number of nodes.
    """

    log_leaves: int
    opened: int

    @property
    def widths(self) -> list[int]:
        """Return per level, from the leaves' parents up, the largest number of computed nodes."""
        return [min(self.opened, 1 << level) for level in reversed(range(self.log_leaves))]

    @property
    def max_others(self) -> int:
        """Return the largest number of digests of a proof."""
        return self.opened * self.log_leaves

    @property
    def root(self) -> int:
        """Return the index of the root among the nodes."""
        return self.nodes - 1

    @property
    def nodes(self) -> int:
        """Return the number of nodes in memory."""
        return self.opened + self.max_others + sum(self.widths)

    def rows(self, column_indices: list[int]) -> tuple[Rows, int]:
        """Return a row per computed node, and the number of digests of a proof.

        column_indices: the indices of the opened columns, the leaves, in ascending order.
        Unused rows are `NONE`. The proof has a digest for each node of `siblings`.
        """
        rows = np.full((sum(self.widths), NODE_ROW_WORDS), NONE, np.uint32)
        nodes = np.array(column_indices, np.int64)
        node_indices = np.arange(len(nodes))
        first_row, next_sibling, first_parent = 0, self.opened, self.opened + self.max_others
        for width in self.widths:
            siblings = (nodes ^ 1)[~np.isin(nodes ^ 1, nodes)]
            level_nodes = np.concatenate([nodes, siblings])
            order = np.argsort(level_nodes)
            memory_index = np.concatenate([node_indices, next_sibling + np.arange(len(siblings))])[
                order
            ]
            next_sibling += len(siblings)
            nodes = level_nodes[order][::2] >> 1
            node_indices = first_parent + np.arange(len(nodes))
            rows[first_row : first_row + len(nodes)] = np.stack(
                [memory_index[::2], memory_index[1::2], node_indices], axis=1
            )
            first_row, first_parent = first_row + width, first_parent + width
        return rows, next_sibling - self.opened
