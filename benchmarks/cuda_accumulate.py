"""Time bucket accumulation on a GPU in XYZZ and affine coordinates, to choose the default.

    python benchmarks/cuda_accumulate.py                        the cases that it is chosen by
    python benchmarks/cuda_accumulate.py bn254.g1 22            another group and size

A line a variant: milliseconds of the stage ``accumulate`` and of the whole MSM, medians, with
scalars in device memory, and additions a second in the stage. Results are compared with the first
variant's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import median
from time import perf_counter
from unittest import mock

import checkout  # noqa: F401
import numpy as np

from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import QuodError
from quod.field.array import random_elements
from quod.frozen import replace
from quod.msm.fixed_base import multiply_generator
from quod.msm.gpu.buckets import accumulate
from quod.msm.gpu.buckets.accumulate import Tuning
from quod.msm.gpu.run.resident import ResidentMsm
from quod.msm.gpu.run.workspace import Workspace

_REPEATS = 5

_CASES = (("bls12_381.g1", 20), ("bls12_381.g1", 22), ("bn254.g1", 22), ("bls12_381.g2", 20))


def variants(group: Group) -> list[Tuning]:
    """Return the current tuning, XYZZ coordinates, and affine variants with one change each."""
    now = replace(accumulate.tuning(group), min_entries=0)
    chosen = (
        replace(now, slots=0),
        replace(now, slots=0, ahead=not now.ahead),
        now,
        replace(now, slots=now.slots // 2),
        replace(now, slots=2 * now.slots),
        replace(now, resident=now.resident - 1),
        replace(now, resident=now.resident + 1),
    )
    return list(dict.fromkeys(chosen))


class Case:
    """The bases and scalars in device memory."""

    def __init__(self, device: AnyDevice, group: Group, log2_size: int) -> None:
        logarithms = random_elements(group.scalars, 1 << log2_size, seed=log2_size)
        points = multiply_generator(device, group, logarithms)
        self._device = device
        self._resident = ResidentMsm(device, group, points)
        self._scalars = device.upload(random_elements(group.scalars, 1 << log2_size, seed=1))

    def run(self, tuning: Tuning) -> tuple[float, float, float, bytes]:
        """Return seconds of the stage and in all, additions per second, and the result."""
        resident, device = self._resident, self._device
        plan = resident.plan()
        with mock.patch.object(accumulate, "tuning", return_value=tuning):
            workspace = Workspace(device, resident.workspace_bytes(plan))
            recorder = device.stream("msm").record()
            pending = resident.record(recorder, self._scalars, workspace=workspace, plan=plan)
            recording = recorder.finish().recording
        stage, totals = [], []
        for _ in range(_REPEATS):
            begin = perf_counter()
            device.stream("msm").replay(recording).submit(None).wait()
            result = pending.finish()
            totals.append(perf_counter() - begin)
            timeline = Timeline()
            device.stream("msm").replay(recording).submit(timeline).wait()
            stage.append(sum(row.seconds for row in timeline.rows() if row.name == "accumulate"))
        seconds = median(stage)
        return seconds, median(totals), plan.max_entries / seconds, np.asarray(result).tobytes()


def main(arguments: Sequence[str]) -> None:
    cases = list(zip(arguments[::2], map(int, arguments[1::2]), strict=True)) or _CASES
    device = open_device("cuda")
    for name, log2_size in cases:
        group = GROUPS[name]
        case = Case(device, group, log2_size)
        expected: bytes | None = None
        print(f"{name} 2^{log2_size}")
        for tuning in variants(group):
            try:
                stage, total, rate, result = case.run(tuning)
            except QuodError as error:
                print(f"    {tuning}: {error}")
                continue
            if result != (expected := expected or result):
                raise QuodError(f"{tuning} gives another result than the first variant")
            times = f"{1e3 * stage:8.3f} ms  {1e3 * total:8.3f} ms"
            print(f"    {times}  {rate * 1e-9:5.2f} G/s  {tuning}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
