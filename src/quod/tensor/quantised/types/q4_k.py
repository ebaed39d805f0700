"""Q4_K: 256 integers of 4 bits in runs of 32, each with a scale and a minimum.

A block is 16 bytes of scales (see `k_scales`) and 4 groups of 32 bytes; the low
halves of a group's bytes are its first run, the high halves its second run.
"""

from __future__ import annotations

from quod.kernel import Builder, Value
from quod.tensor.quantised.decoders import BlockDecoder, DecodePosition, Packed, Run, each_byte
from quod.tensor.quantised.kinds import gguf_kind
from quod.tensor.quantised.packed import PackedDecoder, PackedRun, words_of
from quod.tensor.quantised.types.block_type import BlockScales, BlockType, VectorTimes
from quod.tensor.quantised.types.k_quantising import RunSearch, minimum_encoder
from quod.tensor.quantised.types.k_scales import group_scales, packed_runs, scaled
from quod.tensor.quantised.types.numpy_blocks import Bytes, Floats, nibbles, packed_nibbles

KIND = gguf_kind("Q4_K")


def _values(blocks: Bytes) -> Floats:
    return scaled(blocks, nibbles(blocks[:, 16:], 32))


def _decode(k: Builder, data: Value, block_position: DecodePosition) -> list[Run]:
    start, group, position = (
        block_position.block * KIND.bytes,
        block_position.group,
        block_position.position,
    )
    packed = Packed(k, data, start + 16 + 32 * group + position, block_position.width, aligned=16)
    runs = []
    for high, (scale, minimum) in enumerate(group_scales(k, data, start, group)):
        integers, shifts = packed.floats(block_position.magic, 4 * high, 4)
        element = position + (64 * group + 32 * high)
        runs.append(Run(element, integers, scale, minimum, shifts))
    return runs


def _decode_packed(
    k: Builder, data: Value, block: Value, group: Value, quarter: Value | None = None
) -> list[PackedRun]:  # fmt: skip
    start = block * KIND.bytes
    words = words_of(k, data, start + 16 + 32 * group, quarter, aligned=16).words()
    integers = [[(word >> shift) & each_byte(15) for word in words] for shift in (0, 4)]
    return packed_runs(k, data, start, group, integers)


Q4_K = BlockType(
    BlockDecoder(KIND, 4, 32, 32, _decode),
    _values,
    BlockScales(centre=7.5),
    quantise=minimum_encoder(
        KIND.name, RunSearch(15, -1.0, 20), lambda integers: packed_nibbles(integers, 32)
    ),
    packed=PackedDecoder(4, 2, _decode_packed),
    core_vector_times=VectorTimes(4.9, 1.9, 2.2),
)
