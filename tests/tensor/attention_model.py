"""Attention in NumPy: in float64, and plainly with weights of the elements' type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from quod.kernel import f16, f32
from quod.kernel.ir.types import Type
from tests.tensor.numbers import LEAST, UNIT, Array, numbers, stored

NONE = np.float32(-3.4028234663852886e38)
"""Stands for the logarithm of the sum over no keys."""


class Case(NamedTuple):
    """Tensors of one call, and what it says of them."""

    q: Array
    k: Array
    v: Array
    scale: float
    causal: bool = False
    lengths: Array | None = None

    def as_numbers(self, element: Type) -> Case:
        """Convert the case to float64, each head of queries with its own keys."""
        q, k, v = (numbers(x, element) for x in self[:3])
        times = q.shape[-3] // k.shape[-3]
        return self._replace(q=q, k=np.repeat(k, times, -3), v=np.repeat(v, times, -3))

    @property
    def seen(self) -> Array:
        """Which keys each query sees."""
        queries, keys = self.q.shape[-2], self.k.shape[-2]
        counts = np.full(self.q.shape[:-3], keys) if self.lengths is None else self.lengths
        counts = np.minimum(counts.reshape(self.q.shape[:-3]), keys)[..., None, None, None]
        places = np.arange(keys)
        seen = places < np.broadcast_to(counts, (*self.q.shape[:-1], 1))
        if self.causal:
            seen = seen & (places <= np.arange(queries)[:, None] + counts - queries)
        return seen


def made(
    element: Type, queries: int, keys: int, size: int, heads: tuple[int, int] = (1, 1),
    batch: int = 2, *, causal: bool = False, lengths: list[int] | None = None,
) -> Case:  # fmt: skip
    """Random numbers."""
    random = np.random.default_rng(queries + keys + size)
    q, k, v = (
        stored(random.normal(0, 1, (batch, count, lines, size)), element)
        for count, lines in ((heads[0], queries), (heads[1], keys), (heads[1], keys))
    )
    key_lengths = None if lengths is None else np.array(lengths, np.int32)
    return Case(q, k, v, 1 / math.sqrt(size), causal, key_lengths)


def weights(case: Case, dtype: type = np.float64) -> tuple[Array, Array]:
    """Compute the weights of all keys, and the logarithms of the sums."""
    q, k, seen = case.q.astype(dtype), case.k.astype(dtype), case.seen
    if not case.k.shape[-2]:
        return np.zeros(seen.shape), np.full(case.q.shape[:-1], NONE, np.float64)
    logits = np.where(seen, dtype(case.scale) * (q @ np.swapaxes(k, -1, -2)), -np.inf)
    top = np.where(seen.any(-1), logits.max(-1), 0)
    powers = np.exp(logits - top[..., None])
    total = powers.sum(-1)
    some = total > 0
    logs = np.where(some, top + np.log(np.where(some, total, 1)), NONE)
    return powers / np.where(some, total, 1)[..., None], logs


def exact(case: Case, element: Type) -> tuple[Array, Array]:
    """The result and the logarithms of sums, of float64."""
    as_numbers = case.as_numbers(element)
    attention_weights, logs = weights(as_numbers)
    return attention_weights @ as_numbers.v, logs


def bound(case: Case, element: Type) -> Array:
    """Bound the error of the result: products as those of matrices, powers, weights of 16 bits."""
    of = case.as_numbers(element)
    attention_weights, _ = weights(of)
    size, keys = of.q.shape[-1], of.k.shape[-2]
    logits = case.scale * (np.abs(of.q) @ np.swapaxes(np.abs(of.k), -1, -2))
    off = (size + 3) * 2.0**-22 * logits.max(-1, initial=0)[..., None]
    spread = 2 * off + (keys + 16) * 2.0**-23
    if element is not f32:
        spread = spread + UNIT[element] * 0.51
    rounded = UNIT[element] * 0.51 * np.abs(attention_weights @ of.v)
    return spread * (attention_weights @ np.abs(of.v)) + rounded + 2 * LEAST[element]


def check_what_is_no_number(run: Callable[[Case], Array], size: int, *, causal: bool) -> None:
    """NaN is in all rows that see a key with one, or have one, and nowhere else: where no key is
    masked, where some are, and with both."""
    for keys in (3, 64, 150):
        case = made(f16, 20, keys, size, batch=1, causal=causal)
        plain, seen = run(case), case.seen[0, 0]
        for tensor, line, lost in (
            (case.q, 19, np.arange(20) == 19), (case.k, 0, seen[:, 0]), (case.k, -1, seen[:, -1]),
        ):  # fmt: skip
            before = tensor[0, 0, line, 3]
            tensor[0, 0, line, 3] = np.nan
            output = run(case)[0, 0]
            tensor[0, 0, line, 3] = before
            assert np.isnan(output[lost]).all(), (keys, line)
            assert np.array_equal(output[~lost], plain[0, 0][~lost]), (keys, line)


def plain_error(case: Case, element: Type) -> float:
    """Error of attention that rounds its weights to the elements' type."""
    of = case.as_numbers(element)
    attention_weights, _ = weights(of, np.float32)
    short = numbers(stored(attention_weights, element), element).astype(np.float32)
    result = numbers(stored(short @ of.v.astype(np.float32), element), element)
    return float(np.abs(result - exact(case, element)[0]).max(initial=0))


