"""Time MSMs on a GPU by stage, to choose the sort and the division into parts.

    python benchmarks/cuda_msm.py sort                        BLS12-381 G1, 2^16 to 2^24
    python benchmarks/cuda_msm.py msm --group bn254.g1 22 24

`sort` times the sort alone, kernel by kernel, with every variant, and its default with skewed
scalars. `msm` times whole MSMs of scalars in page-locked memory, with several first parts: the wall
time, and the GPU's time of each stage when steps run one by one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from statistics import median
from time import perf_counter
from typing import Any

import checkout  # noqa: F401
import numpy as np

from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.device.runtime.timeline import Timeline
from quod.field.array import random_elements
from quod.frozen import replace
from quod.msm import MsmOptions
from quod.msm.fixed_base import multiply_generator
from quod.msm.gpu.device_limits import DeviceLimits, SortTuning
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.run.device_plan import plan_gpu_msm, with_batch
from quod.msm.gpu.run.engine import Session, first_block
from quod.msm.gpu.run.record_buckets import RecordedMsm
from quod.msm.gpu.run.record_sort import Scalars, record_chunks
from quod.msm.gpu.run.resident import ResidentMsm
from quod.msm.gpu.run.workspace import Arena, MsmBuffers, Workspace, blocks_bytes, workspace_bytes
from quod.msm.scalars import SCALAR_BYTES

Array = np.ndarray[Any, Any]

_REPEATS = 7


def variants() -> list[SortTuning]:
    """Return the sorts to time: by tile size, with and without sorted tiles, and by bins."""
    default = SortTuning()
    return [
        default,
        replace(default, staged=False),
        replace(default, items=12, resident=3),
        SortTuning(1024, 16, 1),
        SortTuning(256, 16, 4),
        replace(default, low_bits=10),
        replace(default, low_bits=12),
    ]


class _ByKernel(RecordingStream):
    """Return a recording whose launches have the names of their kernels."""

    def launch(self, kernel: Any, groups: Any, *arguments: Any, **counts: Any) -> None:
        super().launch(kernel, groups, *arguments, **(counts | {"label": None}))


def scalars_of(group: Group, kind: str, count: int) -> Array:
    """Draw scalars: uniform; zeros and ones; all equal; or all equal but every 16th."""
    scalars: Array = random_elements(group.scalars, count, seed=count + 1)
    if kind == "bits":
        bits = scalars[:, 0] & 1
        scalars[:] = 0
        scalars[:, 0] = bits
    elif kind == "equal":
        scalars[:] = scalars[0]
    elif kind == "giant":
        scalars[np.arange(count) % 16 != 0] = scalars[0]
    return scalars


def times(timeline: Timeline) -> str:
    """Return the milliseconds of each stage."""
    rows = [(row.name, 1e3 * row.seconds) for row in timeline.table() if row.seconds > 0]
    return "  ".join(f"{name} {time:.3f}" for name, time in rows)


def time_sort(device: AnyDevice, plan: GpuMsmPlan, scalars: Array) -> str:
    """Return the median wall time of a sort on the device, and the time of each kernel."""
    words = device.upload(scalars)
    workspace = Workspace(device, workspace_bytes(device, plan))
    arrays = MsmBuffers.of(device, plan, Arena(device, workspace))
    recording = _ByKernel(device, "sort")
    recording.fill(arrays.zeroed)
    record_chunks(recording, device, plan, Scalars(words, plan.count, plan.count), arrays)
    finished = recording.finish().recording
    walls = []
    for _ in range(_REPEATS):
        begin = perf_counter()
        device.stream("sort").replay(finished).submit().wait()
        walls.append(1e3 * (perf_counter() - begin))
    timeline = Timeline()
    device.stream("sort").replay(finished).submit(timeline).wait()
    return f"{median(walls):.3f} ms: {times(timeline)}"


def sorts(device: AnyDevice, group: Group, sizes: list[int]) -> None:
    """Time the sorts and print the table."""
    for log2_size in sizes:
        plan = plan_gpu_msm(
            group, 1 << log2_size, MsmOptions(), limits=DeviceLimits.of(device),
            base_budget=device.memory_budget // 4,
        )  # fmt: skip
        print(f"{group.name} 2^{log2_size}: {plan.window_bits} bits, {plan.copies} copies")
        scalars = scalars_of(group, "uniform", plan.count)
        for tuning in variants():
            tuned_plan = replace(plan, limits=replace(plan.limits, sort=tuning))
            time = time_sort(device, tuned_plan, scalars)
            print(f"  {tuning}\n      {time}", flush=True)
        for kind in ("bits", "equal", "giant"):
            scalars = scalars_of(group, kind, plan.count)
            print(f"  {kind}: {time_sort(device, plan, scalars)}", flush=True)


def first_parts(plan: GpuMsmPlan) -> Iterator[int]:
    """Return the sizes of the first part to time: none, the default, and some near it."""
    count, default = plan.count, first_block(plan)
    yield 0
    yield default
    for share in (5, 8, 12, 16):
        yield count // share


def session_of(device: AnyDevice, resident: ResidentMsm, first: int) -> Session:
    """Run an MSM in two parts, or in one if the first part has no scalars."""
    plan = resident.plan()
    count = plan.count
    room = device.allocate(SCALAR_BYTES * count, zero=False)

    def whole(recording: RecordingStream, scalars: Array) -> RecordedMsm:
        workspace = Workspace(device, resident.workspace_bytes(plan))
        recording.upload(scalars, room, label="upload scalars")
        return resident.record(recording, room, workspace=workspace, plan=plan)

    def in_parts(recording: RecordingStream, scalars: Array) -> RecordedMsm:
        plans = [with_batch(plan, part, 1) for part in (first, count - first)]
        workspace = Workspace(device, blocks_bytes(device, plans))
        return resident.record_in_blocks(recording, scalars[0], plans, room, workspace)

    return Session(device, 1, count, in_parts if first else whole)


def msms(device: AnyDevice, group: Group, sizes: list[int]) -> None:
    """Time whole MSMs and print the table."""
    for log2_size in sizes:
        count = 1 << log2_size
        logarithms = random_elements(group.scalars, count, seed=log2_size)
        budget = device.memory_budget // 4
        points = multiply_generator(device, group, logarithms)
        resident = ResidentMsm(device, group, points, base_budget=budget)
        scalars = scalars_of(group, "uniform", count)
        results = set()
        for first in first_parts(resident.plan()):
            session = session_of(device, resident, first)
            session.scalars[0] = scalars
            walls = []
            for _ in range(_REPEATS):
                begin = perf_counter()
                results.add(session.run(session.scalars, None).tobytes())
                walls.append(1e3 * (perf_counter() - begin))
            timeline = Timeline()
            session.run(session.scalars, timeline)
            print(f"{group.name} 2^{log2_size}, first {first / count:.3f}: {median(walls):.2f} ms")
            print(f"      {times(timeline)}", flush=True)
        assert len(results) == 1, "parts and the whole disagree"


def main() -> None:
    """Run the measurements of the command line."""
    parser = argparse.ArgumentParser(description="MSMs on a GPU, by stage.")
    parser.add_argument("what", choices=["sort", "msm"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--group", default="bls12_381.g1", choices=list(GROUPS))
    parser.add_argument("sizes", nargs="*", type=int, help="log2 of the scalars")
    options = parser.parse_intermixed_args()
    measure = sorts if options.what == "sort" else msms
    measure(open_device(options.device), GROUPS[options.group], options.sizes or [16, 20, 22, 24])


if __name__ == "__main__":
    main()
