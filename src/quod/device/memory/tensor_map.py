"""Descriptors of arrays for a GPU's Tensor Memory Accelerator, with which kernels copy tiles.

Source: CUDA driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

from quod.frozen import frozen

MAP_BYTES = 128
"""The size of a tensor map in bytes."""
COLUMNS = 64
"""The number of 16-bit elements in a line of a tile."""


@frozen
class TiledMemory:
    """An array of 16-bit elements in device memory, and the tiles that kernels copy from it.

    address: the address of the array, whose lines are stored consecutively and begin at multiples
        of 16 bytes.
    planes, height, length: the array's shape: planes of `height` lines of `length` elements.
    lines: the number of lines of a tile; a line has 64 elements.
    """

    address: int
    planes: int
    height: int
    length: int
    lines: int
