"""Time the f32 kernel variants of products, norms and losses against torch.

    python benchmarks/cuda_f32.py                    all, about a minute and a half on an H200
    python benchmarks/cuda_f32.py gemm 512 4096      products of some sizes
    python benchmarks/cuda_f32.py norms loss         rows alone

A line a variant: whether some rows agree with float64, microseconds, TFLOP/s or TB/s, and of torch,
which does the same in the same process, in turn. Both are graphs of launches; medians of five. A
variant that fails has its error for a line. The plan that Quod chooses is marked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import checkout  # noqa: F401
import numpy as np
from beside_torch import replayed, replayed_by_torch, times, torch_with_gpu

from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.frozen import frozen, replace
from quod.kernel import bf16, f32
from quod.kernel.ir.types import Type
from quod.tensor.matmul.form import GemmForm
from quod.tensor.matmul.kernel import GEMM
from quod.tensor.matmul.plan import AnyGemmPlan, FmaPlan, GemmPlan, plan_gemm
from quod.tensor.rows.cross_entropy_kernels import CROSS_ENTROPY
from quod.tensor.rows.kernels import LAYER_NORM, RMS_NORM, SOFTMAX
from quod.tensor.rows.plan import RowPlan, plan_rows

_REPEATS = 5
_SECONDS = 0.015
"""The approximate duration of a graph in seconds."""
NORM_SHAPES = ((4096, 32768), (32768, 4096))
LOSS_SHAPES = ((f32, 4096, 65536), (bf16, 4096, 131072), (f32, 4096, 131072))
_ROWS = 64
"""The number of random rows; longer tensors repeat them."""

WAYS = {"nn": GemmForm(), "nt": GemmForm(False, True), "tn": GemmForm(True, False)}

LARGE: dict[str, AnyGemmPlan] = {
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
"""Plans for matrices with many tiles; `registers` has no asynchronous copies."""
SMALL: dict[str, AnyGemmPlan] = {
    "128x64 2": FmaPlan((128, 64), (32, 64), (8, 8), 32, 3, slices=2, ahead=True),
    "64x32 8": FmaPlan((64, 32), (64, 32), (8, 8), 32, 4, slices=8),
    "128x64 4": FmaPlan((128, 64), (32, 64), (8, 8), 32, 3, slices=4),
    "64x64 4": FmaPlan((64, 64), (64, 32), (8, 8), 32, 4, slices=4),
    "64x32 8 K64": FmaPlan((64, 32), (64, 32), (8, 8), 64, 3, slices=8, ahead=True),
    "64x32 4": FmaPlan((64, 32), (64, 32), (8, 8), 32, 4, slices=4, ahead=True),
}
"""Plans for matrices with few tiles, by the number of slices."""
TWO_OF_LARGE = {name: LARGE[name] for name in ("128x256", "128x128")}
FEW = ("128x256", "128x128", "256x128", "128x64 2", "64x32 8")
"""Plans for transposed operands."""


class Beside:
    """Time variants alternately with torch, and print a line for each."""

    def __init__(self, peer: Callable[[], float] | None, amount: float, unit: str) -> None:
        self._peer, self._amount, self._unit = peer, amount, unit

    def tell(
        self, name: str, prepare: Callable[[], tuple[Callable[[], float], bool]], *, chosen: bool
    ) -> None:
        """Time a variant; `prepare` returns its timer, and whether its results are right."""
        # What fails here is one variant, and not to end the others.
        try:
            run, right = prepare()
            times = [(run(), self._peer() if self._peer else 0.0) for _ in range(_REPEATS)]
        except Exception as error:
            print(f"{name:42} FAILED {type(error).__name__}: {str(error)[:200]}", flush=True)
            return
        time, other = (median(column) for column in zip(*times, strict=True))
        line = f"{name:42} {'right' if right else 'WRONG'} {1e6 * time:9.1f} us "
        line += f"{self._amount / time:7.2f} {self._unit}"
        if other:
            line += (
                f"  torch {1e6 * other:9.1f} us {self._amount / other:7.2f}  {other / time:5.2f}"
            )
        print(line + ("  <- chosen" if chosen else ""), flush=True)


# --- products


@frozen(eq=False)
class Product:
    """A product: a, b and c in memory, some rows of c in float64, and their error bound."""

    memory: list[Any]
    size: int
    form: GemmForm
    rows: list[int]
    exact: Any
    bound: Any

    def timed(self, device: AnyDevice, plan: AnyGemmPlan) -> tuple[Callable[[], float], bool]:
        """Return a timer of a plan, and whether its result is right."""
        (a, b, c), size = self.memory, self.size
        compiled = device.compile(
            GEMM[f32], lanes=plan.lanes, element=f32, plan=plan, form=self.form
        )
        product = np.full((size, size), np.nan, np.float32)
        device.upload(product, into=c)
        arguments = size, size, size, 0, 1.0, a, b, a, a, c
        run = replayed(
            device,
            lambda recording: recording.launch(
                compiled, plan.groups(size, size), *arguments, label="gemm"
            ),
            times(2e-12 * size**3 / 40, _SECONDS),
        )
        device.download(c, product)
        return run, bool((np.abs(product[self.rows] - self.exact) <= self.bound).all())


def products(device: AnyDevice, sizes: Sequence[int]) -> None:
    """Time every variant of nn, and a few of nt and tn, at each size."""
    torch = torch_with_gpu()
    for size in sizes:
        random = np.random.default_rng(size)
        a, b = (random.standard_normal((size, size), np.float32) for _ in range(2))
        memory = [device.upload(a), device.upload(b), device.upload(a)]
        rows = [0, size // 3, size - 1]
        amount = 2e-12 * size**3
        plans: dict[str, AnyGemmPlan] = LARGE if size > 1024 else SMALL | TWO_OF_LARGE
        for way, form in WAYS.items():
            left, right = a.T if form.transpose_a else a, b.T if form.transpose_b else b
            left, right = left[rows].astype(np.float64), right.astype(np.float64)
            bound = (np.abs(left) @ np.abs(right)) * (size + 3) * 2.0**-22
            case = Product(memory, size, form, rows, left @ right, bound)
            peer = None if torch is None else product_of_torch(torch, size, form, amount)
            beside = Beside(peer, amount, "TFLOP/s")
            best = plan_gemm(device, f32, (size,) * 3, (size,) * 3)
            for name, plan in plans.items():
                if way == "nn" or name in FEW:
                    used = replace(plan, a_vector=4, b_vector=4, c_vector=4)
                    beside.tell(
                        f"gemm {size} {way} {name}", partial(case.timed, device, used),
                        chosen=used == best,
                    )  # fmt: skip


def product_of_torch(torch: Any, size: int, form: GemmForm, amount: float) -> Callable[[], float]:
    """Return a timer of torch's product."""
    x, y, z = (torch.randn(size, size, device="cuda") for _ in range(3))
    x, y = x.T if form.transpose_a else x, y.T if form.transpose_b else y
    return replayed_by_torch(torch, lambda: torch.mm(x, y, out=z), times(amount / 40, _SECONDS))


