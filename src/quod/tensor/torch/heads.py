"""Attention of several heads as a PyTorch op, and its gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quod import tensor
from quod.errors import InputError
from quod.tensor.torch.library import Operator, check_tensor
from quod.tensor.torch.masked_attention import check_mask, masked_attention
from quod.tensor.torch.memory import (
    call,
    check_alike,
    check_indices,
    check_same_device,
    check_shape,
    empty_like,
    int32_indices,
)
from quod.validation import flag


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, causal: bool = False,
    lengths: Tensor | None = None, mask: Tensor | None = None, dropout: float = 0.0,
) -> Tensor:  # fmt: skip
    """Return softmax(scale * q k^T + mask) v of each head.

    See `quod.tensor.attention`; `softmax` says which tensors are accepted. `q` has the shape (...,
    heads, queries, size), `k` and `v` (..., kv_heads, keys, size). `lengths`, the number of keys of
    each sequence, is of int64, int32 or uint32, and has the shape of the leading axes, or (1,) if
    there are none.

    `mask` can be broadcast to (..., heads, queries, keys): bool, True where a query sees a key, or
    numbers, of float32 or the type of `q`, that are added to the logits; minus infinity hides a
    key. `dropout` is the probability that a weight becomes 0; the others are divided by 1 -
    `dropout`. With either, all weights are in memory, in f32, and NaN or infinity of a hidden key
    is not hidden.
    """
    if mask is None and type(dropout) in (float, int) and dropout == 0:
        return _ATTENTION(q, k, v, lengths, scale, causal)[0]
    for name, each in (("q", q), ("k", k), ("v", v)):
        check_tensor(name, each)
    _check(q, k, v, lengths)
    check_mask(q, k, mask, dropout)
    return masked_attention(
        q, k, v, scale=scale, causal=flag("causal", causal), lengths=lengths, mask=mask,
        dropout=dropout,
    )  # fmt: skip


def _check_and_allocate(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, scale: float | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Check the arguments, and allocate the result and the log-sum-exp of each query's row.

    PyTorch also calls this function for the shapes of the results.
    """
    _check(q, k, v, lengths)
    return empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)


def _run(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, scale: float | None, causal: bool
) -> Any:
    y, log_sums = _check_and_allocate(q, k, v, lengths, scale, causal)
    call(
        tensor.attention, y, q=q, k=k, v=v, scale=scale, causal=causal,
        lengths=int32_indices(lengths), log_sums=log_sums,
    )  # fmt: skip
    return y, log_sums


def _check_and_allocate_gradients(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, y: Tensor, log_sums: Tensor,
    lengths: Tensor | None, scale: float | None, causal: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    _check(q, k, v, lengths)
    check_alike(q=q, y=y, gradient=gradient)
    check_same_device(q=q, log_sums=log_sums)
    check_shape("gradient", gradient, *q.shape)
    return empty_like(q), empty_like(k), empty_like(v)


def _run_gradients(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, y: Tensor, log_sums: Tensor,
    lengths: Tensor | None, scale: float | None, causal: bool,
) -> Any:  # fmt: skip
    outs = _check_and_allocate_gradients(gradient, q, k, v, y, log_sums, lengths, scale, causal)
    return call(
        tensor.attention_backward, outs, gradient=gradient, q=q, k=k, v=v, y=y, log_sums=log_sums,
        lengths=int32_indices(lengths), scale=scale, causal=causal,
    )  # fmt: skip


def _check(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None) -> None:
    check_alike(q=q, k=k, v=v)
    check_same_device(q=q, lengths=lengths)
    if lengths is not None:
        check_indices("lengths", lengths)
    if q.dim() < 3 or k.dim() != q.dim():
        raise InputError(
            f"q and k must have at least the axes heads, tokens and size, and the same number of "
            f"axes; they have the shapes {tuple(q.shape)} and {tuple(k.shape)}"
        )
    check_shape("k", k, *q.shape[:-3], *k.shape[-3:-1], q.shape[-1])
    check_shape("v", v, *k.shape)


_ATTENTION_BACKWARD = Operator(
    "attention_backward",
    "(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor y, Tensor log_sums, Tensor? lengths, "
    "float? scale, bool causal) -> (Tensor, Tensor, Tensor)",
    _check_and_allocate_gradients, run=_run_gradients,
)  # fmt: skip
_ATTENTION = Operator(
    "attention",
    "(Tensor q, Tensor k, Tensor v, Tensor? lengths, float? scale, bool causal)"
    " -> (Tensor, Tensor)",
    _check_and_allocate, run=_run,
    keeps=lambda q, k, v, lengths, scale, causal, y, log_sums: (
        q, k, v, y, log_sums, lengths, scale, causal
    ),
    gradient=_ATTENTION_BACKWARD,
)  # fmt: skip
