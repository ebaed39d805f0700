"""Reductions along an axis: against float64 and NumPy at every edge, hostile numbers, bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import bf16, f32
from quod.kernel.ir.types import Type
from quod.tensor import argmax, argmin, reduce_max, reduce_mean, reduce_min, reduce_sum
from quod.tensor.rows.plan import plan_parts
from tests.support.thorough import one_and_others
from tests.tensor.numbers import LEAST, TYPES, UNIT, Array, Guarded, amid_poison, numbers, stored
from tests.tensor.test_rows import WithDlpack

SHAPES = [(1,), (7,), (5, 1), (3, 64), (2, 65, 5), (4, 129, 33), (2, 2049), (300, 9), (2, 3, 4, 5)]
FEW = [(7,), (2, 65, 5), (3, 64)]
PICKS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "max": (reduce_max, np.max), "min": (reduce_min, np.min), "argmax": (argmax, np.argmax),
    "argmin": (argmin, np.argmin),
}  # fmt: skip
"""Those whose results are exact, and NumPy's."""


def run(function: Callable[..., Any], device: AnyDevice, x: Array, **options: Any) -> Array:
    """Run a function into guarded memory, with input amid NaN, and return its result."""
    shape = np.sum(x, options.get("axis"), keepdims=options.get("keepdims", False)).shape or (1,)
    kind = np.int32 if function in (argmax, argmin) else x.dtype
    room = Guarded(device, np.zeros(shape, kind))
    assert function(device, amid_poison(device, x), out=room.memory, **options) is room.memory
    return room.array()


def axes_of(shape: tuple[int, ...]) -> list[int | None]:
    return [None, *range(len(shape)), -1]


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", one_and_others(TYPES), ids=str)
def test_sums_and_means(device: AnyDevice, element: Type) -> None:
    for shape in FEW[:2] if device.kind == "webgpu" else SHAPES:
        x = stored(np.random.default_rng(len(shape)).normal(0.1, 1, shape), element)
        x64 = numbers(x, element)
        for axis in axes_of(shape):
            count = x.size if axis is None else shape[axis]
            for function, exact in ((reduce_sum, x64.sum(axis)), (reduce_mean, x64.mean(axis))):
                reduced = numbers(run(function, device, x, axis=axis), element)
                size = np.abs(x64).sum(axis) / (count if function is reduce_mean else 1)
                bound = (4 * np.log2(count) + 32) * 2.0**-23 * size
                bound += UNIT[element] / 2 * np.abs(exact) * 1.01 + LEAST[element]
                assert (np.abs(reduced - exact) <= bound).all(), (function, shape, axis)


@pytest.mark.crossed("device", "element", "name")
@pytest.mark.parametrize("element", one_and_others(TYPES), ids=str)
@pytest.mark.parametrize("name", one_and_others(PICKS, ["min", "argmax"]))
def test_extremes_and_their_indices(device: AnyDevice, name: str, element: Type) -> None:
    """Many elements are the same; zeros have both signs."""
    function, exact = PICKS[name]
    for shape in FEW if device.kind == "webgpu" else SHAPES:
        x = stored(np.random.default_rng(7).integers(-9, 10, shape) / 8 * -1.0, element)
        x64 = numbers(x, element)
        for axis in axes_of(shape):
            reduced = run(function, device, x, axis=axis)
            reduced_numbers = reduced if name.startswith("arg") else numbers(reduced, element)
            assert np.array_equal(
                reduced_numbers, np.reshape(exact(x64, axis), reduced_numbers.shape)
            ), (shape, axis)


def test_on_emulated_gpus() -> None:
    """Rows that are cut into parts, those of several instances, and matrices of slabs."""
    with open_device("emulated:ptx") as device:
        for shape, axis in (((2, 4100), 1), ((9, 5), 1), ((130, 7), 0), ((2, 3, 2), 1)):
            x = np.random.default_rng(2).integers(-9, 10, shape).astype(np.float32)
            assert np.array_equal(run(reduce_sum, device, x, axis=axis), x.sum(axis))
            for function, exact in PICKS.values():
                assert np.array_equal(run(function, device, x, axis=axis), exact(x, axis))


