"""SHA-256 (FIPS 180-4) in a circuit, of a message of bits, about 27,000 constraints a block."""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.hash.sha2 import round_constants, start_words
from quod.r1cs.gadgets.logic import exclusive_or_of_three, majority
from quod.r1cs.gadgets.signals import bit_signals, system_over
from quod.r1cs.signal import Signal, hide_frames_of
from quod.r1cs.system import ConstraintSystem, Operand

hide_frames_of(__file__)

_WORD = 32
_BLOCK = 512

Word = list[Signal]
"""32 bits, least significant first."""


def sha256(system: ConstraintSystem, message: Sequence[Operand]) -> list[Signal]:
    """Hash a message of bits to the 256 bits of its digest; each byte's highest bit comes first.

    The length of the list is part of the circuit. InputError for a signal that is not shown to be a
    bit. The reference is `hashlib.sha256`.
    """
    bits = bit_signals(system_over(system), "the bits of the message", message)
    length = len(bits)
    zeros = -(length + 1 + 64) % _BLOCK
    end = [*([1] + [0] * zeros), *(length >> index & 1 for index in reversed(range(64)))]
    bits += [system.constant(bit) for bit in end]
    state = [_constant(system, word) for word in start_words()]
    for number, start in enumerate(range(0, len(bits), _BLOCK)):
        with system.namespace(f"block[{number}]"):
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
    system_over(system)
    start = [bit_signals(system, "the bits of a word", word, _WORD) for word in state]
    words = [bit_signals(system, "the bits of a word", word, _WORD) for word in block]
    if (len(start), len(words)) != (8, 16):
        raise InputError(
            f"a state and a block are 8 words and 16, not {len(start)} and {len(words)}"
        )
    with system.namespace("schedule"):
        for index in range(16, 64):
            first = _mixed(system, words[index - 15], (7, 18), 3)
            second = _mixed(system, words[index - 2], (17, 19), 10)
            words.append(_sum(system, [words[index - 16], first, words[index - 7], second]))
    a, b, c, d, e, f, g, h = start
    for index, constant in enumerate(round_constants()):
        with system.namespace(f"round[{index}]"):
            second = _mixed(system, e, (6, 11, 25))
            chosen = [
                system.select(bit, if_one, if_zero)
                for bit, if_one, if_zero in zip(e, f, g, strict=True)
            ]
            parts = [h, second, chosen, words[index]]
            first = _mixed(system, a, (2, 13, 22))
            most = [majority(system, *three) for three in zip(a, b, c, strict=True)]
            changed = _sum(system, [*parts, d], constant)
            a, b, c, d, e, f, g, h = (
                _sum(system, [*parts, first, most], constant), a, b, c, changed, e, f, g
            )  # fmt: skip
    with system.namespace("sum"):
        end = (a, b, c, d, e, f, g, h)
        return [_sum(system, [old, new]) for old, new in zip(start, end, strict=True)]


def _mixed(system: ConstraintSystem, word: Word, turns: tuple[int, ...], shift: int = 0) -> Word:
    """The exclusive or of a word's rotations by `turns` and, if not 0, its right shift."""
    parts = [[word[(index + turn) % _WORD] for index in range(_WORD)] for turn in turns]
    if shift:
        parts.append(word[shift:] + [system.zero] * shift)
    return [exclusive_or_of_three(system, *bits) for bits in zip(*parts, strict=True)]


def _sum(system: ConstraintSystem, words: list[Word], constant: int = 0) -> Word:
    """Add words and a constant modulo 2**32; return the sum in constrained bits."""
    total = system.sum([constant, *(system.pack(word) for word in words)])
    most = len(words) * ((1 << _WORD) - 1) + constant
    if (number := total.constant) is not None:
        return _constant(system, number & (1 << _WORD) - 1)
    return system.bits(total, most.bit_length())[:_WORD]


def _constant(system: ConstraintSystem, word: int) -> Word:
    return [system.constant(word >> index & 1) for index in range(_WORD)]
