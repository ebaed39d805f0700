"""Encoding of a matrix's rows, one tile of a codeword ("word") at a time, in shared memory.

A workgroup computes the levels above a tile while it reads the message: each element is a weighted
sum of message elements, one per tile of the message, and all elements of a tile have the same
weights. So each word is written once, no tile waits for another, and shared memory for 2**12
elements suffices for messages of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.commitment.ligero.code import Code
from quod.device.protocol import AnyDevice
from quod.field.integers import (
    ELEMENT,
    INTEGER_TYPES,
    bias_of,
    load_integer,
    load_unsigned,
    offset_array,
)
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.kernel import U32, Builder, Pointer, kernel, u32, u64
from quod.kernel.ir.value import Value

MAX_LOG_TILE = 12
# The number of levels that are computed between two barriers.
_STEP = 3
# The number of banks of shared memory, and of instances that access it at the same time.
_BANKS = 32


def fitting_log_tile(device: AnyDevice, code: Code, lanes: int) -> int:
    """Return log2 of the largest tile that fits shared memory and is no longer than a message."""
    modulus = code.modulus
    max_elements = (
        device.machine(lanes).shared_bytes_limit // modulus.bytes * _BANKS // (_BANKS + 1)
    )
    return min(MAX_LOG_TILE, code.log_message, max_elements.bit_length() - 1)


@kernel
def encode_rows(
    k: Builder,
    tiles: U32,
    log_tiles: U32,
    messages: Pointer[U32],
    twiddles: Pointer[U32],
    words: Pointer[U32],
    *,
    modulus: Modulus,
    log_tile: int,
    log_folded: int,
    type_name: str = ELEMENT,
) -> None:
    """Encode messages of 2**(log_folded + log_tile) elements.

    A word has 2**log_tiles tiles of 2**log_tile elements; all words have `tiles` tiles. `twiddles`
    is the table of the code (`quod.commitment.ligero.code`). Elements are in memory form, and those
    of messages may be integers of the type `type_name`.
    """
    trace = _Tile(k, modulus, log_tile, log_folded, type_name)
    with k.range(k.workgroup_id(), tiles, k.num_workgroups()) as loop:
        trace.encode(loop.index, log_tiles, messages, twiddles, words)


class _Tile:
    """The encoding of a tile, while the kernel is traced."""

    node: Value
    twiddles: Value

    def __init__(
        self, k: Builder, modulus: Modulus, log_tile: int, log_folded: int, type_name: str
    ) -> None:
        self.type_name = type_name
        self.k, self.log_tile, self.log_folded = k, log_tile, log_folded
        self.f: Any = prime_field(k, modulus)
        self.is_padded = k.workgroup_size >= _BANKS
        elements = (1 << log_tile) + ((1 << log_tile) // _BANKS if self.is_padded else 0)
        self.shared = k.shared(self.f.word_type, elements * self.f.word_count)

    def encode(
        self, number: Value, log_tiles: Value, messages: Value, twiddles: Value, words: Value
    ) -> None:
        """Encode one tile; `number` is its index among the tiles of all rows."""
        k, f = self.k, self.f
        one = k.constant(1, number.type)
        row, tile = number >> log_tiles, number & ((one << log_tiles) - 1)
        # The index of the tile's first element in the table, as if tiles were a level.
        self.node, self.twiddles = (one << log_tiles) + tile, twiddles
        weights = self._weights(tile)
        first = row << (self.log_tile + self.log_folded)

        parts = 1 << self.log_folded
        if weights and self._has_short_products:
            short_sum = _ShortSum(k, f, self.type_name, weights)

        def from_message(index: Value) -> Any:
            # The address of the first element, so that those of the others are constants apart.
            message = offset_array(f, self.type_name, messages, first + index)
            indices = [k.constant(part << self.log_tile, u32) for part in range(parts)]
            if weights and self._has_short_products:
                return short_sum.of(message, indices)
            elements = [load_integer(f, self.type_name, message, index) for index in indices]
            if not weights:
                return elements[0]
            return elements[0] + f.sum_of_products(list(zip(elements[1:], weights, strict=True)))

        read: Callable[[Value], Any] = from_message
        if self.log_folded and self.is_padded:
            # One element at a time needs few registers, so that a GPU holds more workgroups. On a
            # CPU the further pass over shared memory costs more.
            with k.range(k.local_id(), 1 << self.log_tile, k.workgroup_size) as loop:
                f.store(self.shared, self._padded(loop.index), from_message(loop.index))
            k.barrier()
            read = self._load
        start = self.log_tile
        while start:
            levels = start % _STEP or _STEP
            start -= levels
            self._step(start, levels, read)
            read = self._load
            k.barrier()
        begin = number << self.log_tile
        with k.range(k.local_id(), 1 << self.log_tile, k.workgroup_size) as loop:
            f.store(words, begin + loop.index, read(loop.index))
        k.barrier()

    @property
    def _has_short_products(self) -> bool:
        """True if weights are words of 64 bits, and message elements integers of at most 16."""
        modulus = self.f.modulus
        return (
            self.type_name != ELEMENT and INTEGER_TYPES[self.type_name].bits <= 16
            and bool(modulus.is_plain) and modulus.words == 2
        )  # fmt: skip

    def _weights(self, tile: Value) -> list[Any]:
        """Return the weights of the message elements whose sum is an element of the tile.

        The first weight is 1 and is not returned.
        """
        f = self.f
        weights: list[Any] = []
        for level in range(self.log_folded):
            twiddle = f.load(self.twiddles, self.node >> (level + 1))
            factor = f.bounded(
                f.select(((tile >> level) & 1) != 0, f.bounded(-twiddle), f.bounded(twiddle))
            )
            weights += [factor, *(f.bounded(weight * factor) for weight in weights)]
        return weights

    def _step(self, start: int, levels: int, read: Callable[[Value], Any]) -> None:
        """Compute levels start + levels - 1 down to start on 2**levels elements at a time."""
        k, lanes = self.k, self.k.workgroup_size
        if 1 << start >= lanes:
            # All instances of an iteration use the same twiddles.
            blocks = 1 << (self.log_tile - start - levels)
            with k.range(0, blocks) as above, k.range(k.local_id(), 1 << start, lanes) as below:
                self._compute_levels(start, levels, above.index, below.index, read)
            return
        with k.range(k.local_id(), 1 << (self.log_tile - levels), lanes) as loop:
            low = loop.index & ((1 << start) - 1)
            self._compute_levels(start, levels, loop.index >> start, low, read)

    def _compute_levels(
        self, start: int, levels: int, high: Value, low: Value, read: Callable[[Value], Any]
    ) -> None:
        """Compute levels on 2**levels elements, which are 2**start apart in the tile."""
        f = self.f
        base = (high << (start + levels)) + low
        indices = [base + (number << start) for number in range(1 << levels)]
        elements = [read(index) for index in indices]
        for level in reversed(range(levels)):
            log_blocks = levels - level - 1
            first = (self.node << (self.log_tile - start - level - 1)) + (high << log_blocks)
            factors = [f.load(self.twiddles, first + part) for part in range(1 << log_blocks)]
            half = 1 << level
            for number in range(1 << levels):
                if not number & half:
                    product = elements[number + half] * factors[number >> (level + 1)]
                    summand = elements[number]
                    elements[number], elements[number + half] = (
                        summand + product,
                        summand - product,
                    )
        for index, element in zip(indices, elements, strict=True):
            f.store(self.shared, self._padded(index), element)

    def _load(self, index: Value) -> Any:
        return self.f.load(self.shared, self._padded(index))

    def _padded(self, index: Value) -> Value:
        """Return the index of an element in shared memory, padded to avoid bank conflicts."""
        return index + (index // _BANKS) if self.is_padded else index


class _ShortSum:
    """Weighted sums of integers of at most 16 bits, in a kernel, over a plain field of 64 bits.

    Halves of weights times integers are below 2**48, so that sums of them need no carries.
    """

    def __init__(self, k: Builder, f: Any, type_name: str, weights: Sequence[Any]) -> None:
        """Prepare weights; the weight of the first integer of each sum is 1 and is not in them."""
        self._k, self._f, self._type_name = k, f, type_name
        words = [f.to_words(weight)[0] for weight in weights]
        self._halves = [(word.cast(u32), (word >> 32).cast(u32)) for word in words]
        self._excess: Any = None
        if bias := bias_of(type_name):
            total = f.one()
            for weight in weights:
                total = f.bounded(total + weight)
            self._excess = f.bounded(total * bias)

    def of(self, messages: Value, indices: Sequence[Value]) -> Any:
        """Return the weighted sum of the integers at the indices."""
        k, f = self._k, self._f
        first, *others = (load_unsigned(self._type_name, messages, index) for index in indices)
        low, high = first.cast(u64), k.constant(0, u64)
        for integer, (low_half, high_half) in zip(others, self._halves, strict=True):
            low = low + k.emit("mul_wide", (integer, low_half))
            high = high + k.emit("mul_wide", (integer, high_half))
        bits = 48 + len(others).bit_length()
        upper = f.multiply_constant(f.from_integer(high, bits), 1 << 32)
        total = upper + f.from_integer(low, bits)
        return total if self._excess is None else total - self._excess
