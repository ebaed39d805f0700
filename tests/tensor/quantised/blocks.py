"""Blocks of quantised weights for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from quod.tensor.quantised.types.table import QUANTISED_TYPES


def random_blocks(name: str, rows: int, blocks: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """Blocks of any bits, whose f16 scales are finite, subnormal ones and zeros among them."""
    generator, kind = np.random.default_rng(seed), QUANTISED_TYPES[name]
    block_bytes = generator.integers(0, 256, (rows * blocks, kind.bytes), dtype=np.uint8)
    scales = generator.integers(0, 0x7C00, (rows * blocks, 2), dtype=np.uint16)
    scales |= generator.integers(0, 2, scales.shape, dtype=np.uint16) << 15
    scales[::5] &= 0x83FF
    scales[7::9] = 0x8000
    stored = scales.view(np.uint8)
    fields = kind.scales
    if fields.dtype == "<f4":
        # Normal numbers: a product may be rounded to a subnormal one, which a device may not have.
        sizes = 2.0 ** generator.integers(-90, 90, (rows * blocks, 1)) * generator.uniform(1, 2)
        block_bytes[:, :4] = sizes.astype("<f4").view(np.uint8)
        block_bytes[7::9, :4] = 0
    else:
        nbytes = 2 * fields.count
        block_bytes[:, fields.offset : fields.offset + nbytes] = stored[:, :nbytes]
    return block_bytes.reshape(rows, -1)


def bits(values: np.ndarray[Any, Any]) -> Any:
    return values.view(np.uint32)


def weights(
    name: str, rows: int, blocks: int, seed: int = 1, size: float = 1.0
) -> np.ndarray[Any, Any]:
    """Blocks whose scales are of one size, so that no row is one block."""
    block_bytes = random_blocks(name, rows, blocks, seed).reshape(rows * blocks, -1)
    fields = QUANTISED_TYPES[name].scales
    scales = np.random.default_rng(seed).uniform(0.5, 2, (rows * blocks, 2))
    if fields.dtype == "<f4":
        block_bytes[:, :4] = (scales[:, :1] * size * 8).astype("<f4").view(np.uint8)
        return block_bytes.reshape(rows, -1)
    scales = (scales * size).astype(np.float16)
    nbytes = 2 * fields.count
    block_bytes[:, fields.offset : fields.offset + nbytes] = scales.view(np.uint8)[:, :nbytes]
    return block_bytes.reshape(rows, -1)
