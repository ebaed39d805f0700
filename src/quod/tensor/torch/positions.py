"""Rotary position embeddings."""

from __future__ import annotations

from torch import Tensor

from quod import tensor
from quod.tensor.embeddings.rotary import Pairs
from quod.tensor.torch.library import Operator
from quod.tensor.torch.memory import check_alike, check_same_device, empty_like


def rope(x: Tensor, table: Tensor, *, pairs: Pairs = "halves", axis: int = -2) -> Tensor:
    """Rotate pairs of elements of each row by the angles of its token.

    See `quod.tensor.rope`, and `softmax` on accepted tensors. `table` is
    ``torch.from_numpy(rope_table(...))`` on the device of `x`; it has no gradient.
    """
    return _ROPE(x, table, pairs, axis)


def _allocate(x: Tensor, table: Tensor, pairs: str, axis: int) -> Tensor:
    check_alike(x=x)
    check_same_device(x=x, table=table)
    return empty_like(x)


def _allocate_gradient(gradient: Tensor, table: Tensor, pairs: str, axis: int) -> Tensor:
    return _allocate(gradient, table, pairs, axis)


_ROPE_BACKWARD = Operator(
    "rope_backward", "(Tensor gradient, Tensor table, str pairs, int axis) -> Tensor",
    _allocate_gradient, tensor.rope_backward,
)  # fmt: skip
_ROPE = Operator(
    "rope", "(Tensor x, Tensor table, str pairs, int axis) -> Tensor", _allocate, tensor.rope,
    keeps=lambda _, table, pairs, axis, _y: (table, pairs, axis), gradient=_ROPE_BACKWARD,
)  # fmt: skip
