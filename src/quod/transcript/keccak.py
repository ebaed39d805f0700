"""SHA3-256 (FIPS 202) and its permutation Keccak-f[1600] inside kernels, a state an instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.machine import Capability
from quod.kernel.value import Value
from quod.transcript.plain_keccak import ROUNDS, round_constants
from quod.transcript.words import Load

State = tuple[Value, ...]
"""25 words of 64 bits; word x + 5*y is that of column x and row y."""

RATE_WORDS = 34
"""32-bit words that SHA3-256 absorbs at a time."""

# The bits behind a message, FIPS 202, sections 5.1 and 6.1.
_MARK = 0x06


class Permutation:
    """The permutation for one kernel, made at its top: the constants are tables.

    Where instances read one another's values those of a subgroup share the work, a word each: a
    state is then the same in all of them, and all instances of the workgroup come. With `alone`
    each instance has a state of its own everywhere, and comes or does not.
    """

    def __init__(self, k: Builder, *, alone: bool = False) -> None:
        self._k = k
        self._constants = k.table(types.u64, round_constants())
        self.is_shared = (
            not alone
            and k.machine.has(Capability.SUBGROUPS)
            and not k.machine.has(Capability.SLOW_SUBGROUPS)
            and k.subgroup_size == 32
            and k.workgroup_size % 32 == 0
        )
        if self.is_shared:
            self._turns = k.table(types.u32, [*_turns(), *[0] * 7])
            self._sources = k.table(types.u32, _sources())

    def __call__(self, state: Sequence[Value], count: int = 25) -> list[Value]:
        """The first `count` words of the state after the permutation."""
        if self.is_shared:
            return self._by_lanes(state, count)
        with self._k.range(0, ROUNDS, carry=tuple(state)) as rounds:
            rounds.next(_round(rounds.carried, self._constants[rounds.index]))
        return list(rounds.results[:count])

    def _by_lanes(self, state: Sequence[Value], count: int) -> list[Value]:
        """Lane x + 5*y has that word; the last seven lanes compute nothing that is used."""
        k = self._k
        lane = k.lane_id()
        word = k.constant(0, types.u64)
        for place, given in enumerate(state):
            if given.constant != 0:
                word = k.select(lane == place, given, word)
        x = lane % 5
        turn = self._turns[lane].cast(types.u64)
        sources = [self._sources[lane + 32 * which] for which in range(3)]
        is_first = lane == 0
        with k.range(0, ROUNDS, carry=word) as rounds:
            own = rounds.carried
            column = own
            for row in range(1, 5):
                column = column ^ k.shuffle(own, (lane + 5 * row) % 25)
            before, behind = (k.shuffle(column, (x + step) % 5) for step in (4, 1))
            own = own ^ before ^ _rotated(behind, 1)
            own = (own << turn) | ((own >> 1) >> (63 - turn))
            first, second, third = (k.shuffle(own, source) for source in sources)
            own = first ^ (~second & third)
            constant = self._constants[rounds.index]
            rounds.next(own ^ k.select(is_first, constant, k.constant(0, types.u64)))
        return [k.shuffle(rounds.results, place) for place in range(count)]


class Sha3:
    """The hash SHA3-256 for one kernel, made at its top; a message as `Permutation` has states."""

    def __init__(self, k: Builder, *, alone: bool = False) -> None:
        self._k = k
        self._permutation = Permutation(k, alone=alone)
        self.is_shared = self._permutation.is_shared

    def __call__(self, message: Sequence[Value]) -> State:
        """The digest of a message; both are bytes in little-endian words of 32 bits."""
        return self._digest(self._start(), [*message, self._k.constant(_MARK, types.u32)])

    def of_run(self, load: Load, words: int, level: Value) -> State:
        """The digest of so many words, given by `load`, and the byte of a level behind them."""
        sponge, whole = self._start(), words // RATE_WORDS * RATE_WORDS
        if whole:
            with self._k.range(0, whole, RATE_WORDS, carry=tuple(sponge)) as blocks:
                mixed = with_block(blocks.carried, load(blocks.index, RATE_WORDS))
                blocks.next(tuple(self._permutation(mixed)))
            sponge = list(blocks.results)
        rest = load(self._k.constant(whole, types.u32), words - whole) if words > whole else ()
        return self._digest(sponge, [*rest, level | _MARK << 8])

    def _start(self) -> list[Value]:
        return [self._k.constant(0, types.u64)] * 25

    def _digest(self, sponge: Sequence[Value], words: Sequence[Value]) -> State:
        """What is squeezed after the last words, which have the mark of their end."""
        zero = self._k.constant(0, types.u32)
        padded = [*words, *[zero] * (-len(words) % RATE_WORDS)]
        padded[-1] = padded[-1] | 0x80000000
        blocks = range(0, len(padded), RATE_WORDS)
        for at in blocks:
            mixed = with_block(sponge, padded[at : at + RATE_WORDS])
            sponge = self._permutation(mixed, 4 if at == blocks[-1] else 25)
        halves = [half for word in sponge[:4] for half in (word, word >> 32)]
        return tuple(half.cast(types.u32) for half in halves)


def with_block(sponge: Sequence[Value], words: Sequence[Value]) -> list[Value]:
    """A state with a block of 32-bit words."""
    pairs = zip(words[::2], words[1::2], strict=True)
    block = [low.cast(types.u64) | (high.cast(types.u64) << 32) for low, high in pairs]
    mixed = [word ^ part for word, part in zip(sponge, block)]
    return [*mixed, *sponge[len(block) :]]


def _steps() -> Iterator[tuple[int, int, int]]:
    """Of steps rho and pi: a word, by how many bits it is turned, and where it goes."""
    x, y = 1, 0
    yield 0, 0, 0
    for step in range(24):
        by = (step + 1) * (step + 2) // 2 % 64
        at = x + 5 * y
        x, y = y, (2 * x + 3 * y) % 5
        yield at, by, x + 5 * y


def _turns() -> list[int]:
    """By how many bits step rho turns each word."""
    return [by for _, by, _ in sorted(_steps())]


def _sources() -> list[int]:
    """Where the three words of step chi come from through step pi: 32 lanes for each of them."""
    origin = {target: at for at, _, target in _steps()}
    found = []
    for step in range(3):
        found += [origin[(place + step) % 5 + place // 5 * 5] for place in range(25)] + [0] * 7
    return found


def _round(a: State, constant: Value) -> State:
    """The steps theta, rho and pi, chi, iota."""
    columns = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
    mixed = [columns[x - 1] ^ _rotated(columns[(x + 1) % 5], 1) for x in range(5)]
    a = tuple(word ^ mixed[place % 5] for place, word in enumerate(a))
    moved = list(a)
    for at, by, target in _steps():
        moved[target] = _rotated(a[at], by)
    first, *rest = [
        moved[x + 5 * y] ^ (~moved[(x + 1) % 5 + 5 * y] & moved[(x + 2) % 5 + 5 * y])
        for y in range(5)
        for x in range(5)
    ]
    return (first ^ constant, *rest)


def _rotated(word: Value, by: int) -> Value:
    return word if by == 0 else (word << by) | (word >> (64 - by))
