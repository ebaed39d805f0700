"""A type that the table does not list, written as a file of types is: Q4_1 under another name.

A block of 32 is an f16 scale d, an f16 m and 16 bytes; byte i has integer i in its low half, and
i + 16 in its high half. A value is d * integer + m.
"""

from __future__ import annotations

import numpy as np

from quod.kernel import Builder, Value, f16, i32
from quod.tensor.quantised.decoders import BlockDecoder, DecodePosition, Packed, Run, each_byte
from quod.tensor.quantised.kinds import BlockKind
from quod.tensor.quantised.packed import PackedDecoder, PackedRun, f16_at
from quod.tensor.quantised.types.block_type import BlockScales, BlockType
from quod.tensor.quantised.types.numpy_blocks import Bytes, Floats, halves, nibbles

KIND = BlockKind("TOY4_1", 32, 20)


def _values(blocks: Bytes) -> Floats:
    return halves(blocks, 0) * nibbles(blocks[:, 4:], 16).astype(np.float32) + halves(blocks, 2)


def _decode(k: Builder, data: Value, place: DecodePosition) -> list[Run]:
    start, position = place.block * KIND.bytes, place.position
    scale, least = (data.cast(f16)[(start >> 1) + at] for at in (0, 1))
    packed = Packed(k, data, start + 4 + position, place.width, aligned=4)
    runs = []
    for high in range(2):
        numbers, shifts = packed.floats(place.magic, 4 * high, 4)
        runs.append(Run(position + 16 * high, numbers, scale, -least, shifts))
    return runs


def _decode_packed(
    k: Builder, data: Value, block: Value, group: Value, quarter: Value | None = None
) -> list[PackedRun]:  # fmt: skip
    start = block * KIND.bytes
    at, count = (start + 4, 16) if quarter is None else (start + 4 + (quarter & 1) * 8, 8)
    shifts = (0, 4) if quarter is None else ((quarter >> 1) * 4,)
    words = Packed(k, data, at, count, aligned=4).words()
    integers = [(word >> shift) & each_byte(15) for shift in shifts for word in words]
    minimum = -f16_at(data, start + 2)
    return [PackedRun(integers, f16_at(data, start), [], minimum, k.constant(1, i32))]


TOY = BlockType(
    BlockDecoder(KIND, 1, 16, 16, _decode),
    _values,
    BlockScales(centre=7.5),
    packed=PackedDecoder(1, 1, _decode_packed),
)
