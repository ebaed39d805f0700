"""An MSM through WebGPU in limbs with columns of 64 bits, which software adapters do not choose."""

from __future__ import annotations

import pytest

from quod.curve.groups import GROUPS
from quod.field.strategies.calibration import U64_CANDIDATES
from quod.msm import MsmBases, MsmOptions, msm
from tests.conftest import need_backend
from tests.msm.inputs import bases, by_logarithms, logarithms, scalar_words
from tests.msm.run.test_msm import BITS, short


@pytest.mark.device("webgpu")
@pytest.mark.thorough
@pytest.mark.parametrize("limbs", U64_CANDIDATES[:1])
def test_wide_limbs(limbs: str) -> None:
    need_backend("webgpu")
    from quod.device.webgpu.adapter import list_adapters
    from quod.device.webgpu.device import WebGpuDevice
    from quod.device.webgpu.native import open_native

    adapters = [
        adapter for adapter, _ in list_adapters(open_native()) if "shader-int64" in adapter.features
    ]
    if not adapters:
        pytest.skip("no adapter has 64-bit integers")
    device = WebGpuDevice(adapters[0].number, limbs=limbs)
    group, count = GROUPS["bls12_381.g1"], 100
    options = MsmOptions(scalar_bits=BITS, window_bits=5, precompute_factor=2)
    resident = MsmBases(device, group, bases(group, count), options)
    scalars = short(count)
    expected = by_logarithms(group, scalars, logarithms(count))
    assert msm(device, group, resident, scalar_words(scalars)) == expected
    device.close()
