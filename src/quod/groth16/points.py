"""What proofs, keys and verifications need of points beside MSMs."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from quod.curve import operations
from quod.curve.affine import affine_group
from quod.curve.array import Point, from_points, to_points
from quod.curve.group import Group
from quod.device.protocol import AnyDevice
from quod.field.array import integers_to_words
from quod.msm import msm

# Points from which on an MSM is faster than a multiple an instance.
_FEW = 24


def multiples(
    device: AnyDevice, group: Group, points: Sequence[Point], scalars: Sequence[int]
) -> list[Point]:
    """scalars[i] * points[i] for a few plain points and scalars below the order."""
    words = integers_to_words(group.scalars, scalars)
    return to_points(group, operations.multiply(device, group, from_points(group, points), words))


def sum_of_multiples(
    device: AnyDevice, group: Group, points: Sequence[Point], scalars: Sequence[int]
) -> Point:
    """The sum of scalars[i] * points[i] for plain points and scalars below the order."""
    if len(points) > _FEW:
        words = integers_to_words(group.scalars, scalars)
        return msm(device, group, from_points(group, points), words)
    law = affine_group(group)
    return functools.reduce(law.add, multiples(device, group, points, scalars), None)