def _by_keys(case: Case, x: Array) -> Array:
    """The sums over heads that share keys."""
    heads = case.k.shape[-3]
    shape = (*x.shape[:-3], heads, x.shape[-3] // heads, *x.shape[-2:])
    return x.reshape(shape).sum(-3)


def gradients(case: Case, element: Type, slopes: Array) -> tuple[Array, Array, Array]:
    """Gradients in float64 of q, k and v, where the result's gradient is `slopes`."""
    of = case.as_numbers(element)
    attention_weights, _ = weights(of)
    products = slopes @ np.swapaxes(of.v, -1, -2)
    change = (
        case.scale
        * attention_weights
        * (products - (products * attention_weights).sum(-1, keepdims=True))
    )
    turned = np.swapaxes(change, -1, -2), np.swapaxes(attention_weights, -1, -2)
    dk, dv = turned[0] @ of.q, turned[1] @ slopes
    return change @ of.k, _by_keys(case, dk), _by_keys(case, dv)


def gradient_bounds(case: Case, element: Type, slopes: Array) -> tuple[Array, ...]:
    """Bounds on the errors of the gradients, by the sizes of the terms that are added."""
    of = case.as_numbers(element)
    sizes = of._replace(q=np.abs(of.q), k=np.abs(of.k), v=np.abs(of.v))
    attention_weights, _ = weights(of)
    size, keys = of.q.shape[-1], of.k.shape[-2]
    logits = case.scale * (sizes.q @ np.swapaxes(sizes.k, -1, -2))
    off = (size + 3) * 2.0**-22 * logits.max(-1, initial=0)[..., None]
    # Weights are off by what their exponents are, and sums as sums of so many terms; the result of
    # the forward pass, by which products are known, was rounded to its type.
    spread = 2 * off + (keys + size + case.q.shape[-2] + 32) * 2.0**-23
    spread = spread + (0 if element is f32 else UNIT[element])
    products = np.abs(slopes) @ np.swapaxes(sizes.v, -1, -2)
    change = (
        case.scale
        * attention_weights
        * (products + (products * attention_weights).sum(-1, keepdims=True))
        * spread
    )
    turned = np.swapaxes(change, -1, -2), np.swapaxes(attention_weights * spread, -1, -2)
    dk, dv = turned[0] @ sizes.q, turned[1] @ np.abs(slopes)
    return change @ sizes.k, _by_keys(case, dk), _by_keys(case, dv)
