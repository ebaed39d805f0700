"""Gradients of softmax and the norms: against float64 at every edge, differences, hostile rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import f32
from quod.kernel.ir.types import Type
from quod.tensor import layer_norm_backward, rms_norm_backward, softmax_backward
from quod.tensor.rows.plan import plan_rows
from tests.support.thorough import one_and_others
from tests.tensor.numbers import LEAST, TYPES, UNIT, Array, Guarded, amid_poison, numbers, stored
from tests.tensor.test_rows import layer64, rms64, softmax64

COLUMNS = [1, 7, 64, 65, 127, 128, 129, 1000, 4097]
FEW = [7, 65, 512]
ROWS = [1, 2, 63, 64, 65, 130]


def softmax_slope64(gradient: Array, y: Array) -> list[Array]:
    return [y * (gradient - (gradient * y).sum(-1, keepdims=True))]


def rms_slope64(gradient: Array, x: Array, weight: Array) -> list[Array]:
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    n, g = x * scale, gradient * weight
    return [scale * (g - n * (g * n).mean(-1, keepdims=True)), (gradient * n).sum(0)]


def layer_slope64(gradient: Array, x: Array, weight: Array) -> list[Array]:
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    n, g = (x - x.mean(-1, keepdims=True)) * scale, gradient * weight
    dx = scale * (g - g.mean(-1, keepdims=True) - n * (g * n).mean(-1, keepdims=True))
    return [dx, (gradient * n).sum(0), gradient.sum(0)]


NORMS: dict[str, tuple[Callable[..., Any], Callable[..., list[Array]]]] = {
    "rms_norm": (rms_norm_backward, rms_slope64),
    "layer_norm": (layer_norm_backward, layer_slope64),
}


def errors(name: str, gradient: Array, x: Array, weight: Array) -> list[Array]:
    """Bounds on the errors of arithmetic in f32, in units."""
    depth = np.log2(x.shape[-1]) + 4
    if name == "rms_norm":
        center, scale = 0.0 * x, 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    else:
        center = x.mean(-1, keepdims=True)
        scale = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    n, g = np.abs(x - center) * scale, np.abs(gradient * weight)
    off = (np.abs(center) + np.abs(x).mean(-1, keepdims=True) * depth) * scale
    spread = n + off
    products = (g * spread).mean(-1, keepdims=True)
    dx = 8 * scale * (g + g.mean(-1, keepdims=True) + spread * products) * depth
    dx += 8 * scale * off * products
    sums = (np.abs(gradient) * spread).sum(0) * 80, np.abs(gradient).sum(0) * 80
    return [dx, *sums[: 1 if name == "rms_norm" else 2]]


def is_near(actual: Array, exact: Array, units: Array, element: Type) -> None:
    bound = units * UNIT[f32] + UNIT[element] / 2 * np.abs(exact) * 1.01 + 2 * LEAST[element]
    error = np.abs(actual - exact)
    worst = np.unravel_index(np.argmax(error - bound), error.shape)
    assert (error <= bound + 2.0**-100).all(), (worst, actual[worst], exact[worst], bound[worst])


def check_norm(device: AnyDevice, name: str, element: Type, rows: int, columns: int) -> None:
    function, exact64 = NORMS[name]
    random = np.random.default_rng(columns + rows)
    tensors = [
        stored(random.normal(middle, 2, shape), element)
        for middle, shape in ((0, (rows, columns)), (1, (rows, columns)), (1, columns))
    ]
    rooms = [Guarded(device, tensors[1])]
    rooms += [Guarded(device, tensors[2]) for _ in range(1 + (name == "layer_norm"))]
    out = tuple(room.memory for room in rooms)
    assert function(device, *(amid_poison(device, x) for x in tensors), out=out) == out
    values = [numbers(each, element) for each in tensors]
    for room, exact, units in zip(rooms, exact64(*values), errors(name, *values), strict=True):
        is_near(numbers(room.array(), element), exact, units, element)


def check_softmax(device: AnyDevice, element: Type, rows: int, columns: int) -> None:
    random = np.random.default_rng(columns)
    gradient = stored(random.normal(0, 2, (rows, columns)), element)
    y = stored(softmax64(random.normal(0, 2, (rows, columns))), element)
    room = Guarded(device, y)
    memory = amid_poison(device, gradient), amid_poison(device, y)
    assert softmax_backward(device, *memory, out=room.memory) is room.memory
    slope, probabilities = numbers(gradient, element), numbers(y, element)
    total = (np.abs(slope) * probabilities).sum(-1, keepdims=True) * (np.log2(columns) + 4)
    (exact,) = softmax_slope64(slope, probabilities)
    units = probabilities * (2 * np.abs(slope) + 4 * total)
    is_near(numbers(room.array(), element), exact, units, element)


@pytest.mark.crossed("device", "element", "name")
@pytest.mark.parametrize("element", TYPES, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_edge_shapes_of_norms(device: AnyDevice, name: str, element: Type) -> None:
    if device.kind == "webgpu":
        check_norm(device, name, element, 65, 65)
        return
    for columns in COLUMNS:
        check_norm(device, name, element, 3, columns)
    for rows in ROWS:
        check_norm(device, name, element, rows, 36)


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_edge_shapes_of_softmax(device: AnyDevice, element: Type) -> None:
    for columns in FEW if device.kind == "webgpu" else COLUMNS:
        check_softmax(device, element, 3, columns)


@pytest.mark.parametrize("element", one_and_others(TYPES), ids=str)
def test_on_an_emulated_gpu(element: Type) -> None:
    with open_device("emulated:ptx") as device:
        for name in NORMS:
            for rows, columns in ((66, 9), (3, 520)):
                check_norm(device, name, element, rows, columns)
        check_softmax(device, element, 9, 65)
        check_softmax(device, element, 2, 1000)


def test_rows_longer_than_registers() -> None:
    with open_device("emulated:ptx") as device:
        assert not plan_rows(device, f32, 16500, 2).single_step
        for name in NORMS:
            check_norm(device, name, f32, 1, 16500)
        check_softmax(device, f32, 1, 16500)


def test_two_level_partial_sums() -> None:
    """So many rows that sums of sums are added up twice; small integers are exact."""
    rows = 64 * 64 + 3
    gradient = np.random.default_rng(1).integers(-3, 4, (rows, 5)).astype(np.float32)
    x = np.where(np.arange(rows * 5).reshape(rows, 5) % 3 == 0, -1, 1).astype(np.float32)
    with open_device("cpu") as device:
        _, sums = rms_norm_backward(device, gradient, x, np.ones(5, np.float32), epsilon=0)
        assert np.array_equal(sums, (gradient * x).sum(0))
        bias = layer_norm_backward(device, gradient, x, np.ones(5, np.float32))[2]
        assert np.array_equal(bias, gradient.sum(0))


@pytest.mark.parametrize("name", ["softmax", *NORMS])
def test_central_differences(name: str) -> None:
    """Differences of the functions themselves in float64."""
    random = np.random.default_rng(5)
    x, seed = random.normal(0, 1, (2, 6)), random.normal(0, 1, (2, 6))
    vectors = [random.normal(1, 0.3, 6) for _ in range(2)]
    forward: Callable[..., Array] = {
        "softmax": lambda x: softmax64(x), "rms_norm": lambda x, w: rms64(x, w),
        "layer_norm": lambda x, w, b: layer64(x, w, b),
    }[name]  # fmt: skip
    tensors = [x, *vectors[: {"softmax": 0, "rms_norm": 1, "layer_norm": 2}[name]]]
    slopes = []
    for array in tensors:
        slope = np.zeros_like(array)
        for at in np.ndindex(array.shape):
            kept, h = array[at], 1e-5
            array[at] = kept + h
            above = (forward(*tensors) * seed).sum()
            array[at] = kept - h
            slope[at] = (above - (forward(*tensors) * seed).sum()) / (2 * h)
            array[at] = kept
        slopes.append(slope)
    small = [each.astype(np.float32) for each in (seed, x, vectors[0])]
    if name == "softmax":
        gradients = [softmax_backward("cpu", small[0], softmax64(x).astype(np.float32))]
    else:
        gradients = list(NORMS[name][0]("cpu", *small))
    for array, slope in zip(gradients, slopes, strict=True):
        assert np.abs(array - slope).max() < 2e-5


def test_repeated_and_in_place_runs_are_equal(device: AnyDevice) -> None:
    random = np.random.default_rng(2)
    x = random.normal(0, 3, (70, 33)).astype(np.float32)
    weight, gradient = x[0].copy(), x[::-1].copy()
    runs = []
    for _ in range(2):
        out = layer_norm_backward(device, *map(device.upload, (gradient, x, weight)))
        host = [np.empty_like(x), np.empty_like(weight), np.empty_like(weight)]
        for memory, array in zip(out, host, strict=True):
            device.download(memory, array)
        runs.append(b"".join(array.tobytes() for array in host))
    assert runs[0] == runs[1]
    memory, y = device.upload(gradient), device.upload(softmax64(x).astype(np.float32))
    usual, in_place = np.empty_like(x), np.empty_like(x)
    device.download(softmax_backward(device, memory, y), usual)
    assert softmax_backward(device, memory, y, out=memory) is memory
    device.download(memory, in_place)
    assert np.array_equal(usual, in_place)


@pytest.mark.parametrize("where", ["cpu", "emulated:ptx"])
def test_non_finite_values_stay_in_their_row(where: str) -> None:
    random = np.random.default_rng(4)
    x = random.normal(0, 1, (5, 20)).astype(np.float32)
    gradient, weight = x[::-1].copy(), np.ones(20, np.float32)
    with open_device(where) as device:
        for function in (rms_norm_backward, layer_norm_backward):
            usual = function(device, gradient, x, weight)
            hostile = x.copy()
            hostile[1, 3], hostile[3, 4] = np.nan, np.inf
            dx, sums = function(device, gradient, hostile, weight)[:2]
            assert np.isnan(dx[[1, 3]]).any(-1).all()
            assert np.array_equal(dx[[0, 2, 4]], usual[0][[0, 2, 4]])
            assert np.isnan(sums).any()
        # Equal elements have no variance, and a gradient of zeros gives zeros.
        flat = np.full((2, 20), 3, np.float32)
        dx = layer_norm_backward(device, flat, flat, weight)[0]
        assert np.abs(dx).max() < 1e-3
        assert not any(map(np.any, layer_norm_backward(device, 0 * flat, flat, weight)))


def test_a_variance_far_from_zero() -> None:
    random = np.random.default_rng(6)
    x = (1e4 + random.normal(0, 1, (2, 1024))).astype(np.float32)
    gradient, weight = x - np.float32(1e4), np.ones(1024, np.float32)
    dx = layer_norm_backward("cpu", gradient[::-1].copy(), x, weight)[0]
    exact = layer_slope64(gradient[::-1].astype(float), x.astype(float), weight.astype(float))[0]
    assert np.abs(dx - exact).max() < 0.01


def test_empty() -> None:
    none, weight = np.zeros((0, 3), np.float32), np.ones(3, np.float32)
    gradients = layer_norm_backward("cpu", none, none, weight)
    assert [each.tolist() for each in gradients] == [[], [0, 0, 0], [0, 0, 0]]
    assert softmax_backward("cpu", none, none).shape == (0, 3)
    thin = np.zeros((3, 0), np.float16)
    assert rms_norm_backward("cpu", thin, thin, np.zeros(0, np.float16))[0].shape == (3, 0)


X = np.ones((4, 6), np.float32)
Y, BOTH = X.copy(), np.ones((5, 6), np.float32)
ROW = np.ones(6, np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: softmax_backward("cpu", X[:2], X), r"gradient must be f32 of shape \(4, 6\) to"),
        (lambda: softmax_backward("cpu", X, X.astype(float)), "y is of float64"),
        (lambda: rms_norm_backward("cpu", X, X, ROW[:5]), r"weight must be f32 of shape \(6,\)"),
        (lambda: rms_norm_backward("cpu", X, X.T, ROW), "x has strides"),
        (lambda: rms_norm_backward("cpu", X, X, ROW, out=X), "out must be two tensors, for x and"),
        (
            lambda: layer_norm_backward("cpu", X, X, ROW, out=(X, ROW)),
            "out must be three tensors, for x, weight and bias",
        ),
        (
            lambda: layer_norm_backward("cpu", X, X, ROW, out=(X.copy(), ROW.copy(), X)),
            r"out\[2\] must be f32 of shape \(6,\)",
        ),
        (lambda: softmax_backward("cpu", BOTH[1:], X, out=BOTH[:4]), "out is in a part of the mem"),
        (
            lambda: rms_norm_backward("cpu", X, Y, ROW, out=(X, ROW.copy())),
            r"out\[0\] is in the memory of gradient; take other memory",
        ),
        (
            lambda: layer_norm_backward("cpu", X, X, ROW, out=(Y, BOTH[0], BOTH[0])),
            r"out\[2\] is in the memory of out\[1\]",
        ),
        (lambda: layer_norm_backward("cpu", X, X, ROW, epsilon=-1), "epsilon must be at least 0"),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
