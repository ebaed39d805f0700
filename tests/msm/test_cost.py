"""Cost of an MSM, counted in additions and bytes: skewed scalars must not cost more."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.device.cpu.device import CpuDevice, CpuKernel
from quod.errors import DeviceError
from quod.msm import MsmBases, MsmOptions, msm_words, plan_msm
from tests.msm.inputs import bases, scalar_words, uniform


class CountingDevice(CpuDevice):
    """Counts what the launches of `accumulate` add up.

    `additions` is how many additions there are, `room` how many the workgroups have room for: all
    slices of a workgroup take as many rounds as its longest.
    """

    additions = 0
    room = 0
    inversions = 0

    @property
    def products(self) -> int:
        """About how many products all lanes have room for; an inversion takes as long as 100."""
        return 6 * self.room + 100 * self.lanes * self.inversions

    def launch(self, kernel: CpuKernel, groups: int, *arguments: Any) -> None:
        if kernel.name == "accumulate":
            count, rows = arguments[0], arguments[1]
            lengths = arguments[3][:count].astype(np.int64)
            assert (np.diff(lengths) <= 0).all()
            assert count == 0 or lengths[-1] > 0
            self.additions += int((lengths - 1).sum())
            for row in range(0, count, self.lanes):
                self.room += int(lengths[row] - 1) * min(self.lanes, count - row)
            firsts = lengths[:: rows * self.lanes]
            self.inversions += int((firsts - 1).sum())
        super().launch(kernel, groups, *arguments)


def cost(
    device: CpuDevice, scalars: Sequence[int], options: MsmOptions | None = None
) -> CountingDevice:
    group = GROUPS["bn254.g1"]
    counting = CountingDevice(strategy=device.strategy, threads=2)
    resident = MsmBases(counting, group, bases(group, len(scalars)))
    msm_words(resident, scalar_words(scalars), options)
    counting.close()
    return counting


COUNT = 4000

SKEWED: dict[str, Callable[[int], list[int]]] = {
    "all equal": lambda r: [r // 3] * COUNT,
    "the greatest": lambda r: [r - 1] * COUNT,
    "zero and one": lambda r: [i % 2 for i in range(COUNT)],
    "all one": lambda r: [1] * COUNT,
    "small": lambda r: [i % 200 for i in range(COUNT)],
    "half uniform, half one": lambda r: [
        1 if i % 2 else scalar
        for i, scalar in enumerate(uniform(GROUPS["bn254.g1"], COUNT))
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", SKEWED)
def test_skewed_scalars_cost_no_more_than_uniform_ones(cpu_device: CpuDevice, kind: str) -> None:
    group = GROUPS["bn254.g1"]
    usual = cost(cpu_device, uniform(group, COUNT))
    skewed = cost(cpu_device, SKEWED[kind](group.scalars.value))
    assert skewed.additions <= usual.additions
    assert skewed.room <= usual.room
    assert skewed.products <= usual.products


def test_uniform_scalars_match_the_planned_cost(cpu_device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    plan = plan_msm(group, COUNT, MsmOptions())
    msm_cost = cost(cpu_device, uniform(group, COUNT))
    # An entry is an addition but for the first of each bucket, and a bucket is added twice.
    buckets = plan.windows * plan.buckets
    assert msm_cost.additions <= plan.entries + buckets
    assert msm_cost.additions >= 0.9 * plan.entries
    # Sorting by length keeps the eight slices of a vector almost equally long.
    assert msm_cost.room <= 1.05 * msm_cost.additions + 8 * msm_cost.inversions
    assert msm_cost.additions >= 100 * msm_cost.inversions


def test_zero_scalars_need_no_additions(cpu_device: CpuDevice) -> None:
    assert cost(cpu_device, [0] * COUNT).additions == 0


def test_precomputed_multiples_save_additions() -> None:
    group = GROUPS["bls12_381.g1"]
    for count in (100, 10_000, 1_000_000):
        plans = [
            plan_msm(group, count, MsmOptions(precompute_factor=factor)) for factor in (1, 2, 4, 8)
        ]
        for fewer, unmultiplied in zip(plans[1:], plans):
            assert fewer.entries <= unmultiplied.entries
            assert fewer.windows < unmultiplied.windows
            assert fewer.windows * fewer.buckets <= 8 * count


@pytest.mark.parametrize(
    ("kind", "options"),
    [("uniform", {}), ("uniform", {"window_bits": 14}), ("uniform", {"window_bits": 3}),
     ("all one", {}), ("all equal", {})],
)  # fmt: skip
def test_peak_bytes(cpu_device: CpuDevice, kind: str, options: dict[str, Any]) -> None:
    """NumPy tells tracemalloc of its arrays."""
    group = GROUPS["bn254.g1"]
    r = group.scalars.value
    scalars = uniform(group, COUNT) if kind == "uniform" else SKEWED[kind](r)
    msm_options = MsmOptions(**options)
    resident, words = MsmBases(cpu_device, group, bases(group, COUNT)), scalar_words(scalars)
    msm_words(resident, words, msm_options)  # compiles
    tracemalloc.start()
    msm_words(resident, words, msm_options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    bound = plan_msm(group, COUNT, msm_options).peak_bytes(cpu_device.threads)
    assert peak <= bound
    if kind == "uniform":
        assert peak >= bound / 3


def test_memory_budget_is_checked_first() -> None:
    group = GROUPS["bn254.g1"]
    single_threaded = CpuDevice(threads=1)
    resident, words = (
        MsmBases(single_threaded, group, bases(group, 100)),
        scalar_words(uniform(group, 100)),
    )
    single_threaded.memory_budget = plan_msm(group, 100, MsmOptions()).peak_bytes(1)
    msm_words(resident, words)
    single_threaded.memory_budget -= 1
    with pytest.raises(
        DeviceError, match=r"an MSM of 100 scalars over bn254\.g1 would take .* memory"
    ):
        msm_words(resident, words)
