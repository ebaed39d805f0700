"""Kernels of f32 in the variants that a plan can choose, beside torch: products, norms, losses.

    python benchmarks/cuda_f32.py                    all, about a minute and a half on an H200
    python benchmarks/cuda_f32.py gemm 512 4096      products of some sizes
    python benchmarks/cuda_f32.py norms loss         rows alone

A line a variant: whether some rows agree with float64, microseconds, TFLOP/s or TB/s, and of torch,
which does the same in the same process, in turn. Both are graphs of launches; medians of five. A
variant that fails has its error for a line. The plan that Quod chooses is marked.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import checkout  # noqa: F401
import numpy as np

from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.frozen import replace
from quod.kernel import bf16, f32
from quod.kernel.types import Type
from quod.tensor.gemm_kernel import GEMM, GemmForm
from quod.tensor.gemm_plan import AnyPlan, FmaPlan, GemmPlan, plan_gemm
from quod.tensor.loss_kernels import CROSS_ENTROPY
from quod.tensor.plan import RowPlan, plan_rows
from quod.tensor.row_kernels import LAYER_NORM, RMS_NORM, SOFTMAX

_REPEATS = 5
_SECONDS = 0.015
"""About how long a graph takes."""
NORM_SHAPES = ((4096, 32768), (32768, 4096))
LOSS_SHAPES = ((f32, 4096, 65536), (bf16, 4096, 131072), (f32, 4096, 131072))
_ROWS = 64
"""Rows of random numbers, which long tensors repeat."""

WAYS = {"nn": GemmForm(), "nt": GemmForm(False, True), "tn": GemmForm(True, False)}

LARGE = {
    "128x256": FmaPlan((128, 256), (64, 64), (16, 8), 16, 3, ahead=True),
    "128x128": FmaPlan((128, 128), (64, 32), (8, 8), 16, 3, resident=2),
    "128x256 8x16": FmaPlan((128, 256), (64, 64), (8, 16), 16, 3, ahead=True),
    "256x128": FmaPlan((256, 128), (64, 64), (16, 8), 16, 3, ahead=True),
    "128x256 K8": FmaPlan((128, 256), (64, 64), (16, 8), 8, 4, ahead=True),
    "128x256 x4": FmaPlan((128, 256), (64, 64), (16, 8), 16, 4, ahead=True),
    "128x128 ahead": FmaPlan((128, 128), (64, 32), (8, 8), 16, 3, resident=2, ahead=True),
    "128x128 K8": FmaPlan((128, 128), (32, 64), (8, 8), 8, 4, resident=2),
    "128x128 K32": FmaPlan((128, 128), (64, 32), (8, 8), 32, 3, resident=2),
    "128x128 one": FmaPlan((128, 128), (64, 32), (8, 8), 16, 4, ahead=True),
    "registers": GemmPlan(256, 16, 8, 8, 1, 1, 8, 2, 4, unrolled=True),
}
"""For matrices of many tiles; `registers` is the kernel without asynchronous copies."""
SMALL = {
    "128x64 2": FmaPlan((128, 64), (32, 64), (8, 8), 32, 3, slices=2, ahead=True),
    "64x32 8": FmaPlan((64, 32), (64, 32), (8, 8), 32, 4, slices=8),
    "128x64 4": FmaPlan((128, 64), (32, 64), (8, 8), 32, 3, slices=4),
    "64x64 4": FmaPlan((64, 64), (64, 32), (8, 8), 32, 4, slices=4),
    "64x32 8 K64": FmaPlan((64, 32), (64, 32), (8, 8), 64, 3, slices=8, ahead=True),
    "64x32 4": FmaPlan((64, 32), (64, 32), (8, 8), 32, 4, slices=4, ahead=True),
}
"""For matrices of few; the number is that of slices."""
FEW = ("128x256", "128x128", "256x128", "128x64 2", "64x32 8")
"""What is timed where an operand is transposed."""


def torch_with_gpu() -> Any:
    """torch, or None where it, or its GPU, is not there."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch: Any = importlib.import_module("torch")
    return torch if torch.cuda.is_available() else None


