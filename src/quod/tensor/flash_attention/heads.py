"""The arguments of attention and its gradient: heads of queries, keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import frozen
from quod.tensor.arrays import (
    Given,
    Tensor,
    check_apart,
    indices,
    like,
    of_numbers,
    result,
    tensor,
)
from quod.tensor.flash_attention.plan import LARGEST_HEAD
from quod.tensor.scalars import positive

_MOST = 1 << 30
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
        """The number of queries and of keys, and the elements of a head."""
        return self.q.shape[-2], self.k.shape[-2], self.q.columns

    @property
    def heads(self) -> int:
        """The heads of queries in a sequence."""
        return self.q.shape[-3]

    @property
    def of_keys(self) -> int:
        """The heads of keys in all sequences."""
        return math.prod(self.k.shape[:-2])

    @property
    def shared_by(self) -> int:
        """The heads of queries that share a head of keys."""
        return self.heads // self.k.shape[-3]

    @property
    def tensors(self) -> list[Tensor | None]:
        """All tensors that kernels read; None in place of missing lengths."""
        return [self.q, self.k, self.v, self.lengths]

    def of_queries(self, device: AnyDevice, name: str, value: Given) -> Tensor:
        """Return an f32 tensor with one number for each query; InputError if it differs."""
        return of_numbers(device, name, value, self.q.shape[:-1])

    def memory(self) -> list[Any]:
        """Return the memory of q, k, v and the lengths.

        An empty tensor, which kernels do not read, is replaced by another one.
        """
        some = [self.q, self.k, self.v]
        spare = next((operand for operand in some if math.prod(operand.shape)), self.q)
        memories = [(operand if math.prod(operand.shape) else spare).memory for operand in some]
        return memories if self.lengths is None else [*memories, self.lengths.memory]


def heads_of(
    device: AnyDevice, q: Given, k: Given, v: Given, *, scale: float | None, causal: bool,
    lengths: Given | None,
) -> Heads:  # fmt: skip
    """Validate the tensors of a call; InputError, with the argument's name, if one does not fit."""
    queries, keys = tensor(device, "q", q), tensor(device, "k", k)
    if len(queries.shape) < 3:
        raise InputError(f"q has the axes heads, queries and size at least, and is {queries.text}")
    leading, (heads, count, size) = queries.shape[:-3], queries.shape[-3:]
    fits = keys.element is queries.element and len(keys.shape) == len(queries.shape)
    if not fits or keys.shape[:-3] != leading or keys.columns != size:
        wanted = ", ".join(map(str, (*leading, "kv_heads", "keys", size)))
        raise InputError(f"k must be {queries.element} of shape ({wanted}), not {keys.text}")
    if not keys.shape[-3] or heads % keys.shape[-3]:
        raise InputError(f"k has {keys.shape[-3]} heads, which do not divide the {heads} of q")
    if not 0 < size <= LARGEST_HEAD:
        raise InputError(f"q has heads of {size} elements; they go from 1 to {LARGEST_HEAD}")
    if max(count, keys.shape[-2]) > _MOST:
        raise InputError(f"q has {count} queries and k {keys.shape[-2]} keys; at most {_MOST} go")
    values = like(device, "v", v, keys)
    seen = None
    if lengths is not None:
        seen = indices(device, "lengths", lengths)
        if seen.shape != (leading or (1,)):
            raise InputError(f"lengths must have the shape {leading or (1,)}, not {seen.shape}")
    factor = 1 / math.sqrt(size) if scale is None else positive("scale", scale)
    return Heads(queries, keys, values, seen, causal, factor)


def results_of(
    device: AnyDevice, value: Given, q: Tensor, read: Sequence[Tensor | None],
    log_sums: Given | None, out: Given | None,
) -> tuple[Any, Tensor, Tensor | None]:  # fmt: skip
    """Return the caller's result, its memory, and the memory of `log_sums`, if any.

    The result is `out`, or new memory like `q`. Raises InputError if one does not fit, or overlaps
    memory that is read.
    """
    target = result(device, value, q) if out is None else out
    out_tensor = like(device, "out", target, q)
    sums = None
    if log_sums is not None:
        sums = of_numbers(device, "log_sums", log_sums, q.shape[:-1])
        check_apart(sums, *read)
    check_apart(out_tensor, *read, sums)
    return target, out_tensor, sums
