"""The kernels of quantised weights by name."""

from __future__ import annotations

from quod.kernel.registry import register
from quod.tensor.quantised.decoders import DECODERS
from quod.tensor.quantised.dequantising import dequantise_blocks
from quod.tensor.quantised.product import multiply_blocks

for _row in DECODERS.values():
    register(f"tensor.dequantise_blocks[{_row.name}]", dequantise_blocks, form=_row.name)
    register(
        f"tensor.multiply_blocks[{_row.name}]", multiply_blocks, form=_row.name, width=_row.width,
        at_once=2,
    )  # fmt: skip
