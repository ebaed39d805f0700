"""The kernels of Sapling and MASP by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.kernel.registry import register
from quod.zcash.tree.node_kernel import tree_nodes

register("zcash.tree_nodes", tree_nodes)
