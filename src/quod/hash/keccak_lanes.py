"""Keccak-f[1600] by the lanes of a subgroup, each with a word of the state."""

from __future__ import annotations

from collections.abc import Sequence

from quod.hash.keccak import ROUNDS, moves, round_constants
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability

Halves = tuple[Value, Value]
"""A 64-bit word as its 32-bit halves, the lower first, which lanes exchange and rotate."""

_LANES = 32
_ROUNDS_PER_ITERATION = 2


class LanePermutation:
    """The permutation of a state that is the same in all instances of a workgroup.

    Create it at the top of a kernel, where each lane loads its constants. All instances must reach
    every call. Lane x + 5*y holds the word of column x and row y; the results of the last seven
    lanes are not used.
    """

    def __init__(self, k: Builder) -> None:
        self._k = k
        self._lane = k.lane_id()
        plan = k.table(types.u64, _plans())[self._lane]
        low, high = _halves(plan)
        self._column = [_field(low, index) for index in range(4)]
        self._previous_column, self._next_column = _field(low, 4), _field(low, 5)
        self._sources = [_field(high, index) for index in range(3)]
        self._rotation, self._is_swapped = _field(high, 3), _field(high, 4) != 0
        self._no_constant = k.select(self._lane == 0, k.constant(0, types.u32), _LANES - 1)
        constants = [*round_constants(), *[0] * (_LANES - ROUNDS)]
        self._constants = _halves(k.table(types.u64, constants)[self._lane])

    @staticmethod
    def is_faster(k: Builder) -> bool:
        """Return whether sharing a state over lanes is faster than one state in each lane."""
        machine = k.machine
        if not machine.has(Capability.SUBGROUPS) or machine.has(Capability.SLOW_SUBGROUPS):
            return False
        return k.subgroup_size == _LANES and k.workgroup_size % _LANES == 0

    def __call__(self, state: Sequence[Value], count: int) -> list[Value]:
        """Return the first `count` words of the state after the permutation."""
        k = self._k
        word = k.constant(0, types.u64)
        for lane, input_word in enumerate(state):
            if input_word.constant != 0:
                word = k.select(self._lane == lane, input_word, word)
        with k.range(0, ROUNDS, _ROUNDS_PER_ITERATION, carry=_halves(word)) as rounds:
            halves: Halves = rounds.carried
            for step in range(_ROUNDS_PER_ITERATION):
                halves = self._round(halves, rounds.index + step)
            rounds.next(halves)
        return [_word(self._from_lane(rounds.results, lane)) for lane in range(count)]

    def _round(self, halves: Halves, round_index: Value) -> Halves:
        """Apply the steps theta, rho and pi, chi, iota."""
        # Lane `round_index` holds this round's constant, which only lane 0 needs. The other lanes
        # read the 0 of the last lane.
        constant = self._from_lane(self._constants, round_index | self._no_constant)
        column = halves
        for lane in self._column:
            column = _xor(column, self._from_lane(halves, lane))
        before, after = (
            self._from_lane(column, self._previous_column),
            self._from_lane(column, self._next_column),
        )
        halves = _xor(_xor(halves, before), _rotate_left(after, 1))
        low, high = halves
        select, is_swapped = self._k.select, self._is_swapped
        halves = select(is_swapped, high, low), select(is_swapped, low, high)
        halves = _rotate_left(halves, self._rotation)
        first, second, third = (self._from_lane(halves, lane) for lane in self._sources)
        first = _xor(first, constant)
        low, high = (a ^ (~b & c) for a, b, c in zip(first, second, third, strict=True))
        return low, high

    def _from_lane(self, halves: Sequence[Value], lane: Value | int) -> Halves:
        low, high = (self._k.shuffle(half, lane) for half in halves)
        return low, high


def _xor(a: Sequence[Value], b: Sequence[Value]) -> Halves:
    return a[0] ^ b[0], a[1] ^ b[1]


def _rotate_left(halves: Halves, bits: Value | int) -> Halves:
    """Rotate a word left by less than 32 bits; each half is one instruction with funnel shifts."""
    low, high = halves
    return _upper(high, low, bits), _upper(low, high, bits)


def _upper(low: Value, high: Value, bits: Value | int) -> Value:
    """Return the upper half of the word (low, high) after a left shift."""
    amount = bits.cast(types.u64) if isinstance(bits, Value) else bits
    return ((_word((low, high)) << amount) >> 32).cast(types.u32)


def _word(halves: Halves) -> Value:
    low, high = halves
    return low.cast(types.u64) | (high.cast(types.u64) << 32)


def _halves(word: Value) -> Halves:
    return word.cast(types.u32), (word >> 32).cast(types.u32)


_BITS = 5


def _field(word: Value, field_index: int) -> Value:
    return (word >> (_BITS * field_index)) & ((1 << _BITS) - 1)


def _plans() -> list[int]:
    """Return a word for each lane with 5-bit fields: source lanes, and the rotation of its word.

    The lower half has the lanes of the other words of its column, and a lane of the previous and of
    the next column. The upper half has the three source lanes of steps pi and chi, then the
    rotation in bits: modulo 32, and a field that is 1 if the halves are swapped.
    """
    rotations = {source: rotation for source, rotation, _ in moves()}
    origin = {target: source for source, _, target in moves()}
    plans = []
    for lane in range(25):
        x, y = lane % 5, lane // 5
        column = [(lane + 5 * row) % 25 for row in range(1, 5)]
        sources = [origin[(x + step) % 5 + 5 * y] for step in range(3)]
        low = _pack_fields([*column, (x + 4) % 5, (x + 1) % 5])
        plans.append(
            low | _pack_fields([*sources, rotations[lane] % 32, rotations[lane] // 32]) << 32
        )
    return plans + [0] * (_LANES - len(plans))


def _pack_fields(fields: Sequence[int]) -> int:
    return sum(field << (_BITS * field_index) for field_index, field in enumerate(fields))
