"""Time MSMs through WebGPU by limb choice, to decide which limbs the calibration offers.

    python benchmarks/webgpu_msm.py                               what is offered, and unrolled
    python benchmarks/webgpu_msm.py --limbs 13 --group bls12_381.g2 --log2 16

A table in markdown: the first MSM with the compilation of its kernels, the median of later ones
with resident bases, and of those what `accumulate` and `reduce` take. Every result is compared
with that of the first row.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import checkout  # noqa: F401

from quod.bench.measure.harness import warm_up, warm_up_of
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.device.cache.cache import CompileCache
from quod.device.runtime.timeline import Timeline
from quod.device.webgpu.device import WebGpuDevice
from quod.errors import QuodError
from quod.field.array import random_elements
from quod.field.strategies.calibration import CANDIDATES, U64_CANDIDATES
from quod.field.strategies.limb_choice import LimbChoice
from quod.msm import MsmBases, msm
from quod.msm.fixed_base import multiply_generator

_RUNS = 7
UNROLLED = ("13", "15", "29/64", "30/64")
"""Limbs that the calibration does not offer: hardly faster, and much slower to compile."""


def inputs(group: Group, log2: int) -> tuple[Any, Any]:
    """Return distinct points and uniform scalars."""
    from quod.device.discovery import open_device

    points = multiply_generator(
        open_device("cpu"), group, random_elements(group.scalars, 1 << log2, seed=1)
    )
    return points, random_elements(group.scalars, 1 << log2, seed=2)


def row(device: WebGpuDevice, group: Group, points: Any, scalars: Any) -> tuple[list[float], Any]:
    """Return seconds of a first MSM, milliseconds of a later one and of two stages, and the sum."""
    begin = perf_counter()
    bases = MsmBases(device, group, points)
    result = msm(device, group, bases, scalars)
    first = perf_counter() - begin
    warm_up(lambda: msm(device, group, bases, scalars), warm_up_of(device.name))
    walls: list[float] = []
    stages: dict[str, list[float]] = {"accumulate": [], "reduce": []}
    for _ in range(_RUNS):
        timeline = Timeline()
        begin = perf_counter()
        if msm(device, group, bases, scalars, timeline=timeline) != result:
            raise QuodError("two runs of an MSM differ; please report it")
        walls.append(perf_counter() - begin)
        seconds = {stage.name: stage.seconds for stage in timeline.table()}
        for name, times in stages.items():
            times.append(seconds.get(name, 0.0))
    figures = [first, *(1e3 * median(times) for times in (walls, *stages.values()))]
    return figures, result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--adapter", default="", help="its number, or a part of its name")
    parser.add_argument("--group", action="append", choices=list(GROUPS))
    parser.add_argument("--log2", type=int, action="append")
    parser.add_argument("--limbs", action="append", help="default: offered ones, and unrolled")
    arguments = parser.parse_args()
    print("| group | log2 | limbs | first, s | later, ms | accumulate | reduce |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.group or ("bls12_381.g1", "bls12_381.g2"):
        for log2 in arguments.log2 or (16,):
            measure(arguments, GROUPS[name], log2)


def measure(arguments: argparse.Namespace, group: Group, log2: int) -> None:
    """Measure one MSM and print its rows."""
    points, scalars = inputs(group, log2)
    expected: Any = None
    for limbs in arguments.limbs or (*CANDIDATES, *U64_CANDIDATES, *UNROLLED):
        with tempfile.TemporaryDirectory() as folder:
            wide = LimbChoice.parse(limbs).wide
            device = WebGpuDevice(
                arguments.adapter, strength="extended" if wide else "portable", limbs=limbs,
                cache=CompileCache(Path(folder)),
            )  # fmt: skip
            if wide and not device.target.u64:
                device.close()
                continue
            figures, result = row(device, group, points, scalars)
            device.close()
        if result != (expected or result):
            raise QuodError(f"the sum in limbs {limbs} is another; please report it")
        expected = result
        figures_text = " | ".join(f"{value:.3g}" for value in figures)
        print(f"| {group.name} | {log2} | {limbs} | {figures_text} |", flush=True)


if __name__ == "__main__":
    main()
