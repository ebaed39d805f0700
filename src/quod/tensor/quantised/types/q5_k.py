"""Q5_K: blocks of 256 integers of 5 bits in 8 runs of 32, each with a scale and a minimum.

A block is 16 bytes of scales (see `k_scales`), 32 bytes of upper bits and 4 groups of 32 bytes of
lower bits. Group g has runs 2g and 2g + 1. Integer i of run 2g + h has its four lower bits in
nibble h of the group's byte i, and its upper bit in bit 2g + h of upper byte i. A value is
scale * integer - minimum.
"""

from __future__ import annotations

import numpy as np

from quod.kernel import Builder, Value
from quod.tensor.quantised.decoders import (
    BlockDecoder,
    DecodePosition,
    Packed,
    Run,
    as_floats,
    joined_bits,
)
from quod.tensor.quantised.kinds import gguf_kind
from quod.tensor.quantised.packed import PackedDecoder, PackedRun, words_of
from quod.tensor.quantised.types.block_type import BlockScales, BlockType
from quod.tensor.quantised.types.k_quantising import RunSearch, minimum_encoder
from quod.tensor.quantised.types.k_scales import group_scales, packed_runs, scaled
from quod.tensor.quantised.types.numpy_blocks import Bytes, Floats, nibbles, packed_nibbles

KIND = gguf_kind("Q5_K")


def _dequantise(blocks: Bytes) -> Floats:
    """Return the values of blocks of shape (n, 176), as f32 of shape (n, 256)."""
    upper_bits = blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return scaled(blocks, nibbles(blocks[:, 48:], 32) | upper_bits.reshape(-1, 256) << 4)


def _packed(integers: Bytes) -> Bytes:
    """Return the upper and lower bits of integers of shape (n, 256)."""
    upper_bits = integers.reshape(-1, 8, 32) >> 4 << np.arange(8, dtype=np.uint8)[:, None]
    upper = np.bitwise_or.reduce(upper_bits, axis=1)
    return np.concatenate([upper, packed_nibbles(integers, 32)], axis=1)


def _decode(k: Builder, data: Value, where: DecodePosition) -> list[Run]:
    """Decode the two runs of a group at some positions to f32."""
    start, group, position = where.block * KIND.bytes, where.group, where.position
    upper_bits = Packed(k, data, start + 16 + position, where.width, aligned=16)
    lower_bits = Packed(k, data, start + 48 + 32 * group + position, where.width, aligned=16)
    runs = []
    for half, (scale, minimum) in enumerate(group_scales(k, data, start, group)):
        element = position + (64 * group + 32 * half)
        shifts: tuple[int, ...] = ()
        if where.width == 1:
            bits = joined_bits(lower_bits.bits(4 * half, 15), upper_bits.bits(2 * group + half, 1))
            integers = as_floats(bits)
        else:
            words = lower_bits.joined(4 * half, upper_bits, 2 * group + half, 1)
            integers, shifts = words.floats(where.magic, 0, 5)
        runs.append(Run(element, integers, scale, minimum, shifts))
    return runs


def _decode_packed(
    k: Builder, data: Value, block: Value, group: Value, quarter: Value | None = None
) -> list[PackedRun]:  # fmt: skip
    """Decode the two runs of a group, or a quarter of each, to words of four integers."""
    start = block * KIND.bytes
    upper_bits = words_of(k, data, start + 16, quarter, aligned=16)
    lower_bits = words_of(k, data, start + 48 + 32 * group, quarter, aligned=16)
    integers = [
        lower_bits.joined(4 * half, upper_bits, 2 * group + half, 1).words() for half in range(2)
    ]
    return packed_runs(k, data, start, group, integers)


Q5_K = BlockType(
    BlockDecoder(KIND, 4, 32, 32, _decode),
    _dequantise,
    # The mean of the integers 0 to 31.
    BlockScales(centre=15.5),
    quantise=minimum_encoder(KIND.name, RunSearch(31, -0.5, 15), _packed),
    packed=PackedDecoder(4, 2, _decode_packed),
)
