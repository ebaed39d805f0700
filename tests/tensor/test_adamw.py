"""AdamW: against float64 at every edge, many steps, steps that are known, bad input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import bf16, f16, f32
from quod.kernel.ir.types import Type
from quod.tensor import adamw, adamw_rates, gradient_norm
from tests.support.devices import present
from tests.tensor.numbers import LEAST, UNIT, Array, Guarded, amid_poison, numbers, stored

COUNTS = [1, 7, 8, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 5000]
TYPES = [(f32, f32), (f16, f16), (f16, f32), (bf16, bf16), (bf16, f32)]
"""Types of parameters and gradients."""
SETTINGS = {"learning_rate": 0.01, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-6,
            "weight_decay": 0.1}  # fmt: skip


def step64(
    p: Array, g: Array, m: Array, v: Array, step: int, *, learning_rate: float = 1e-3,
    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, weight_decay: float = 0.01,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Algorithm 2 of the paper, line by line, with the decay times the learning rate."""
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    first, second = m / (1 - beta1**step), v / (1 - beta2**step)
    p = p - learning_rate * (first / (np.sqrt(second) + epsilon) + weight_decay * p)
    return p, m, v


def case(count: int, parameter: Type, gradient: Type) -> list[Array]:
    """Parameters, a gradient and moments."""
    random = np.random.default_rng(count)
    return [
        stored(random.normal(0, 1, count), parameter), stored(random.normal(0, 1, count), gradient),
        stored(random.normal(0, 0.3, count), f32), stored(random.chisquare(1, count), f32),
    ]  # fmt: skip


def check(device: AnyDevice, parameter: Type, gradient: Type, count: int) -> None:
    """One step of memory between guards."""
    tensors = case(count, parameter, gradient)
    rooms = [Guarded(device, each, holds=True) for each in tensors]
    adamw(device, *[room.memory for room in rooms], step=3, **SETTINGS)
    kinds = (parameter, gradient, f32, f32)
    p, g, m, v = (numbers(*pair) for pair in zip(tensors, kinds, strict=True))
    wanted = step64(p, g, m, v, 3, **SETTINGS)
    updated = [numbers(room.array(), kind) for room, kind in zip(rooms, kinds, strict=True)]
    assert np.array_equal(rooms[1].array(), tensors[1])
    size = np.abs(m) + np.abs(g)
    assert (np.abs(updated[2] - wanted[1]) <= 3 * UNIT[f32] * size).all()
    assert (np.abs(updated[3] - wanted[2]) <= 3 * UNIT[f32] * wanted[2]).all()
    change = 0.01 * size / np.sqrt(wanted[2])
    arithmetic = UNIT[f32] * (np.abs(p) + 40 * change)
    rounding = UNIT[parameter] / 2 * np.abs(wanted[0]) * 1.01 + LEAST[parameter]
    assert (np.abs(updated[0] - wanted[0]) <= arithmetic + rounding).all()


@pytest.mark.crossed("device", "parameter")
@pytest.mark.parametrize(("parameter", "gradient"), TYPES, ids=str)
def test_edge_shapes(device: AnyDevice, parameter: Type, gradient: Type) -> None:
    for count in [7, 129] if device.kind == "webgpu" else COUNTS:
        check(device, parameter, gradient, count)


def test_on_an_emulated_gpu() -> None:
    with open_device("emulated:ptx") as device:
        for count in (1, 7, 127, 516, 4100):
            check(device, f32, f32, count)
            check(device, bf16, f32, count)


def test_the_first_step_is_the_sign(device: AnyDevice) -> None:
    """Without decay the first step is the learning rate, whatever the gradient's size."""
    g = np.array([3, -3, 1e-3, -1e4, 1e8, 0], np.float32)
    memory = [device.upload(each) for each in (np.ones_like(g), g, 0 * g, 0 * g)]
    adamw(device, *memory, step=1, learning_rate=0.25, weight_decay=0, epsilon=1e-12)
    updated = np.empty_like(g)
    device.download(memory[0], updated)
    assert np.allclose(updated, 1 - 0.25 * np.sign(g), rtol=1e-6)


