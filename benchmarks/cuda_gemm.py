"""Time matrix products on tensor cores against torch.mm: the chosen plans and others.

    python benchmarks/cuda_gemm.py                   bf16 and f16 of 512 to 8192, beside torch.mm
    python benchmarks/cuda_gemm.py bf16 4096 8192    a type and sizes
    python benchmarks/cuda_gemm.py sweep bf16 4096   variants of tile, stages and cluster
    python benchmarks/cuda_gemm.py cores bf16 4096   those without warpgroups
    python benchmarks/cuda_gemm.py ways bf16 4096    every transposition, as it is chosen

A line a product: microseconds, TFLOP/s, and of torch, which multiplies the same numbers in the same
process, in turn. Both are graphs of launches; medians of seven.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from statistics import median
from typing import Any

import checkout  # noqa: F401
import numpy as np
from beside_torch import replayed, replayed_by_torch, times, torch_with_gpu

from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.frozen import replace
from quod.kernel import bf16, f16
from quod.kernel.ir.types import Type
from quod.tensor.matmul.call import tensor_maps
from quod.tensor.matmul.form import GemmForm
from quod.tensor.matmul.kernel import GEMM
from quod.tensor.matmul.plan import (
    AnyGemmPlan,
    CorePlan,
    TilePlan,
    WarpSpecialisedTilePlan,
    plan_gemm,
    workgroups,
)
from quod.tensor.matmul.warpgroups.kernel import GEMM_TILES

_REPEATS = 7
_SECONDS = 0.02
"""The approximate duration of a graph in seconds."""


def tile_variants() -> list[TilePlan]:
    """Return the warpgroup tiles to time."""
    return [
        *(TilePlan((128, 256), 4, cluster) for cluster in (1, 2)),
        *(TilePlan((256, 128), 4, cluster) for cluster in (1, 2)),
        *(TilePlan((128, 128), 4, cluster) for cluster in (1, 2, 4)),
        *(TilePlan((128, 64), 8, cluster) for cluster in (1, 2, 4)),
        *(TilePlan((64, 256), 4, cluster) for cluster in (1, 2)),
        *(TilePlan((64, 128), 8, cluster) for cluster in (1, 2, 4)),
        *(TilePlan((64, 64), stages, cluster) for stages in (4, 8) for cluster in (1, 2, 4)),
        WarpSpecialisedTilePlan((128, 256), 4),
    ]


def core_variants() -> list[CorePlan]:
    """Return the subgroup tiles to time, ordered by the bytes they copy per product."""
    return [
        *(CorePlan((128, 256), (64, 64), depth, stages) for depth, stages in (
            (32, 3), (32, 4), (32, 5), (32, 6), (64, 2), (64, 3), (64, 4),
        )),
        *(CorePlan((256, 128), (64, 64), depth, stages) for depth, stages in ((32, 4), (64, 3))),
        *(CorePlan((128, 128), (64, 32), depth, stages, resident=resident)
          for depth, stages, resident in (
              (32, 3, 2), (32, 4, 1), (32, 4, 2), (32, 5, 2), (64, 3, 1), (64, 3, 2), (64, 4, 1),
          )),
        *(CorePlan((128, 128), (64, 64), depth, stages, resident=resident)
          for depth, stages, resident in ((32, 4, 1), (32, 4, 2), (64, 3, 1), (64, 3, 2))),
        *(CorePlan((128, 64), (64, 32), depth, stages, resident=resident)
          for depth, stages, resident in ((32, 4, 1), (64, 3, 2), (64, 4, 2))),
        *(CorePlan((64, 64), (32, 32), depth, stages, resident=resident)
          for depth, stages, resident in (
              (32, 4, 2), (64, 3, 1), (64, 3, 3), (64, 4, 2), (64, 6, 1),
          )),
    ]  # fmt: skip


def words(element: Type, shape: tuple[int, ...], seed: int) -> Any:
    """Draw normal numbers: zeros and constants would be unrealistically fast."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    if element is f16:
        return values.astype(np.float16)
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def graph(
    device: AnyDevice, element: Type, size: int, plan: AnyGemmPlan, form: GemmForm
) -> Callable[[], float]:
    """Run a graph of products; return the seconds of one."""
    memory = [device.upload(words(element, (size, size), seed)) for seed in range(3)]
    kernels = GEMM_TILES if isinstance(plan, TilePlan) else GEMM
    compiled = device.compile(
        kernels[element], lanes=plan.lanes, element=element, plan=plan, form=form
    )
    a, b, c = memory
    numbers: list[Any] = [size, size, size, 0, 1.0]
    if isinstance(plan, TilePlan):
        maps = tensor_maps(
            device,
            [a, b],
            (size, size, size),
            (1, 1),
            (form.transpose_a, not form.transpose_b),
            plan,
        )
        numbers = [size, size, size, 1, 0, 1.0, maps]

    def launch(recording: Any) -> None:
        recording.launch(
            compiled, workgroups(device, plan, size, size), *numbers, a, b, a, a, c, label="gemm"
        )

    return replayed(device, launch, repeats(size))


