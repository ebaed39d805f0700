"""Sapling's Pedersen hash on Jubjub: windows of three bits, 63 per generator.

Zcash protocol specification, 5.4.1.7 and 5.4.8.2. The first two bits of a window encode 1 to 4, the
third bit is the sign. A window has 16 times the weight of the previous one. Six bits before the
message, the personalisation, separate the uses of the hash. MASP has other generators, from group
hashes with a personalisation of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from quod.curve.edwards.affine import EdwardsPair, edwards_group
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.hash.arguments import bits_of, element
from quod.hash.hash_to_jubjub import find_group_hash
from quod.validation import whole_number

WINDOW = 3
WINDOWS = 63
"""Windows per generator."""

NOTE_COMMITMENT = (1, 1, 1, 1, 1, 1)
MERKLE_DEPTH = 32
SAPLING_GENERATORS = b"Zcash_PH"
"""The personalisation of the group hashes to Sapling's generators."""


def sapling_pedersen_point(
    personalisation: Sequence[int], bits: Sequence[int], generators: bytes = SAPLING_GENERATORS
) -> EdwardsPair:
    """Return the point that is the hash of the personalisation's six bits and then `bits`.

    generators: the personalisation, 8 bytes, of the group hashes to the segments' generators.
    """
    before = bits_of("the personalisation", personalisation)
    if len(before) != 6:
        raise InputError(f"a personalisation is 6 bits, not {len(before)}")
    message = [*before, *bits_of("the message", bits)]
    message += [0] * (-len(message) % WINDOW)
    group = edwards_group(JUBJUB)
    windows = [tuple(message[index : index + WINDOW]) for index in range(0, len(message), WINDOW)]
    return group.sum(
        point if not sign else group.negate(point)
        for index, (low, high, sign) in enumerate(windows)
        for point in [_multiples(generators, index // WINDOWS)[index % WINDOWS][low + 2 * high]]
    )


def pedersen_segment_generator(number: int, generators: bytes = SAPLING_GENERATORS) -> EdwardsPair:
    """Return the generator of segment `number`, counted from 0."""
    return find_group_hash(generators, number.to_bytes(4, "little"))


def merkle_personalisation(level: int) -> tuple[int, ...]:
    """Return the six bits of a level of Sapling's tree of notes, from 0 at the leaves to 31."""
    level = whole_number("the level", level, 0, MERKLE_DEPTH - 1)
    return tuple(level >> index & 1 for index in range(6))


def sapling_node(level: int, left: int, right: int, generators: bytes = SAPLING_GENERATORS) -> int:
    """Return Sapling's MerkleCRH of two nodes: u of the Pedersen hash of 255 bits of each."""
    base_field = JUBJUB.fq
    bits = [
        element(name, value, base_field) >> index & 1
        for name, value in (("the left node", left), ("the right node", right))
        for index in range(base_field.bits)
    ]
    return sapling_pedersen_point(merkle_personalisation(level), bits, generators)[0]


def sapling_windows(generators: bytes, count: int) -> list[list[EdwardsPair]]:
    """Return for each of the first windows of a message the four points that its bits select."""
    return [_multiples(generators, index // WINDOWS)[index % WINDOWS] for index in range(count)]


@cache
def _multiples(generators: bytes, segment: int) -> list[list[EdwardsPair]]:
    """Return a table: row i has 1, 2, 3 and 4 times 16**i times the generator of a segment."""
    group, rows = edwards_group(JUBJUB), []
    point = pedersen_segment_generator(segment, generators)
    for _ in range(WINDOWS):
        row = [point]
        while len(row) < 4:
            row.append(group.add(row[-1], point))
        rows.append(row)
        point = group.double(group.double(row[-1]))
    return rows
