"""Sums in XYZZ coordinates as kernels of a GPU's MSM keep them, in plain integers and back."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.curve.array import from_points
from quod.curve.groups import PairingGroup
from quod.field.array import from_integers, to_integers
from quod.kernel import KernelDefinition, Machine
from quod.kernel.ir.nodes import Kernel
from tests.reference.field import fields_of

Array = NDArray[Any]
Point = Any

FEATURES = frozenset({"u64", "carry", "subgroup"})


def machine(lanes: int, subgroup: int, *, words: int = 64) -> Machine:
    """A small GPU, with workgroups of several subgroups.

    Its fields have limbs of 64 bits, which take fewer ops, or as GPUs have them of 32.
    """
    features = FEATURES | {"carry32"} if words == 32 else FEATURES
    return Machine("ptx", lanes, features, arch="sm_90a", subgroup_size=subgroup)


@cache
def traced(definition: KernelDefinition, machine: Machine, **static: Any) -> Kernel:
    """A kernel that several cases interpret, traced once."""
    return definition.trace(machine, **static)


def wide(array: Any) -> NDArray[np.uint64]:
    """Return the same memory as 64-bit words, which the kernels read."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint64)


def bases_of(group: PairingGroup, points: Sequence[Point]) -> NDArray[np.uint64]:
    """Affine points as the kernels read them."""
    return wide(from_points(group, points))


def _field(group: PairingGroup) -> Any:
    fields = fields_of(group.curve)
    return fields.fq if group.degree == 1 else fields.fq2


def sums_of(group: PairingGroup, points: Sequence[Point], seed: int = 1) -> NDArray[np.uint64]:
    """Points in XYZZ coordinates, each with a random denominator of its own."""
    source, field, p = random.Random(seed), _field(group), group.coordinates.value
    flat: list[int] = []

    def push(element: Any) -> None:
        flat.extend([element] if group.degree == 1 else element)

    for point in points:
        numbers = [source.randrange(1, p) for _ in range(group.degree)]
        z = numbers[0] if group.degree == 1 else (numbers[0], numbers[1])
        zz = field.mul(z, z)
        zzz = field.mul(zz, z)
        if point is None:
            # What X, Y and ZZZ are does not matter then.
            for element in (z, zz, field.zero, zzz):
                push(element)
        else:
            for element in (field.mul(point[0], zz), field.mul(point[1], zzz), zz, zzz):
                push(element)
    return wide(from_integers(group.coordinates, flat))


def points_of(group: PairingGroup, sums: Array) -> list[Point]:
    """The affine points of sums, None for infinity; ZZ^3 = ZZZ^2 is checked."""
    field, degree = _field(group), group.degree
    words = wide(sums).view(np.uint32).reshape(-1, group.coordinates.words)
    flat = to_integers(group.coordinates, words)
    points: list[Point] = []
    for at in range(0, len(flat), 4 * degree):
        coordinates = flat[at : at + 4 * degree]
        x, y, zz, zzz = (
            coordinates if degree == 1 else [tuple(coordinates[i : i + 2]) for i in range(0, 8, 2)]
        )
        if zz == field.zero:
            points.append(None)
            continue
        assert field.mul(field.mul(zz, zz), zz) == field.mul(zzz, zzz)
        points.append((field.mul(x, field.inv(zz)), field.mul(y, field.inv(zzz))))
    return points