def test_weight_decay_is_decoupled(device: AnyDevice) -> None:
    """Parameters without a gradient decay, and their moments stay 0."""
    p = np.linspace(-2, 2, 33).astype(np.float32)
    memory = [device.upload(each) for each in (p.copy(), 0 * p, 0 * p, 0 * p)]
    for step in (1, 2):
        adamw(device, *memory, step=step, learning_rate=0.5, weight_decay=0.5)
    updated, moments = np.empty_like(p), np.empty_like(p)
    device.download(memory[0], updated)
    assert np.allclose(updated, p * 0.75**2, rtol=1e-6)
    for each in memory[2:]:
        device.download(each, moments)
        assert not moments.any()


def test_many_steps(device: AnyDevice) -> None:
    """The parameters of a least squares problem go as in f64, and find its solution."""
    random = np.random.default_rng(5)
    a, wanted = random.normal(0, 1, (40, 9)), random.normal(0, 1, 9)
    p, m, v = np.zeros(9), np.zeros(9), np.zeros(9)
    memory = [device.upload(np.zeros(9, np.float32)) for _ in range(4)]
    parameters = np.zeros(9, np.float32)
    for step in range(1, 301):
        device.upload((a.T @ (a @ (parameters - wanted)) / 40).astype(np.float32), into=memory[1])
        adamw(device, *memory, step=step, learning_rate=0.03, weight_decay=0.0)
        device.download(memory[0], parameters)
        p, m, v = step64(
            p, a.T @ (a @ (p - wanted)) / 40, m, v, step, learning_rate=0.03, weight_decay=0.0
        )
        assert np.abs(parameters - p).max() < 1e-4
    assert np.abs(parameters - wanted).max() < 0.02


