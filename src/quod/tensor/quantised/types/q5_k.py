"""Q5_K: 256 integers of 5 bits in runs of 32, each with a scale and a minimum.

A block is 16 bytes of scales (see `k_scales`), 32 bytes of upper bits and 4 groups of 32 bytes of
lower bits. Bit 2g + h of upper byte i belongs to integer i of the run h of group g.
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
from quod.tensor.quantised.types.k_scales import group_scales, packed_runs, scaled
from quod.tensor.quantised.types.numpy_blocks import Bytes, Floats, nibbles

KIND = gguf_kind("Q5_K")


def _values(blocks: Bytes) -> Floats:
    high = blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return scaled(blocks, nibbles(blocks[:, 48:], 32) | high.reshape(-1, 256) << 4)


def _decode(k: Builder, data: Value, place: DecodePosition) -> list[Run]:
    start, group, position = place.block * KIND.bytes, place.group, place.position
    tops = Packed(k, data, start + 16 + position, place.width, aligned=16)
    packed = Packed(k, data, start + 48 + 32 * group + position, place.width, aligned=16)
    runs = []
    for high, (scale, least) in enumerate(group_scales(k, data, start, group)):
        at = position + (64 * group + 32 * high)
        shifts: tuple[int, ...] = ()
        if place.width == 1:
            bits = joined_bits(packed.bits(4 * high, 15), tops.bits(2 * group + high, 1))
            numbers = as_floats(bits)
        else:
            words = packed.joined(4 * high, tops, 2 * group + high, 1)
            numbers, shifts = words.floats(place.magic, 0, 5)
        runs.append(Run(at, numbers, scale, least, shifts))
    return runs


def _decode_packed(
    k: Builder, data: Value, block: Value, group: Value, quarter: Value | None = None
) -> list[PackedRun]:  # fmt: skip
    start = block * KIND.bytes
    tops = words_of(k, data, start + 16, quarter, aligned=16)
    packed = words_of(k, data, start + 48 + 32 * group, quarter, aligned=16)
    integers = [packed.joined(4 * high, tops, 2 * group + high, 1).words() for high in range(2)]
    return packed_runs(k, data, start, group, integers)


Q5_K = BlockType(
    BlockDecoder(KIND, 4, 32, 32, _decode),
    _values,
    BlockScales(centre=15.5),
    packed=PackedDecoder(4, 2, _decode_packed),
)
