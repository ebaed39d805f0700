"""Q4_0: 32 integers of 4 bits, minus 8, times an f16 scale.

A block is the scale and 16 bytes; byte i has integer i in its low half, and i + 16 in its high one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.kernel import Builder, Value, f16
from quod.tensor.quantised.decoders import BlockDecoder, DecodePosition, Packed, Run, each_byte
from quod.tensor.quantised.kinds import gguf_kind
from quod.tensor.quantised.packed import PackedDecoder, PackedRun, centred, f16_at
from quod.tensor.quantised.types.block_type import BlockScales, BlockType
from quod.tensor.quantised.types.numpy_blocks import (
    Bytes,
    Floats,
    halves,
    inverse,
    nibbles,
    scaled_by_f16,
)

KIND = gguf_kind("Q4_0")


def _values(blocks: Bytes) -> Floats:
    return halves(blocks, 0) * (nibbles(blocks[:, 2:], 16).astype(np.float32) - 8)


def _quantised(values: Floats) -> tuple[Floats, Bytes]:
    """Return scales and packed integers; the element of largest absolute value becomes -8."""
    largest = np.take_along_axis(values, np.abs(values).argmax(axis=1)[:, None], axis=1)
    scale = largest / np.float32(-8)
    # The product is rounded before the sum. A compiler of ggml may fuse the two, which changes one
    # value in thousands by one step.
    quants = np.minimum(values * inverse(scale) + np.float32(8.5), 15).astype(np.uint8)
    # The gguf package converts infinities to 0.
    quants[((scale != 0) & (inverse(scale) == 0))[:, 0]] = 0
    return scale, (quants[:, :16] | quants[:, 16:] << 4).astype(np.uint8)


def _decode(k: Builder, data: Value, block_position: DecodePosition) -> list[Run]:
    start, position = block_position.block * KIND.bytes, block_position.position
    scale = data.cast(f16)[start >> 1]
    packed = Packed(k, data, start + 2 + position, block_position.width, aligned=2)
    runs = []
    for high in range(2):
        integers, shifts = packed.floats(block_position.magic, 4 * high, 4, less=8)
        runs.append(Run(position + 16 * high, integers, scale, None, shifts))
    return runs


def _decode_packed(
    k: Builder, data: Value, block: Value, group: Value, quarter: Value | None = None
) -> list[PackedRun]:  # fmt: skip
    start = block * KIND.bytes
    shifts: Sequence[Value | int] = (0, 4)
    if quarter is None:
        words = Packed(k, data, start + 2, 16, aligned=2).words()
    else:
        words = Packed(k, data, start + 2 + (quarter & 1) * 8, 8, aligned=2).words()
        shifts = ((quarter >> 1) * 4,)
    integers = [(word >> shift) & each_byte(15) for shift in shifts for word in words]
    return [PackedRun([centred(word, 8) for word in integers], f16_at(data, start), [])]


Q4_0 = BlockType(
    BlockDecoder(KIND, 1, 16, 16, _decode),
    _values,
    BlockScales(),
    quantise=scaled_by_f16(KIND.name, _quantised),
    packed=PackedDecoder(1, 1, _decode_packed),
)
