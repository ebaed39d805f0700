"""The table of block types, one row each, in the order in which messages list them."""

from __future__ import annotations

from quod.names import NameTable
from quod.tensor.quantised.types.block_type import BlockType
from quod.tensor.quantised.types.nf4 import NF4
from quod.tensor.quantised.types.q4_0 import Q4_0
from quod.tensor.quantised.types.q4_k import Q4_K
from quod.tensor.quantised.types.q5_k import Q5_K
from quod.tensor.quantised.types.q6_k import Q6_K
from quod.tensor.quantised.types.q8_0 import Q8_0

QUANTISED_TYPES: dict[str, BlockType] = NameTable(
    "quod.tensor.quantised.types.table.QUANTISED_TYPES", "a type of blocks",
    {row.name: row for row in (Q4_0, Q8_0, Q4_K, Q5_K, Q6_K, NF4)},
)  # fmt: skip
"""The types by name: those of GGUF files, and NF4, which GGUF files do not have."""
