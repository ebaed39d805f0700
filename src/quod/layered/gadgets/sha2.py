"""SHA-256 (FIPS 180-4) over bits that are signs: 1 not set, -1 set.

Sums modulo 2**32 are advice: the bits of each word that the rounds compute, and the carries. All
rounds are then checked in the same two layers, for any length of the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.errors import InputError
from quod.hash.sha2 import round_constants, start_words
from quod.layered.gadgets.arguments import wires_of
from quod.layered.gadgets.bits import assert_signs, number_from_signs
from quod.layered.program import Program
from quod.layered.wire import Wire

WORD = 32
HALF = WORD // 2
BLOCK = 512
ROUNDS = 64
MIN_PRIME = 1 << 20
"""The smallest prime for which sums of half words do not wrap around modulo the prime."""

Word = list[Wire]


def sha256(program: Program, message: Sequence[Wire]) -> list[Wire]:
    """Hash a message of whole bytes to the 256 signs of its digest.

    In both, bytes are in order, and the lowest bit of each byte comes first.

    Does not assert that the message consists of signs (`assert_signs`). InputError for a field
    whose prime is below 2**20.
    """
    signs = wires_of("the message", program, message)
    if len(signs) % 8:
        raise InputError("the message of SHA-256 must be whole bytes")
    if program.field.value < MIN_PRIME:
        raise InputError(f"SHA-256 needs a prime of more than 20 bits, not {program.field.name}'s")
    length = len(signs)
    padding = bytes([0x80]) + bytes(-(length // 8 + 9) % 64) + length.to_bytes(8, "big")
    for byte in padding:
        signs += [program.constant(1 - 2 * (byte >> index & 1)) for index in range(8)]
    # Words are big-endian.
    bytes_ = [signs[start : start + 8] for start in range(0, len(signs), 8)]
    words = [
        [sign for byte in reversed(bytes_[start : start + 4]) for sign in byte]
        for start in range(0, len(bytes_), 4)
    ]
    state = [_constant(program, value) for value in start_words()]
    for number, start in enumerate(range(0, len(words), 16)):
        with program.scope(f"block[{number}]"):
            state = _compress(program, state, words[start : start + 16])
    return [
        sign for word in state for index in (3, 2, 1, 0) for sign in word[8 * index : 8 * index + 8]
    ]


def _compress(program: Program, state: list[Word], block: list[Word]) -> list[Word]:
    """Apply the compression function to a state of eight words and a block of sixteen."""
    schedule = list(block)
    for index in range(16, ROUNDS):
        small_sigmas = [
            _xor(_rotated(schedule[index - 15], 7), _rotated(schedule[index - 15], 18),
                 _shifted(program, schedule[index - 15], 3)),
            _xor(_rotated(schedule[index - 2], 17), _rotated(schedule[index - 2], 19),
                 _shifted(program, schedule[index - 2], 10)),
        ]  # fmt: skip
        with program.scope(f"schedule[{index}]"):
            schedule.append(
                _sum(program, [*small_sigmas, schedule[index - 16], schedule[index - 7]])
            )
    a, b, c, d, e, f, g, h = state
    half = pow(2, -1, program.field.value)
    for index, constant in enumerate(round_constants()):
        with program.scope(f"round[{index}]"):
            sigma_1 = _xor(*(_rotated(e, rotation) for rotation in (6, 11, 25)))
            # With signs: y if x is -1, else z.
            choice = [
                half * program.sum([y, z, x * z, -x * y]) for x, y, z in zip(e, f, g, strict=True)
            ]
            t1_summands = [h, sigma_1, choice, schedule[index], _constant(program, constant)]
            new_e = _sum(program, [d, *t1_summands])
            # FIPS's T1 is new_e - d; -d is the complement of d plus 1.
            sigma_0 = _xor(*(_rotated(a, rotation) for rotation in (2, 13, 22)))
            # With signs: the sign of x + y + z.
            majority = [
                half * program.sum([x, y, z, -((x * y).as_value() * z)])
                for x, y, z in zip(a, b, c, strict=True)
            ]
            new_a = _sum(program, [new_e, [-sign for sign in d], sigma_0, majority], addend=1)
            a, b, c, d, e, f, g, h = new_a, a, b, c, new_e, e, f, g
    final_state = [a, b, c, d, e, f, g, h]
    return program.map_rows("sum", lambda old, new: _sum(program, [old, new]), state, final_state)


def _sum(program: Program, words: list[Word], addend: int = 0) -> Word:
    """Add words and a small number modulo 2**32; the bits of the sum and the carries are advice."""
    low = program.sum([number_from_signs(program, word[:HALF]) for word in words]) + addend
    high = program.sum([number_from_signs(program, word[HALF:]) for word in words])
    # A half is at most len(words) * (2**16 - 1) + addend, which is below p.
    carries = (len(words) + addend - 1).bit_length()

    def split_sum(low: Any, high: Any) -> list[Any]:
        upper = high + (low >> HALF)
        bits = [low >> index & 1 for index in range(HALF)] + [
            upper >> index & 1 for index in range(HALF)
        ]
        bits += [low >> HALF + index & 1 for index in range(carries)]
        bits += [upper >> HALF + index & 1 for index in range(carries)]
        return [1 - 2 * bit for bit in bits]

    signs = program.advice(split_sum, [low, high], WORD + 2 * carries)
    sum_signs, low_carry = signs[:WORD], signs[WORD : WORD + carries]
    assert_signs(program, signs)
    half_sum = number_from_signs(program, [*sum_signs[:HALF], *low_carry])
    program.assert_equal(low, half_sum, "low half")
    half_sum = number_from_signs(program, [*sum_signs[HALF:], *signs[WORD + carries :]])
    program.assert_equal(high + number_from_signs(program, low_carry), half_sum, "high half")
    return sum_signs


def _constant(program: Program, value: int) -> Word:
    return [program.constant(1 - 2 * (value >> index & 1)) for index in range(WORD)]


def _xor(a: Word, b: Word, c: Word) -> Word:
    # `as_value` puts x * y into a layer of its own, so that the next product has two factors.
    return [(x * y).as_value() * z for x, y, z in zip(a, b, c, strict=True)]


def _rotated(word: Word, rotation: int) -> Word:
    return word[rotation:] + word[:rotation]


def _shifted(program: Program, word: Word, shift: int) -> Word:
    return word[shift:] + [program.constant(1)] * shift