def test_cpu_accesses_are_in_bounds(checked_cpu: AnyDevice) -> None:
    x = np.random.default_rng(3).integers(-9, 10, (2, 70, 5)).astype(np.float32)
    for axis in (1, 2):
        assert np.array_equal(run(reduce_sum, checked_cpu, x, axis=axis), x.sum(axis))
        assert np.array_equal(run(argmin, checked_cpu, x, axis=axis), x.argmin(axis))


def test_long_rows(device: AnyDevice) -> None:
    """Several steps of parts: integers whose sums are exact, and a place in the last part."""
    count = 5000 if device.kind == "webgpu" else 2048 * 2048 + 9
    x = np.ones(count, np.float32)
    x[-3:] = 3, 4, 4
    memory = amid_poison(device, x)
    for function, exact in ((reduce_sum, count + 8), (reduce_max, 4), (argmax, count - 2)):
        room = Guarded(device, np.zeros(1, np.int32 if function is argmax else np.float32))
        function(device, memory, out=room.memory)
        assert room.array()[0] == exact
    tall = x.reshape(-1, 1)[: 64 * 64 + 1]  # three steps of slabs
    wide = np.repeat(tall, 3, 1)
    assert np.array_equal(run(reduce_sum, device, wide, axis=0), wide.sum(0))
    assert np.array_equal(run(argmin, device, -wide, axis=0), (-wide).argmin(0))


def test_plan_selection() -> None:
    with EmulatedDevice(multiprocessors=132) as device:
        assert plan_parts(device, f32, 1, 1 << 14)[2] == 1
        assert plan_parts(device, f32, 1, 1 << 20)[2] > 100
        assert plan_parts(device, f32, 256, 1 << 17)[2] == 1
        assert plan_parts(device, bf16, 1 << 20, 1 << 18)[2] > 1
    with open_device("cpu") as cpu:
        assert [plan_parts(cpu, f32, 64, count)[2] for count in (1, 2048, 2049)] == [1, 1, 2]


def test_two_runs(device: AnyDevice) -> None:
    x = np.random.default_rng(4).normal(0, 1, (3, 65, 4)).astype(np.float32)
    for axis in (None, 1):
        first, second = (run(reduce_sum, device, x, axis=axis) for _ in range(2))
        assert np.array_equal(first.view(np.uint32), second.view(np.uint32))


@pytest.mark.crossed("where", "element")
@pytest.mark.parametrize("where", ["cpu", "emulated:ptx"])
@pytest.mark.parametrize("element", one_and_others(TYPES, [f32]), ids=str)
def test_non_finite_and_extreme_values(where: str, element: Type) -> None:
    nan, inf = np.nan, np.inf
    least = LEAST[element]
    x = np.array([
        [nan, 1, inf], [1, nan, -inf], [-inf, -inf, -inf], [inf, inf, 1], [-0.0, 0, -0.0],
        [least, 0, -least], [-1, -2, -1], [nan, -inf, nan],
    ])  # fmt: skip
    x[-1, 2] *= -1
    stored_x = stored(x, element)
    x = numbers(stored_x, element)
    with open_device(where) as device:
        for name, (function, exact) in PICKS.items():
            for axis in (0, 1):
                turned = np.ascontiguousarray(stored_x.T) if axis == 0 else stored_x
                reduced = run(function, device, turned, axis=axis)
                values = reduced if name.startswith("arg") else numbers(reduced, element)
                wanted = exact(x, 1)
                assert np.array_equal(values, wanted, equal_nan=not name.startswith("arg"))
        assert np.isnan(
            numbers(run(reduce_sum, device, stored_x, axis=1)[[0, 1, 7]], element)
        ).all()
        assert np.signbit(numbers(run(reduce_min, device, stored_x, axis=1), element)[4])
        assert not np.signbit(numbers(run(reduce_max, device, stored_x, axis=1), element)[4])


