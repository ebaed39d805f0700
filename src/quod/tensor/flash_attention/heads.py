"""The arguments of attention and its gradient: heads of queries, keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import frozen
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_like,
    check_apart,
    float32_tensor,
    indices,
    tensor,
    tensor_like,
)
from quod.tensor.flash_attention.plan import LARGEST_HEAD
from quod.tensor.scalars import positive

_MAX_LINES = 1 << 30
"""The limit of queries and of keys, so that their sum fits a 32-bit word."""


@frozen(eq=False)
class Heads:
    """The validated tensors of one call."""

    q: Tensor
    k: Tensor
    v: Tensor
    lengths: Tensor | None
    causal: bool
    scale: float

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of queries of a head, of keys of a head, and of elements of a line."""
        return self.q.shape[-2], self.k.shape[-2], self.q.columns

    @property
    def heads(self) -> int:
        """The number of query heads of a sequence."""
        return self.q.shape[-3]

    @property
    def of_keys(self) -> int:
        """The number of key heads of all sequences."""
        return math.prod(self.k.shape[:-2])

    @property
    def shared_by(self) -> int:
        """The number of query heads that share one key head."""
        return self.heads // self.k.shape[-3]

    @property
    def tensors(self) -> list[Tensor | None]:
        """All tensors that kernels read; None in place of missing lengths."""
        return [self.q, self.k, self.v, self.lengths]

    def of_queries(self, device: AnyDevice, name: str, value: AnyArray) -> Tensor:
        """Validate an f32 tensor with one number for each query; InputError if it does not fit."""
        return float32_tensor(device, name, value, self.q.shape[:-1])

    def memory(self) -> list[Any]:
        """Return the memory of q, k and v, then of the lengths if there are any.

        In place of an empty tensor, which kernels do not read, the memory of another tensor is
        passed.
        """
        operands = [self.q, self.k, self.v]
        nonempty = next((operand for operand in operands if math.prod(operand.shape)), self.q)
        memories = [
            (operand if math.prod(operand.shape) else nonempty).memory for operand in operands
        ]
        return memories if self.lengths is None else [*memories, self.lengths.memory]


def heads_of(
    device: AnyDevice, q: AnyArray, k: AnyArray, v: AnyArray, *, scale: float | None, causal: bool,
    lengths: AnyArray | None,
) -> Heads:  # fmt: skip
    """Validate the tensors of a call; InputError, with the argument's name, if one does not fit."""
    queries, keys = tensor(device, "q", q), tensor(device, "k", k)
    if len(queries.shape) < 3:
        raise InputError(
            f"q must have at least the axes (heads, queries, size), not {queries.text}"
        )
    leading, (heads, query_count, size) = queries.shape[:-3], queries.shape[-3:]
    matches = keys.element is queries.element and len(keys.shape) == len(queries.shape)
    if not matches or keys.shape[:-3] != leading or keys.columns != size:
        expected_shape = ", ".join(map(str, (*leading, "kv_heads", "keys", size)))
        raise InputError(
            f"k must be {queries.element} of shape ({expected_shape}), not {keys.text}"
        )
    if not keys.shape[-3] or heads % keys.shape[-3]:
        raise InputError(f"k has {keys.shape[-3]} heads, but must divide the {heads} heads of q")
    if not 0 < size <= LARGEST_HEAD:
        raise InputError(f"q has heads of {size} elements; the range is 1 to {LARGEST_HEAD}")
    if max(query_count, keys.shape[-2]) > _MAX_LINES:
        raise InputError(
            f"q has {query_count} queries and k has {keys.shape[-2]} keys; the limit is "
            f"{_MAX_LINES}"
        )
    values = tensor_like(device, "v", v, keys)
    key_counts = None
    if lengths is not None:
        key_counts = indices(device, "lengths", lengths)
        if key_counts.shape != (leading or (1,)):
            raise InputError(
                f"lengths must have the shape {leading or (1,)}, not {key_counts.shape}"
            )
    factor = 1 / math.sqrt(size) if scale is None else positive("scale", scale)
    return Heads(queries, keys, values, key_counts, causal, factor)


def results_of(
    device: AnyDevice, value: AnyArray, q: Tensor, read: Sequence[Tensor | None],
    log_sums: AnyArray | None, out: AnyArray | None,
) -> tuple[Any, Tensor, Tensor | None]:  # fmt: skip
    """Return the caller's result, its memory, and the memory of `log_sums`, if any.

    The result is `out`, or new memory like `q`. Raises InputError if one does not fit, or overlaps
    memory that is read.
    """
    target = allocate_like(device, value, q) if out is None else out
    out_tensor = tensor_like(device, "out", target, q)
    sums = None
    if log_sums is not None:
        sums = float32_tensor(device, "log_sums", log_sums, q.shape[:-1])
        check_apart(sums, *read)
    check_apart(out_tensor, *read, sums)
    return target, out_tensor, sums