def replayed(device: AnyDevice, launch: Callable[[Any], None], seconds: float) -> Callable[[], float]:
    """Runs a graph of launches, of about so many seconds each; gives the seconds of one."""
    count = max(1, min(1000, round(_SECONDS / seconds)))
    recording = device.stream("f32").record()
    for _ in range(count):
        launch(recording)
    recorded = recording.finish().recording

    def run() -> float:
        begin = perf_counter()
        device.stream("f32").replay(recorded).run()
        return (perf_counter() - begin) / count

    run()
    return run


def of_torch(torch: Any, work: Callable[[], Any], seconds: float) -> Callable[[], float]:
    """The same for what torch does."""
    count = max(1, min(1000, round(_SECONDS / seconds)))
    work()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(count):
            work()

    def run() -> float:
        torch.cuda.synchronize()
        begin = perf_counter()
        captured.replay()
        torch.cuda.synchronize()
        return (perf_counter() - begin) / count

    run()
    return run


class Beside:
    """Times variants in turn with torch, and prints a line of each."""

    def __init__(self, peer: Callable[[], float] | None, amount: float, unit: str) -> None:
        self._peer, self._amount, self._unit = peer, amount, unit

    def tell(
        self, name: str, made: Callable[[], tuple[Callable[[], float], bool]], *, chosen: bool
    ) -> None:
        """One variant: `made` gives what times it, and whether its results are right."""
        try:
            run, right = made()
            times = [(run(), self._peer() if self._peer else 0.0) for _ in range(_REPEATS)]
        except Exception as error:  # noqa: BLE001  one variant is not to end the others
            print(f"{name:42} FAILED {type(error).__name__}: {str(error)[:200]}", flush=True)
            return
        found, other = (median(column) for column in zip(*times, strict=True))
        told = f"{name:42} {'right' if right else 'WRONG'} {1e6 * found:9.1f} us "
        told += f"{self._amount / found:7.2f} {self._unit}"
        if other:
            told += f"  torch {1e6 * other:9.1f} us {self._amount / other:7.2f}  {other / found:5.2f}"
        print(told + ("  <- chosen" if chosen else ""), flush=True)


# --- products


