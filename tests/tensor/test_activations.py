"""Activation functions: against float64 at every edge, central differences, hostile numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import f32
from quod.kernel.ir.types import Type
from quod.tensor import (
    gelu,
    gelu_backward,
    silu,
    silu_backward,
    swiglu,
    swiglu_backward,
)  # fmt: skip
from tests.tensor.numbers import LEAST, TYPES, UNIT, Array, Guarded, amid_poison, numbers, stored

COUNTS = [1, 7, 8, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 5000]
_erfc = np.vectorize(math.erfc, otypes=[float])


def sigmoid64(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


def silu64(x: Array) -> Array:
    return x * sigmoid64(x)


def gelu64(x: Array) -> Array:
    return x * 0.5 * _erfc(-x / math.sqrt(2))


def _inner(x: Array) -> Array:
    return 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


def tanh64(x: Array) -> Array:
    return x * sigmoid64(_inner(x))


Function = Callable[..., Any]
FORWARD: dict[str, tuple[Function, Function, Function, Function]] = {
    "silu": (silu, silu_backward, silu64, lambda x: 8 + 2 * np.abs(x)),
    "gelu": (gelu, gelu_backward, gelu64, lambda x: 8 + x * x / 2),
    "gelu_tanh": (
        partial(gelu, approximate="tanh"), partial(gelu_backward, approximate="tanh"), tanh64,
        lambda x: 8 + 2 * np.abs(_inner(x)),
    ),
}  # fmt: skip
"""The function, its gradient, the same of f64, and its error in units."""


def slope64(function: Function, x: Array) -> Array:
    """By central differences, of which 1e-9 is right."""
    h = 1e-5
    return (function(x + h) - function(x - h)) / (2 * h)


def inputs(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).normal(0, 4, count).clip(-12, 12)


def is_near(actual: Array, exact: Array, arithmetic: Array | float, element: Type) -> None:
    """Within what f32 may make wrong, and one rounding to the element."""
    rounding = UNIT[element] / 2 * np.abs(exact) * 1.01 + LEAST[element]
    error, bound = np.abs(actual - exact), arithmetic + rounding + 2.0**-100
    worst = int(np.argmax(error - bound))
    assert (error <= bound).all(), (worst, actual[worst], exact[worst])


@pytest.mark.crossed("device", "element", "name")
@pytest.mark.parametrize("element", TYPES, ids=str)
@pytest.mark.parametrize("name", FORWARD)
def test_edge_shapes(device: AnyDevice, name: str, element: Type) -> None:
    function, backward, exact64, units = FORWARD[name]
    for count in [7, 129] if device.kind == "webgpu" else COUNTS:
        stored_x = stored(inputs(count, 1), element)
        gradient = stored(inputs(count, 2), element)
        x, dy = numbers(stored_x, element), numbers(gradient, element)
        room = Guarded(device, stored_x)
        memory = amid_poison(device, stored_x)
        assert function(device, memory, out=room.memory) is room.memory
        exact = exact64(x)
        is_near(
            numbers(room.array(), element), exact, units(x) * UNIT[f32] * np.abs(exact), element
        )
        room = Guarded(device, stored_x)
        backward(device, amid_poison(device, gradient), memory, out=room.memory)
        largest = np.abs(dy) * (16 + 2 * np.abs(x)) * (1 + np.abs(x))
        exact = dy * slope64(exact64, x)
        is_near(
            numbers(room.array(), element), exact, largest * UNIT[f32] + 1e-8 * np.abs(dy), element
        )


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_swiglu(device: AnyDevice, element: Type) -> None:
    for count in [129] if device.kind == "webgpu" else COUNTS:
        operands = [stored(inputs(count, seed), element) for seed in range(3)]
        dy, gate, up = (numbers(each, element) for each in operands)
        memory = [amid_poison(device, each) for each in operands]
        room = Guarded(device, operands[0])
        swiglu(device, *memory[1:], out=room.memory)
        exact, units = silu64(gate) * up, 16 + 2 * np.abs(gate)
        is_near(numbers(room.array(), element), exact, units * UNIT[f32] * np.abs(exact), element)
        rooms = [Guarded(device, operands[0]) for _ in range(2)]
        out = (rooms[0].memory, rooms[1].memory)
        assert swiglu_backward(device, *memory, out=out) == out
        largest = np.abs(dy) * np.maximum(1, np.abs(up)) * units * (1 + np.abs(gate))
        for room, exact in zip(
            rooms, (dy * up * slope64(silu64, gate), dy * silu64(gate)), strict=True
        ):
            arithmetic = largest * (UNIT[f32] + 1e-9)
            is_near(numbers(room.array(), element), exact, arithmetic, element)


@pytest.mark.parametrize("name", FORWARD)
def test_on_an_emulated_gpu(name: str) -> None:
    function, backward, exact64, units = FORWARD[name]
    with open_device("emulated:ptx") as device:
        for count in (1, 7, 127, 516, 4100):
            x = inputs(count, 3).astype(np.float32)
            runs = [function(device, x) for _ in range(2)]
            exact = exact64(x.astype(np.float64))
            is_near(runs[0], exact, units(x) * UNIT[f32] * np.abs(exact), f32)
            assert np.array_equal(runs[0].view(np.uint32), runs[1].view(np.uint32))
            slope = backward(device, np.ones_like(x), x)
            assert np.abs(slope - slope64(exact64, x.astype(np.float64))).max() < 1e-5


@pytest.mark.crossed("device", "name")
@pytest.mark.parametrize("name", FORWARD)
def test_range_limits(device: AnyDevice, name: str) -> None:
    function, backward, *_ = FORWARD[name]
    x = np.array([0, -0.0, 3e38, -3e38, 100, -100, 30, 1e-30], np.float32)
    y, slope = np.empty_like(x), np.empty_like(x)
    memory = device.upload(x)
    device.download(function(device, memory), y)
    device.download(backward(device, device.upload(np.ones_like(x)), memory), slope)
    assert np.allclose(y, [0, 0, 3e38, 0, 100, 0, 30, 5e-31], rtol=1e-6, atol=1e-37)
    assert np.allclose(slope, [0.5, 0.5, 1, 0, 1, 0, 1, 0.5], rtol=1e-6, atol=1e-37)


@pytest.mark.crossed("name", "where")
@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("where", ["cpu", "emulated:ptx"])
def test_non_finite_values_stay_in_place(where: str, name: str) -> None:
    function = FORWARD[name][0]
    x = np.arange(20, dtype=np.float32)
    with open_device(where) as device:
        usual = function(device, x)
        x[3], x[7] = np.nan, np.inf
        y = function(device, x, out=x)
    assert y is x
    assert np.isnan(y[3])
    assert y[7] == np.inf
    assert np.array_equal(np.delete(y, [3, 7]), np.delete(usual, [3, 7]))


X = np.zeros((4, 6), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: silu(d, X.astype(np.float64)), "x is of float64"),
        (lambda d: silu(d, X.T), "x has strides"),
        (lambda d: silu(d, X, out=X[:2].copy()), r"out must be f32 of shape \(4, 6\) to go with x"),
        (lambda d: silu_backward(d, X[:2], X), r"gradient must be f32 of shape \(4, 6\) to go"),
        (lambda d: gelu(d, X, approximate="erf"), 'approximate must be "none" or "tanh", not'),
        (lambda d: gelu_backward(d, X, X, approximate=None), "approximate must be"),
        (lambda d: swiglu(d, X.astype(np.float16), X), "gate must be f32 .* to go with up"),
        (lambda d: swiglu_backward(d, X, X, X, out=X), "out must be two tensors, for gate and up"),
        (
            lambda d: swiglu_backward(d, X, X, X, out=(X.copy(), X[0])),
            r"out\[1\] must be f32 of shape \(4, 6\)",
        ),
    ],
)
def test_bad_input(call: Callable[[Any], Any], message: str) -> None:
    with open_device("cpu") as device, pytest.raises(InputError, match=message):
        call(device)


def test_empty() -> None:
    assert silu("cpu", np.zeros((0, 3), np.float32)).shape == (0, 3)
