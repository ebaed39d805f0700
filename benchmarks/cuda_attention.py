"""Time attention on tensor cores against torch: the chosen plans and others.

    python benchmarks/cuda_attention.py                     f16 of 1x16x8192x128, full and causal
    python benchmarks/cuda_attention.py 4 16 2048 64        sequences, heads, tokens, a head's size
    python benchmarks/cuda_attention.py sweep 1 16 8192 128 every plan that is worth timing
    python benchmarks/cuda_attention.py backward 1 16 8192 128   the gradients, by some plans

A line a plan: microseconds, TFLOP/s (4 B H T T D operations, half if causal, 2.5 times as many
backward), and of torch's scaled_dot_product_attention, cuDNN's where it has one, in the same
process, in turn. Medians of seven.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import checkout  # noqa: F401
import numpy as np
from beside_torch import replayed, torch_with_gpu

from quod.bench.tensors.operations import attention_of_torch
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.recorder import recorder_of
from quod.kernel import f16
from quod.tensor import attention, attention_backward
from quod.tensor.flash_attention.backward import call as attention_gradients
from quod.tensor.flash_attention.kernel import ATTENTION, AttentionForm
from quod.tensor.flash_attention.plan import (
    CAUSAL_QUERY_PLANS,
    CORE_PLANS,
    GRADIENT_PLANS,
    WARPGROUP_GRADIENT_PLANS,
    CoreTilePlan,
    WarpgroupGradientPlan,
)
from quod.tensor.rows.row import LOG2_E

_REPEATS = 7
_CALLS = 10

Shape = tuple[int, int, int, int]


def variants(size: int) -> list[CoreTilePlan]:
    """Return the plans to time, the chosen ones first."""
    return [
        *CORE_PLANS[size],
        *(
            CoreTilePlan(size, rows, subgroups, keys, stages, kept=kept, resident=resident)
            for rows, subgroups, keys, stages, kept, resident in (
                (16, 8, 64, 2, True, 1), (16, 8, 32, 4, True, 1), (16, 8, 64, 2, False, 1),
                (16, 4, 32, 4, True, 2), (32, 4, 32, 2, False, 2), (32, 4, 64, 2, False, 2),
                (32, 8, 32, 4, False, 1), (32, 2, 32, 4, False, 3),
            )
        ),
    ]  # fmt: skip


def given(device: AnyDevice, shape: Shape, count: int) -> list[Any]:
    """Draw tensors of normal numbers: zeros and constants would be unrealistically fast."""
    random = np.random.default_rng(1)
    return [
        device.upload(random.standard_normal(shape, np.float32).astype(np.float16))
        for _ in range(count)
    ]


def forward(device: AnyDevice, shape: Shape, plan: CoreTilePlan, *, causal: bool) -> Any:
    """Submit several calls with a plan; return the seconds of one."""
    batch, heads, tokens, size = shape
    q, k, v, out = given(device, shape, 4)
    compiled = device.compile(
        ATTENTION[f16, False, False], lanes=plan.lanes, element=f16, plan=plan,
        form=AttentionForm(causal),
    )  # fmt: skip
    groups = -(-tokens // plan.tile[0]) * heads * batch

    def launch(recording: Any) -> None:
        recording.launch(
            compiled, groups, tokens, tokens, size, heads, 1, LOG2_E / size**0.5, q, k, v, out,
            label="attention",
        )  # fmt: skip

    return replayed(device, launch, _CALLS)


Pair = tuple[CoreTilePlan | WarpgroupGradientPlan, CoreTilePlan | WarpgroupGradientPlan]


def gradient_variants(size: int, *, causal: bool) -> list[Pair]:
    """Return plans of the gradients of queries, and of keys and values; the chosen ones first."""
    usual, cores = WARPGROUP_GRADIENT_PLANS[size], GRADIENT_PLANS[size]
    first = CAUSAL_QUERY_PLANS.get(size, usual) if causal else usual
    others = [WarpgroupGradientPlan(size, *each) for each in ((2, 128, 2), (2, 64, 2), (1, 64, 4))]
    return [
        (first, usual), *((other, usual) for other in (usual, *others) if other != first),
        *((first, other) for other in others[1:]), (others[1], others[1]), (cores, cores),
    ]  # fmt: skip


def backward(device: AnyDevice, shape: Shape, plans: Pair, *, causal: bool) -> Callable[[], float]:
    """Submit several sequential gradient calls; return the seconds of one."""
    vars(attention_gradients)["plan_gradients"] = lambda *arguments, **_: plans[arguments[3] - 1]
    q, k, v, slopes, y, *out = given(device, shape, 8)
    sums = device.upload(np.zeros(shape[:3], np.float32))
    attention(device, q, k, v, causal=causal, log_sums=sums, out=y)

    def launch(recording: Any) -> None:
        attention_backward(
            recorder_of(device, recording), slopes, q, k, v, y, sums, causal=causal,
            out=(out[0], out[1], out[2]),
        )  # fmt: skip
        recording.event("call")

    return replayed(device, launch, _CALLS)


def by_torch(shape: Shape, *, causal: bool, backward_pass: bool) -> Callable[[], float] | None:
    """Run torch's attention; None if torch or its GPU is missing."""
    torch = torch_with_gpu()
    if torch is None:
        return None
    q, k, v = (
        torch.randn(shape, device="cuda", dtype=torch.float16, requires_grad=backward_pass)
        for _ in range(3)
    )
    function = partial(attention_of_torch, torch)
    y = function(q, k, v, causal=causal)
    slopes = torch.randn_like(y)

    def run() -> float:
        torch.cuda.synchronize()
        begin = perf_counter()
        for _ in range(_CALLS):
            if backward_pass:
                torch.autograd.grad(y, (q, k, v), slopes, retain_graph=True)
            else:
                function(q, k, v, causal=causal)
        torch.cuda.synchronize()
        return (perf_counter() - begin) / _CALLS

    run()
    return run


def main(arguments: Sequence[str], device_name: str = "cuda") -> None:
    words = list(arguments)
    what = words.pop(0) if words and not words[0].isdecimal() else ""
    batch, heads, tokens, size = [int(word) for word in words] or [1, 16, 8192, 128]
    shape, backward_pass = (batch, heads, tokens, size), what == "backward"
    device = open_device(device_name)
    for causal in (False, True):
        operations = (
            4 * batch * heads * tokens**2 * size / (1 + causal) * (2.5 if backward_pass else 1)
        )
        peer = by_torch(shape, causal=causal, backward_pass=backward_pass)
        found_plans: list[Any] = (
            gradient_variants(size, causal=causal) if backward_pass else variants(size)
        )
        for plan in found_plans if backward_pass or what == "sweep" else found_plans[:1]:
            run_quod = (backward if backward_pass else forward)(device, shape, plan, causal=causal)
            times = [(run_quod(), peer() if peer else 0.0) for _ in range(_REPEATS)]
            time, other = (median(column) for column in zip(*times, strict=True))
            line = f"{'causal' if causal else 'full':6} {1e6 * time:9.1f} us "
            line += f"{operations / time / 1e12:6.1f} TFLOP/s"
            if other:
                line += f"  torch {1e6 * other:9.1f} us {operations / other / 1e12:6.1f}"
                line += f"  {other / time:5.2f}"
            print(f"{line}  {plan}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