# --- rows


def long_norms() -> dict[str, RowPlan]:
    """Plans for rows of 32,768 elements: what is in registers and in shared memory, how many
    instances have a row, and how many workgroups a multiprocessor."""
    row = RowPlan(512, 512, 4, 16, single_step=True, full=True)
    return {
        "1024 instances": RowPlan(1024, 1024, 4, 8, single_step=True, full=True),
        "two, 10 of 16 copied": replace(row, copied=10, resident=2),
        "two of 256, 14 of 32 copied": RowPlan(
            256, 256, 4, 32, single_step=True, copied=14, resident=2, full=True
        ),
        "in registers, full": row,
        "in registers": replace(row, full=False),
    }


@frozen(eq=False)
class Norm:
    """A function of rows: x, vectors and y in memory, and its last rows in float64."""

    kernel: Any
    rows: int
    columns: int
    x: Any
    vectors: list[Any]
    y: Any
    exact: Any

    def timed(self, device: AnyDevice, plan: RowPlan) -> tuple[Callable[[], float], bool]:
        """Return a timer of a plan, and whether its result is right."""
        rows, columns = self.rows, self.columns
        compiled = device.compile(self.kernel, lanes=plan.lanes, element=f32, plan=plan)
        numbers = [1e-5] if self.vectors else []
        arguments = rows, columns // plan.vector, *numbers, self.x, *self.vectors, self.y
        run = replayed(
            device,
            lambda recording: recording.launch(
                compiled, plan.groups(rows), *arguments, label="rows"
            ),
            times(2e-12 * rows * columns, _SECONDS),
        )
        outputs = np.empty(self.exact.shape, np.float32)
        first = rows - len(outputs)
        device.download(self.y.slice(4 * first * columns, 4 * rows * columns), outputs)
        near = np.abs(outputs - self.exact) <= 2e-5 * (1 + np.abs(self.exact))
        return run, bool(near.all())


