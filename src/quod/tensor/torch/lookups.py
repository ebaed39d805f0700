"""Embeddings: rows of a table selected by indices."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from quod import tensor
from quod.errors import InputError
from quod.tensor.torch.library import Operator
from quod.tensor.torch.memory import (
    call,
    check_alike,
    check_indices,
    check_same_device,
    int32_indices,
)


def embedding(table: Tensor, indices: Tensor) -> Tensor:
    """Return the rows of a table that indices of int64, int32 or uint32 select.

    See `quod.tensor.embedding`, and `softmax` on accepted tensors. An index out of range raises
    InputError, naming the first.
    """
    return _EMBEDDING(table, indices)


def _allocate(table: Tensor, indices: Tensor) -> Tensor:
    if table.dim() != 2:
        raise InputError(f"table must have the axes rows and size, not shape {tuple(table.shape)}")
    check_alike(table=table)
    _check_indices("table", table, indices)
    return table.new_empty((*indices.shape, table.shape[1]))


def _allocate_gradient(gradient: Tensor, indices: Tensor, rows: int) -> Tensor:
    check_alike(gradient=gradient)
    _check_indices("gradient", gradient, indices)
    return gradient.new_empty((rows, gradient.shape[-1]))


def _check_indices(name: str, x: Tensor, indices: Tensor) -> None:
    check_same_device(**{name: x, "indices": indices})
    check_indices("indices", indices)


def _run(table: Tensor, indices: Tensor) -> Any:
    out = _allocate(table, indices)
    return call(tensor.embedding, out, table=table, indices=int32_indices(indices))


def _run_gradient(gradient: Tensor, indices: Tensor, rows: int) -> Any:
    out, index_tensor = _allocate_gradient(gradient, indices, rows), int32_indices(indices)
    return call(tensor.embedding_backward, out, gradient=gradient, indices=index_tensor, rows=rows)


_EMBEDDING_BACKWARD = Operator(
    "embedding_backward", "(Tensor gradient, Tensor indices, SymInt rows) -> Tensor",
    _allocate_gradient, run=_run_gradient,
)  # fmt: skip
_EMBEDDING = Operator(
    "embedding", "(Tensor table, Tensor indices) -> Tensor", _allocate, run=_run,
    keeps=lambda table, indices, _: (indices, table.shape[0]), gradient=_EMBEDDING_BACKWARD,
)  # fmt: skip
