"""BLAKE2s (RFC 7693) in a circuit, with a personalisation, in the constraints of bellman.

Sums modulo 2**32 are constrained to equal their bits; several such equalities are packed into one
constraint, as many as fit in the field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.errors import InputError
from quod.hash.blake import ORDER, STEPS
from quod.hash.sha2 import start_words
from quod.r1cs.gadgets.bellman.booleans import Not, boolean, constants, negated, scaled
from quod.r1cs.gadgets.bellman.words import (
    WORD_BITS,
    Equalities,
    Word,
    constant_word,
    exclusive_or_of_words,
    rotated,
    word_signals,
)
from quod.r1cs.gadgets.signals import bit_signals
from quod.r1cs.repetition.shortcuts import bit_shortcut, with_shortcut
from quod.r1cs.signal import Signal, hide_frames_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.r1cs.traced import Shortcut
from quod.validation import exact_bytes

hide_frames_of(__file__)

_BLOCK = 512
_ROUNDS = 10
_WORD_MASK = 0xFFFFFFFF


def blake2s_hash(
    system: ConstraintSystem, message: Sequence[Operand], personalisation: bytes = bytes(8)
) -> list[Signal]:
    """Hash a message of bits to the 256 bits of its digest; each byte's lowest bit comes first.

    21,006 constraints for up to 64 bytes over BLS12-381. The message's length, in whole bytes, is
    part of the circuit. Raises InputError for a signal that is not known to be a bit. The reference
    is `hashlib.blake2s(..., person=...)`.
    """
    bits = [boolean(bit) for bit in bit_signals(system, "the bits of the message", message)]
    person = exact_bytes("the personalisation", personalisation, 8)
    if len(bits) % 8:
        raise InputError("the message of BLAKE2s must be whole bytes")
    numbers = start_words()
    # RFC 7693's parameter block: fan-out and depth of 1, no key, a digest of 32 bytes.
    numbers[0] ^= 0x01010000 ^ 32
    numbers[6] ^= int.from_bytes(person[:4], "little")
    numbers[7] ^= int.from_bytes(person[4:], "little")
    state = [constant_word(number) for number in numbers]
    length = len(bits)
    bits += constants(0, -length % _BLOCK if length else _BLOCK)
    for start in range(0, len(bits), _BLOCK):
        with system.namespace(f"block[{start // _BLOCK}]"):
            words = [
                bits[index : index + WORD_BITS] for index in range(start, start + _BLOCK, WORD_BITS)
            ]
            is_last = start + _BLOCK == len(bits)
            bytes_so_far = length // 8 if is_last else (start + _BLOCK) // 8
            state = system.repeat(_compress, state, words, bytes_so_far, is_last)
    return [scaled(system, bit, 1) for word in state for bit in word]


def _counters(bytes_so_far: int, is_last: bool) -> tuple[int, int, int]:
    """Return the words of the number of bytes, and all bits of a last block."""
    return bytes_so_far & _WORD_MASK, bytes_so_far >> WORD_BITS, _WORD_MASK if is_last else 0


def _shortcut(
    system: ConstraintSystem, arguments: Sequence[Any], result: list[Word]
) -> Shortcut | None:
    """Describe the compression (`quod.r1cs.shortcuts.blake2s`).

    Result bits may be 1 minus their wire. The mask, the last argument words, has these bits.
    """
    state, words, bytes_so_far, is_last = arguments
    mask: list[Word] = [[isinstance(bit, Not) for bit in word] for word in result]
    wires = [[negated(bit) if isinstance(bit, Not) else bit for bit in word] for word in result]
    counters = [constant_word(number) for number in _counters(bytes_so_far, is_last)]
    return bit_shortcut(
        "blake2s_compression", word_signals(system, [*state, *words, *counters, *mask]),
        word_signals(system, wires),
    )  # fmt: skip


@with_shortcut(_shortcut)
def _compress(
    system: ConstraintSystem, state: list[Word], words: list[Word], bytes_so_far: int, is_last: bool
) -> list[Word]:
    """Apply the compression function F of RFC 7693 to a state and a block of 16 words."""
    constant_words = start_words()
    for index, number in enumerate(_counters(bytes_so_far, is_last), 4):
        constant_words[index] ^= number
    v = [*state, *(constant_word(number) for number in constant_words)]
    equalities = Equalities(system)
    with system.namespace("rounds"):
        for order in ORDER[:_ROUNDS]:
            for index, (a, b, c, d) in enumerate(STEPS):
                for half, (d_rotation, b_rotation) in enumerate(((16, 12), (8, 7))):
                    v[a] = equalities.total([v[a], v[b], words[order[2 * index + half]]])
                    v[d] = rotated(exclusive_or_of_words(system, v[d], v[a]), d_rotation)
                    v[c] = equalities.total([v[c], v[d]])
                    v[b] = rotated(exclusive_or_of_words(system, v[b], v[c]), b_rotation)
        equalities.flush()
    with system.namespace("state"):
        return [
            exclusive_or_of_words(
                system, exclusive_or_of_words(system, word, v[index]), v[index + 8]
            )
            for index, word in enumerate(state)
        ]
