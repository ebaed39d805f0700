"""BLAKE2s (RFC 7693) in a circuit, with a personalisation, in the constraints of bellman.

Sums modulo 2**32 are constrained to equal their bits; several such equalities are packed into one
constraint, as many as fit in the field.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.hash.blake import ORDER, STEPS
from quod.hash.sha2 import start_words
from quod.r1cs.gadgets.booleans import Boolean, constants, exclusive_or, scaled, weighted
from quod.r1cs.gadgets.signals import bit_signals
from quod.r1cs.signal import Signal, hide_frames_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import exact_bytes

hide_frames_of(__file__)

_WORD = 32
_BLOCK = 512
_ROUNDS = 10

Word = list[Boolean]
"""32 bits, least significant first."""


def blake2s_hash(
    system: ConstraintSystem, message: Sequence[Operand], personalisation: bytes = bytes(8)
) -> list[Signal]:
    """Hash a message of bits to the 256 bits of its digest; each byte's lowest bit comes first.

    21,006 constraints for up to 64 bytes over BLS12-381. The message's length, in whole bytes, is
    part of the circuit. Raises InputError for a signal that is not known to be a bit. The reference
    is `hashlib.blake2s(..., person=...)`.
    """
    bits = [_boolean(bit) for bit in bit_signals(system, "the bits of the message", message)]
    person = exact_bytes("the personalisation", personalisation, 8)
    if len(bits) % 8:
        raise InputError("the message of BLAKE2s must be whole bytes")
    numbers = start_words()
    # RFC 7693's parameter block: fan-out and depth of 1, no key, a digest of 32 bytes.
    numbers[0] ^= 0x01010000 ^ 32
    numbers[6] ^= int.from_bytes(person[:4], "little")
    numbers[7] ^= int.from_bytes(person[4:], "little")
    state = [constants(number, _WORD) for number in numbers]
    length = len(bits)
    bits += constants(0, -length % _BLOCK if length else _BLOCK)
    for start in range(0, len(bits), _BLOCK):
        with system.namespace(f"block[{start // _BLOCK}]"):
            words = [bits[index : index + _WORD] for index in range(start, start + _BLOCK, _WORD)]
            is_last = start + _BLOCK == len(bits)
            bytes_so_far = length // 8 if is_last else (start + _BLOCK) // 8
            state = _compress(system, state, words, bytes_so_far, is_last)
    return [scaled(system, bit, 1) for word in state for bit in word]


def _boolean(bit: Signal) -> Boolean:
    """Return a constant bit as bool, any other signal unchanged."""
    return bit if bit.constant not in (0, 1) else bool(bit.constant)


def _compress(
    system: ConstraintSystem, state: list[Word], words: list[Word], bytes_so_far: int, is_last: bool
) -> list[Word]:
    """Apply the compression function F of RFC 7693 to a state and a block of 16 words."""
    constant_words = start_words()
    constant_words[4] ^= bytes_so_far & 0xFFFFFFFF
    constant_words[5] ^= bytes_so_far >> _WORD
    constant_words[6] ^= 0xFFFFFFFF if is_last else 0
    v = [*state, *(constants(number, _WORD) for number in constant_words)]
    equalities = _Equalities(system)
    with system.namespace("rounds"):
        for order in ORDER[:_ROUNDS]:
            for index, (a, b, c, d) in enumerate(STEPS):
                for half, (d_rotation, b_rotation) in enumerate(((16, 12), (8, 7))):
                    v[a] = equalities.total([v[a], v[b], words[order[2 * index + half]]])
                    v[d] = _exclusive_or_rotated(system, v[d], v[a], d_rotation)
                    v[c] = equalities.total([v[c], v[d]])
                    v[b] = _exclusive_or_rotated(system, v[b], v[c], b_rotation)
        equalities.flush()
    with system.namespace("state"):
        return [
            _exclusive_or_rotated(
                system, _exclusive_or_rotated(system, word, v[index]), v[index + 8]
            )
            for index, word in enumerate(state)
        ]


def _exclusive_or_rotated(
    system: ConstraintSystem, left: Word, right: Word, rotation: int = 0
) -> Word:
    """The exclusive or of two words, rotated right by `rotation` bits."""
    bits = [
        exclusive_or(system, bit, other_bit) for bit, other_bit in zip(left, right, strict=True)
    ]
    return bits[rotation:] + bits[:rotation]


class _Equalities:
    """Equalities of small sums, packed into shared constraints at different bit offsets."""

    def __init__(self, system: ConstraintSystem) -> None:
        self._system, self._used = system, 0
        self._left, self._right = system.zero, system.zero
        self._capacity = system.prime.bit_length() - 1

    def total(self, words: list[Word]) -> Word:
        """Add words modulo 2**32; return the sum in new bits."""
        system = self._system
        terms = [(bit, 1 << index) for word in words for index, bit in enumerate(word)]
        total = weighted(system, terms)
        if (number := total.constant) is not None:
            return constants(number, _WORD)
        size = (len(words) * ((1 << _WORD) - 1)).bit_length()
        bits = []
        for position in range(size):
            bits.append(system.hint_bit(total, position))
            system.boolean(bits[-1])
        if self._used + size >= self._capacity:
            self.flush()
        self._left += total * (1 << self._used)
        self._right += system.pack(bits) * (1 << self._used)
        self._used += size
        return [*bits[:_WORD]]

    def flush(self) -> None:
        """Add the constraint of the equalities collected so far."""
        if self._used:
            self._system.enforce(self._left, self._system.one, self._right)
        self._left, self._right, self._used = self._system.zero, self._system.zero, 0