@pytest.mark.parametrize("most", [0.5, 1e4])
def test_clipped_and_scaled(device: AnyDevice, most: float) -> None:
    """The step equals one of gradients that were scaled and clipped before."""
    tensors = case(70, f32, f32)
    memory = [device.upload(each.copy()) for each in tensors]
    norm = gradient_norm(device, [memory[1]])
    adamw(device, *memory, step=2, gradient_scale=0.125, max_norm=most, norm=norm)
    p, g, m, v = (each.astype(np.float64) for each in tensors)
    g = g * 0.125
    g = g * min(1, most / (np.sqrt((g * g).sum()) + 1e-6))
    updated = np.empty_like(tensors[0])
    for at, wanted in zip((0, 2, 3), step64(p, g, m, v, 2), strict=True):
        device.download(memory[at], updated)
        assert np.allclose(updated, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("clipped", [False, True])
def test_rates_in_memory_match_scalar_rates_bitwise(device: AnyDevice, clipped: bool) -> None:
    """Memory of whatever step's rates, amid NaN."""
    settings = {"learning_rate": 0.01, "beta1": 0.8, "beta2": 0.95, "weight_decay": 0.1}
    runs = []
    for held in (False, True):
        tensors = case(70, f32, f32)
        memory = [device.upload(each.copy()) for each in tensors]
        extra: dict[str, Any] = {"epsilon": 1e-6}
        if clipped:
            extra |= {"max_norm": 0.5, "norm": gradient_norm(device, [memory[1]])}
        for step in (3, 4):
            if held:
                rates = amid_poison(device, adamw_rates(step, **settings))
                adamw(device, *memory, rates=rates, beta1=0.8, beta2=0.95, **extra)
            else:
                adamw(device, *memory, step=step, **settings, **extra)
        for each, array in zip(memory, tensors, strict=True):
            device.download(each, array)
        runs.append([each.tobytes() for each in tensors])
    assert runs[0] == runs[1]


def test_rates_on_an_emulated_gpu() -> None:
    with open_device("emulated:ptx") as device:
        test_rates_in_memory_match_scalar_rates_bitwise(device, True)


def test_rates() -> None:
    rates = adamw_rates(2, learning_rate=0.5, beta1=0.5, beta2=0.75, weight_decay=0.25)
    assert rates.dtype == np.float32
    assert rates.tolist() == [0.125, np.float32(0.5 / 0.75), np.float32((1 - 0.75**2) ** -0.5)]


def test_two_runs_are_equal(device: AnyDevice) -> None:
    runs = []
    for _ in range(2):
        tensors = case(513, bf16, f32)
        memory = [device.upload(each) for each in tensors]
        adamw(device, *memory, step=7)
        for at in (0, 2, 3):
            device.download(memory[at], tensors[at])
        runs.append([tensors[at].tobytes() for at in (0, 2, 3)])
    assert runs[0] == runs[1]


@pytest.mark.parametrize("where", present("cpu", "emulated:ptx", "cuda"))
def test_non_finite_values_stay_in_place(where: str) -> None:
    from tests.conftest import open_for_test

    with open_for_test(where) as device:
        usual, poisoned = case(20, f32, f32), case(20, f32, f32)
        adamw(device, *usual, step=1)
        poisoned[1][3] = np.nan
        adamw(device, *poisoned, step=1)
    for at in (0, 2, 3):
        assert np.isnan(poisoned[at][3])
        assert np.array_equal(np.delete(poisoned[at], 3), np.delete(usual[at], 3))


def test_empty() -> None:
    adamw("cpu", *[np.zeros((0, 3), np.float32)] * 4, step=1)


X = np.zeros((4, 6), np.float32)
ONE = np.ones(1, np.float32)
ROW = np.ones(3, np.float32)


def _step(device: AnyDevice, *tensors: Any, **settings: Any) -> None:
    arguments: list[Any] = [X, X, X.copy(), X.copy()]
    arguments[: len(tensors)] = tensors
    adamw(device, *arguments, **{"step": 1, **settings})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: _step(d, X.astype(np.float64)), "parameter is of float64"),
        (lambda d: _step(d, X.T), "parameter has strides"),
        (lambda d: _step(d, X, X[:2]), r"gradient must be f32 of shape \(4, 6\), as parameter is"),
        (lambda d: _step(d, X, X.astype(np.float16)), "gradient must be f32 .* not f16"),
        (lambda d: _step(d, X.astype(np.float16), X.astype(np.uint16)), "gradient .* not bf16"),
        (lambda d: _step(d, X, X, X[0]), r"first_moment must be f32 of shape \(4, 6\), not f32 of"),
        (lambda d: _step(d, X, X, X, X.astype(np.float16)), "second_moment must be f32 of shape"),
        (lambda d: _step(d, step=None), "step or rates say which step it is: give one"),
        (lambda d: _step(d, rates=np.ones(3, np.float32)), "step or rates say which step it is"),
        (lambda d: _step(d, step=None, rates=ONE), r"rates must be f32 of shape \(3,\)"),
        (lambda d: adamw(d, *[ROW.copy() for _ in range(3)], ROW, rates=ROW), "second_moment is"),
        (lambda d: adamw_rates(0), "step must be a whole number from 1"),
        (lambda d: adamw_rates(1, beta2=1.0), "beta2 must be from"),
        (lambda d: _step(d, step=0), "step must be a whole number from 1"),
        (lambda d: _step(d, step=1.5), "step must be a whole number"),
        (lambda d: _step(d, learning_rate=-1), "learning_rate must be from 0.0 on and below inf"),
        (lambda d: _step(d, learning_rate=math.inf), "learning_rate must be a number that f32"),
        (lambda d: _step(d, learning_rate=3e38, weight_decay=10), "weight_decay . learning_rate"),
        (lambda d: _step(d, beta1=1), "beta1 must be from 0.0 on and below 1.0, not 1"),
        (lambda d: _step(d, beta2=-0.1), "beta2 must be from"),
        (lambda d: _step(d, epsilon=0), "epsilon must be at least"),
        (lambda d: _step(d, weight_decay=-1), "weight_decay must be from"),
        (lambda d: _step(d, gradient_scale=None), "gradient_scale must be a number, not None"),
        (lambda d: _step(d, max_norm=1.0), "max_norm and norm go together"),
        (lambda d: _step(d, norm=ONE), "max_norm and norm go together"),
        (lambda d: _step(d, max_norm=0, norm=ONE), "max_norm must be at least"),
        (lambda d: _step(d, max_norm=1, norm=X), r"norm must be f32 of shape \(1,\)"),
    ],
)
def test_bad_input(call: Callable[[Any], Any], message: str) -> None:
    with open_device("cpu") as device, pytest.raises(InputError, match=message):
        call(device)
