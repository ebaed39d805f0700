"""Points with known logarithms, and what their MSMs must be by plain integers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from quod.curve.array import Point, from_points
from quod.curve.groups import GROUPS, PairingGroup
from quod.field.array import Words
from tests.reference.curve import ShortWeierstrass, g1_of, g2_of
from tests.support.thorough import one_and_others

OTHER_GROUPS = one_and_others(
    [name for name in GROUPS if name != "bn254.g1"],
    always=[name for name in GROUPS if name not in ("bn254.g1", "bls12_377.g2")],
)
"""The groups that run one case of a matrix which BN254's G1 runs in full."""


@cache
def reference(group: PairingGroup) -> ShortWeierstrass[Any]:
    """The group law on plain integers."""
    return g1_of(group.curve) if group.degree == 1 else g2_of(group.curve)


_FIRST, _STEP = 0x1D5A9F7C3B2E48610F, 0x2C7E51D9A8B34F06E7


def logarithms(count: int) -> list[int]:
    """The logarithms of `points`."""
    return [_FIRST + _STEP * i for i in range(count)]


@cache
def points(group: PairingGroup, count: int) -> tuple[Point, ...]:
    """Distinct points of the subgroup."""
    law, generator = reference(group), group.parameters.generator
    step = law.mul(_STEP, generator)
    multiples = [law.mul(_FIRST, generator)]
    while len(multiples) < count:
        multiples.append(law.add(multiples[-1], step))
    return tuple(multiples[:count])


@cache
def bases(group: PairingGroup, count: int) -> Words:
    """`points` as an array."""
    return from_points(group, points(group, count))


def by_logarithms(group: PairingGroup, scalars: Sequence[int], logs: Sequence[int]) -> Point:
    """The sum of scalars[i] times the point whose logarithm is logs[i]."""
    total = sum(scalar * log for scalar, log in zip(scalars, logs, strict=True))
    return reference(group).mul(total % group.scalars.value, group.parameters.generator)


def uniform(group: PairingGroup, count: int, seed: int = 1) -> list[int]:
    """Uniform scalars below the order."""
    source = random.Random(seed)
    return [source.randrange(group.scalars.value) for _ in range(count)]


def scalar_words(scalars: Sequence[int]) -> Words:
    """Scalars as rows of eight words; they may be above the order."""
    data = b"".join(scalar.to_bytes(32, "little") for scalar in scalars)
    return np.frombuffer(data, "<u4").reshape(-1, 8)
