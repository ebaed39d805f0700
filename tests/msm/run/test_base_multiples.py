"""Multiples of bases on a device with memory of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.curve.array import from_points, to_points
from quod.curve.groups import GROUPS
from quod.device.emulated.device import EmulatedDevice, KernelForm
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.run import base_multiples
from tests.msm.inputs import points, reference
from tests.support.thorough import one_and_others


@pytest.mark.parametrize(
    ("name", "copies", "executor"),
    one_and_others(
        [("bls12_377.g1", 3, "ir"), ("bn254.g1", 3, "wgsl"), ("bn254.g2", 2, "ir"),
         ("bn254.g1", 1, "ir"), ("bls12_377.g1", 3, "wgsl")],
        always=[("bn254.g1", 1, "ir")],
    ),
)  # fmt: skip
def test_base_multiples(
    name: str, copies: int, executor: KernelForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In slices that are no whole number of workgroups, several points to an inversion."""
    group, law = GROUPS[name], reference(GROUPS[name])
    device = EmulatedDevice(executor=executor, workgroup=32, resident_lanes=8)
    base_points: list[Any] = [*points(group, 3), None, *points(group, 36), None]
    if name == "bls12_377.g1":
        base_points[5] = (group.coordinates.value - 1, 0)  # of order two
    monkeypatch.setattr(base_multiples, "_SCRATCH_BYTES", 17 * 5 * 8 * group.coordinate_words)
    monkeypatch.setattr(base_multiples, "_SHARING", 3)
    plan = GpuMsmPlan(group, len(base_points), 3, 2, copies, 1, 4)
    buffer = base_multiples.multiples(device, group, from_points(group, base_points), plan)
    multiples = np.zeros((copies * len(base_points), *group.shape), np.uint32)
    device.download(buffer, multiples)
    expected: list[Any] = []
    for copy in range(copies):
        expected += [law.mul(1 << (6 * copy), point) for point in base_points]
    assert to_points(group, multiples) == expected
    scratch = base_multiples.scratch_bytes(plan, len(base_points))
    # One copy is the points as they are.
    assert scratch == (0 if copies == 1 else 17 * 5 * 8 * group.coordinate_words)


def test_no_points() -> None:
    group = GROUPS["bn254.g1"]
    plan = GpuMsmPlan(group, 0, 3, 2, 2, 1, 4)
    device = EmulatedDevice(workgroup=32)
    assert base_multiples.multiples(device, group, from_points(group, []), plan).nbytes == 0
