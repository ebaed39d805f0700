"""Checks that points have equal ratios, by pairings, and by random sums of many points."""

from __future__ import annotations

import os

import numpy as np

from quod.ceremony.windows import windows
from quod.curve.array import Point
from quod.curve.group import Group
from quod.curve.pairing.products import pairing_product_is_one
from quod.curve.parameters import G1Point, G2Point, PairingCurve
from quod.curve.weierstrass.affine import affine_group, g1_group
from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice
from quod.field.array import Words
from quod.msm import MsmBases, MsmOptions, affine_ints, msm_words

RANDOM_BITS = 128
"""Bits of the coefficients of random sums; a wrong point passes with probability 2**-128."""


def same_ratio(
    curve: PairingCurve, first: tuple[G1Point, G1Point], second: tuple[G2Point, G2Point]
) -> bool:
    """Return whether first[1] = s * first[0] and second[1] = s * second[0] for some s.

    Points must be in their groups. False if any point is infinity.
    """
    if None in first or None in second:
        return False
    law = g1_group(curve)
    pairs = [(first[0], second[1]), (law.negate(first[1]), second[0])]
    return pairing_product_is_one(resolve_device("cpu"), curve, pairs)


def random_sums(device: AnyDevice, group: Group, *arrays: Words) -> list[Point]:
    """Return a random linear combination of each array, with the same coefficients for all.

    The arrays have equally many points and may be views of files. The coefficients are
    `RANDOM_BITS` bits from the system's randomness.
    """
    law = affine_group(group)
    totals: list[Point] = [None] * len(arrays)
    for first, end in windows(group, len(arrays[0])):
        factors = _random_factors(group, end - first)
        for index, array in enumerate(arrays):
            window_sum = weighted_sum(device, group, array[first:end], factors, RANDOM_BITS)
            totals[index] = law.add(totals[index], window_sum)
    return totals


def consecutive_sums(device: AnyDevice, group: Group, points: Words) -> tuple[Point, Point]:
    """Return random sums of points[:-1] and points[1:] with the same coefficients.

    Coefficient i multiplies points[i] in the first sum and points[i + 1] in the second. For
    powers of tau, the second sum is tau times the first.
    """
    lower, upper = random_sums(device, group, points[:-1], points[1:])
    return lower, upper


def _random_factors(group: Group, count: int) -> Words:
    words = RANDOM_BITS // 32
    factors = np.zeros((count, group.scalars.words), np.uint32)
    factors[:, :words] = np.frombuffer(os.urandom(4 * words * count), "<u4").reshape(count, words)
    return factors


def weighted_sum(
    device: AnyDevice, group: Group, points: Words, factors: Words, bits: int
) -> Point:
    """Return the sum of factors[i] * points[i], for factors of `bits` bits.

    Arrays may be views of files.
    """
    law, total = affine_group(group), None
    options = MsmOptions(scalar_bits=bits, precompute_factor=1)
    for first, end in windows(group, len(points)):
        bases = MsmBases(device, group, np.array(points[first:end]), options)
        total = law.add(total, affine_ints(group, msm_words(bases, factors[first:end])))
    return total
