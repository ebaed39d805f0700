"""The trees of note commitments and of conversions: paths, roots, and trees that grow.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.zcash.tree.commitment_tree import CommitmentTree as CommitmentTree
    from quod.zcash.tree.nodes import empty_root as empty_root
    from quod.zcash.tree.path import MerklePath as MerklePath
else:
    __getattr__, __dir__ = lazy_names(__name__)
