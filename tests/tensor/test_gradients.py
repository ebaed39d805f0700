"""The norm of gradients: against float64 at every edge, ends of the range, clipping, bad input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import f32
from quod.kernel.ir.types import Type
from quod.tensor import clip_gradients, gradient_norm
from quod.tensor.rows.plan import plan_sum
from tests.support.devices import present
from tests.tensor.numbers import TYPES, UNIT, Array, Guarded, numbers, stored

COUNTS = [1, 7, 8, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 4096, 4100, 9000]
FEW = [1, 65, 4100]
"""Sizes for drivers that take seconds to compile a plan."""


def norm64(arrays: list[Array], elements: list[Type]) -> float:
    return math.sqrt(
        sum(
            float((numbers(array, element) ** 2).sum())
            for array, element in zip(arrays, elements, strict=True)
        )
    )


def normal(count: int, element: Type, seed: int = 0, scale: float = 1) -> Array:
    return stored(np.random.default_rng((count, seed)).normal(0, scale, count), element)


def read(device: AnyDevice, memory: Any) -> float:
    scalar = np.empty(1, np.float32)
    device.download(memory, scalar)
    return float(scalar[0])


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_edge_shapes(device: AnyDevice, element: Type) -> None:
    for count in FEW if device.kind == "webgpu" else COUNTS:
        gradient = normal(count, element)
        room = Guarded(device, np.zeros(1, np.float32))
        memory = device.upload(gradient)
        assert gradient_norm(device, [memory], out=room.memory) is room.memory
        exact = norm64([gradient], [element])
        assert abs(room.array()[0] - exact) <= 24 * UNIT[f32] * exact


def test_edge_shapes_on_gpus(gpu_device: AnyDevice) -> None:
    for count in FEW if gpu_device.kind == "webgpu" else [1, 7, 128, 4100]:
        gradients = [normal(count, f32), normal(5, f32)]
        norm = read(
            gpu_device, gradient_norm(gpu_device, [gpu_device.upload(x) for x in gradients])
        )
        assert math.isclose(norm, norm64(gradients, [f32, f32]), rel_tol=24 * UNIT[f32])


def test_on_an_emulated_gpu() -> None:
    with open_device("emulated:ptx") as device:
        for element in TYPES:
            for count in (1, 516, 4100):
                gradients = [normal(count, element), normal(count + 1, f32, 1)]
                norm = gradient_norm(device, gradients)[0]
                assert math.isclose(norm, norm64(gradients, [element, f32]), rel_tol=24 * UNIT[f32])


def test_several_tensors(device: AnyDevice) -> None:
    """Tensors of all types and shapes; each counts once, at any position."""
    shapes: list[tuple[int, ...]] = [(3, 5), (0, 4), (130,), (2, 3, 64), (4100,), (1,)]
    elements = [TYPES[at % 3] for at in range(len(shapes))]
    arrays = [
        normal(math.prod(shape), element, at, 10.0**at).reshape(shape)
        for at, (shape, element) in enumerate(zip(shapes, elements, strict=True))
    ]
    arrays[1] = arrays[1].astype(np.float16)
    runs = []
    for order in (1, 1, -1):
        memory = [device.upload(array) for array in arrays[::order]]
        runs.append(read(device, gradient_norm(device, memory)))
    exact = norm64(arrays, elements)
    assert runs[0] == runs[1]
    for norm in runs:
        assert abs(norm - exact) <= 24 * UNIT[f32] * exact


def test_integers_are_exact(device: AnyDevice) -> None:
    """A tensor of many parts; a number left out or taken twice is told."""
    count = 3 * 4096 + 5
    gradient = np.ones(count, np.float32)
    gradient[[0, 4095, 4096, count - 1]] = [5, 7, 11, 13]
    remainder = 10_000_000 - count + 4 - 25 - 49 - 121 - 169
    other = np.zeros(6, np.float32)
    for at in range(6):
        other[at] = math.isqrt(remainder)
        remainder -= math.isqrt(remainder) ** 2
    total = float((gradient**2).sum() + (other**2).sum())
    norm = read(device, gradient_norm(device, [device.upload(gradient), device.upload(other)]))
    assert norm == np.sqrt(np.float32(total))


@pytest.mark.crossed("device", "size")
@pytest.mark.parametrize("size", [1e-30, 1e-20, 1e-12, 1e-9, 1e-3, 1e9, 1e15, 1e18, 1e19, 1e36])
def test_overflowing_and_underflowing_squares(device: AnyDevice, size: float) -> None:
    """Numbers whose squares overflow, or vanish, where the norm does neither."""
    if device.kind == "webgpu" and size not in (1e-20, 1e36):
        pytest.skip("slow with this driver; two cases run")
    gradient = normal(500, f32, 3, size)
    exact = norm64([gradient], [f32])
    norm = read(device, gradient_norm(device, [device.upload(gradient)]))
    assert abs(norm - exact) <= 24 * UNIT[f32] * exact
    mixed = np.concatenate([gradient, normal(500, f32, 4, size * 1e-6), np.zeros(20, np.float32)])
    exact = norm64([mixed], [f32])
    norm = read(device, gradient_norm(device, [device.upload(mixed)]))
    assert abs(norm - exact) <= 24 * UNIT[f32] * exact


@pytest.mark.parametrize("where", present("cpu", "emulated:ptx", "cuda"))
def test_non_finite_gradients(where: str) -> None:
    from tests.conftest import open_for_test

    with open_for_test(where) as device:
        gradient = np.ones(300, np.float32)
        gradient[77] = np.inf
        assert gradient_norm(device, [gradient])[0] == np.inf
        gradient[78] = np.nan
        assert np.isnan(gradient_norm(device, [gradient, np.ones(3, np.float32)]))[0]


def test_plans() -> None:
    with open_device("emulated:ptx") as gpu, open_device("cpu") as cpu:
        for device in (gpu, cpu):
            for element in TYPES:
                for elements in [*range(1, 200), 1 << 20, (1 << 26) + 8, (1 << 31) - 8]:
                    plan, width, rows = plan_sum(device, element, elements)
                    assert elements % plan.vector == 0
                    assert rows <= 4096
                    assert (rows - 1) * width < elements // plan.vector <= rows * width
                    assert width % (plan.lanes * plan.batch) == 0


# --- clipping


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_clipped(device: AnyDevice, element: Type) -> None:
    for count in [65] if device.kind == "webgpu" else [1, 65, 128, 4100]:
        gradients = [normal(count, element, 1), normal(7, f32, 2)]
        exact = norm64(gradients, [element, f32])
        memory = [device.upload(each.copy()) for each in gradients]
        norm = read(device, clip_gradients(device, memory, 0.25))
        assert abs(norm - exact) <= 24 * UNIT[f32] * exact
        for each, buffer, kind in zip(gradients, memory, (element, f32), strict=True):
            clipped = np.empty_like(each)
            device.download(buffer, clipped)
            wanted = numbers(each, kind) * min(1, 0.25 / (exact + 1e-6))
            bound = np.abs(wanted) * (40 * UNIT[f32] + UNIT[kind]) + 2.0**-25
            assert (np.abs(numbers(clipped, kind) - wanted) <= bound).all()


def test_gradients_below_the_limit_are_unchanged(device: AnyDevice) -> None:
    gradient = normal(130, f32)
    room = Guarded(device, gradient, holds=True)
    norm = read(device, clip_gradients(device, [room.memory], 1e4))
    assert math.isclose(norm, norm64([gradient], [f32]), rel_tol=1e-5)
    assert np.array_equal(room.array(), gradient)


def test_empty_gradient_list() -> None:
    with open_device("emulated:ptx") as device:
        assert gradient_norm(device, [])[0] == 0
        assert clip_gradients(device, [np.zeros((0, 3), np.float32)], 1.0)[0] == 0
        gradient = np.zeros(5, np.float32)
        assert clip_gradients(device, iter([gradient]), 1.0)[0] == 0
        assert not gradient.any()


X = np.zeros((4, 6), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: gradient_norm(d, X), "gradients must be a list of tensors, not a ndarray"),
        (lambda d: gradient_norm(d, d.upload(X)), "gradients must be a list, not a Buffer"),
        (lambda d: gradient_norm(d, "x"), "gradients must be a list, not a str"),
        (lambda d: gradient_norm(d, [X, X.T]), r"gradients\[1\] has strides"),
        (lambda d: gradient_norm(d, [X.astype(int)]), r"gradients\[0\] is of int64"),
        (lambda d: gradient_norm(d, [X], out=X), r"out must be f32 of shape \(1,\), not f32 of"),
        (lambda d: clip_gradients(d, [X], 0), "max_norm must be at least 1e-37, not 0"),
        (lambda d: clip_gradients(d, [X], -1.0), "max_norm must be at least"),
        (lambda d: clip_gradients(d, [X], float("nan")), "max_norm must be a number that f32"),
        (lambda d: clip_gradients(d, [X], "1"), "max_norm must be a number, not '1'"),
    ],
)
def test_bad_input(call: Callable[[Any], Any], message: str) -> None:
    with open_device("cpu") as device, pytest.raises(InputError, match=message):
        call(device)
