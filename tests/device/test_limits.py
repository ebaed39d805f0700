"""GPU limits, and the time estimates they give."""

from __future__ import annotations

import pytest

from quod.device.cpu.device import CpuDevice
from quod.device.cuda import limits
from quod.device.cuda.limits import limits_of
from quod.device.cuda.properties import CudaProperties
from quod.device.emulated.device import EmulatedDevice
from quod.device.limits import Limits


def gpu(name: str, multiprocessors: int, mhz: int, memory_mhz: int, bits: int) -> CudaProperties:
    return CudaProperties(
        ordinal=0, name=name, arch="sm_90a", capability=(9, 0), multiprocessors=multiprocessors,
        lanes_per_multiprocessor=2048, largest_workgroup=1024, shared_bytes=232448,
        memory_bytes=1 << 37, clock_khz=1000 * mhz,
        memory_clock_khz=1000 * memory_mhz, memory_bus_bits=bits, driver_version=13000,
    )  # fmt: skip


def test_h200_limits_match_measurements() -> None:
    limits = limits_of(gpu("NVIDIA H200", 132, 1980, 3201, 6144))
    assert limits is not None
    # Products of 300 and 136 multiply-adds were measured at 27.3 and 60.4 thousand millions.
    for rate in (27.3e9 * 300, 60.4e9 * 136):
        assert 0.95 < rate / limits.multiply_adds_per_second < 1
    assert 4.0e12 <= limits.bytes_per_second <= 4.3e12
    assert "measured" in limits.source
    assert "132" in limits.source
    assert "1980 MHz" in limits.source
    # NVIDIA gives 67 and 989 TFLOP/s, these at a lower clock than the highest.
    assert limits.flop_per_second["f32"] == pytest.approx(67e12, rel=0.01)
    assert limits.flop_per_second["bf16"] == pytest.approx(989e12 * 1980 / 1830, rel=0.01)


def test_derived_limits_match_measured_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = gpu("NVIDIA H200", 132, 1980, 3201, 6144)
    measured = limits_of(properties)
    monkeypatch.setattr(limits, "MEASURED_BANDWIDTH", {})
    derived = limits_of(properties)
    assert measured is not None
    assert derived is not None
    assert derived.bytes_per_second == pytest.approx(measured.bytes_per_second, rel=0.02)
    assert derived.multiply_adds_per_second == measured.multiply_adds_per_second
    assert "88% of 2 × 3201 MHz × 6144 bits" in derived.source


def test_other_gpus_are_derived_from_clocks() -> None:
    # NVIDIA gives 1008 GB/s.
    limits = limits_of(gpu("NVIDIA GeForce RTX 4090", 128, 2520, 10501, 384))
    assert limits is not None
    assert limits.bytes_per_second == pytest.approx(0.88 * 1008e9, rel=0.001)
    assert limits.multiply_adds_per_second == 32 * 128 * 2.52e9


@pytest.mark.parametrize(("memory_mhz", "bits"), [(0, 384), (10501, 0)])
def test_no_limits_without_driver_data(memory_mhz: int, bits: int) -> None:
    assert limits_of(gpu("NVIDIA Something", 20, 1500, memory_mhz, bits)) is None


def test_time_is_bounded_by_the_nearer_limit() -> None:
    limits = Limits(bytes_per_second=100.0, multiply_adds_per_second=400.0, source="")
    assert limits.ridge == 4
    assert limits.least_seconds(bytes=200, multiply_adds=400) == 2
    assert limits.least_seconds(bytes=100, multiply_adds=1200) == 3
    assert limits.limited_by(bytes=200, multiply_adds=400) == "memory"
    assert limits.limited_by(bytes=100, multiply_adds=1200) == "multiplier"
    assert limits.limited_by(bytes=0, multiply_adds=1) == "multiplier"
    assert limits.limited_by(bytes=1, multiply_adds=0) == "memory"


def test_devices_without_known_limits() -> None:
    assert CpuDevice(threads=1).throughput_limits() is None
    assert EmulatedDevice().throughput_limits() is None
