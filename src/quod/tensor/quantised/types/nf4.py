"""NF4, the 4-bit NormalFloat of QLoRA (Dettmers, Pagnoni, Holtzman and Zettlemoyer, 2023).

A weight is one of 16 levels, quantiles of the normal distribution, times the largest absolute value
of its block of 64: one product in f32. The levels are those of bitsandbytes, bit for bit. A block
here is that f32 and 32 bytes: byte i has the index of element i's level in its low half, and that
of element i + 32 in its high half. bitsandbytes has elements 2i and 2i + 1 in the high and the low
half of byte i, and the f32 separately: `nf4_blocks` converts these, unless the f32 are quantised
themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.kernel import Builder, Value, f32
from quod.tensor.quantised.decoders import BlockDecoder, DecodePosition, Packed, Run
from quod.tensor.quantised.kinds import BlockKind
from quod.tensor.quantised.types.block_type import UNMEASURED, BlockScales, BlockType
from quod.tensor.quantised.types.numpy_blocks import Bytes, Floats
from quod.validation import plain_array

KIND = BlockKind("NF4", 64, 36)

_BITS = (
    0xBF800000, 0xBF3239B1, 0xBF066B30, 0xBECA32A0, 0xBE91A24D, 0xBE3D353F, 0xBDBA7871, 0,
    0x3DA2FAFF, 0x3E24CAE3, 0x3E7C04DD, 0x3EAD033A, 0x3EE1A4B8, 0x3F1007AB, 0x3F3913B3, 0x3F800000,
)  # fmt: skip
"""The bits of the levels as f32."""
NF4_LEVELS = np.array(_BITS, np.uint32).view(np.float32)
"""The 16 levels, ascending, f32."""

_MIDDLES = ((NF4_LEVELS[1:].astype(np.float64) + NF4_LEVELS[:-1]) / 2).astype(np.float32)
"""The values halfway between adjacent levels."""
_ELEMENTS, _HALF = KIND.elements, KIND.elements // 2


def nf4_blocks(packed: NDArray[Any], largest: NDArray[Any]) -> Bytes:
    """Convert a matrix of bitsandbytes to blocks, uint8 of shape (rows, bytes of a row).

    `packed` is uint8 of shape (rows, columns / 2). `largest` is f32 of shape (rows, columns / 64):
    each block's largest absolute value, not quantised itself. Raises InputError for another type or
    shape.
    """
    nibble_pairs, scales = plain_array("packed", packed), plain_array("largest", largest)
    if nibble_pairs.dtype != np.uint8 or nibble_pairs.ndim != 2 or nibble_pairs.shape[1] % _HALF:
        raise InputError(
            f"packed must be uint8 of shape (rows, n * {_HALF}), not {nibble_pairs.dtype} of "
            f"{nibble_pairs.shape}"
        )
    scale_shape = (nibble_pairs.shape[0], nibble_pairs.shape[1] // _HALF)
    if scales.dtype != np.float32 or scales.shape != scale_shape:
        raise InputError(
            f"largest must be float32 of shape {scale_shape}, not {scales.dtype} of {scales.shape}"
        )
    level_indices = np.stack([nibble_pairs >> 4, nibble_pairs & 15], axis=-1).reshape(-1, _ELEMENTS)
    return _block(scales.reshape(-1, 1), level_indices).reshape(nibble_pairs.shape[0], -1)


def _values(blocks: Bytes) -> Floats:
    """Return the values of blocks of shape (n, 36)."""
    largest = blocks[:, :4].copy().view("<f4").astype(np.float32)
    level_indices = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
    values: Floats = NF4_LEVELS[level_indices] * largest
    return values


def _quantised(values: Floats) -> Bytes:
    """Quantise values of shape (n, 64) to blocks.

    Each value takes the nearest level for its block's largest absolute value, the lower of two
    equally near ones, as bitsandbytes does on GPUs.
    """
    largest = np.abs(values).max(axis=1, keepdims=True)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        inverse = 1 / largest
        # Blocks of numbers so small that 1 / largest overflows are divided instead.
        scaled = np.where(np.isinf(inverse), values / largest, values * inverse)
        scaled = np.where(largest == 0, np.float32(0), scaled)
    return _block(largest, np.searchsorted(_MIDDLES, scaled).astype(np.uint8))


def _block(largest: Floats, level_indices: Bytes) -> Bytes:
    packed = level_indices[:, :_HALF] | level_indices[:, _HALF:] << 4
    stored = np.ascontiguousarray(largest, "<f4").view(np.uint8)
    return np.concatenate([stored, packed.astype(np.uint8)], axis=1)


def _decode(k: Builder, data: Value, block_position: DecodePosition, levels: Value) -> list[Run]:
    start, position = block_position.block * KIND.bytes, block_position.position
    largest = data.cast(f32)[start >> 2]
    packed = Packed(k, data, start + 4 + position, block_position.width, aligned=4)
    return [
        Run(
            position + 32 * high, [levels[index] for index in packed.bits(4 * high, 15)], largest,
            None,
        )
        for high in range(2)
    ]  # fmt: skip


NF4 = BlockType(
    BlockDecoder(KIND, 1, 32, 16, _decode, tuple(NF4_LEVELS.tolist())),
    _values,
    BlockScales(dtype="<f4"),
    quantise=_quantised,
    vector_times=UNMEASURED,
)
