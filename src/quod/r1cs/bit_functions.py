"""Functions of bits that a kernel computes on words; see `quod.r1cs.repetition.bit_calls`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.field.moduli import BLS12_381_FR, Modulus
from quod.frozen import frozen
from quod.hash.sha2 import BLOCK_WORDS, Sha256
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U64, Value
from quod.kernel.registry import register
from quod.r1cs.kernels import Copies, Lane, Lanes

WORD_BITS = 32


@frozen
class BitFunction:
    """A function of bits, packed in words of 32 with the first bit lowest.

    argument_words, result_words: the numbers of words.
    compute: called at the top of a kernel; returns the function of words.
    """

    name: str
    argument_words: int
    result_words: int
    compute: Callable[[Builder], Callable[[Sequence[Value]], Sequence[Value]]]


def _compression(k: Builder) -> Callable[[Sequence[Value]], Sequence[Value]]:
    sha = Sha256(k)
    return lambda words: sha.after_block(words[:-BLOCK_WORDS], words[-BLOCK_WORDS:])


_SHA256_COMPRESSION = BitFunction("sha256_compression", 8 + BLOCK_WORDS, 8, _compression)
"""The compression function of SHA-256: a state of 8 words and a block of 16 give a state."""

BIT_FUNCTIONS = {function.name: function for function in (_SHA256_COMPRESSION,)}


@kernel
def call_bit_function(
    k: Builder,
    lanes: Lanes,
    copies: Copies,
    arguments: Pointer[U32],
    results: Pointer[U32],
    witness: Pointer[U64],
    *,
    function: str,
    modulus: Modulus,
) -> None:
    """Store the result bits of a block; a workgroup computes a lane.

    arguments: for each bit twice its column, plus 1 if the bit is 1 minus the column's value.
    results: the column of each bit.
    function: the name of the bit function.
    """
    called = BIT_FUNCTIONS[function]
    compute = called.compute(k)
    local_index, width = k.local_id(), k.workgroup_size
    argument_count = called.argument_words * WORD_BITS
    bits = k.shared(types.u32, argument_count)
    words = k.shared(types.u32, called.argument_words)
    lane = Lane(k, lanes, copies, lanes.first + k.workgroup_id())
    element_words = modulus.words // 2

    def place(column: Value) -> Value:
        return lane.index_of(column).cast(types.u64) * element_words

    with k.range(local_index, argument_count, width) as loop:
        (code,) = k.load(arguments, loop.index)
        (value,) = k.load(witness, place(code >> 1))
        bits[loop.index] = (value.cast(types.u32) ^ code) & 1
    k.barrier()
    with k.range(local_index, called.argument_words, width) as loop:
        word = bits[loop.index * WORD_BITS]
        for position in range(1, WORD_BITS):
            word = word | (bits[loop.index * WORD_BITS + position] << position)
        words[loop.index] = word
    k.barrier()
    computed = compute([words[k.constant(i, types.u32)] for i in range(called.argument_words)])
    for index, word in enumerate(computed):
        with k.range(local_index, WORD_BITS, width) as loop:
            (column,) = k.load(results, loop.index + index * WORD_BITS)
            bit = ((word >> loop.index) & 1).cast(types.u64)
            zeros = [k.constant(0, types.u64)] * (element_words - 1)
            k.store(witness, place(column), bit, *zeros)


register(
    f"r1cs.call_bit_function[{_SHA256_COMPRESSION.name}]", call_bit_function,
    function=_SHA256_COMPRESSION.name, modulus=BLS12_381_FR,
)  # fmt: skip
