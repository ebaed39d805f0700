"""The size of a block of quantised weights: values and bytes."""

from __future__ import annotations

from quod.formats.gguf.types import GGUF_TYPES
from quod.frozen import frozen


@frozen
class BlockKind:
    """Blocks of one type: its name, and `elements` values in `bytes` bytes."""

    name: str
    elements: int
    bytes: int


def gguf_kind(name: str) -> BlockKind:
    """Return the block size of a GGUF type, from the table that the file reader uses.

    Raises InputError for a name that is not in the table.
    """
    row = GGUF_TYPES[name]
    return BlockKind(row.name, row.elements, row.bytes)
