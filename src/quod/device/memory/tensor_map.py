"""Descriptors of arrays for a GPU's Tensor Memory Accelerator, so that kernels copy tiles.

Source: CUDA driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

from quod.frozen import frozen

MAP_BYTES = 128
"""Bytes of one tensor map."""
COLUMNS = 64
"""Elements of a line of a tile, of 16 bits each."""


@frozen
class TiledMemory:
    """An array of 16-bit elements in a device's memory, and the tiles that kernels copy from it.

    The array has `planes` planes of `height` lines of `length` elements, stored consecutively from
    `address`; lines begin at multiples of 16 bytes. Tiles have `lines` lines of 64 elements.
    """

    address: int
    planes: int
    height: int
    length: int
    lines: int
