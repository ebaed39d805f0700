"""Challenges: the hashes of powers of tau to which contributions respond."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from quod.ceremony.point_bytes import uncompressed
from quod.ceremony.powers.contribution import Contribution
from quod.ceremony.powers.first_challenges import FIRST_CHALLENGES
from quod.ceremony.powers.ptau_layout import SECTIONS, PointSection
from quod.ceremony.windows import windows
from quod.curve.array import from_points
from quod.curve.parameters import PairingCurve
from quod.device.protocol import AnyDevice
from quod.field.array import Words
from quod.hash.blake2b import BLOCK

BLANK = hashlib.blake2b().digest()
"""The hash that stands for the response before the first contribution."""

Windows = Callable[[PointSection], Iterable[Words]]


def first_challenge(device: AnyDevice, curve: PairingCurve, power: int) -> bytes:
    """Return the challenge of new powers, which are all generators, from the table or computed."""
    challenge = known_challenge(curve, power)
    return computed_challenge(device, curve, power) if challenge is None else challenge


def known_challenge(curve: PairingCurve, power: int) -> bytes | None:
    """Return the first challenge from the table, or None if the table lacks that power."""
    table = FIRST_CHALLENGES.get(curve.name, ())
    return bytes.fromhex(table[power - 1]) if power <= len(table) else None


def first_challenge_blocks(curve: PairingCurve, power: int) -> int:
    """Return the number of blocks that `first_challenge` hashes: 0 if the table has it."""
    if known_challenge(curve, power) is not None:
        return 0
    return sum(section.nbytes(curve, power) for section in SECTIONS) // BLOCK


def computed_challenge(device: AnyDevice, curve: PairingCurve, power: int) -> bytes:
    """Compute the first challenge by hashing all powers."""
    hasher = hashlib.blake2b(BLANK)
    for section in SECTIONS:
        group = section.group(curve)
        generator = uncompressed(device, group, from_points(group, [group.parameters.generator]))
        tile = b""
        for first, last in windows(group, section.count(power)):
            tile = tile or generator.tobytes() * (last - first)
            hasher.update(memoryview(tile)[: (last - first) * generator.nbytes])
    return hasher.digest()


def challenge_after(
    device: AnyDevice, curve: PairingCurve, response: bytes, points: Windows
) -> bytes:
    """Return the next challenge: the hash of a response's hash and all points, uncompressed.

    points: returns the points of a section in windows.
    """
    hasher = hashlib.blake2b(response)
    for section in SECTIONS:
        for window in points(section):
            hasher.update(uncompressed(device, section.group(curve), window).data)
    return hasher.digest()


def current_challenge(
    device: AnyDevice, curve: PairingCurve, power: int, contributions: list[Contribution]
) -> bytes:
    """Return the challenge to which the next contribution responds."""
    if contributions:
        return contributions[-1].next_challenge
    return first_challenge(device, curve, power)
