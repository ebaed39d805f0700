"""MSMs of scalars that are mostly 0 and 1: against the definition, and invalid scalars."""

from __future__ import annotations

import random

import numpy as np
import pytest

from quod.curve.array import Point, from_points, to_points
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import affine_group
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import integers_to_words
from quod.msm.fixed_base import multiply_generator
from quod.msm.gpu.run.binary_scalars import BinaryScalarMsm, ScalarSplit, SplitCounts
from quod.msm.gpu.run.workspace import Workspace
from quod.msm.gpu.sort.infinity_mask import find_infinity_mask

COUNT = 300


def scalars_of(name: str, r: int, count: int) -> list[int]:
    rng = random.Random(name)
    return {
        "a witness": [rng.choice((0, 1)) for _ in range(count - 9)]
        + [r - 1, 2, 1 << 32, 1 << 224, *(rng.randrange(r) for _ in range(5))],
        "zeros": [0] * count,
        "ones": [1] * count,
        "uniform": [rng.randrange(2, r) for _ in range(count)],
        "one other": [0] * (count - 1) + [r - 5],
    }[name]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "indexed"),
    [
        ("a witness", True),
        pytest.param("zeros", False, marks=pytest.mark.thorough),
        pytest.param("ones", False, marks=pytest.mark.thorough),
        pytest.param("uniform", True, marks=pytest.mark.thorough),
        pytest.param("one other", True, marks=pytest.mark.thorough),
    ],
)
def test_sum_matches_the_definition(gpu_device: AnyDevice, name: str, indexed: bool) -> None:
    if gpu_device.kind == "webgpu":
        pytest.skip("partitions of this size need a GPU whose kernels reach all memory")
    device, group = gpu_device, GROUPS["bn254.g1"]
    r = group.scalars.value
    rng = random.Random(5)
    count = 120 if name == "uniform" else COUNT
    logarithms = [0 if place % 50 == 7 else rng.randrange(1, r) for place in range(count)]
    # Two equal bases and two opposite ones, which incomplete additions cannot take.
    logarithms[3] = logarithms[2]
    logarithms[11] = r - logarithms[10]
    words = integers_to_words(group.scalars, logarithms)
    points = multiply_generator(device, group, words)
    bases = device.upload(points)
    mask = find_infinity_mask(device, count, group.point_words, bases)
    assert mask is not None
    values = scalars_of(name, r, count)
    indices = None
    vector = values
    if indexed:
        order = rng.sample(range(2 * count), count)
        vector = [rng.randrange(r) for _ in range(2 * count)]
        for place, value in zip(order, values, strict=True):
            vector[place] = value
        indices = device.upload(np.array(order, np.uint32))
    scalars = device.upload(integers_to_words(group.scalars, vector))
    split = ScalarSplit(device, group, count, indices=indices, infinity_mask=mask)
    recording = device.stream("split").record()
    split.record(recording, scalars)
    split.reset_results()
    recording.finish().submit().wait()
    counts = split.counts()
    finite = [value for value, log in zip(values, logarithms, strict=True) if log]
    assert counts == SplitCounts(finite.count(1), sum(value > 1 for value in finite))
    shape = BinaryScalarMsm(device, group, count, counts.capacity)
    recording = device.stream("msm").record()
    recorded = shape.record(
        recording, split, scalars, bases, Workspace(device, shape.workspace_bytes)
    )
    recording.finish().submit().wait()
    law, msm_sum = affine_group(group), None
    for recorded_msm in recorded:
        (point,) = to_points(group, recorded_msm.finish().view(np.uint32).reshape(-1, *group.shape))
        msm_sum = law.add(msm_sum, point)
    total = sum(value * log for value, log in zip(values, logarithms, strict=True)) % r
    expected: list[Point] = to_points(
        group, multiply_generator(device, group, integers_to_words(group.scalars, [total]))
    )
    assert msm_sum == expected[0]
    assert from_points(group, [msm_sum]).shape == (1, *group.shape)


def test_scalar_capacities_are_few() -> None:
    capacities = {SplitCounts(0, others).capacity for others in range(1000, 2000)}
    assert len(capacities) <= 16
    assert all(
        others <= SplitCounts(0, others).capacity <= max(1, 1.13 * others) for others in range(3000)
    )


def test_oversized_scalar_is_reported(gpu_device: AnyDevice) -> None:
    if gpu_device.kind == "webgpu":
        pytest.skip("partitions of this size need a GPU whose kernels reach all memory")
    group = GROUPS["bn254.g1"]
    scalars = np.zeros((300, 8), np.uint32)
    scalars[[7, 33]] = 0xFFFFFFFF
    split = ScalarSplit(gpu_device, group, 300)
    recording = gpu_device.stream("split").record()
    split.record(recording, gpu_device.upload(scalars))
    recording.finish().submit().wait()
    with pytest.raises(InputError, match="scalar 7 is not below"):
        split.counts()
