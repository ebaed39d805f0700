"""SHA-256 (FIPS 180-4) in a circuit, in the constraints of bellman."""

from __future__ import annotations

from collections.abc import Sequence

from quod.hash.sha2 import round_constants, start_words
from quod.r1cs.gadgets.bellman.booleans import (
    boolean,
    choice,
    constants,
    majority,
    scaled,
)
from quod.r1cs.gadgets.bellman.words import (
    WORD_BITS,
    Equalities,
    Word,
    constant_word,
    exclusive_or_of_words,
    rotated,
    shifted,
    word_signals,
)
from quod.r1cs.gadgets.signals import bit_signals
from quod.r1cs.repetition.shortcuts import bit_shortcut, with_shortcut
from quod.r1cs.signal import Signal, hide_frames_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.r1cs.traced import Shortcut

hide_frames_of(__file__)

_BLOCK = 512
_LENGTH_BITS = 64


def sha256(system: ConstraintSystem, message: Sequence[Operand]) -> list[Signal]:
    """Hash a message of bits to the 256 bits of its digest; each byte's highest bit comes first.

    25,840 constraints over BLS12-381 for a first block of 512 variable bits. Constant bits cost
    nothing. Raises InputError for a signal that is not known to be a bit. The reference is
    `hashlib.sha256`. `quod.r1cs.gadgets.sha256` has the same values with other constraints.
    """
    bits = [boolean(bit) for bit in bit_signals(system, "the bits of the message", message)]
    length = len(bits)
    padding = constants(1, 1 + -(length + 1 + _LENGTH_BITS) % _BLOCK)
    bits += [*padding, *reversed(constants(length, _LENGTH_BITS))]
    state = [constant_word(number) for number in start_words()]
    for start in range(0, len(bits), _BLOCK):
        with system.namespace(f"block[{start // _BLOCK}]"):
            words = [
                bits[at : at + WORD_BITS][::-1] for at in range(start, start + _BLOCK, WORD_BITS)
            ]
            state = system.repeat(_compress, state, words)
    return [scaled(system, bit, 1) for word in state for bit in reversed(word)]


def _shortcut(
    system: ConstraintSystem, arguments: Sequence[list[Word]], result: list[Word]
) -> Shortcut | None:
    words = [word for argument in arguments for word in argument]
    return bit_shortcut(
        "sha256_compression", word_signals(system, words), word_signals(system, result)
    )  # fmt: skip


@with_shortcut(_shortcut)
def _compress(system: ConstraintSystem, state: list[Word], block: list[Word]) -> list[Word]:
    """Apply the compression function to a state of 8 words and a block of 16 words.

    The sums that give a and e of a round are taken at the start of the next round, e first.
    """
    equalities = Equalities(system)
    schedule = _schedule(system, equalities, block)
    a, b, c, d, e, f, g, h = state
    a_summands, e_summands = [a], [e]
    for index, constant in enumerate(round_constants()):
        with system.namespace(f"round[{index}]"):
            e = equalities.total(e_summands) if index else e
            sigma_1 = _exclusive_or_of_three(system, rotated(e, 6), rotated(e, 11), rotated(e, 25))
            chosen = [choice(system, *bits) for bits in zip(e, f, g, strict=True)]
            a = equalities.total(a_summands) if index else a
            sigma_0 = _exclusive_or_of_three(system, rotated(a, 2), rotated(a, 13), rotated(a, 22))
            majorities = [majority(system, *bits) for bits in zip(a, b, c, strict=True)]
            common = [h, sigma_1, chosen, constant_word(constant), schedule[index]]
            a_summands, e_summands = [*common, sigma_0, majorities], [*common, d]
            b, c, d, f, g, h = a, b, c, e, f, g
    with system.namespace("sum"):
        summands = (a_summands, [b], [c], [d], e_summands, [f], [g], [h])
        sums = [equalities.total([*new, old]) for old, new in zip(state, summands, strict=True)]
        equalities.flush()
    return sums


def _schedule(system: ConstraintSystem, equalities: Equalities, block: list[Word]) -> list[Word]:
    """Return the 64 words of the message schedule of a block."""
    words = [*block]
    with system.namespace("schedule"):
        for index in range(16, 64):
            old, recent = words[index - 15], words[index - 2]
            sigma_0 = _exclusive_or_of_three(
                system, rotated(old, 7), rotated(old, 18), shifted(old, 3)
            )
            sigma_1 = _exclusive_or_of_three(
                system, rotated(recent, 17), rotated(recent, 19), shifted(recent, 10)
            )
            summands = [words[index - 16], sigma_0, words[index - 7], sigma_1]
            words.append(equalities.total(summands))
    return words


def _exclusive_or_of_three(
    system: ConstraintSystem, first: Word, second: Word, third: Word
) -> Word:
    return exclusive_or_of_words(system, exclusive_or_of_words(system, first, second), third)
