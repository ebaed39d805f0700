"""32-bit words of bits in a circuit, in the constraints of bellman's `UInt32` and `MultiEq`."""

from __future__ import annotations

from collections.abc import Sequence

from quod.r1cs.gadgets.bellman.booleans import Boolean, constants, exclusive_or, scaled, weighted
from quod.r1cs.signal import Signal, hide_frames_of
from quod.r1cs.system import ConstraintSystem

hide_frames_of(__file__)

WORD_BITS = 32

Word = list[Boolean]
"""32 bits, least significant first."""


def constant_word(number: int) -> Word:
    """Return the lowest 32 bits of a number as constants."""
    return constants(number, WORD_BITS)


def word_signals(system: ConstraintSystem, words: Sequence[Word]) -> list[Signal]:
    """Return the bits of words as signals."""
    return [scaled(system, bit, 1) for word in words for bit in word]


def rotated(word: Word, count: int) -> Word:
    """Return a word rotated right by `count` bits; no constraint."""
    return word[count:] + word[:count]


def shifted(word: Word, count: int) -> Word:
    """Return a word shifted right by `count` bits, with zeros at the top; no constraint."""
    return word[count:] + constants(0, count)


def exclusive_or_of_words(system: ConstraintSystem, left: Word, right: Word) -> Word:
    """left XOR right; one constraint for each pair of bits that are not constant."""
    return [
        exclusive_or(system, bit, other_bit) for bit, other_bit in zip(left, right, strict=True)
    ]


class Equalities:
    """Sums of words modulo 2**32, with equalities packed into shared constraints.

    A sum equals its bits by a constraint on numbers of 33 to 35 bits. A constraint has room for
    several such equalities, at different bit offsets. `flush` adds the last constraint.
    """

    def __init__(self, system: ConstraintSystem) -> None:
        self._system, self._used = system, 0
        self._left, self._right = system.zero, system.zero
        self._capacity = system.prime.bit_length() - 1

    def total(self, words: Sequence[Word]) -> Word:
        """Add words modulo 2**32; return the sum in new bits, with a constraint each.

        Constant words give a constant, without constraints.
        """
        system = self._system
        terms = [(bit, 1 << index) for word in words for index, bit in enumerate(word)]
        total = weighted(system, terms)
        if (number := total.constant) is not None:
            return constant_word(number)
        size = (len(words) * ((1 << WORD_BITS) - 1)).bit_length()
        bits = []
        for position in range(size):
            bits.append(system.hint_bit(total, position))
            system.boolean(bits[-1])
        if self._used + size >= self._capacity:
            self.flush()
        self._left += total * (1 << self._used)
        self._right += system.pack(bits) * (1 << self._used)
        self._used += size
        return [*bits[:WORD_BITS]]

    def flush(self) -> None:
        """Add the constraint of the equalities collected so far."""
        if self._used:
            self._system.enforce(self._left, self._system.one, self._right)
        self._left, self._right, self._used = self._system.zero, self._system.zero, 0