def test_sums_are_accumulated_in_a_wider_type() -> None:
    """Each is rounded once: terms of f16 that one at a time would change nothing."""
    x = np.ones((1, 4096), np.float16)
    x[0, 1:] = 2.0**-11
    assert reduce_sum("cpu", x, axis=1)[0] == np.float16(1 + 4095 / 2048)
    x[:] = 60000
    assert reduce_mean("cpu", x, axis=1)[0] == x[0, 0]
    assert np.isinf(reduce_sum("cpu", x, axis=1)[0])


def test_shapes_and_types() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert reduce_sum("cpu", x).shape == (1,)
    assert reduce_sum("cpu", x, keepdims=True).shape == (1, 1, 1)
    assert np.array_equal(reduce_mean("cpu", x, axis=-2, keepdims=True), x.mean(1, keepdims=True))
    assert argmax("cpu", x, axis=0).dtype == np.int32
    out = np.zeros((2, 4), np.uint32)
    assert argmax("cpu", x, axis=1, out=out) is out
    assert (out == 2).all()
    with open_device("cpu") as device:
        indices = argmin(device, device.upload(x), axis=1)
        assert (indices.dtype, indices.shape) == (np.int32, (2, 4))


class WithInt(WithDlpack):
    """An array of another library that makes those of int32."""

    def new_empty(self, shape: tuple[int, ...]) -> WithInt:
        return WithInt(np.empty(shape, self.data.dtype))

    def int(self) -> WithDlpack:
        return WithDlpack(np.full(self.data.shape, -1, np.int32))


def test_arrays_of_other_libraries() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(reduce_max("cpu", WithDlpack(x), axis=0).data, x[2])
    assert np.array_equal(argmax("cpu", WithInt(x), axis=1).data, [3, 3, 3])
    assert isinstance(argmax("cpu", WithDlpack(x), axis=1), np.ndarray)


def test_empty_reductions(device: AnyDevice) -> None:
    """Sums of nothing are 0, also in memory that was not."""
    for shape, axis in (((3, 0), 1), ((2, 0, 4), 1), ((0, 5), 0), ((0,), None)):
        x = np.zeros(shape, np.float16)
        room = Guarded(device, np.ones(np.sum(x, axis).shape or (1,), np.float16))
        reduce_sum(device, device.upload(x), axis=axis, out=room.memory)
        assert not room.array().any()
    nothing = np.zeros((3, 0, 4), np.float32)
    assert reduce_max("cpu", nothing, axis=0).shape == (0, 4)


X = np.zeros((4, 6), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: reduce_sum("cpu", X.astype(np.float64)), "x is of float64"),
        (lambda: reduce_sum("cpu", X.T, axis=0), "x has strides"),
        (lambda: reduce_sum("cpu", X, axis=2), "axis must be a whole number from -2 to 1, not 2"),
        (lambda: reduce_sum("cpu", X, axis=1.0), "axis must be a whole number"),
        (lambda: reduce_mean("cpu", X, axis=(0, 1)), "axis must be a whole number"),
        (lambda: reduce_max("cpu", X, axis=0, out=X), r"out must be f32 of shape \(6,\) to go"),
        (lambda: reduce_sum("cpu", X[:1], axis=0, out=X[0]), "out is in the memory of x"),
        (lambda: argmax("cpu", X, axis=0, out=X[0].copy()), "out is of float32; indices are of"),
        (
            lambda: argmax("cpu", X, axis=0, out=np.zeros(4, np.int32)),
            r"out must be of shape \(6,\), not \(4,\)",
        ),
        (
            lambda: reduce_max("cpu", X[:0], axis=0),
            r"x has the shape \(0, 6\): without elements there is no max",
        ),
        (lambda: reduce_mean("cpu", X[:, :0].copy()), "without elements there is no mean"),
        (lambda: argmin("cpu", X[:0]), "there is no argmin"),
        (
            lambda: reduce_sum("cpu", np.zeros((0, 1 << 16, 1 << 16), np.float16), axis=0),
            "an axis may have at most 2147483647 elements, and so may",
        ),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
