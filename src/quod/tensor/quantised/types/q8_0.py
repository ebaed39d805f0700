"""Q8_0: an f16 scale, followed by 32 signed bytes that it multiplies."""

from __future__ import annotations

import numpy as np

from quod.kernel import Builder, Value, f16
from quod.tensor.quantised.decoders import BlockDecoder, DecodePosition, Packed, Run
from quod.tensor.quantised.kinds import gguf_kind
from quod.tensor.quantised.packed import PackedDecoder, PackedRun, f16_at, words_of
from quod.tensor.quantised.types.block_type import BlockScales, BlockType
from quod.tensor.quantised.types.numpy_blocks import (
    Bytes,
    Floats,
    halves,
    inverse,
    scaled_by_f16,
)

KIND = gguf_kind("Q8_0")


def _values(blocks: Bytes) -> Floats:
    return halves(blocks, 0) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _quantised(values: Floats) -> tuple[Floats, Bytes]:
    """Return scales and integers; the largest absolute value becomes 127."""
    scale = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
    scaled = values * inverse(scale)
    # Round half away from zero, as C's roundf does.
    floor = np.floor(np.abs(scaled))
    rounded = floor + np.floor(2 * (np.abs(scaled) - floor))
    return scale, (np.sign(scaled) * rounded).astype(np.int8).view(np.uint8)


def _decode(k: Builder, data: Value, block_position: DecodePosition) -> list[Run]:
    start, position = block_position.block * KIND.bytes, block_position.position
    scale = data.cast(f16)[start >> 1]
    packed = Packed(k, data, start + 2 + position, block_position.width, aligned=2)
    integers, shifts = packed.floats(block_position.magic, 0, 8, flip=128, less=128)
    return [Run(position, integers, scale, None, shifts)]


def _decode_packed(
    k: Builder, data: Value, block: Value, group: Value, quarter: Value | None = None
) -> list[PackedRun]:  # fmt: skip
    start = block * KIND.bytes
    words = words_of(k, data, start + 2, quarter, aligned=2).words()
    return [PackedRun(words, f16_at(data, start), [])]


Q8_0 = BlockType(
    BlockDecoder(KIND, 1, 32, 16, _decode),
    _values,
    BlockScales(),
    quantise=scaled_by_f16(KIND.name, _quantised),
    packed=PackedDecoder(1, 1, _decode_packed),
)
