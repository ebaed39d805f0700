"""Benchmarks of attention gradients for queries, keys and values, against PyTorch.

The forward pass is not measured: its results, which the gradient needs, are computed beforehand.
The host does not wait between calls: Quod's are one graph, PyTorch's are queued on a stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np

from quod.bench.measure.harness import Case, Parameter, Seconds
from quod.bench.tensors.calls import DTYPES, numbers, of_dtype
from quod.bench.tensors.operations import attention_of_torch
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.recorder import recorder_of
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, QuodError
from quod.tensor import attention, attention_backward

KINDS = ("full", "causal")
_CALLS = 10
_CHECKED_ROWS = 16

Shape = tuple[int, ...]


def cases(
    device: str, against: str | None, kinds: list[str], shapes: list[str], dtype: str
) -> Iterator[Case]:
    """Yield a case for each kind and shape BxHxTxD."""
    if unknown := set(kinds) - set(KINDS):
        raise InputError(f"{min(unknown)!r} is not a kind; choose one of {', '.join(KINDS)}")
    if dtype not in DTYPES:
        raise InputError(f"{dtype!r} is not a type of tensors; choose one of {', '.join(DTYPES)}")
    opened_device = open_device(device)
    for kind in kinds or KINDS:
        for text in shapes:
            words = text.split("x")
            if len(words) != 4 or not all(word.isdecimal() and int(word) for word in words):
                raise InputError(f"--shape must be 4 sizes such as 1x8x1024x64, not {text}")
            shape = tuple(map(int, words))
            yield _case(opened_device, against, shape, dtype, causal=kind == "causal")


def _case(
    device: AnyDevice, against: str | None, shape: Shape, dtype: str, *, causal: bool
) -> Case:
    """Prepare the gradient of one shape, and check its first result."""
    random = np.random.default_rng(math.prod(shape))
    arrays = [_normal(random, shape, dtype) for _ in range(4)]
    q, k, v, output_gradient = (device.upload(array) for array in arrays)
    y, *out = (device.upload(np.zeros_like(arrays[0])) for _ in range(4))
    log_sums = device.upload(np.zeros(shape[:3], np.float32))
    attention(device, q, k, v, causal=causal, log_sums=log_sums, out=y)
    results = out[0], out[1], out[2]

    calls = 1 if in_host_memory(device) else _CALLS
    stream = device.stream("gradients").record()
    recorder = recorder_of(device, stream)
    for _ in range(calls):
        attention_backward(
            recorder, output_gradient, q, k, v, y, log_sums, causal=causal, out=results
        )
        # Kernels of one call may run concurrently, but not with the next call's.
        stream.event("call")
    recorded = stream.finish().recording

    def run(timeline: Timeline | None = None) -> None:
        device.stream("gradients").replay(recorded).run(timeline)

    run()
    gradient = np.empty_like(arrays[0])
    device.download(out[0], gradient)
    _check(arrays, gradient, dtype, causal=causal)

    # Five products of queries by keys, half of each if causal.
    flop = 10 * math.prod(shape) * shape[2] // (2 if causal else 1)
    parameters: dict[str, Parameter] = {
        "kind": "causal" if causal else "full", "shape": "x".join(map(str, shape)),
        "dtype": dtype, "GFLOP": round(flop / 1e9, 3),
    }  # fmt: skip
    peers, absent = _torch(device, shape, dtype, calls, causal=causal) if against else ({}, {})
    return Case(
        parameters, run, "us/call", operations=calls, peers=peers, absent=absent,
        peer_note="PyTorch's gradient, cuDNN's where it has one", traced=run,
    )  # fmt: skip


def _normal(random: np.random.Generator, shape: Shape, dtype: str) -> Any:
    """Draw normal numbers: zeros and constants would be unrealistically fast."""
    return of_dtype(random.standard_normal(shape, np.float32), dtype)


def _check(arrays: list[Any], gradient: Any, dtype: str, *, causal: bool) -> None:
    """Raise QuodError unless some rows of the gradient of queries are right."""
    shape = gradient.shape
    scale, unit = 1 / math.sqrt(shape[3]), {"f32": 2.0**-20, "f16": 2.0**-9, "bf16": 2.0**-6}[dtype]
    sampled_rows = np.random.default_rng(1).integers(
        0, (shape[0], shape[1], shape[2]), (_CHECKED_ROWS, 3)
    )
    for batch, head, row in sampled_rows.tolist():
        key_count = row + 1 if causal else shape[2]
        q, k, v, output_gradient = (numbers(array[batch, head]) for array in arrays)
        k, v = k[:key_count], v[:key_count]
        logits = k @ q[row] * scale
        weights = np.exp(logits - logits.max())
        weights /= weights.sum()
        weight_gradients = v @ output_gradient[row]
        terms = weights * (weight_gradients - weights @ weight_gradients)
        exact = scale * terms @ k
        # The size of the sum, which bounds the rounding of the weights and their gradients.
        size = (
            scale
            * (weights * (np.abs(weight_gradients) + np.abs(weights @ weight_gradients)))
            @ np.abs(k)
        )
        error = np.abs(numbers(gradient[batch, head, row]) - exact)
        if not (error <= 8 * unit * (size + np.abs(exact))).all():
            raise QuodError(
                f"a gradient of attention is off by up to {error.max():.3g}, which is more than "
                "rounding explains; please report it"
            )


def _torch(
    device: AnyDevice, shape: Shape, dtype: str, calls: int, *, causal: bool
) -> tuple[dict[str, Callable[[], object]], dict[str, str]]:
    try:
        torch: Any = import_module("torch")
    except ImportError:
        return {}, {"torch": "PyTorch is not installed (https://pytorch.org)"}
    on_processor = in_host_memory(device)
    if not on_processor and not torch.cuda.is_available():
        return {}, {"torch": "PyTorch found no GPU"}
    torch_dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    torch_device = "cpu" if on_processor else "cuda"
    q, k, v = (
        torch.randn(shape, device=torch_device, dtype=torch_dtype, requires_grad=True)
        for _ in range(3)
    )
    y = attention_of_torch(torch, q, k, v, causal=causal)
    output_gradient = torch.randn_like(y)
    wait = (lambda: None) if on_processor else torch.cuda.synchronize
    return {"torch": partial(_called, torch, (y, (q, k, v), output_gradient), calls, wait)}, {}


def _called(
    torch: Any, arguments: tuple[Any, ...], calls: int, wait: Callable[[], None]
) -> Seconds:
    """Compute PyTorch's gradients `calls` times; return the seconds."""
    wait()
    begin = perf_counter()
    for _ in range(calls):
        torch.autograd.grad(*arguments, retain_graph=True)
    wait()
    return Seconds(perf_counter() - begin)
