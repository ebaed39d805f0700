"""Q6_K: 256 integers of 6 bits, minus 32, in runs of 16, each with a signed byte as scale.

A block is 128 bytes of lower bits, 64 bytes of upper bits, 16 scales, and an f16 that multiplies
all scales. Element 128 g + 32 q + i of a block, where g < 2, q < 4 and i < 32, has its 4 lower bits
in half q // 2 of byte 64 g + 32 (q % 2) + i, and its 2 upper bits at bit 2 q of upper byte
32 g + i.
"""

from __future__ import annotations

import numpy as np

from quod.kernel import Builder, Value, f16, i32
from quod.tensor.quantised.decoders import (
    BlockDecoder,
    DecodePosition,
    Packed,
    Run,
    as_floats,
    joined_bits,
)
from quod.tensor.quantised.kinds import gguf_kind
from quod.tensor.quantised.packed import PackedDecoder, PackedRun, centred, f16_at, words_of
from quod.tensor.quantised.types.block_type import BlockScales, BlockType, VectorTimes
from quod.tensor.quantised.types.k_quantising import signed_encoder
from quod.tensor.quantised.types.numpy_blocks import Bytes, Floats, halves, packed_nibbles

KIND = gguf_kind("Q6_K")
_SCALE = 208
"""The byte of a block where its f16 starts."""


def quants_of(blocks: Bytes) -> Bytes:
    """Return the integers of blocks before 32 is subtracted, of shape (n, 256)."""
    low = blocks[:, :128].reshape(-1, 2, 1, 64) >> np.array([[0], [4]], np.uint8) & 15
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3) << 4
    return np.asarray(low.reshape(-1, 256) | high.reshape(-1, 256))


def _values(blocks: Bytes) -> Floats:
    scales = halves(blocks, _SCALE) * blocks[:, 192:_SCALE].view(np.int8).astype(np.float32)
    integers = quants_of(blocks).reshape(-1, 16, 16).astype(np.float32) - 32
    return (scales[..., None] * integers).reshape(len(blocks), 256)


def _packed(integers: Bytes) -> Bytes:
    """Return the lower and upper bits of integers of shape (n, 256): the inverse of `quants_of`."""
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    upper_bits = integers.reshape(-1, 2, 4, 32) >> 4 << shifts
    upper = np.bitwise_or.reduce(upper_bits, axis=2).reshape(-1, 64)
    return np.concatenate([packed_nibbles(integers, 64), upper], axis=1)


def _decode(k: Builder, data: Value, block_position: DecodePosition) -> list[Run]:
    start, group, position = (
        block_position.block * KIND.bytes,
        block_position.group,
        block_position.position,
    )
    d = data.cast(f16)[(start + _SCALE) >> 1]
    low = [
        Packed(
            k, data, start + (64 * group + 32 * index) + position, block_position.width, aligned=2
        )
        for index in range(2)
    ]
    tops = Packed(k, data, start + (128 + 32 * group) + position, block_position.width, aligned=2)
    runs = []
    for quarter in range(4):
        # A scale is for 16 elements; `block_position.width` positions never cross such a boundary.
        scale_byte = start + (192 + 8 * group + 2 * quarter) + block_position.sixteenth
        scale = as_floats([data[scale_byte] ^ 128], 128)[0]
        half, shift = low[quarter & 1], 4 * (quarter >> 1)
        shifts: tuple[int, ...] = ()
        if block_position.width == 1:
            bits = joined_bits(half.bits(shift, 15), tops.bits(2 * quarter, 3))
            integers = as_floats(bits, 32)
        else:
            words = half.joined(shift, tops, 2 * quarter, 2)
            integers, shifts = words.floats(block_position.magic, 0, 6, less=32)
        element = position + (128 * group + 32 * quarter)
        runs.append(Run(element, integers, d * scale, None, shifts))
    return runs


def _decode_packed(
    k: Builder, data: Value, block: Value, group: Value, quarter: Value | None = None
) -> list[PackedRun]:  # fmt: skip
    start = block * KIND.bytes
    d = f16_at(data, start + _SCALE)
    low = [
        words_of(k, data, start + 64 * group + 32 * index, quarter, aligned=2) for index in range(2)
    ]
    tops = words_of(k, data, start + 128 + 32 * group, quarter, aligned=2)
    runs = []
    for run in range(4):
        words = low[run & 1].joined(4 * (run >> 1), tops, 2 * run, 2).words()
        integers = [centred(word, 32) for word in words]
        scale_byte = start + 192 + 8 * group + 2 * run
        factors = [((data[scale_byte + half] ^ 128).cast(i32) - 128) for half in range(2)]
        runs.append(PackedRun(integers, d, factors))
    return runs


Q6_K = BlockType(
    BlockDecoder(KIND, 2, 32, 8, _decode),
    _values,
    BlockScales(_SCALE),
    quantise=signed_encoder(KIND.name, _packed),
    packed=PackedDecoder(2, 4, _decode_packed),
    vector_times=VectorTimes(9.3, 3.4, 5.2),
)
