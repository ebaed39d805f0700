"""Functions that launch several kernels, recorded: replays are calls with what is there then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import open_device, recorder_of
from quod.device.protocol import AnyDevice
from quod.tensor import (
    adamw,
    adamw_rates,
    attention_backward,
    attention_decode,
    clip_gradients,
    cross_entropy,
    gemm,
    gemm_fp8,
    gemm_int8,
    gradient_norm,
    layer_norm_backward,
    lora_backward,
    quantise_fp8,
    reduce_mean,
)
from tests.tensor.numbers import Array

Given = Callable[[np.random.Generator], list[Array]]


def of(*shapes: tuple[int, ...]) -> Given:
    """Random tensors."""
    return lambda random: [random.normal(0, 1, shape).astype(np.float32) for shape in shapes]


def with_targets(random: np.random.Generator) -> list[Array]:
    return [*of((9, 17))(random), random.integers(0, 17, 9).astype(np.int32)]


def with_lengths(random: np.random.Generator) -> list[Array]:
    tensors = of((2, 4, 1, 16), (2, 2, 90, 16), (2, 2, 90, 16))(random)
    return [*tensors, random.integers(0, 90, 2).astype(np.int32)]


def with_rates(random: np.random.Generator) -> list[Array]:
    *tensors, second = of(*[(9, 17)] * 4)(random)
    return [*tensors, abs(second), adamw_rates(int(random.integers(1, 9)))]


def bytes_with_scales(random: np.random.Generator) -> list[Array]:
    a, b = (random.integers(-128, 128, (n, 16)).astype(np.int8) for n in (9, 5))
    return [a, b, *of((9,))(random)]


def with_bits(random: np.random.Generator) -> list[Array]:
    a, b = (random.integers(0, 0x48, (n, 16)).astype(np.uint8) for n in (9, 5))
    return [a, b, *of((9,))(random)]


def trained(device: AnyDevice, *operands: Any) -> Any:
    """A step whose gradients are clipped."""
    *tensors, rates = operands
    norm = gradient_norm(device, [tensors[1]])
    adamw(device, *tensors, rates=rates, max_norm=1.0, norm=norm)
    return norm, *tensors


def clipped(device: AnyDevice, *gradients: Any) -> Any:
    return clip_gradients(device, list(gradients), 1.0), *gradients


CASES: dict[str, tuple[Given, Callable[..., Any]]] = {
    "reduce_mean": (of((300, 7)), lambda device, x: reduce_mean(device, x, axis=0)),
    "layer_norm_backward": (of((300, 20), (300, 20), (20,)), layer_norm_backward),
    "attention_backward": (
        of((4, 9, 16), (4, 9, 16), (2, 20, 16), (2, 20, 16), (4, 9, 16), (4, 9)),
        attention_backward,
    ),
    "attention_decode": (
        with_lengths,
        lambda device, *inputs: attention_decode(device, *inputs[:3], lengths=inputs[3], parts=3),
    ),
    "cross_entropy": (
        with_targets, lambda device, *operands: cross_entropy(device, *operands, check=False)
    ),
    "gemm of nothing": (
        of((9, 0), (0, 5), (5,)), lambda device, a, b, c: gemm(device, a, b, bias=c)
    ),
    "gemm_int8": (
        bytes_with_scales,
        lambda device, a, b, c: gemm_int8(device, a, b, transpose_b=True, row_scales=c),
    ),
    "gemm_fp8": (
        with_bits,
        lambda device, a, b, c: gemm_fp8(
            device, a, b, transpose_b=True, scale_a=c, scale_b=0.5, dtype="e4m3"
        ),
    ),
    "quantise_fp8": (of((9, 70)), lambda device, x: quantise_fp8(device, x, scales="tensor")),
    "lora_backward": (of((9, 5), (9, 17), (5, 17), (3, 17), (5, 3)), lora_backward),
    "clip_gradients": (of((9, 17), (3000,)), clipped),
    "adamw": (with_rates, trained),
}  # fmt: skip


@pytest.mark.crossed("name", "case")
@pytest.mark.parametrize("name", ["cpu", "emulated:ptx"])
@pytest.mark.parametrize("case", CASES)
def test_replays_equal_direct_calls(name: str, case: str) -> None:
    draw, call = CASES[case]
    first, *others = (draw(np.random.default_rng(seed)) for seed in range(3))
    with open_device(name) as device:

        def bits(outputs: Any) -> list[bytes]:
            arrays = []
            for tensor in outputs if isinstance(outputs, tuple) else (outputs,):
                arrays.append(np.empty(tensor.shape, tensor.dtype))
                device.download(tensor, arrays[-1])
            return [array.tobytes() for array in arrays]

        memory = [device.upload(x) for x in first]
        stream = device.stream().record()
        recorded_outputs = call(recorder_of(device, stream), *memory)
        recording = stream.finish().recording
        for other in others:
            for x, room in zip(other, memory, strict=True):
                device.upload(x, into=room)
            device.stream().replay(recording).run()
            # On a processor memory is that of the arrays.
            assert bits(recorded_outputs) == bits(
                call(device, *(device.upload(x.copy()) for x in other))
            )
