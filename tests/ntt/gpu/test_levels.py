"""Transforms level by level, on a device for few kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.codegen.wgsl.machine import WgslTarget
from quod.curve.named import CURVES
from quod.device.cpu.device import CpuDevice
from quod.device.emulated.device import EmulatedDevice
from quod.device.runtime.recording import Launch
from quod.field.array import random_elements
from quod.field.roots import RootFamily
from quod.ntt import NttPlan
from quod.ntt.gpu.levels import transform_level
from quod.ntt.ordering import Ordering
from quod.ntt.quotient import coset_quotient, quotient_coefficients

FR = CURVES["bn254"].fr
DEVICE = EmulatedDevice(executor="wgsl", target=WgslTarget(limbs="13", few_kernels=True))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("ordering", ["NR", "RN"])
@pytest.mark.parametrize("coset", [None, 5])
def test_transforms(inverse: bool, ordering: Ordering, coset: int | None) -> None:
    """Unscaled; those whose coset is on the side in natural order run by tiles."""
    way = "inverse" if inverse else "forward"
    for log2_size in (1, 5):
        values = random_elements(FR, 2 << log2_size, seed=log2_size)
        expected = values.copy()
        options: dict[str, Any] = {"batch": 2, "ordering": ordering, "coset": coset}
        unscaled = {"scaled": False} if inverse else {}
        getattr(NttPlan(CpuDevice(), FR, log2_size), way)(expected, **options, **unscaled)
        data = DEVICE.upload(values)
        recording = DEVICE.stream().record()
        NttPlan(DEVICE, FR, log2_size).record(recording, way, data, **options, scaled=False)
        finished = recording.finish()
        finished.submit().wait()
        result = np.zeros_like(values)
        DEVICE.download(data, result)
        assert np.array_equal(result, expected)
        names = [step.kernel.name for step in finished.recording.steps if isinstance(step, Launch)]
        by_levels = coset is None or inverse != (ordering == "RN")
        assert (names == [transform_level.name] * log2_size) == by_levels


@pytest.mark.parametrize("family", ["snarkjs", "arkworks"])
def test_quotients(family: RootFamily) -> None:
    for log2_size in (2, 5):
        values = random_elements(FR, 3 << log2_size, seed=log2_size)
        for quotient in (coset_quotient, quotient_coefficients):
            expected = np.zeros((1 << log2_size, FR.words), np.uint32)
            result = np.zeros_like(expected)
            quotient(NttPlan(CpuDevice(), FR, log2_size, family), values.copy(), expected)
            quotient(NttPlan(DEVICE, FR, log2_size, family), values.copy(), result)
            assert np.array_equal(result, expected)
