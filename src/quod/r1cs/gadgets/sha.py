"""SHA-256 (FIPS 180-4) of a message of bits in a circuit; about 27,000 constraints per block."""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.hash.sha2 import round_constants, start_words
from quod.r1cs.gadgets.logic import exclusive_or_of_three, majority
from quod.r1cs.gadgets.signals import bit_signals
from quod.r1cs.signal import Signal, hide_frames_of
from quod.r1cs.system import ConstraintSystem, Operand

hide_frames_of(__file__)

_WORD = 32
_BLOCK = 512

Word = list[Signal]
"""32 bits, least significant first."""


def sha256(system: ConstraintSystem, message: Sequence[Operand]) -> list[Signal]:
    """Hash a message of bits to the 256 bits of its digest; each byte's highest bit comes first.

    The length of the list is part of the circuit. Raises InputError for a signal that is not known
    to be a bit. The reference is `hashlib.sha256`.
    """
    bits = bit_signals(system, "the bits of the message", message)
    length = len(bits)
    zeros = -(length + 1 + 64) % _BLOCK
    padding = [*([1] + [0] * zeros), *(length >> index & 1 for index in reversed(range(64)))]
    bits += [system.constant(bit) for bit in padding]
    state = [_constant(system, word) for word in start_words()]
    for block_index, start in enumerate(range(0, len(bits), _BLOCK)):
        with system.namespace(f"block[{block_index}]"):
            block = [
                bits[index : index + _WORD][::-1] for index in range(start, start + _BLOCK, _WORD)
            ]
            state = sha256_compression(system, state, block)
    return [bit for word in state for bit in reversed(word)]


def sha256_compression(
    system: ConstraintSystem, state: Sequence[Sequence[Operand]], block: Sequence[Sequence[Operand]]
) -> list[Word]:
    """Apply the compression function to a state of 8 words and a block of 16.

    Words are 32 bits, least significant first.
    """
    start = [bit_signals(system, "the bits of a word", word, _WORD) for word in state]
    words = [bit_signals(system, "the bits of a word", word, _WORD) for word in block]
    if (len(start), len(words)) != (8, 16):
        raise InputError(f"a state has 8 words and a block 16, not {len(start)} and {len(words)}")
    with system.namespace("schedule"):
        for index in range(16, 64):
            sigma_0 = _sigma(system, words[index - 15], (7, 18), 3)
            sigma_1 = _sigma(system, words[index - 2], (17, 19), 10)
            words.append(_sum(system, [words[index - 16], sigma_0, words[index - 7], sigma_1]))
    a, b, c, d, e, f, g, h = start
    for index, constant in enumerate(round_constants()):
        with system.namespace(f"round[{index}]"):
            sigma_1 = _sigma(system, e, (6, 11, 25))
            choice = [
                system.select(bit, if_one, if_zero)
                for bit, if_one, if_zero in zip(e, f, g, strict=True)
            ]
            summands = [h, sigma_1, choice, words[index]]
            sigma_0 = _sigma(system, a, (2, 13, 22))
            majority_word = [majority(system, *three) for three in zip(a, b, c, strict=True)]
            new_e = _sum(system, [*summands, d], constant)
            a, b, c, d, e, f, g, h = (
                _sum(system, [*summands, sigma_0, majority_word], constant), a, b, c, new_e, e, f, g
            )  # fmt: skip
    with system.namespace("sum"):
        final_state = (a, b, c, d, e, f, g, h)
        return [_sum(system, [old, new]) for old, new in zip(start, final_state, strict=True)]


def _sigma(
    system: ConstraintSystem, word: Word, rotations: tuple[int, ...], shift: int = 0
) -> Word:
    """Return the exclusive or of a word's right rotations and, if `shift` is not 0, right shift."""
    terms = [[word[(index + rotation) % _WORD] for index in range(_WORD)] for rotation in rotations]
    if shift:
        terms.append(word[shift:] + [system.zero] * shift)
    return [exclusive_or_of_three(system, *bits) for bits in zip(*terms, strict=True)]


def _sum(system: ConstraintSystem, words: list[Word], constant: int = 0) -> Word:
    """Add words and a constant modulo 2**32; return the sum in constrained bits."""
    total = system.sum([constant, *(system.pack(word) for word in words)])
    max_total = len(words) * ((1 << _WORD) - 1) + constant
    if (constant_total := total.constant) is not None:
        return _constant(system, constant_total & (1 << _WORD) - 1)
    return system.bits(total, max_total.bit_length())[:_WORD]


def _constant(system: ConstraintSystem, word: int) -> Word:
    return [system.constant(word >> index & 1) for index in range(_WORD)]
