"""The kernels of shortcuts; see `quod.r1cs.repetition.shortcuts`.

A shortcut's kernel has the arguments `lanes`, `copies`, `arguments` and `results` (the tables of
`quod.r1cs.repetition.schedule.ShortcutCalls`), its own tables, and `witness`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from quod.device.protocol import AnyDevice, in_host_memory
from quod.field.array import from_integers
from quod.field.moduli import BLS12_381_FR, Modulus
from quod.hash.neptune import NeptuneHash, kernel_constants
from quod.hash.sha2 import BLOCK_WORDS, Sha256
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U64, Value
from quod.r1cs.lanes import Copies, Lane, Lanes
from quod.r1cs.repetition.schedule import ShortcutCalls
from quod.r1cs.repetition.shortcuts import BIT_FUNCTIONS
from quod.r1cs.shortcuts.blake2s import blake2s_compression
from quod.r1cs.shortcuts.pedersen_node import call_pedersen_node, node_tables

WORD_BITS = 32

# The windows in a digit of a Pedersen hash: the tables of two take longer to make than a witness.
_DIGIT_WINDOWS = 1
# Workgroup size on a GPU: a warp.
_GPU_WORKGROUP_SIZE = 32

_RADIX = BLS12_381_FR.montgomery_radix


Words = Sequence[Value]


def _compression(k: Builder) -> Callable[[Words], Words]:
    sha = Sha256(k)
    return lambda words: sha.after_block(words[:-BLOCK_WORDS], words[-BLOCK_WORDS:])


BIT_KERNELS: dict[str, Callable[[Builder], Callable[[Words], Words]]] = {
    "sha256_compression": _compression,
    "blake2s_compression": lambda k: partial(blake2s_compression, k),
}
"""Called at the top of a kernel, each returns the function of words; a word's first bit is lowest.
"""


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
    """Store the result bits of a bit function; a workgroup computes a lane."""
    compute, (argument_words, _) = BIT_KERNELS[function](k), BIT_FUNCTIONS[function]
    local_index, width = k.local_id(), k.workgroup_size
    bits = k.shared(types.u32, argument_words * WORD_BITS)
    words = k.shared(types.u32, argument_words)
    lane = Lane(k, lanes, copies, lanes.first + k.workgroup_id())
    element_words = modulus.words // 2

    def place(column: Value) -> Value:
        return lane.index_of(column).cast(types.u64) * element_words

    with k.range(local_index, argument_words * WORD_BITS, width) as loop:
        (code,) = k.load(arguments, loop.index)
        (value,) = k.load(witness, place(code >> 1))
        bits[loop.index] = (value.cast(types.u32) ^ code) & 1
    k.barrier()
    with k.range(local_index, argument_words, width) as loop:
        word = bits[loop.index * WORD_BITS]
        for position in range(1, WORD_BITS):
            word = word | (bits[loop.index * WORD_BITS + position] << position)
        words[loop.index] = word
    k.barrier()
    loaded = [words[k.constant(index, types.u32)] for index in range(argument_words)]
    for index, word in enumerate(compute(loaded)):
        with k.range(local_index, WORD_BITS, width) as loop:
            (column,) = k.load(results, loop.index + index * WORD_BITS)
            bit = ((word >> loop.index) & 1).cast(types.u64)
            zeros = [k.constant(0, types.u64)] * (element_words - 1)
            k.store(witness, place(column), bit, *zeros)


@kernel
def call_neptune_hash(
    k: Builder,
    lanes: Lanes,
    copies: Copies,
    arguments: Pointer[U32],
    results: Pointer[U32],
    constants: Pointer[U64],
    witness: Pointer[U64],
    *,
    arity: int,
) -> None:
    """Store neptune's hash of `arity` elements of BLS12-381's scalar field, one in each instance.

    constants: `quod.hash.neptune.kernel_constants` in stored form.
    """
    poseidon = NeptuneHash(k, arity, constants)
    f, position = poseidon.field, lanes.first + k.global_id()
    lane = Lane(k, lanes, copies, k.minimum(position, lanes.last - 1))
    inputs = []
    for index in range(arity):
        (code,) = k.load(arguments, k.constant(index, types.u32))
        value = f.load(witness, lane.index_of(code >> 1))
        inputs.append(f.bounded(value * f.constant(_RADIX)))
    hash = poseidon(inputs)
    (column,) = k.load(results, k.constant(0, types.u32))
    with k.if_(position < lanes.last):
        inverse = f.constant(pow(_RADIX, -1, BLS12_381_FR.value))
        f.store(witness, lane.index_of(column), hash * inverse)


def tables_of(calls: ShortcutCalls) -> list[NDArray[Any]]:
    """Return the tables that the kernel of a shortcut reads besides those of its calls."""
    if calls.name in BIT_FUNCTIONS:
        return []
    if calls.name == "pedersen_node":
        return [node_tables(calls.parameters[1].to_bytes(8, "big"), _DIGIT_WINDOWS)]
    arity, tag = calls.parameters
    return [from_integers(BLS12_381_FR, kernel_constants(arity, tag))]


def kernel_of(
    device: AnyDevice, calls: ShortcutCalls, lanes: int, modulus: Modulus
) -> tuple[Any, int]:
    """Return the compiled kernel of a shortcut, and the workgroups that compute `lanes` lanes."""
    host = in_host_memory(device)
    if calls.name in BIT_FUNCTIONS:
        width = 1 if host else _GPU_WORKGROUP_SIZE
        kernel = device.compile(
            call_bit_function, lanes=width, function=calls.name, modulus=modulus
        )  # fmt: skip
        return kernel, lanes
    width = device.lanes if host else _GPU_WORKGROUP_SIZE
    if calls.name == "pedersen_node":
        width = 1 if host and lanes == 1 else width
        compiled = device.compile(
            call_pedersen_node, lanes=width, scale=calls.parameters[0], windows=_DIGIT_WINDOWS
        )
        return compiled, -(-lanes // width)
    assert calls.name == "neptune_hash"
    arity, _ = calls.parameters
    return device.compile(call_neptune_hash, lanes=width, arity=arity), -(-lanes // width)