def repeats(size: int) -> int:
    """Return the number of products in a graph, from an assumed speed of either program."""
    return times(2 * size**3 / 4e14, _SECONDS)


def torch_graph(element: Type, size: int, form: GemmForm) -> Callable[[], float] | None:
    """Run torch.mm in a graph; None if torch or its GPU is missing."""
    torch = torch_with_gpu()
    if torch is None:
        return None
    kind = torch.float16 if element is f16 else torch.bfloat16
    a, b, c = (torch.randn(size, size, device="cuda", dtype=kind) for _ in range(3))
    a, b = a.T if form.transpose_a else a, b.T if form.transpose_b else b
    return replayed_by_torch(torch, lambda: torch.mm(a, b, out=c), repeats(size))


def cases(arguments: Sequence[str]) -> Iterator[tuple[Type, int, GemmForm, AnyGemmPlan | None]]:
    """Yield the cases of the command line; a plan of None stands for the chosen one."""
    words = list(arguments)
    what = words.pop(0) if words and words[0] in ("sweep", "cores", "ways") else ""
    names = {"bf16": bf16, "f16": f16}
    types = [names[words.pop(0)]] if words and words[0] in names else list(names.values())
    sizes = [int(size) for size in words] or [512, 1024, 4096, 8192]
    for element, size in product(types, sizes):
        if what == "sweep":
            for tile in tile_variants():
                yield element, size, GemmForm(), replace(tile, c_vector=8)
        elif what == "cores":
            for plan in core_variants():
                yield element, size, GemmForm(), replace(plan, c_vector=2)
        elif what == "ways":
            for ways in product((False, True), (False, True)):
                yield element, size, GemmForm(*ways), None
        else:
            yield element, size, GemmForm(), None


def main(arguments: Sequence[str], device_name: str = "cuda") -> None:
    device = open_device(device_name)
    peers: dict[Any, Callable[[], float] | None] = {}
    for element, size, form, plan in cases(arguments):
        used = plan or plan_gemm(device, element, (size,) * 3, (size,) * 3)
        key = (element, size, form)
        if key not in peers:
            peers = {key: torch_graph(*key)}
        peer = peers[key]
        run_quod = graph(device, element, size, used, form)
        times = [(run_quod(), peer() if peer else 0.0) for _ in range(_REPEATS)]
        time, other = (median(column) for column in zip(*times, strict=True))
        speed = 2e-12 * size**3
        ways = f"{'T' if form.transpose_a else 'N'}{'T' if form.transpose_b else 'N'}"
        line = f"{element} {size:5} {ways} {1e6 * time:9.1f} us {speed / time:6.1f} TFLOP/s"
        if other:
            line += f"  torch {1e6 * other:9.1f} us {speed / other:6.1f}  {other / time:5.2f}"
        print(f"{line}  {used}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
