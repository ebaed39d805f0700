"""Attention of PyTorch tensors with masks and dropout: hidden keys, kept weights, bad masks."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")

import torch

from quod.errors import DeviceError, InputError
from quod.tensor import torch as ops

HEADS, KEYS = (2, 4, 6, 8), (2, 2, 9, 8)


def heads(dtype: Any = torch.float32) -> list[Any]:
    draw = torch.Generator().manual_seed(5)
    return [torch.randn(shape, generator=draw).to(dtype) for shape in (HEADS, KEYS, KEYS)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "shape", [(6, 9), (1, 9), (6, 1), (2, 1, 6, 9), (4, 6, 9), (2, 4, 6, 9)], ids=str
)
def test_masks_as_in_pytorch(shape: Any, dtype: Any) -> None:
    q, k, v = heads(dtype)
    draw = torch.Generator().manual_seed(7)
    numbers = torch.randn(shape, generator=draw).to(dtype)
    unit = {torch.float32: 2.0**-20, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}[dtype]
    for mask in (numbers > -0.5, numbers, numbers.float()):
        exact = torch.nn.functional.scaled_dot_product_attention(
            q.double(), k.double(), v.double(), enable_gqa=True,
            attn_mask=mask if mask.dtype is torch.bool else mask.double(),
        )  # fmt: skip
        y = ops.attention(q, k, v, mask=mask)
        assert y.dtype == dtype
        seen = torch.isfinite(exact)
        assert (y - exact)[seen].abs().max() <= unit * v.abs().max()


def test_full_masks_equal_attention_without_a_mask() -> None:
    q, k, v = heads()
    for options in ({}, {"causal": True}, {"lengths": torch.tensor([4, 20]), "causal": True}):
        plain = ops.attention(q, k, v, **options)
        masked = ops.attention(q, k, v, mask=torch.ones(6, 9, dtype=torch.bool), **options)
        assert torch.allclose(masked, plain, atol=1e-6)


def test_hidden_keys_and_queries_without_keys() -> None:
    """Minus infinity hides a key as False does; a query without keys gives 0, and no NaN."""
    q, k, v = (each.requires_grad_() for each in heads())
    mask = torch.ones(6, 9, dtype=torch.bool)
    mask[2], mask[:, 4] = False, False
    added = torch.zeros(6, 9).masked_fill(~mask, -math.inf).requires_grad_()
    y = ops.attention(q, k, v, mask=added)
    assert torch.equal(y, ops.attention(q, k, v, mask=mask))
    assert (y[:, :, 2] == 0).all()
    gradients = torch.autograd.grad(y.sum(), (q, k, v, added))
    assert all(torch.isfinite(each).all() for each in gradients)
    assert (gradients[1][:, :, 4] == 0).all()
    assert (gradients[2][:, :, 4] == 0).all()
    assert (gradients[3][~mask] == 0).all()


def test_dropout_keeps_scaled_weights() -> None:
    q, k, _ = heads()
    names = torch.eye(9).expand(2, 2, 9, 9)
    q, k = (torch.nn.functional.pad(each, (0, 1)) for each in (q, k))
    weights = ops.attention(q, k, names, scale=0.3)
    torch.manual_seed(3)
    y = ops.attention(q, k, names, scale=0.3, dropout=0.25)
    torch.manual_seed(3)
    assert torch.equal(y, ops.attention(q, k, names, scale=0.3, dropout=0.25))
    kept = y != 0
    assert torch.allclose(y[kept], weights[kept] / 0.75, rtol=1e-5)
    assert 0.65 < kept.double().mean() < 0.85


def test_compiled_masks() -> None:
    q, k, v = heads()
    mask = torch.ones(6, 9).tril(3).bool()

    def attended(q: Any, k: Any, v: Any) -> Any:
        return ops.attention(q, k, v, mask=mask)

    compiled = torch.compile(attended, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v), attended(q, k, v))


def test_bad_masks_are_rejected() -> None:
    q, k, v = heads()
    for options, message in (
        ({"mask": torch.ones(9, 6).bool()}, r"^mask must be broadcastable to \(2, 4, 6, 9\), not"),
        ({"mask": torch.ones(1, 2, 4, 6, 9)}, "^mask must be broadcastable"),
        ({"mask": torch.ones(6, 9).half()}, "^mask must be of bool, float32 or torch.float32, not"),
        ({"mask": torch.ones(6, 9).long()}, "^mask must be of bool"),
        ({"mask": [[True]]}, "^mask must be a tensor of PyTorch, not"),
        ({"dropout": 1.0}, "^dropout must be from 0 on and below 1, not 1.0"),
        ({"dropout": -0.5}, "^dropout must be"),
        ({"dropout": math.nan}, "^dropout must be"),
        ({"dropout": 0.5, "scale": -1.0}, "^scale must be at least"),
        ({"dropout": 0.5, "causal": 1}, "^causal must be True or False"),
        ({"dropout": 0.5, "lengths": torch.ones(3).long()}, r"^lengths must be of shape \(2,\)"),
    ):
        with pytest.raises(InputError, match=message):
            ops.attention(q, k, v, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^k has 3 heads, but must divide the 4 heads of q"):
        ops.attention(q, *[torch.ones(2, 3, 9, 8)] * 2, dropout=0.1)
    with pytest.raises(DeviceError, match=r"^mask is on meta"):
        ops.attention(q, k, v, mask=torch.ones(6, 9, device="meta"))
