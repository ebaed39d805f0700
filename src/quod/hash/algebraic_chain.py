"""Transcripts over a prime field inside kernels (`quod.hash.algebraic`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.field.extension import field_arithmetic
from quod.hash.algebraic import AlgebraicHash, tag
from quod.hash.function import DIGEST_LABEL
from quod.hash.poseidon2 import FULL_ROUNDS, Poseidon2Parameters
from quod.hash.words import Load, Words, message_words
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

# Blocks of a message that are kept where an index picks one.
_LOOPED_BLOCKS = 16


class Poseidon2:
    """The permutation for one kernel, made at its top: the constants are tables.

    Each instance has a state of its own, and comes or does not.
    """

    def __init__(self, k: Builder, parameters: Poseidon2Parameters) -> None:
        self._k, self._parameters = k, parameters
        self.field: Any = field_arithmetic(k, parameters.field, inlined=True)
        rounds = parameters.round_constants
        self._full = self.field.table([c for row in rounds if len(row) > 1 for c in row])
        self._partial = self.field.table([c for row in rounds if len(row) == 1 for c in row])

    def __call__(self, state: Sequence[Any]) -> list[Any]:
        """The state after the permutation, of carried elements."""
        k, f = self._k, self.field
        half, width = FULL_ROUNDS // 2, self._parameters.width
        # Both halves of the full rounds are one loop, which has the partial ones behind the first.
        with k.range(0, 2, carry=tuple(self._external(state))) as halves:
            number = halves.index
            with k.range(0, half, carry=halves.carried) as full:
                first = (number * half + full.index) * width
                powers = [
                    self._power(value + f.load(self._full, first + place))
                    for place, value in enumerate(full.carried)
                ]
                full.next(tuple(self._external(powers)))
            count = self._parameters.partial_rounds * (1 - number)
            with k.range(0, count, carry=full.results) as partial:
                first, *rest = partial.carried
                powered = self._power(first + f.load(self._partial, partial.index))
                partial.next(tuple(self._internal([powered, *rest])))
            halves.next(partial.results)
        return list(halves.results)

    def _power(self, value: Any) -> Any:
        f, exponent = self.field, self._parameters.exponent
        value = f.carried(value)
        square = f.carried(f.square(value))
        if exponent == 3:
            return f.carried(square * value)
        fourth = f.carried(f.square(square))
        return f.carried((fourth if exponent == 5 else f.carried(fourth * square)) * value)

    def _external(self, state: Sequence[Any]) -> list[Any]:
        carried = self.field.carried
        mixed: list[Any] = []
        for at in range(0, len(state), 4):
            block = state[at : at + 4]
            a, b, c, d = block
            total = carried(carried(a + b) + carried(c + d))
            mixed += [
                carried(carried(total + own) + carried(after + after))
                for own, after in zip(block, (b, c, d, a), strict=True)
            ]
        totals = [self._sum(mixed[at::4]) for at in range(4)]
        return [carried(value + totals[at % 4]) for at, value in enumerate(mixed)]

    def _internal(self, state: Sequence[Any]) -> list[Any]:
        carried, total = self.field.carried, self._sum(state)
        return [
            carried(total + carried(value * weight))
            for value, weight in zip(state, self._parameters.diagonal, strict=True)
        ]

    def _sum(self, values: Sequence[Any]) -> Any:
        carried, parts = self.field.carried, list(values)
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [carried(a + b) for a, b in pairs]
        return parts[0]


class AlgebraicChain:
    """Absorbs messages of elements in one kernel, made at its top; each instance has a state of its
    own, and comes or does not."""

    is_shared = False

    def __init__(self, k: Builder, hash: AlgebraicHash) -> None:
        self._k, self._hash = k, hash
        self._permutation = Poseidon2(k, hash.permutation)
        self._field = self._permutation.field
        self._each = hash.field.bytes // 4
        self._radix = hash.field.montgomery_radix
        self._message = k.private(types.u32, _LOOPED_BLOCKS * hash.rate * self._each)

    def absorbed(self, state: Words, label: int, message: Sequence[Value]) -> Words:
        """The state after a message of elements, words of canonical integers."""
        count, rate = len(message) // self._each, self._hash.rate
        last = max(0, count - 1) // rate
        added = tag(label, are_elements=True, fill=count - last * rate)
        values = self._over_blocks(self._elements(state), message, last, added)
        return self._words(values)

    def absorbed_some(
        self, state: Words, header: Value, message: Sequence[Value], length: Value
    ) -> Words:
        """The state after the first `length` words of a message, with a header as other hashes have
        it (`quod.transcript.transcript.header`)."""
        k, rate = self._k, self._hash.rate
        zero = k.constant(0, types.u32)
        kept = [k.select(length > place, word, zero) for place, word in enumerate(message)]
        count = length // self._each
        last = k.select(count == 0, zero, (count - 1) // rate)
        known = tag(0, are_elements=True, fill=count - last * rate)
        added = self._element([known + ((header >> 24) << 5), zero][: self._each])
        return self._words(self._over_blocks(self._elements(state), kept, last, added))

    def of_run(self, load: Load, words: int, level: Value) -> Words:
        """The digest of a run of so many words of elements, given by `load`, on a level."""
        k, f, block = self._k, self._field, self._hash.rate * self._each
        last = max(0, words - 1) // block * block
        zero = k.constant(0, types.u32)
        nothing = f.carried(f.zero())
        second = self._element([level, zero][: self._each])
        values = [nothing, second, *[nothing] * (self._hash.capacity - 2)]
        if last:
            with k.range(0, last, block, carry=tuple(values)) as blocks:
                blocks.next(tuple(self._after(blocks.carried, load(blocks.index, block))))
            values = list(blocks.results)
        fill = (words - last) // self._each
        added = f.constant(tag(DIGEST_LABEL, are_elements=True, fill=fill))
        values[0] = f.carried(values[0] + added)
        return self._words(self._after(values, load(k.constant(last, types.u32), words - last)))

    def _over_blocks(
        self, state: list[Any], message: Sequence[Value], last: Value | int, added: Any
    ) -> list[Any]:
        """The state after the blocks of a message up to the last one, before which something is
        added: a loop over them, as a permutation a block would make some drivers take minutes."""
        k, f, block = self._k, self._field, self._hash.rate * self._each
        blocks = max(1, -(-len(message) // block))
        if isinstance(added, int):
            added = f.constant(added)
        if blocks == 1:
            first, *rest = state
            return self._after([f.carried(first + added), *rest], message)
        zero = k.constant(0, types.u32)
        words = [*message, *[zero] * (blocks * block - len(message))]
        last = k.constant(last, types.u32) if isinstance(last, int) else last
        for start in range(0, blocks, _LOOPED_BLOCKS):
            stop = min(start + _LOOPED_BLOCKS, blocks)
            k.store(self._message, 0, *words[start * block : stop * block])
            with k.range(start, k.minimum(last + 1, stop), carry=tuple(state)) as loop:
                first, *rest = loop.carried
                first = f.select(loop.index == last, f.carried(first + added), first)
                given = k.load(self._message, (loop.index - start) * block, block)
                loop.next(tuple(self._after([first, *rest], given)))
            state = list(loop.results)
        return state

    def _after(self, state: Sequence[Any], block: Sequence[Value]) -> list[Any]:
        values = self._elements(block)
        zeros = [self._field.carried(self._field.zero())] * (self._hash.rate - len(values))
        return self._permutation([*state, *values, *zeros])[: self._hash.capacity]

    def _elements(self, words: Sequence[Value]) -> list[Any]:
        each = self._each
        return [self._element(words[at : at + each]) for at in range(0, len(words), each)]

    def _element(self, words: Sequence[Value]) -> Any:
        """The element that is the integer of these words."""
        f = self._field
        if f.word_type is types.u64:
            low, high = words
            words = [low.cast(types.u64) | (high.cast(types.u64) << 32)]
        found = f.from_words(tuple(words))
        return f.carried(found if self._radix == 1 else found * self._radix)

    def _words(self, values: Sequence[Any]) -> Words:
        return tuple(word for value in values for word in message_words(self._field, value))
