"""Multi-scalar multiplication on plain integers: by its definition, and by buckets."""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.curve import ShortWeierstrass, TwistedEdwards
from tests.reference.field import Element


def msm_naive(
    group: ShortWeierstrass[Element],
    scalars: Sequence[int],
    points: Sequence[tuple[Element, Element] | None],
) -> tuple[Element, Element] | None:
    """The sum of scalars[i] * points[i], term by term."""
    total = None
    for scalar, point in zip(scalars, points, strict=True):
        total = group.add(total, group.mul(scalar, point))
    return total


def msm(
    group: ShortWeierstrass[Element],
    scalars: Sequence[int],
    points: Sequence[tuple[Element, Element] | None],
) -> tuple[Element, Element] | None:
    """Compute an MSM by Pippenger's buckets, unsigned 8-bit windows and non-negative scalars."""
    window = 8
    width = max((scalar.bit_length() for scalar in scalars), default=0)
    total = None
    for low in reversed(range(0, width, window)):
        for _ in range(window):
            total = group.add(total, total)
        buckets: list[tuple[Element, Element] | None] = [None] * (1 << window)
        for scalar, point in zip(scalars, points, strict=True):
            digit = scalar >> low & ((1 << window) - 1)
            if digit:
                buckets[digit] = group.add(buckets[digit], point)
        running = None
        for bucket in reversed(buckets[1:]):
            running = group.add(running, bucket)
            total = group.add(total, running)
    return total


def msm_edwards(
    group: TwistedEdwards, scalars: Sequence[int], points: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """The sum of scalars[i] * points[i] on a twisted Edwards curve, term by term."""
    total = group.neutral
    for scalar, point in zip(scalars, points, strict=True):
        total = group.add(total, group.mul(scalar, point))
    return total
