"""Time attention with warpgroups against cuDNN: the chosen plans and others.

    python benchmarks/cuda_attention_warpgroups.py                   f16 of two shapes
    python benchmarks/cuda_attention_warpgroups.py 2x16x16384x128    other shapes, BxHxTxD

A line a plan and kind, full or causal: microseconds, TFLOP/s, and of torch, which computes the same
in the same process, in turn. Both are graphs of launches; medians of five.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import checkout  # noqa: F401
import numpy as np
from beside_torch import replayed, replayed_by_torch, times, torch_with_gpu

from quod.bench.tensors.operations import attention_of_torch
from quod.device.discovery import open_device
from quod.device.memory.tensor_map import TiledMemory
from quod.kernel import f16
from quod.tensor.flash_attention.kernel import AttentionForm
from quod.tensor.flash_attention.plan import WARPGROUP_PLANS, WarpgroupPlan, heads_together
from quod.tensor.flash_attention.warpgroup_kernel import WARPGROUP_ATTENTION
from quod.tensor.rows.row import LOG2_E

Shape = tuple[int, int, int, int]
SHAPES: tuple[Shape, ...] = ((1, 16, 8192, 128), (4, 16, 4096, 64))
_REPEATS = 5
_SECONDS = 0.02


def variants(size: int) -> list[WarpgroupPlan]:
    """Return the plans to time for a head size, the chosen one first."""
    others: dict[int, list[tuple[int, int, tuple[int, int]]]] = {
        64: [(3, 112, (32, 160)), (3, 96, (32, 160)), (2, 192, (40, 232))],
        128: [(3, 64, (32, 160)), (2, 128, (40, 232)), (2, 144, (24, 240)), (2, 160, (24, 240))],
    }
    return [WARPGROUP_PLANS[size], *(WarpgroupPlan(size, *each) for each in others[size])]


def graph(device: Any, shape: Shape, plan: WarpgroupPlan, *, causal: bool) -> Callable[[], float]:
    """Run a graph of calls; return the seconds of one."""
    heads, (tokens, size), (rows, keys) = math.prod(shape[:2]), shape[2:], plan.tile
    random = np.random.default_rng(3)
    memory = [
        device.upload(random.standard_normal(shape, np.float32).astype(np.float16))
        for _ in range(4)
    ]
    maps = device.tensor_maps(tuple(
        TiledMemory(buffer.address, heads, tokens, size, lines)
        for buffer, lines in zip(memory, (rows, keys, keys), strict=False)
    ))  # fmt: skip
    compiled = device.compile(
        WARPGROUP_ATTENTION[f16, False], lanes=plan.lanes, element=f16, plan=plan,
        form=AttentionForm(causal=causal),
    )  # fmt: skip

    def launch(recording: Any) -> None:
        recording.launch(
            compiled, -(-tokens // rows) * heads, tokens, tokens, heads, 1,
            heads_together(tokens, size, 1), LOG2_E / math.sqrt(size), maps, *memory,
            label="attention",
        )  # fmt: skip

    return replayed(device, launch, repeats(shape))


def repeats(shape: Shape) -> int:
    """Return the number of calls in a graph, from an assumed speed of either program."""
    return times(4 * math.prod(shape) * shape[2] / 5e14, _SECONDS)


def torch_graph(shape: Shape, *, causal: bool) -> Callable[[], float] | None:
    """Run torch's attention in a graph; None if torch or its GPU is missing."""
    torch = torch_with_gpu()
    if torch is None:
        return None
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))
    return replayed_by_torch(
        torch, lambda: attention_of_torch(torch, q, k, v, causal=causal), repeats(shape)
    )


def main(arguments: Sequence[str], device_name: str = "cuda") -> None:
    device = open_device(device_name)
    shapes: list[Any] = [tuple(map(int, text.split("x"))) for text in arguments]
    for shape in shapes or SHAPES:
        for causal in (False, True):
            peer = torch_graph(shape, causal=causal)
            for plan in variants(shape[3]):
                run_quod = graph(device, shape, plan, causal=causal)
                times = [(run_quod(), peer() if peer else 0.0) for _ in range(_REPEATS)]
                time, other = (median(column) for column in zip(*times, strict=True))
                work = 4e-12 * math.prod(shape[:3]) * shape[2] * shape[3] / (2 if causal else 1)
                kind = "causal" if causal else "full  "
                line = f"{'x'.join(map(str, shape)):16} {kind} {1e6 * time:9.1f} us"
                line += f" {work / time:6.1f} TFLOP/s"
                if other:
                    line += f"  torch {1e6 * other:9.1f} us {work / other:6.1f} {other / time:5.2f}"
                print(f"{line}  {plan}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
