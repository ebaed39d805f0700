"""MSMs with multiples of the bases computed beforehand, and batches of scalar vectors."""

from __future__ import annotations

import numpy as np
import pytest

from quod.curve.array import from_points, to_points
from quod.curve.groups import GROUPS
from quod.device.cpu.device import CpuDevice
from quod.errors import DeviceError, InputError
from quod.msm import MsmBases, MsmOptions, msm, msm_many, plan_msm
from quod.msm.host.engine import HostEngine
from tests.msm.inputs import (
    OTHER_GROUPS,
    bases,
    by_logarithms,
    logarithms,
    points,
    reference,
    scalar_words,
    uniform,
)


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        *(("bn254.g1", factor) for factor in (2, 3, 7, 1000)),
        *(pytest.param(*group.values, 3, marks=group.marks) for group in OTHER_GROUPS),
    ],
)
def test_precomputed_multiples(device: CpuDevice, name: str, factor: int) -> None:
    group, count = GROUPS[name], 40
    options = MsmOptions(precompute_factor=factor, window_bits=9)
    resident = MsmBases(device, group, bases(group, count), options)
    r = group.scalars.value
    for used in (count, 23, 1, 0):
        scalars = [0, r - 1, 1, r // 2, *uniform(group, count)][:used]
        expected = by_logarithms(group, scalars, logarithms(used))
        assert msm(device, group, resident, scalar_words(scalars)) == expected, used


@pytest.mark.parametrize("window_bits", [2, 5, 8, 16])
@pytest.mark.parametrize("factor", [2, 5])
def test_windows_and_multiples(device: CpuDevice, factor: int, window_bits: int) -> None:
    group, count = GROUPS["bn254.g1"], 20
    options = MsmOptions(precompute_factor=factor, window_bits=window_bits)
    resident = MsmBases(device, group, bases(group, count), options)
    scalars = uniform(group, count)
    expected = by_logarithms(group, scalars, logarithms(count))
    assert msm(device, group, resident, scalar_words(scalars)) == expected


def test_stored_multiples_match(cpu_device: CpuDevice) -> None:
    """Multiples of infinity, and of points of order two and three, too."""
    group = GROUPS["bls12_377.g1"]
    law = reference(group)
    base_points = [*points(group, 3), None, (group.coordinates.value - 1, 0), (0, 1)]
    options = MsmOptions(precompute_factor=4, window_bits=10)
    resident = MsmBases(cpu_device, group, from_points(group, base_points), options)
    assert isinstance(resident.engine, HostEngine)
    shift = 10 * resident.engine.plan(6, None).windows
    multiples = to_points(group, resident.engine.points)
    assert len(multiples) == 6 * 4
    for copy in range(4):
        expected = [law.mul(1 << (copy * shift), point) for point in base_points]
        assert multiples[6 * copy : 6 * copy + 6] == expected
    assert resident.nbytes == 4 * from_points(group, base_points).nbytes


def test_plans_with_multiples() -> None:
    group = GROUPS["bn254.g1"]
    for width in range(2, 17):
        needed = plan_msm(group, 100, MsmOptions(window_bits=width)).windows
        for factor in range(1, needed + 3):
            plan = plan_msm(
                group, 100, MsmOptions(window_bits=width, precompute_factor=factor)
            )  # fmt: skip
            assert plan.copies <= factor
            assert needed <= plan.digit_windows < needed + plan.windows
            assert plan.windows == -(-needed // min(factor, needed))


def test_inconsistent_precompute_options_are_rejected(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    base_words = bases(group, 4)
    scalars = scalar_words([1, 2, 3, 4])
    factor = MsmOptions(precompute_factor=2)
    with pytest.raises(InputError, match="applies only when MsmBases is made"):
        msm(device, group, base_words, scalars, factor)
    resident = MsmBases(device, group, base_words, factor)
    assert msm(device, group, resident, scalars, factor) is not None
    with pytest.raises(InputError, match="keep the options that they were made with"):
        msm(device, group, resident, scalars, MsmOptions())


def test_scalar_bits_stored_with_the_bases(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    options = MsmOptions(scalar_bits=20, precompute_factor=3)
    resident = MsmBases(device, group, bases(group, 4), options)
    scalars = [1, (1 << 20) - 1, 0, 77]
    expected = by_logarithms(group, scalars, logarithms(4))
    assert msm(device, group, resident, scalar_words(scalars)) == expected
    with pytest.raises(InputError, match=r"scalar 1 is not below the promised 2\*\*20"):
        msm(device, group, resident, scalar_words([0, 1 << 20, 0, 0]))


# --- batches


@pytest.mark.parametrize("batch_size", [None, 1, 3, 100])
@pytest.mark.parametrize("factor", [1, 3])
def test_batches(device: CpuDevice, factor: int, batch_size: int | None) -> None:
    group, count = GROUPS["bn254.g1"], 31
    options = MsmOptions(precompute_factor=factor, batch_size=batch_size)
    resident = MsmBases(device, group, bases(group, count + 2), options)
    r = group.scalars.value
    vectors = [
        uniform(group, count, seed=1), [1] * count, [0] * count, uniform(group, count, seed=2),
        [r - 1] * count, [i % 2 for i in range(count)], [0] * (count - 1) + [5],
    ]  # fmt: skip
    results = msm_many(device, group, resident, [scalar_words(vector) for vector in vectors])
    assert results == [by_logarithms(group, vector, logarithms(count)) for vector in vectors]


def test_large_batch_is_split(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    assert plan_msm(group, 1000, MsmOptions(), batch=10**6).batch < 1000
    plan = plan_msm(group, 1000, MsmOptions(batch_size=10**6), batch=10**6)
    assert 1 < plan.batch < 10**6
    assert plan.entries < 1 << 32
    assert plan_msm(group, 1 << 22, MsmOptions(), batch=5).batch == 1
    with pytest.raises(InputError, match=r"an MSM of 1073741824 scalars .* is too large"):
        plan_msm(group, 1 << 30, MsmOptions())


def test_empty_batches(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    base_words = bases(group, 4)
    assert msm_many(device, group, base_words, []) == []
    empty = scalar_words([])
    assert msm_many(device, group, base_words, [empty, empty]) == [None, None]


def test_refused_batches(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    base_words = bases(group, 4)
    with pytest.raises(InputError, match="equal length, not 2 and 3 scalars"):
        msm_many(device, group, base_words, [scalar_words([1, 2]), scalar_words([1, 2, 3])])
    with pytest.raises(InputError, match="scalar 1 is not below the order"):
        bad = scalar_words([1, group.scalars.value])
        msm_many(device, group, base_words, [scalar_words([1, 2]), bad])
    with pytest.raises(InputError, match=r"not uint32 of \(1, 1, 4, 8\)"):
        msm(device, group, base_words, np.zeros((1, 1, 4, 8), np.uint32))


def test_base_multiples_exceeding_memory_are_rejected() -> None:
    group, count = GROUPS["bn254.g1"], 40
    base_words = bases(group, count)
    device = CpuDevice(threads=1, memory_budget=3 * base_words.nbytes)
    message = (
        r"precompute_factor 8 for 40 bases of bn254.g1 would take .* of memory; the budget is .*, "
        "which fits 3 of 8 multiples of each; free memory"
    )
    with pytest.raises(DeviceError, match=message):
        MsmBases(device, group, base_words, MsmOptions(precompute_factor=8, window_bits=8))
