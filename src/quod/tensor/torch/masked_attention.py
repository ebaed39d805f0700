"""Attention with a mask or dropout: all weights of a head are in memory, in f32."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from quod.errors import InputError
from quod.tensor.scalars import between, positive
from quod.tensor.torch.library import check_tensor
from quod.tensor.torch.memory import check_same_device, check_shape
from quod.tensor.torch.products import gemm
from quod.tensor.torch.rows import softmax


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, causal: bool, lengths: Tensor | None,
    mask: Tensor | None, dropout: float,
) -> Tensor:  # fmt: skip
    """Return the attention of checked heads; see `heads.attention`."""
    if lengths is not None:
        check_shape("lengths", lengths, *(q.shape[:-3] or (1,)))
    factor = 1 / math.sqrt(q.shape[-1] or 1) if scale is None else positive("scale", scale)
    keys, values = (_repeated(heads, q.shape[-3]).float() for heads in (k, v))
    logits = gemm(q.float(), keys, transpose_b=True, scale=factor)
    visible = _visible(q, k, causal, lengths)
    if mask is not None:
        visible, logits = _with_mask(visible, logits, mask)
    if visible is not None:
        # A query that sees no key has equal logits, so that its gradients are not NaN.
        logits = logits.masked_fill(~visible, -math.inf)
        logits = logits.masked_fill(~visible.any(-1, keepdim=True), 0.0)
    weights = softmax(logits)
    if visible is not None:
        weights = weights.masked_fill(~visible, 0.0)
    weights = torch.nn.functional.dropout(weights, dropout)
    return gemm(weights, values).to(q.dtype)


def check_mask(q: Tensor, k: Tensor, mask: Tensor | None, dropout: float) -> None:
    """Raise InputError for a mask or a probability that does not fit."""
    between("dropout", dropout, 0, 1)
    if mask is None:
        return
    check_tensor("mask", mask)
    check_same_device(q=q, mask=mask)
    if mask.dtype not in (torch.bool, torch.float32, q.dtype):
        raise InputError(f"mask must be of bool, float32 or {q.dtype}, not {mask.dtype}")
    shape = (*q.shape[:-1], k.shape[-2])
    axes = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.dim() > len(shape) or any(length not in (1, wanted) for length, wanted in axes):
        raise InputError(f"mask must be broadcastable to {shape}, not of {tuple(mask.shape)}")


def _repeated(heads: Tensor, count: int) -> Tensor:
    """Repeat each key head for the adjacent query heads that share it."""
    if not heads.shape[-3] or count % heads.shape[-3]:
        raise InputError(f"k has {heads.shape[-3]} heads, but must divide the {count} heads of q")
    return heads.repeat_interleave(count // heads.shape[-3], dim=-3)


def _visible(q: Tensor, k: Tensor, causal: bool, lengths: Tensor | None) -> Tensor | None:
    """Return which keys a query sees by its position and by lengths; None if it sees all."""
    queries, keys = q.shape[-2], k.shape[-2]
    if not causal and lengths is None:
        return None
    key = torch.arange(keys, device=q.device)
    counts = torch.full((1,), keys, device=q.device)
    if lengths is not None:
        counts = lengths.to(torch.int64)
        # A length that is negative or too large means all keys.
        counts = torch.where((counts < 0) | (counts > keys), keys, counts)
        counts = counts.view(*(q.shape[:-3] or (1,)))[..., None, None, None]
    if causal:
        query = torch.arange(queries, device=q.device)
        counts = counts + (query + 1 - queries)[:, None]
    return key < counts


def _with_mask(
    visible: Tensor | None, logits: Tensor, mask: Tensor
) -> tuple[Tensor | None, Tensor]:
    """Return which keys are visible, and the logits with a mask of numbers added."""
    if mask.dtype is torch.bool:
        seen = mask.expand_as(logits)
    else:
        seen = (mask != -math.inf).expand_as(logits)
        logits = logits + mask.float()
    return seen if visible is None else visible & seen, logits
