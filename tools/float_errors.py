"""Measure the errors of f32 functions against exact results, for all f32 values.

    python -m tools.float_errors                                 every function, on the processor
    python -m tools.float_errors --device cuda --function exp2   one of them on a GPU
    python -m tools.float_errors --every 257                     each 257th number: of all ranges

The exact results are those of f64 functions, whose own errors are below 2**-28 units in the last
place (ULP) of an f32. Errors are in ULP of the exact result. WGSL may treat subnormal numbers as
zero, so only its errors for normal operands and results count. Prints a table; the exit code is 1
if an error exceeds the bound in the op table or in `quod.kernel.builder.float_functions`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.frozen import frozen
from quod.kernel import F32, U32, Builder, Pointer, Value, f32, kernel
from quod.kernel.builder.float_functions import FUNCTIONS
from quod.kernel.ops.scalar import OPS

Array = np.ndarray[Any, Any]

EXACT: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "tanh": np.tanh,
    "rsqrt": lambda a: 1 / np.sqrt(a), "sqrt": np.sqrt, "div": lambda a: 1 / a,
    "rcp": lambda a: 1 / a,
}  # fmt: skip
"""Each function by the name of its op or method; `div` computes 1 / a."""

NORMAL = np.float32(np.finfo(np.float32).tiny)
"""The smallest normal number."""

_ALL = 1 << 32
_CHUNK = 1 << 20


@frozen
class Worst:
    """The largest error of some results, in ULP, and the first operand with this error."""

    error: float
    operand: float


@frozen
class Row:
    """The measurement of one function."""

    function: str
    target: str
    operands: int
    stated: float
    worst: Worst

    @property
    def is_within(self) -> bool:
        return self.worst.error <= self.stated


def ulps(results: Array, exact: Array) -> Array:
    """Return the distances of results from exact results, in ULP of the exact results."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, 0))).astype(np.float64)
        errors = np.abs(results.astype(np.float64) - exact) / unit
        # An exact result beyond the range must give infinity; otherwise the error is infinite.
        edge = np.isinf(rounded) | np.isinf(results)
        errors = np.where(edge, np.where(rounded == results, 0, np.inf), errors)
    any_nan, both_nan = np.isnan(exact) | np.isnan(results), np.isnan(exact) & np.isnan(results)
    return np.where(any_nan, np.where(both_nan, 0, np.inf), errors)


def worst_of(name: str, target: str, x: Array, results: Array) -> Worst:
    """Return the largest error of a function's results on a target."""
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64))
        errors = ulps(results, exact)
        if target == "wgsl":
            errors[(np.abs(exact) < NORMAL) | (np.abs(x) < NORMAL)] = 0
    index = int(np.argmax(errors))
    return Worst(float(errors[index]), float(x[index]))


def stated(name: str, target: str) -> float:
    """Return the stated error bound of a function on a target."""
    row, function = OPS.get(name), FUNCTIONS.get(name)
    if row is not None and (target in row.ulps or function is None):
        return row.ulps.get(target, 0.5)
    assert function is not None
    return function.ulps_in_wgsl if target == "wgsl" else function.ulps


def apply(k: Builder, name: str, x: Value) -> Value:
    """Apply the function to a value."""
    result: Value = 1.0 / x if name == "div" else getattr(k, name)(x)
    return result


@kernel
def results(k: Builder, first: U32, every: U32, out: Pointer[F32], *, name: str) -> None:
    """out[i] = the function of the f32 value whose bits are first + i * every."""
    i = k.global_id()
    out[i] = apply(k, name, k.bitcast(first + i * every, f32))


def chunks(device: AnyDevice, name: str, every: int) -> Iterator[tuple[Array, Array]]:
    """Yield chunks of the operands, each `every`th f32 value, with the device's results."""
    compiled = device.compile(results, name=name)
    count = -(-min(_CHUNK, -(-_ALL // every)) // compiled.lanes) * compiled.lanes
    memory = device.allocate(4 * count)
    steps = np.arange(count, dtype=np.uint64) * np.uint64(every)
    for first in range(0, _ALL, count * every):
        device.launch(compiled, count // compiled.lanes, first, every % _ALL, memory)
        computed = np.empty(count, np.float32)
        device.download(memory, computed)
        yield (steps + np.uint64(first)).astype(np.uint32).view(np.float32), computed


def measure(device: AnyDevice, name: str, every: int, threads: int) -> Row:
    """Measure one function on a device; NumPy computes the exact results on several threads."""
    target = device.machine(device.lanes).target
    worst, operands = Worst(0.0, 0.0), 0
    waiting: deque[Future[Worst]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for x, results in chunks(device, name, every):
            operands += len(x)
            waiting.append(pool.submit(worst_of, name, target, x, results))
            while len(waiting) > 2 * threads:
                worst = _worse(worst, waiting.popleft().result())
        for future in waiting:
            worst = _worse(worst, future.result())
    return Row(name, target, min(operands, _ALL), stated(name, target), worst)


def _worse(a: Worst, b: Worst) -> Worst:
    return b if b.error > a.error else a


def text_of(row: Row) -> str:
    """Return a line of the table."""
    note = "" if row.is_within else "  ABOVE WHAT IS STATED"
    return (
        f"{row.function:8} {row.target:6} {row.operands:>13,} {row.stated:>7g} "
        f"{row.worst.error:>9.4f}  {row.worst.operand!r}{note}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if an error exceeds its bound."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu", help="as `quod devices` lists them")
    parser.add_argument("--function", choices=EXACT, action="append", help="by default all")
    parser.add_argument(
        "--every", type=int, default=1, help="distance of the numbers that are taken"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    if not 1 <= options.every <= 1 << 20 or options.threads < 1:
        parser.error("--every is from 1 to 1048576, and --threads from 1 on")
    device = open_device(options.device)
    print(f"{'function':8} {'target':6} {'operands':>13} {'stated':>7} {'measured':>9}  at")
    ok = True
    for name in options.function or EXACT:
        row = measure(device, name, options.every, options.threads)
        print(text_of(row), flush=True)
        ok = ok and row.is_within
    device.close()
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
