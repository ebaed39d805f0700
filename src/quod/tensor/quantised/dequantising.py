"""The kernel that gives the values of blocks: one function, of which each format is an instance."""

from __future__ import annotations

from quod.kernel import F32, U8, U32, Builder, Pointer, kernel
from quod.tensor.quantised.decoders import DECODERS, Place


@kernel
def dequantise_blocks(
    k: Builder, n: U32, blocks: Pointer[U8], out: Pointer[F32], *, form: str
) -> None:
    """The values of blocks, as `reference.dequantise` gives them, to the bit.

    An instance has a place of a group; `n` is how many there are in all blocks.
    """
    decoder, i = DECODERS[form].begun(k), k.global_id()
    with k.if_(i < n):
        position, rest = i % decoder.positions, i // decoder.positions
        block, group = rest // decoder.groups, rest % decoder.groups
        for run in decoder.decode(k, blocks, Place(block, group, position, position >> 4, 1)):
            out[block * decoder.elements + run.start] = run.values()[0]
