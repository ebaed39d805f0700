"""circomlib's Pedersen hash of bits on Baby Jubjub: windows of four bits, 50 per generator.

The first three bits of a window encode 1 to 8, the fourth bit is the sign. A window has 32 times
the weight of the previous one; each 50 windows have their own generator. BLAKE-256 gives the
generators.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from quod.curve.edwards.affine import EdwardsPair, edwards_group
from quod.curve.edwards.encoding import decode_edwards, encode_edwards
from quod.curve.named.baby_jubjub import BABY_JUBJUB
from quod.errors import InputError
from quod.hash.arguments import bits_of, bytes_to_bits
from quod.hash.blake import blake_256
from quod.validation import whole_number

WINDOW = 4
WINDOWS = 50
"""Windows per generator."""

SEGMENT = WINDOW * WINDOWS
SHIFT = WINDOW + 1
"""A window has 2**SHIFT times the weight of the previous one."""


def pedersen_point(bits: Sequence[int]) -> EdwardsPair:
    """Return the point that is the hash of bits."""
    message = bits_of("the message", bits)
    group, multiples = edwards_group(BABY_JUBJUB), []
    for segment, start in enumerate(range(0, len(message), SEGMENT)):
        scalar = segment_scalar(message[start : start + SEGMENT]) % BABY_JUBJUB.fr.value
        multiples.append(group.multiply_fixed(scalar, pedersen_generator(segment)))
    return group.sum(multiples)


def pedersen_bytes(data: bytes) -> bytes:
    """Return the encoded hash of bytes as in circomlibjs; the lowest bit of each byte is first."""
    return encode_edwards(BABY_JUBJUB, pedersen_point(bytes_to_bits(data)), sign="circomlib")


def segment_scalar(bits: Sequence[int]) -> int:
    """Return the scalar of a generator for at most 200 bits; missing bits are 0."""
    total = 0
    for start in range(0, len(bits), WINDOW):
        window = [*bits[start : start + WINDOW], 0, 0, 0][:WINDOW]
        digit = 1 + sum(bit << position for position, bit in enumerate(window[:-1]))
        total += (-digit if window[-1] else digit) << SHIFT * (start // WINDOW)
    return total


@cache
def pedersen_generator(number: int) -> EdwardsPair:
    """Return the generator of segment `number`, from 0 on, in the subgroup of prime order."""
    number = whole_number("the number of a generator", number, 0, 1 << 32)
    group, attempt = edwards_group(BABY_JUBJUB), 0
    while True:
        digest = bytearray(blake_256(f"PedersenGenerator_{number:032d}_{attempt:032d}".encode()))
        # 254 bits of y, and the sign.
        digest[31] &= 0xBF
        attempt += 1
        try:
            point = decode_edwards(
                BABY_JUBJUB, bytes(digest), sign="circomlib", check_subgroup=False
            )
        except InputError:
            continue
        return group.multiply(BABY_JUBJUB.cofactor, point)
