"""8-bit floats of PyTorch: to the bit what `quod.tensor` gives, gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")

import torch

from quod import tensor
from quod.errors import DeviceError, InputError
from quod.kernel import e4m3, e5m2
from quod.kernel.ops import float8
from quod.tensor import torch as ops
from quod.tensor.torch import floats8

TYPES: dict[Any, Any] = {torch.float8_e4m3fn: e4m3, torch.float8_e5m2: e5m2}
RESULTS = (torch.float32, torch.float16, torch.bfloat16)


def drawn(*shape: int, dtype: Any = torch.float32) -> Any:
    samples = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
    return samples.to(dtype)


def values(x: Any) -> Any:
    """The numbers of 8-bit floats, in float64."""
    bits = x.contiguous().view(torch.uint8).numpy()
    return torch.from_numpy(float8.values_of(TYPES[x.dtype], bits)).double()


A, B = (drawn(*shape, dtype=torch.float8_e4m3fn) for shape in ((2, 3, 5), (4, 5)))
A5 = A.to(torch.float8_e5m2)
OF_ROWS, OF_COLUMNS, BIAS = drawn(2, 3).exp(), drawn(4).exp(), drawn(4)


@pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])
@pytest.mark.parametrize("scales", ["rows", "tensor"])
@pytest.mark.parametrize("input_type", RESULTS, ids=str)
def test_quantisation_round_trips(input_type: Any, scales: Any, dtype: Any) -> None:
    for shape in ((3, 9), (2, 3, 65), (7,)):
        x = drawn(*shape, dtype=input_type)
        held = x.view(torch.uint16).numpy() if input_type is torch.bfloat16 else x.numpy()
        bits, factors = tensor.quantise_fp8("cpu", held, dtype=dtype, scales=scales)
        elements, of_rows = ops.quantise_fp8(x, dtype=dtype, scales=scales)
        assert elements.dtype is floats8._NAMED[dtype]
        assert np.array_equal(elements.view(torch.uint8).numpy(), bits)
        assert np.array_equal(of_rows.numpy(), factors)
        back = ops.dequantise_fp8(elements, of_rows, out_dtype=input_type)
        assert back.dtype is input_type
        broadcast_scales = of_rows if scales == "tensor" or len(shape) == 1 else of_rows[..., None]
        assert torch.equal(back, (values(elements).float() * broadcast_scales).to(input_type))


@pytest.mark.parametrize(
    ("a", "result"),
    [
        pytest.param(a, result, marks=() if always else pytest.mark.thorough, id=f"{name}-{result}")
        for name, a in (("e4m3", A), ("e5m2 by e4m3", A5))
        for result in RESULTS
        for always in [(a is A5) == (result is torch.bfloat16) and result is not torch.float16]
    ],
)
def test_products(a: Any, result: Any) -> None:
    """Whole numbers of exact sums, times scales."""
    y = ops.gemm_fp8(
        a, B, scale_a=OF_ROWS, scale_b=OF_COLUMNS, bias=BIAS, transpose_b=True, out_dtype=result
    )
    exact = values(a) @ values(B).T * OF_ROWS[..., None] * OF_COLUMNS + BIAS
    assert y.dtype is result
    unit = {torch.float32: 2.0**-20, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}[result]
    assert (y.double() - exact).abs().max() <= unit * exact.abs().max()


def test_operands_are_used_without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ops.gemm_fp8(A[0], B, transpose_b=True)
    taken: dict[str, Any] = {}
    monkeypatch.setattr(
        floats8, "call", lambda _function, out, **arguments: taken.update(arguments) or out
    )
    ops.gemm_fp8(A[0], B.mT)
    assert taken["transpose_b"]
    assert taken["b"].data_ptr() == B.data_ptr()
    monkeypatch.undo()
    turned = A[0].mT.contiguous()
    strided = torch.empty(4, 10, dtype=B.dtype)[:, ::2].copy_(B)
    for a, b, how in (
        (A[0], B.mT, {}), (turned, B.mT.contiguous(), {"transpose_a": True}),
        (turned.mT, strided, {"transpose_b": True}),
    ):  # fmt: skip
        assert torch.equal(ops.gemm_fp8(a, b, **how), wanted)


def test_scalar_scales() -> None:
    wanted = ops.gemm_fp8(A, B, transpose_b=True)
    for scale in (0.5, torch.tensor([0.5])):
        product = ops.gemm_fp8(A, B, scale_a=scale, scale_b=4, transpose_b=True)
        assert torch.equal(product, 2 * wanted)


def test_a_bias_has_a_gradient() -> None:
    for result in RESULTS:
        bias = BIAS.clone().requires_grad_()
        y = ops.gemm_fp8(A, B, bias=bias, transpose_b=True, out_dtype=result)
        slopes = torch.ones_like(y)
        (gradient,) = torch.autograd.grad(y, bias, slopes)
        assert torch.equal(gradient, torch.full((4,), 6.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.quantise_fp8(x)[0].float(), "^x of quantise_fp8 has no gradient, and one"),
        (lambda x: ops.quantise_fp8(x)[1], "^x of quantise_fp8 has no gradient, and one is asked"),
        (
            lambda x: ops.quantise_fp8(x, scales="tensor")[1] * x,
            "^x of quantise_fp8 has no gradient, and one is asked for$",
        ),
        (
            lambda x: ops.dequantise_fp8(A[0], x[:, 0].contiguous()),
            "^scales of dequantise_fp8 has no gradient, and one is asked for$",
        ),
        (
            lambda x: ops.gemm_fp8(A[0], B, scale_a=x[:, 0], transpose_b=True),
            "^scale_a of gemm_fp8 has no gradient, and one is asked for$",
        ),
    ],
)
def test_missing_gradients_are_reported(call: Any, message: str) -> None:
    x = drawn(3, 5).requires_grad_()
    y = call(x)
    with pytest.raises(InputError, match=message):
        y.sum().backward()


@pytest.mark.thorough
def test_a_compiled_layer() -> None:
    """The bits of calls that nobody compiled, for sizes that the graph does not know."""

    def layer(x: Any, weight: Any, of_columns: Any) -> Any:
        a, of_rows = ops.quantise_fp8(x)
        return ops.gemm_fp8(
            a, weight, scale_a=of_rows, scale_b=of_columns, transpose_b=True,
            out_dtype=torch.bfloat16,
        )  # fmt: skip

    weight, of_columns = ops.quantise_fp8(drawn(6, 9))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (3, 4, 7):
        x = drawn(rows, 9)
        assert torch.equal(compiled(x, weight, of_columns), layer(x, weight, of_columns))


def test_empty_tensors() -> None:
    none = torch.empty(0, 5, dtype=torch.float8_e4m3fn)
    assert ops.gemm_fp8(none, B, transpose_b=True).shape == (0, 4)
    nothing = torch.empty(3, 0, dtype=torch.float8_e4m3fn)
    assert torch.equal(
        ops.gemm_fp8(nothing, torch.empty(4, 0, dtype=nothing.dtype), bias=BIAS, transpose_b=True),
        BIAS.expand(3, 4),
    )
    elements, scales = ops.quantise_fp8(torch.empty(0, 5))
    assert (elements.shape, scales.shape) == ((0, 5), (0,))
    assert ops.dequantise_fp8(elements, scales).shape == (0, 5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.gemm_fp8(BIAS, B), r"^a is of torch.float32; 8-bit floats are of float8_e4"),
        (lambda: ops.gemm_fp8(A, B), r"^the summed axis of b has 4 elements, but that of a has 5$"),
        (
            lambda: ops.gemm_fp8(A, B, transpose_b=True, scale_a=OF_COLUMNS),
            r"^scale_a must be of shape \(2, 3\), not \(4,\)$",
        ),
        (
            lambda: ops.gemm_fp8(A, B, transpose_b=True, scale_b=OF_ROWS),
            r"^scale_b must be of shape \(4,\), not \(2, 3\)$",
        ),
        (
            lambda: ops.gemm_fp8(A, B, transpose_b=True, bias=BIAS.half()),
            r"^bias is of torch.float16, and must be of float32$",
        ),
        (
            lambda: ops.gemm_fp8(A, B, transpose_b=True, out_dtype=torch.float64),
            r"^out_dtype must be float32, float16 or bfloat16, not torch.float64$",
        ),
        (
            lambda: ops.dequantise_fp8(A, OF_ROWS[0]),
            r"^scales must be of shape \(2, 3\), not \(3,\)$",
        ),
        (lambda: ops.dequantise_fp8(BIAS, BIAS), r"^x is of torch.float32; 8-bit floats are of "),
        (lambda: ops.quantise_fp8(A), r"^x is of torch.float8_e4m3fn; tensors are of float32, "),
        (lambda: ops.quantise_fp8(BIAS, dtype="e3m4"), r"^dtype must be e4m3 or e5m2, not "),
        (lambda: ops.quantise_fp8(torch.ones(3, 0)), r"^x has no elements that a scale could be"),
        (
            lambda: ops.gemm_fp8(A, B, transpose_b=True, scale_a=float("inf")),
            r"^scale_a must be a number",
        ),
    ],
)
def test_invalid_arguments_are_rejected(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_tensors_of_other_devices() -> None:
    with pytest.raises(DeviceError, match=r"^scale_a is on meta, and a on cpu; move one of them$"):
        ops.gemm_fp8(A, B, transpose_b=True, scale_a=OF_ROWS.to("meta"))
