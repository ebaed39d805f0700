"""Blocks of quantised weights for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from quod.tensor.quantised.kinds import BLOCKS


def random_blocks(name: str, rows: int, blocks: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """Blocks of any bits, whose f16 scales are finite, subnormal ones and zeros among them."""
    generator, kind = np.random.default_rng(seed), BLOCKS[name]
    made = generator.integers(0, 256, (rows * blocks, kind.bytes), dtype=np.uint8)
    scales = generator.integers(0, 0x7C00, (rows * blocks, 2), dtype=np.uint16)
    scales |= generator.integers(0, 2, scales.shape, dtype=np.uint16) << 15
    scales[::5] &= 0x83FF
    scales[7::9] = 0x8000
    stored = scales.view(np.uint8)
    if name == "NF4":
        # Normal numbers: a product may be rounded to a subnormal one, which a device may not have.
        sizes = 2.0 ** generator.integers(-90, 90, (rows * blocks, 1)) * generator.uniform(1, 2)
        made[:, :4] = sizes.astype("<f4").view(np.uint8)
        made[7::9, :4] = 0
    elif name == "Q6_K":
        made[:, 208:] = stored[:, :2]
    else:
        count = 2 if name in ("Q4_0", "Q8_0") else 4
        made[:, :count] = stored[:, :count]
    return made.reshape(rows, -1)


def bits(values: np.ndarray[Any, Any]) -> Any:
    return values.view(np.uint32)


def weights(
    name: str, rows: int, blocks: int, seed: int = 1, size: float = 1.0
) -> np.ndarray[Any, Any]:
    """Blocks whose scales are of one size, so that no row is one block."""
    made = random_blocks(name, rows, blocks, seed).reshape(rows * blocks, -1)
    at = 208 if name == "Q6_K" else 0
    scales = np.random.default_rng(seed).uniform(0.5, 2, (rows * blocks, 2))
    if name == "NF4":
        made[:, :4] = (scales[:, :1] * size * 8).astype("<f4").view(np.uint8)
        return made.reshape(rows, -1)
    scales = (scales * size).astype(np.float16)
    count = 4 if name in ("Q4_K", "Q5_K") else 2
    made[:, at : at + count] = scales.view(np.uint8)[:, :count]
    return made.reshape(rows, -1)
