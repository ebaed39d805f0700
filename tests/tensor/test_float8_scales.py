"""8-bit floats with scales of rows or tensors, and back: to the bit of what is said to be computed,
what is no number, memory around results, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import bf16, e4m3, e5m2, f16, f32
from quod.kernel.ir.types import FLOATS8, Type
from quod.kernel.ops import float8
from quod.tensor import dequantise_fp8, gemm_fp8, quantise_fp8
from tests.conftest import open_for_test
from tests.support.devices import present
from tests.tensor.numbers import UNIT, Array, Guarded, amid_poison, numbers, same_bits, stored

SHAPES = [(1, 1), (3, 63), (2, 2, 64), (5, 65), (3, 130), (2, 4100), (9,)]
LEAST = np.float32(2.0**-100)


def drawn(shape: tuple[int, ...], element: Type) -> Array:
    """Elements of rows of very different sizes."""
    random = np.random.default_rng(sum(shape))
    row_sizes = 2.0 ** random.integers(-12, 6, (*shape[:-1], 1))
    return stored((random.normal(size=shape) * row_sizes).astype(np.float32), element)


def quantised(x: Array, element: Type, by_rows: bool) -> tuple[Array, Array]:
    """Compute the documented quantisation, each step rounded."""
    wide = np.abs(x)
    largest = wide.max(-1, keepdims=True) if by_rows else wide.max(keepdims=True)
    largest = np.maximum(largest, LEAST)
    scale = largest / np.float32(float8.greatest(element))
    bits = float8.nearest(element, x * (np.float32(1) / scale))
    return bits, scale[..., 0] if by_rows and x.ndim > 1 else scale.reshape(-1)[:1]


def run(
    device: AnyDevice, x: Array, element: Type, *, by_rows: bool = True
) -> tuple[Array, Array]:  # fmt: skip
    """Into poisoned memory whose surroundings must stay."""
    count = (x.shape[:-1] or (1,)) if by_rows else (1,)
    out = Guarded(device, np.zeros(x.shape, np.uint8)), Guarded(device, np.zeros(count, np.float32))
    how: Any = {"dtype": element.name, "scales": "rows" if by_rows else "tensor"}
    memory = out[0].memory, out[1].memory
    returned = quantise_fp8(device, amid_poison(device, x), **how, out=memory)
    assert returned[0] is memory[0]
    assert returned[1] is memory[1]
    return out[0].array(), out[1].array()


def check(device: AnyDevice, x: Array, input_type: Type, element: Type, *, by_rows: bool) -> None:
    wide = numbers(x, input_type).astype(np.float32)
    bits, scales = quantised(wide, element, by_rows)
    fp8_bits, factors = run(device, x, element, by_rows=by_rows)
    if device.kind == "webgpu":  # whose quotients are rounded as drivers like
        assert np.allclose(factors, scales, rtol=2.0**-20, atol=0)
        back = float8.values_of(element, fp8_bits) * factors[..., None]
        digits, least = (4, 2.0**-10) if element is e4m3 else (3, 2.0**-17)
        bound = (2.0**-digits + 2.0**-19) * np.abs(wide) + least * factors[..., None]
        assert (np.abs(back - wide) <= bound).all()
        return
    assert np.array_equal(factors, scales)
    assert np.array_equal(fp8_bits, bits)


@pytest.mark.crossed("device", "by_rows", "input_type")
@pytest.mark.parametrize("by_rows", [True, False], ids=["rows", "tensor"])
@pytest.mark.parametrize("input_type", [f32, f16, bf16], ids=str)
def test_edge_shapes(device: AnyDevice, input_type: Type, by_rows: bool) -> None:
    shapes = SHAPES if input_type is f32 else SHAPES[2:5]
    for number, shape in enumerate(shapes):
        check(device, drawn(shape, input_type), input_type, FLOATS8[number % 2], by_rows=by_rows)


@pytest.mark.parametrize("name", ["emulated", "emulated:ptx"])
def test_quantisation_on_emulated_gpus(name: str) -> None:
    with open_for_test(name) as device:
        for shape, input_type in (((3, 63), f32), ((5, 64), bf16), ((9,), f32)):
            for by_rows in (True, False):
                check(device, drawn(shape, input_type), input_type, e4m3, by_rows=by_rows)


@pytest.mark.crossed("name", "element")
@pytest.mark.parametrize("name", present("cpu", "emulated", "emulated:ptx", "cuda"))
@pytest.mark.parametrize("element", FLOATS8, ids=str)
def test_non_finite_and_small_values(element: Type, name: str) -> None:
    x = drawn((7, 40), f32)
    x[1], x[2] = 0, 0
    x[2, 3] = 1e-42
    x[3, 5] = np.nan
    x[4, 6] = -np.inf
    x[5], x[5, 7] = 2.0**-102, -(2.0**-101)
    with open_for_test(name) as device:
        fp8_bits, scales = run(device, x, element)
        kept = [0, 1, 5, 6]
        bits, expected = quantised(x[kept], element, by_rows=True)
        assert np.array_equal(fp8_bits[kept], bits)
        assert np.array_equal(scales[kept], expected)
        assert not fp8_bits[1:3].any()
        assert scales[1] == LEAST / np.float32(float8.greatest(element))
        assert np.isnan(scales[3])
        assert (fp8_bits[3] == 0x7F).all()
        assert np.isposinf(scales[4])
        assert fp8_bits[4, 6] == 0x7F
        assert not (np.delete(fp8_bits[4], 6) & 0x7F).any()


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", [f32, f16, bf16], ids=str)
def test_dequantisation(device: AnyDevice, element: Type) -> None:
    random = np.random.default_rng(3)
    for shape, fp8_type in (((3, 64), e4m3), ((2, 3, 33), e5m2), ((2, 130), e4m3)):
        size = (np.abs(random.normal(size=shape)) * 8).astype(np.float32)
        bits = float8.nearest(fp8_type, np.where(random.random(shape) < 0.5, -size, size))
        wide = float8.values_of(fp8_type, bits)
        scales = random.normal(1, 0.1, shape[:-1]).astype(np.float32)
        for factors in (scales, scales.reshape(-1)[:1]):
            broadcast_factors = factors if factors.shape == (1,) else factors[..., None]
            out = Guarded(device, stored(np.zeros(shape, np.float32), element))
            dequantise_fp8(
                device, amid_poison(device, bits), amid_poison(device, factors),
                dtype="e4m3" if fp8_type is e4m3 else "e5m2", out=out.memory,
            )  # fmt: skip
            exact = wide * broadcast_factors
            assert same_bits(device, out.array(), stored(exact, element), element, UNIT[f32])


def test_product_of_quantised_operands() -> None:
    """Within what rounding to 8 bits makes of each element."""
    a, b = drawn((9, 80), f32), drawn((7, 80), f32)
    (x, of_rows), (y, of_columns) = quantise_fp8("cpu", a), quantise_fp8("cpu", b)
    product = gemm_fp8(
        "cpu", x, y, transpose_b=True, dtype="e4m3", scale_a=of_rows, scale_b=of_columns
    )
    wide = [
        np.abs(each).astype(np.float64) + np.abs(each).max(-1, keepdims=True) * 2.0**-14
        for each in (a, b)
    ]
    bound = (2.0**-3 + 2.0**-7) * wide[0] @ wide[1].T
    assert (np.abs(product - a.astype(np.float64) @ b.T) <= bound).all()
    assert np.array_equal(
        dequantise_fp8("cpu", x, of_rows, dtype="e4m3"),
        float8.values_of(e4m3, x) * of_rows[:, None],
    )


def test_results_without_out() -> None:
    x = drawn((4, 6), f32)
    bits, scales = quantise_fp8("cpu", x, scales="tensor")
    assert bits.dtype == np.uint8
    assert bits.shape == (4, 6)
    assert scales.shape == (1,)
    assert dequantise_fp8("cpu", bits, scales, dtype="e4m3").dtype == np.float32
    assert [each.shape for each in quantise_fp8("cpu", x[:0])] == [(0, 6), (0,)]
    assert dequantise_fp8("cpu", bits[:0], scales[:0], dtype="e5m2").shape == (0, 6)


def test_tensors_of_pytorch() -> None:
    torch: Any = pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")
    x = torch.from_numpy(drawn((4, 6), f32))
    bits, scales = quantise_fp8("cpu", x, dtype="e5m2")
    assert bits.dtype == torch.float8_e5m2
    assert scales.dtype == torch.float32
    wanted = quantised(x.numpy(), e5m2, by_rows=True)
    assert np.array_equal(bits.view(torch.uint8).numpy(), wanted[0])
    back = dequantise_fp8("cpu", bits, scales)
    assert torch.equal(back, bits.float() * scales[:, None])


X, BITS, ONE = np.ones((4, 6), np.float32), np.zeros((4, 6), np.uint8), np.ones(1, np.float32)
ROWS = np.ones(4, np.float32)


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (X.astype(np.float64), {}, "x is of float64; tensors are of"),
        (X.T, {}, "x has strides"),
        (X, {"dtype": "e4m2"}, "dtype must be"),
        (X, {"scales": "columns"}, "scales must be"),
        (X, {"out": BITS}, "out must be two tensors, for elements and scales"),
        (X, {"out": (BITS[:3], ROWS)}, r"out\[0\] must be of shape \(4, 6\)"),
        (X, {"out": (BITS, ONE)}, r"out\[1\] must be f32 of shape \(4,\)"),
        (X, {"out": (BITS, ROWS), "scales": "tensor"}, r"out\[1\] must be f32 of shape \(1,\)"),
        (X, {"out": (X.view(np.uint8)[:, :6].copy().astype(np.int8), ROWS)}, "is of int8; 8-bit"),
        (X, {"out": (BITS, X.reshape(-1)[:4])}, r"out\[1\] is in the memory of x"),
        (X[:, :0].copy(), {}, "x has no elements that a scale could be of"),
    ],
)
def test_invalid_quantisation_arguments_are_rejected(
    x: Array, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        quantise_fp8("cpu", x, **options)


@pytest.mark.parametrize(
    ("x", "scales", "options", "message"),
    [
        (BITS, ROWS, {}, "x is of uint8; 8-bit floats are"),
        (X, ROWS, {"dtype": "e4m3"}, "x is of float32; 8-bit floats are"),
        (BITS, ROWS[:3], {"dtype": "e4m3"}, r"scales must be f32 of shape \(4,\)"),
        (BITS, ROWS, {"dtype": "fp8"}, "dtype must be"),
        (BITS, ROWS, {"dtype": "e4m3", "out": X[:3]}, r"out must be of shape \(4, 6\)"),
        (BITS, ROWS, {"dtype": "e4m3", "out": BITS}, "out is of uint8; tensors are of"),
        (BITS, X.reshape(-1)[:4], {"dtype": "e4m3", "out": X}, "out is in the memory of scales"),
    ],
)
def test_invalid_dequantisation_arguments_are_rejected(
    x: Array, scales: Array, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        dequantise_fp8("cpu", x, scales, **options)
