"""What is in blocks of quantised weights: how many values, and in how many bytes."""

from __future__ import annotations

from quod.formats.gguf.types import GGUF_TYPES
from quod.frozen import frozen


@frozen
class BlockKind:
    """Blocks of `elements` values in `bytes` bytes."""

    elements: int
    bytes: int


BLOCKS = {
    name: BlockKind(GGUF_TYPES[name].elements, GGUF_TYPES[name].bytes)
    for name in ("Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
} | {"NF4": BlockKind(64, 36)}
"""By name: types of GGUF files, and NF4, which is of none."""
