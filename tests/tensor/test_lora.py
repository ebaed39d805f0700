"""Low-rank adapters: against float64 with the roundings between, differences, hostile input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import bf16, f16, f32
from quod.kernel.ir.types import Type
from quod.tensor import lora, lora_backward
from tests.support.thorough import one_and_others
from tests.tensor.numbers import LEAST, TYPES, UNIT, Array, Guarded, amid_poison, numbers, stored
from tests.tensor.test_rows import WithDlpack

SIZES = [(1, 1, 1, 1), (5, 9, 7, 3), (65, 64, 40, 8), (33, 127, 129, 17)]
"""Rows, inputs, outputs and rank."""


class Near:
    """Numbers of float64, and how far what a device has may be from them."""

    def __init__(self, exact: Array, bound: Array | float = 0.0) -> None:
        self.exact, self.bound = exact, bound + 0 * exact

    @property
    def turned(self) -> Near:
        return Near(self.exact.T, self.bound.T)

    def __matmul__(self, other: Near) -> Near:
        first, second = np.abs(self.exact), np.abs(other.exact)
        size = (first + self.bound) @ (second + other.bound)
        arithmetic = size * (first.shape[1] + 3) * 2.0**-22
        return Near(self.exact @ other.exact, size - first @ second + arithmetic)

    def __add__(self, other: Near) -> Near:
        return Near(self.exact + other.exact, self.bound + other.bound)

    def times(self, number: float) -> Near:
        return Near(self.exact * number, self.bound * abs(number))

    def stored(self, element: Type) -> Near:
        """As elements, each rounded once; a unit of f32 for a scale."""
        most = np.abs(self.exact) + self.bound
        rounding = (UNIT[element] / 2 * 1.01 + UNIT[f32]) * most + 2 * LEAST[element]
        return Near(self.exact, self.bound + rounding)

    def check(self, actual: Array) -> None:
        error = np.abs(actual.reshape(self.exact.shape) - self.exact)
        assert (error <= self.bound).all(), float((error - self.bound).max())


def layer(sizes: tuple[int, int, int, int], element: Type) -> list[Array]:
    """A gradient, x, W, A and B."""
    rows, inputs, outputs, rank = sizes
    random = np.random.default_rng(sum(sizes))
    shapes = ((rows, outputs), (rows, inputs), (outputs, inputs), (rank, inputs), (outputs, rank))
    return [stored(random.normal(0, 1, shape), element) for shape in shapes]


def check(device: AnyDevice, element: Type, sizes: tuple[int, int, int, int]) -> None:
    arrays = layer(sizes, element)
    dy, x, weight, a, b = (Near(numbers(each, element)) for each in arrays)
    memory = [amid_poison(device, each) for each in arrays]
    room = Guarded(device, arrays[0])
    assert lora(device, *memory[1:], scale=0.75, out=room.memory) is room.memory
    hidden = (x @ a.turned).stored(element)
    base = (x @ weight.turned).stored(element)
    output = numbers(room.array(), element)
    ((hidden @ b.turned).times(0.75) + base).stored(element).check(output)
    rooms = [Guarded(device, arrays[at]) for at in (1, 3, 4)]
    out = (rooms[0].memory, rooms[1].memory, rooms[2].memory)
    assert lora_backward(device, *memory, scale=0.75, out=out) == out
    dx, da, db = (numbers(each.array(), element) for each in rooms)
    slopes = (dy @ b).times(0.75).stored(element)
    ((slopes @ a) + (dy @ weight).stored(element)).stored(element).check(dx)
    (slopes.turned @ x).stored(element).check(da)
    (dy.turned @ hidden).times(0.75).stored(element).check(db)


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", one_and_others(TYPES, [f32]), ids=str)
def test_edge_shapes(device: AnyDevice, element: Type) -> None:
    for sizes in SIZES[1:2] if device.kind == "webgpu" else SIZES:
        check(device, element, sizes)


@pytest.mark.parametrize(
    ("where", "element", "sizes"),
    one_and_others(
        [("emulated", bf16, (9, 16, 24, 8)), ("emulated:ptx", bf16, (9, 16, 24, 8)),
         ("emulated:ptx", f16, (9, 17, 5, 3)), ("emulated:ptx", f32, (9, 17, 5, 3))],
        always=[("emulated", bf16, (9, 16, 24, 8))],
    ),
    ids=str,
)  # fmt: skip
def test_on_emulated_gpus(where: str, element: Type, sizes: tuple[int, int, int, int]) -> None:
    with open_device(where) as device:
        check(device, element, sizes)


def test_arrays_of_the_host_on_an_emulated_gpu() -> None:
    with open_device("emulated:ptx") as device:
        of_the_host = layer((9, 17, 5, 3), f32)
        output = lora(device, *of_the_host[1:])
        assert np.allclose(output, lora("cpu", *of_the_host[1:]), atol=1e-4)
        for each, wanted in zip(
            lora_backward(device, *of_the_host), lora_backward("cpu", *of_the_host), strict=True
        ):
            assert np.allclose(each, wanted, atol=1e-4)


def lora64(x: Array, weight: Array, a: Array, b: Array, scale: float) -> Array:
    return x @ (weight + scale * b @ a).T


def test_central_differences() -> None:
    """Differences of the sum of results times their gradients, in some directions."""
    dy, x, weight, a, b = (each.astype(np.float64) for each in layer((5, 9, 7, 3), f32))
    tensors = [each.astype(np.float32) for each in (dy, x, weight, a, b)]
    gradients = lora_backward("cpu", *tensors, scale=-1.5)
    random = np.random.default_rng(5)
    for number, slope in enumerate(gradients):
        for _ in range(4):
            parts = [x, a, b]
            way = random.normal(0, 1, slope.shape)
            ends = []
            for step in (1e-5, -1e-5):
                parts[number] = (x, a, b)[number] + step * way
                ends.append((dy * lora64(parts[0], weight, parts[1], parts[2], -1.5)).sum())
            assert np.isclose((ends[0] - ends[1]) / 2e-5, (slope * way).sum(), rtol=1e-4, atol=1e-3)


def test_zero_adapters_change_nothing(device: AnyDevice) -> None:
    """B is 0 initially: results equal the layer's, and only B has a gradient."""
    dy, x, weight, a, b = layer((4, 6, 5, 2), f32)
    b[:] = 0
    first, second = np.empty_like(dy), np.empty_like(dy)
    memory = [device.upload(each) for each in (x, weight, a, b)]
    device.download(lora(device, *memory), first)
    device.download(lora(device, *memory), second)
    assert np.array_equal(first.view(np.uint32), second.view(np.uint32))
    assert np.allclose(first, x @ weight.T, atol=1e-5)
    _, da, db = (np.empty_like(each) for each in (x, a, b))
    gradients = lora_backward(device, device.upload(dy), *memory)
    device.download(gradients[1], da)
    device.download(gradients[2], db)
    assert not da.any()
    assert db.any()