def products(device: AnyDevice, sizes: Sequence[int]) -> None:
    """Every variant of nn, and few of nt and tn, at each size."""
    torch = torch_with_gpu()
    for size in sizes:
        random = np.random.default_rng(size)
        a, b = (random.standard_normal((size, size), np.float32) for _ in range(2))
        memory = [device.upload(a), device.upload(b), device.upload(a)]
        some = [0, size // 3, size - 1]
        amount = 2e-12 * size**3
        for way, form in WAYS.items():
            peer = None
            if torch is not None:
                x, y = (torch.randn(size, size, device="cuda") for _ in range(2))
                z = torch.empty_like(x)
                x, y = x.T if form.transpose_a else x, y.T if form.transpose_b else y
                peer = of_torch(torch, lambda x=x, y=y, z=z: torch.mm(x, y, out=z), amount / 40)
            left, right = a.T if form.transpose_a else a, b.T if form.transpose_b else b
            left, right = left[some].astype(np.float64), right.astype(np.float64)
            exact = left @ right
            bound = (np.abs(left) @ np.abs(right)) * (size + 3) * 2.0**-22
            beside = Beside(peer, amount, "TFLOP/s")
            best = plan_gemm(device, f32, (size,) * 3, (size,) * 3)
            for name, plan in (LARGE if size > 1024 else SMALL | few(LARGE)).items():
                if way != "nn" and name not in FEW:
                    continue
                used = replace(plan, a_vector=4, b_vector=4, c_vector=4)

                def made(
                    used: AnyPlan = used, form: GemmForm = form, exact: Any = exact,
                    bound: Any = bound,
                ) -> tuple[Callable[[], float], bool]:  # fmt: skip
                    run = product(device, memory, size, used, form)
                    found = np.empty((size, size), np.float32)
                    device.download(memory[2], found)
                    return run, bool((np.abs(found[some] - exact) <= bound).all())

                beside.tell(f"gemm {size} {way} {name}", made, chosen=used == best)


def few(plans: dict[str, Any]) -> dict[str, Any]:
    """The two that are the best of large matrices."""
    return dict(list(plans.items())[:2])


def product(
    device: AnyDevice, memory: list[Any], size: int, plan: AnyPlan, form: GemmForm
) -> Callable[[], float]:
    """What times a plan; it has run once, over what the last one left."""
    a, b, c = memory
    compiled = device.compile(GEMM[f32], lanes=plan.lanes, element=f32, plan=plan, form=form)
    device.upload(np.full((size, size), np.nan, np.float32), into=c)
    return replayed(
        device,
        lambda recording: recording.launch(
            compiled, plan.groups(size, size), size, size, size, 0, 1.0, a, b, a, a, c, label="gemm"
        ),
        2e-12 * size**3 / 40,
    )


# --- rows


NORMS = {
    "in registers": RowPlan(512, 512, 4, 16, whole=True),
    "1024 instances": RowPlan(1024, 1024, 4, 8, whole=True),
    "10 of 16 copied, 2": RowPlan(512, 512, 4, 16, whole=True, copied=10, resident=2),
    "11 of 16 copied, 2": RowPlan(512, 512, 4, 16, whole=True, copied=11, resident=2),
    "256: 14 of 32 copied, 2": RowPlan(256, 256, 4, 32, whole=True, copied=14, resident=2),
    "256: 20 of 32 copied, 2": RowPlan(256, 256, 4, 32, whole=True, copied=20, resident=2),
}
"""For rows of 32,768 elements: how many accesses are in shared memory, and workgroups together."""


def norms(device: AnyDevice) -> None:
    """RMS norm, layer norm and softmax of 4096 rows of 32,768, and as many of 4096."""
    torch = torch_with_gpu()
    for rows, columns in NORM_SHAPES:
        random = np.random.default_rng(columns)
        x = random.standard_normal((_ROWS, columns), np.float32)
        weight, bias = (random.standard_normal(columns, np.float32) for _ in range(2))
        memory = [device.upload(np.tile(x, (rows // _ROWS, 1)))]
        vectors = [device.upload(weight), device.upload(bias)]
        y = device.allocate(4 * rows * columns)
        exact = _exact(x[-3:].astype(np.float64), weight, bias)
        amount = 8e-12 * rows * columns
        best = plan_rows(device, f32, columns)
        plans = NORMS if columns > 16384 else {"in registers": best}
        for kind, kernel, count in (("rms", RMS_NORM, 1), ("layer", LAYER_NORM, 2), ("softmax", SOFTMAX, 0)):
            numbers = [1e-5] if count else []
            beside = Beside(_norm_of_torch(torch, kind, rows, columns, amount), amount, "TB/s")
            for name, plan in plans.items():

                def made(
                    plan: RowPlan = plan, kernel: Any = kernel, count: int = count, kind: str = kind,
                    numbers: list[float] = numbers,
                ) -> tuple[Callable[[], float], bool]:  # fmt: skip
                    compiled = device.compile(kernel[f32], lanes=plan.lanes, element=f32, plan=plan)
                    run = replayed(
                        device,
                        lambda recording: recording.launch(
                            compiled, plan.groups(rows), rows, columns // plan.vector, *numbers,
                            memory[0], *vectors[:count], y, label=kind,
                        ),
                        amount / 4,
                    )  # fmt: skip
                    found = np.empty((3, columns), np.float32)
                    device.download(y.slice(4 * (rows - 3) * columns, 4 * rows * columns), found)
                    close = np.abs(found - exact[kind]) <= 2e-5 * (1 + np.abs(exact[kind]))
                    return run, bool(close.all())

                beside.tell(f"{kind} {rows}x{columns} {name}", made, chosen=plan == best)


def _exact(x: Any, weight: Any, bias: Any) -> dict[str, Any]:
    """The functions of rows of float64."""
    mean = x.mean(1, keepdims=True)
    powers = np.exp(x - x.max(1, keepdims=True))
    return {
        "rms": x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * weight,
        "layer": (x - mean) / np.sqrt(((x - mean) ** 2).mean(1, keepdims=True) + 1e-5) * weight + bias,
        "softmax": powers / powers.sum(1, keepdims=True),
    }


def _norm_of_torch(
    torch: Any, kind: str, rows: int, columns: int, amount: float
) -> Callable[[], float] | None:
    if torch is None:
        return None
    x = torch.randn(rows, columns, device="cuda")
    weight, bias = (torch.randn(columns, device="cuda") for _ in range(2))
    functional = torch.nn.functional
    work = {
        "rms": lambda: functional.rms_norm(x, (columns,), weight, 1e-5),
        "layer": lambda: functional.layer_norm(x, (columns,), weight, bias, 1e-5),
        "softmax": lambda: functional.softmax(x, 1),
    }[kind]
    return of_torch(torch, work, amount / 2)


def losses(device: AnyDevice) -> None:
    """The cross-entropy with its gradient in place, of rows longer than registers hold."""
    for element, rows, columns in LOSS_SHAPES:
        vector = 16 // element.bytes
        plans = {
            "loops": RowPlan(512, 512, vector, 32 // vector, whole=False),
            "chosen": plan_rows(device, element, columns),
        }
        amount = 2e-12 * element.bytes * rows * columns
        beside = Beside(None, amount, "TB/s")
        for name, plan in plans.items():
            if name == "chosen" and plan == plans["loops"]:
                continue

            def made(
                plan: RowPlan = plan, element: Type = element, rows: int = rows,
                columns: int = columns, amount: float = amount,
            ) -> tuple[Callable[[], float], bool]:  # fmt: skip
                return loss(device, plan, element, rows, columns, amount)

            beside.tell(f"loss {element} {rows}x{columns} {name}", made, chosen=name == "chosen")


def loss(
    device: AnyDevice, plan: RowPlan, element: Type, rows: int, columns: int, amount: float
) -> tuple[Callable[[], float], bool]:
    """What times a plan, and whether the first pass gave the losses of float64."""
    random = np.random.default_rng(columns)
    x = random.standard_normal((_ROWS, columns), np.float32)
    if element is bf16:
        held = (x.view(np.uint32) >> 16).astype(np.uint16)
        x = (held.astype(np.uint32) << 16).view(np.float32)
    else:
        held = x
    targets = random.integers(0, columns, rows).astype(np.uint32)
    memory = device.upload(np.tile(held, (rows // _ROWS, 1)))
    targets_, counts = device.upload(targets), device.upload(np.array([rows, 0], np.float32))
    results = device.upload(np.zeros(rows, np.float32))
    compiled = device.compile(
        CROSS_ENTROPY[element, True], lanes=plan.lanes, element=element, plan=plan
    )
    given = rows, columns // plan.vector, 0xFFFFFFFF, 1.0, memory, targets_, counts, results, memory
    device.launch(compiled, plan.groups(rows), *given)
    found = np.empty(rows, np.float32)
    device.download(results, found)
    wide = x.astype(np.float64)
    top = wide.max(1)
    logs = np.log(np.exp(wide - top[:, None]).sum(1)) + top
    exact = logs - wide[np.arange(_ROWS), targets[:_ROWS]]
    right = bool((np.abs(found[:_ROWS] - exact) <= 1e-5 * (1 + np.abs(exact))).all())
    run = replayed(
        device,
        lambda recording: recording.launch(compiled, plan.groups(rows), *given, label="loss"),
        amount / 3,
    )
    return run, right


def main(arguments: Sequence[str], device_name: str = "cuda") -> None:
    device = open_device(device_name)
    parts = [each for each in arguments if not each.isdigit()] or ["gemm", "norms", "loss"]
    sizes = [int(each) for each in arguments if each.isdigit()] or [4096, 1024, 512, 2048]
    if "gemm" in parts:
        products(device, sizes)
    if "norms" in parts:
        norms(device)
    if "loss" in parts:
        losses(device)


if __name__ == "__main__":
    main(sys.argv[1:])