def norms(device: AnyDevice) -> None:
    """Time RMS norm, layer norm and softmax of 4096 rows of 32,768, and of 32,768 rows of 4096."""
    torch = torch_with_gpu()
    for rows, columns in NORM_SHAPES:
        random = np.random.default_rng(columns)
        x = random.standard_normal((_ROWS, columns), np.float32)
        weight, bias = (random.standard_normal(columns, np.float32) for _ in range(2))
        memory = device.upload(np.tile(x, (rows // _ROWS, 1)))
        vectors, y = [device.upload(weight), device.upload(bias)], device.allocate(memory.nbytes)
        exact = _exact(x[-3:].astype(np.float64), weight, bias)
        amount = 8e-12 * rows * columns
        kinds = ("rms", RMS_NORM, 1), ("layer", LAYER_NORM, 2), ("softmax", SOFTMAX, 0)
        for kind, kernels, count in kinds:
            case = Norm(kernels[f32], rows, columns, memory, vectors[:count], y, exact[kind])
            peer = None if torch is None else norm_of_torch(torch, kind, rows, columns, amount)
            beside = Beside(peer, amount, "TB/s")
            best = plan_rows(device, f32, columns, shared_vector_count=count)
            plans = {"": best} if columns <= 16384 else long_norms()
            for name, plan in plans.items():
                beside.tell(
                    f"{kind} {rows}x{columns} {name}", partial(case.timed, device, plan),
                    chosen=plan == best,
                )  # fmt: skip


def _exact(x: Any, weight: Any, bias: Any) -> dict[str, Any]:
    """Return the functions of rows in float64."""
    mean = x.mean(1, keepdims=True)
    powers = np.exp(x - x.max(1, keepdims=True))
    return {
        "rms": x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * weight,
        "layer": (x - mean) / np.sqrt(((x - mean) ** 2).mean(1, keepdims=True) + 1e-5) * weight
        + bias,
        "softmax": powers / powers.sum(1, keepdims=True),
    }


def norm_of_torch(
    torch: Any, kind: str, rows: int, columns: int, amount: float
) -> Callable[[], float]:
    """Return a timer of torch's function."""
    x = torch.randn(rows, columns, device="cuda")
    weight, bias = (torch.randn(columns, device="cuda") for _ in range(2))
    functional = torch.nn.functional
    work = {
        "rms": lambda: functional.rms_norm(x, (columns,), weight, 1e-5),
        "layer": lambda: functional.layer_norm(x, (columns,), weight, bias, 1e-5),
        "softmax": lambda: functional.softmax(x, 1),
    }[kind]
    return replayed_by_torch(torch, work, times(amount / 2, _SECONDS))


def losses(device: AnyDevice) -> None:
    """Time cross-entropy with its gradient in place, for rows too long for registers."""
    for element, rows, columns in LOSS_SHAPES:
        vector = 16 // element.bytes
        loops = RowPlan(512, 512, vector, 32 // vector, single_step=False)
        best = plan_rows(device, element, columns)
        beside = Beside(None, 2e-12 * element.bytes * rows * columns, "TB/s")
        for name, plan in {"in registers and shared memory": best, "loops": loops}.items():
            if name == "loops" or best != loops:
                beside.tell(
                    f"loss {element} {rows}x{columns} {name}",
                    partial(loss, device, plan, element, rows, columns), chosen=plan == best,
                )  # fmt: skip


def loss(
    device: AnyDevice, plan: RowPlan, element: Type, rows: int, columns: int
) -> tuple[Callable[[], float], bool]:
    """Return a timer of a plan, and whether the first pass agrees with float64."""
    random = np.random.default_rng(columns)
    x = random.standard_normal((_ROWS, columns), np.float32)
    held: Any = x
    if element is bf16:
        held = (x.view(np.uint32) >> 16).astype(np.uint16)
        x = (held.astype(np.uint32) << 16).view(np.float32)
    targets = random.integers(0, columns, rows).astype(np.uint32)
    memory = device.upload(np.tile(held, (rows // _ROWS, 1)))
    classes, counts = device.upload(targets), device.upload(np.array([rows, 0], np.float32))
    losses = np.zeros(rows, np.float32)
    results = device.upload(losses)
    compiled = device.compile(
        CROSS_ENTROPY[element, True], lanes=plan.lanes, element=element, plan=plan
    )
    arguments = (
        rows,
        columns // plan.vector,
        0xFFFFFFFF,
        1.0,
        memory,
        classes,
        counts,
        results,
        memory,
    )
    device.launch(compiled, plan.groups(rows), *arguments)
    device.download(results, losses)
    wide = x.astype(np.float64)
    top = wide.max(1)
    logs = np.log(np.exp(wide - top[:, None]).sum(1)) + top
    exact = logs - wide[np.arange(_ROWS), targets[:_ROWS]]
    right = bool((np.abs(losses[:_ROWS] - exact) <= 1e-5 * (1 + np.abs(exact))).all())
    run = replayed(
        device,
        lambda recording: recording.launch(compiled, plan.groups(rows), *arguments, label="loss"),
        times(6e-13 * element.bytes * rows * columns, _SECONDS),
    )
    return run, right


def main(arguments: Sequence[str], device_name: str = "cuda") -> None:
    device = open_device(device_name)
    parts = [each for each in arguments if not each.isdigit()] or ["gemm", "norms", "loss"]
    sizes = [int(each) for each in arguments if each.isdigit()] or [4096, 1024, 512, 2048]
    work: dict[str, list[Callable[[], None]]] = {
        "gemm": [partial(products, device, [size]) for size in sizes],
        "norms": [partial(norms, device)],
        "loss": [partial(losses, device)],
    }
    for part in parts:
        for each in work[part]:
            # What fails beside the variants, such as torch, is not to end the rest either.
            try:
                each()
            except Exception as error:
                print(f"{part} FAILED {type(error).__name__}: {str(error)[:200]}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