def test_shapes() -> None:
    """Any axes before the last, none, no rows, and no rank."""
    dy, x, weight, a, b = layer((6, 4, 5, 2), f32)
    flat = lora("cpu", x, weight, a, b)
    deep = lora("cpu", x.reshape(2, 3, 4), weight, a, b)
    assert np.array_equal(deep, flat.reshape(2, 3, 5))
    assert np.array_equal(lora("cpu", x[0], weight, a, b), flat[0])
    dx, _, _ = lora_backward("cpu", dy.reshape(2, 3, 5), x.reshape(2, 3, 4), weight, a, b)
    assert dx.shape == (2, 3, 4)
    gradients = lora_backward("cpu", dy[:0], x[:0], weight, a, b)
    assert [each.shape for each in gradients] == [(0, 4), (2, 4), (5, 2)]
    assert not gradients[1].any()
    assert not gradients[2].any()
    without = lora("cpu", x, weight, a[:0], b[:, :0].copy())
    assert np.allclose(without, x @ weight.T, atol=1e-5)
    other = lora("cpu", *map(WithDlpack, (x, weight, a, b)))
    assert np.array_equal(other.data, flat)


Y, X, W, A, B = layer((6, 4, 5, 2), f32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lora("cpu", X, W.T.copy(), A, B), r"weight must be f32 of shape \(outputs, 4\)"),
        (lambda: lora("cpu", X, W[0], A, B), r"weight must be f32 of shape \(outputs, 4\) to go"),
        (lambda: lora("cpu", X, W, A.astype(np.float16), B), r"a must be f32 of shape \(rank, 4\)"),
        (lambda: lora("cpu", X, W, A, B.T.copy()), r"b must be f32 of shape \(5, 2\) to go with x"),
        (lambda: lora("cpu", X.T, W, A, B), "x has strides"),
        (lambda: lora("cpu", X, W, A, B, scale=None), "scale must be a number"),
        (lambda: lora("cpu", X, W, A, B, out=X), r"out must be f32 of shape \(6, 5\)"),
        (lambda: lora("cpu", W, W, A, B, out=np.zeros((5, 5), "f2")), "out must be f32 of shape"),
        (lambda: lora_backward("cpu", X, X, W, A, B), r"gradient must be f32 of shape \(6, 5\)"),
        (lambda: lora_backward("cpu", Y, X, W, A, B, out=X), "out must be three tensors"),
        (lambda: lora_backward("cpu", Y, X, W, A, B, out=(X, A, B)), r"out\[0\] is in the memory"),
        (
            lambda: lora_backward("cpu", Y, X, W, A, B, out=(X.copy(), A.copy(), B)),
            r"out\[2\] is in the memory of b",
        ),
        (
            lambda: lora_backward("cpu", Y, X, W, A, B, out=(X.copy(), A.copy(), A)),
            r"out\[2\] must be f32 of shape \(5, 2\) to go with x",
        ),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_results_must_not_alias_operands() -> None:
    square = np.ones((4, 4), np.float32)
    thin = np.ones((4, 4), np.float32)
    with pytest.raises(InputError, match=r"^out is in the memory of weight; take"):
        lora("cpu", thin, square, thin, thin, out=square)
    assert (square == 1).all()
