"""The tensor functions that `quod bench` measures, with their peers and references.

A new subject is a row in `OPERATIONS`, with its kinds by name, and a line in `subjects`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib import import_module
from typing import Any

import numpy as np

from quod.errors import InputError
from quod.tensor import (
    adamw,
    attention,
    attention_decode,
    cross_entropy,
    gelu,
    gemm,
    gemm_fp8,
    gemm_int8,
    layer_norm,
    paged_attention,
    rms_norm,
    silu,
    softmax,
    swiglu,
)

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operation:
    """A tensor function.

    axes: the number of axes of its shape.
    inputs, output: the shapes of its tensors.
    run: Quod's function; takes a device, the tensors and ``out=``.
    torch: PyTorch's function; takes the module torch and the tensors.
    exact: computes some rows of the result; takes their indices (over all axes but the last) and
        arrays of any type.
    error: the error bound of these rows for f32, in units of 2^-22; same arguments.
    between: for these rows, the magnitude of intermediate values that are rounded to a 16-bit type.
    flop: the number of operations, for functions that arithmetic limits, else 0.
    numpy: whether NumPy is a peer, with `exact`.
    kinds: per tensor "numbers" of the requested type (the default), "f32", "squares" (of f32),
        "classes" of the last axis, an "order" (a permutation from 0 on), or "lengths" (the axis
        before the last).
    stored: indices of tensors changed in place; the first is the result, and `run` takes no
        ``out=``.
    f32_alone: the reason why PyTorch is no peer for other types.
    dtype: the only type of the function: "tf32" (f32 with 10 fraction bits), "int8" (with int32
        results) or "e4m3" (with bf16 results).
    """

    axes: int
    inputs: Callable[[Shape], list[Shape]]
    output: Callable[[Shape], Shape]
    run: Callable[..., object]
    torch: Callable[..., Any]
    exact: Callable[..., Any]
    error: Callable[..., Any]
    between: Callable[..., Any] = lambda rows, *operands: 0
    flop: Callable[[Shape], int] = lambda shape: 0
    numpy: bool = True
    kinds: tuple[str, ...] = ()
    stored: tuple[int, ...] = ()
    f32_alone: str = ""
    dtype: str = ""


def _gemm(kind: str, **overrides: Any) -> Operation:
    """Return the product of a kind, in which t means that the operand is transposed."""
    transpose_a, transpose_b = (letter == "t" for letter in kind)

    def a_rows(rows: Any, a: Any) -> Any:
        return a[:, rows].T if transpose_a else a[rows]

    def full_b(b: Any) -> Any:
        return b[:].T if transpose_b else b[:]

    return Operation(
        axes=3,
        inputs=lambda s: [
            (s[2], s[0]) if transpose_a else (s[0], s[2]),
            (s[1], s[2]) if transpose_b else (s[2], s[1]),
        ],
        output=lambda s: s[:2],
        exact=lambda rows, a, b: a_rows(rows, a) @ full_b(b), flop=lambda s: 2 * math.prod(s),
        **{
            "run": partial(gemm, transpose_a=transpose_a, transpose_b=transpose_b),
            "torch": lambda torch, a, b: torch.matmul(
                a.T if transpose_a else a, b.T if transpose_b else b
            ),
            "error": lambda rows, a, b: (
                (np.abs(a_rows(rows, a)) @ np.abs(full_b(b))) * (full_b(b).shape[0] + 3)
            ),
            **overrides,
        },
    )  # fmt: skip


def _tf32_of_torch(torch: Any, a: Any, b: Any) -> Any:
    """Multiply in PyTorch with TF32, which is off otherwise."""
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return torch.matmul(a, b.T)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


@lru_cache(maxsize=1)
def _unit_scale(device: Any) -> Any:
    """Return a scale of 1 on a PyTorch device, made before calls are recorded."""
    return import_module("torch").ones((), device=device)


def _float8(*, fast: bool) -> Operation:
    def of_torch(torch: Any, a: Any, b: Any) -> Any:
        unit_scale = _unit_scale(a.device)
        return torch._scaled_mm(
            a,
            b.T,
            scale_a=unit_scale,
            scale_b=unit_scale,
            out_dtype=torch.bfloat16,
            use_fast_accum=fast,
        )

    return _gemm(
        "nt", dtype="e4m3", numpy=False, torch=of_torch,
        run=partial(gemm_fp8, transpose_b=True, dtype="e4m3", fast_accumulation=fast),
        # Tensor cores accumulate with about 14 bits.
        error=lambda rows, a, b: (np.abs(a[rows]) @ np.abs(b[:].T)) * 2**12,
    )  # fmt: skip


_SHORT_PRODUCTS = {
    "tf32": _gemm(
        "nt", dtype="tf32", run=partial(gemm, transpose_b=True, tf32=True), torch=_tf32_of_torch,
        # Each factor is truncated to 10 fraction bits.
        error=lambda rows, a, b: (np.abs(a[rows]) @ np.abs(b[:].T)) * 2 * 2**12,
        numpy=False,
    ),
    "int8": _gemm(
        "nt", dtype="int8", run=partial(gemm_int8, transpose_b=True), numpy=False,
        torch=lambda torch, a, b: torch._int_mm(a, b.T), error=lambda rows, a, b: 0,
    ),
    "e4m3": _float8(fast=False), "e4m3-fast": _float8(fast=True),
}  # fmt: skip
"""Kinds of short types. Rows of both operands are along K, as tensor cores require."""


def _heads(rows: Any, q: Any, causal: bool) -> Any:
    """Yield head, query and number of visible keys of each row."""
    tokens = q.shape[-2]
    if isinstance(rows, slice):
        rows = range(*rows.indices(math.prod(q.shape[:-1])))
    for row in rows:
        *head, query = (int(index) for index in np.unravel_index(row, q.shape[:-1]))
        yield tuple(head), query, query + 1 if causal else tokens


def _attention_of(rows: Any, q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """Compute the result row by row, without a large tensor of queries by keys."""
    outputs = []
    for head, query, visible_keys in _heads(rows, q, causal):
        logits = k[head][:visible_keys] @ q[head][query] / math.sqrt(q.shape[-1])
        powers = np.exp(logits - logits.max())
        outputs.append(powers @ v[head][:visible_keys] / powers.sum())
    return np.array(outputs).reshape(-1, q.shape[-1])


def _attention_sizes(rows: Any, q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """Compute attention with absolute values of v."""
    return _attention_of(rows, q, k, np.abs(v[:]), causal=causal)


def _attention_error(rows: Any, q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """Return the error bound of rows of attention; see `Operation.error`."""
    size = q.shape[-1]
    terms = _attention_sizes(rows, q, k, v, causal=causal)
    # Logits are sums of `size` products, of which few are large.
    return terms * (16 + 8 * math.log2(q.shape[-2] + 1) + 4 * size)


def attention_of_torch(torch: Any, q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """Run PyTorch's attention, with cuDNN, its fastest backend, if that has the type."""
    names = ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
    kinds = [getattr(torch.nn.attention.SDPBackend, name) for name in names]
    with torch.nn.attention.sdpa_kernel(kinds, set_priority=True):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _attention(*, causal: bool) -> Operation:
    exact = partial(_attention_of, causal=causal)
    return Operation(
        axes=4, inputs=lambda s: [s] * 3, output=lambda s: s,
        run=partial(attention, causal=causal),
        torch=partial(attention_of_torch, causal=causal),
        exact=exact, error=partial(_attention_error, causal=causal),
        between=partial(_attention_sizes, causal=causal),
        flop=lambda s: 4 * s[0] * s[1] * s[2] * s[2] * s[3] // (2 if causal else 1), numpy=False,
    )  # fmt: skip


_PAGE = 16
"""The number of keys in a page."""


def _decode(rows: Any, q: Any, k: Any, v: Any, *, sizes: bool = False) -> Any:
    """Attend with one query per head; with `sizes`, over absolute values."""
    outputs, queries_per_key_head = [], q.shape[1] // k.shape[1]
    for row in rows:
        sequence, head = divmod(int(row), q.shape[1])
        keys_and_values = (
            k[sequence, head // queries_per_key_head],
            v[sequence, head // queries_per_key_head],
        )
        logits = keys_and_values[0] @ q[sequence, head, 0] / math.sqrt(q.shape[-1])
        powers = np.exp(logits - logits.max())
        outputs.append(
            powers @ (np.abs(keys_and_values[1]) if sizes else keys_and_values[1]) / powers.sum()
        )
    return np.array(outputs).reshape(-1, q.shape[-1])


def _in_order(pages: Any, table: Any, lengths: Any) -> Any:
    """Gather the keys of all sequences from their pages."""
    gathered = pages[table[:].astype(np.int64)].swapaxes(1, 2)
    keys = gathered.reshape(*gathered.shape[:2], -1, gathered.shape[-1])
    return keys[:, :, : int(lengths[:].max())]


def _decode_of_torch(torch: Any, q: Any, k: Any, v: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _paged_of_torch(torch: Any, *operands: Any) -> Any:
    raise TypeError("it has no attention with paged keys")


def _decoding(*, paged: bool) -> Operation:
    def in_order(q: Any, k: Any, v: Any, *pages: Any) -> Any:
        return (q, _in_order(k, *pages), _in_order(v, *pages)) if pages else (q, k, v)

    def exact(rows: Any, *operands: Any, sizes: bool = False) -> Any:
        return _decode(rows, *in_order(*operands), sizes=sizes)

    def error(rows: Any, *operands: Any) -> Any:
        q, k, _ = in_order(*operands)
        terms = exact(rows, *operands, sizes=True)
        return terms * (16 + 8 * math.log2(k.shape[-2] + 1) + 4 * q.shape[-1])

    def inputs(s: Shape) -> list[Shape]:
        if s[1] % s[2]:
            raise InputError(f"{s[2]} heads of keys do not divide {s[1]} heads of queries")
        pages = -(-s[3] // _PAGE)
        keys = (s[0] * pages, s[2], _PAGE, s[4]) if paged else (s[0], s[2], s[3], s[4])
        return [(*s[:2], 1, s[4]), keys, keys, *([(s[0], pages), s[:1]] if paged else [])]

    return Operation(
        axes=5, inputs=inputs, output=lambda s: (*s[:2], 1, s[4]),
        run=paged_attention if paged else attention_decode,
        torch=_paged_of_torch if paged else _decode_of_torch, exact=exact, error=error,
        between=partial(exact, sizes=True), numpy=False,
        kinds=("numbers",) * 3 + ("order", "lengths") if paged else (),
    )  # fmt: skip


def _softmax(rows: Any, x: Any) -> Any:
    powers = np.exp(x[rows] - x[rows].max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _layer_norm(rows: Any, x: Any, weight: Any, bias: Any) -> Any:
    centred = x[rows] - x[rows].mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight[:] + bias[:]


def _rms_norm(rows: Any, x: Any, weight: Any) -> Any:
    return x[rows] / np.sqrt((x[rows] ** 2).mean(-1, keepdims=True) + 1e-6) * weight[:]


def _norm_error(rows: Any, x: Any, weight: Any, *bias: Any) -> Any:
    """Return the error bound of the tests for elements of about 1."""
    spread = 8 * (np.abs(x[rows]) + math.log2(x[rows].shape[-1]) + 4)
    return spread * np.abs(weight[:]) + sum(np.abs(vector[:]) for vector in bias)


def _row_operation(vectors: int, **overrides: Any) -> Operation:
    return Operation(
        axes=2, inputs=lambda s: [s, *[s[1:]] * vectors], output=lambda s: s, **overrides
    )  # fmt: skip


def _activation(operands: int, **overrides: Any) -> Operation:
    """Return an elementwise function of `operands` tensors."""
    return Operation(
        axes=2, inputs=lambda s: [s] * operands, output=lambda s: s,
        error=lambda rows, *arrays: 8 * np.prod([np.abs(array[rows]) for array in arrays], axis=0),
        **overrides,
    )  # fmt: skip


def _silu(rows: Any, x: Any) -> Any:
    return x[rows] / (1 + np.exp(-x[rows]))


def _gelu(rows: Any, x: Any) -> Any:
    phi = np.frompyfunc(lambda z: math.erfc(-z / math.sqrt(2)) / 2, 1, 1)(x[rows])
    return x[rows] * phi.astype(np.float64)


def _gelu_tanh(rows: Any, x: Any) -> Any:
    inner = math.sqrt(2 / math.pi) * (x[rows] + 0.044715 * x[rows] ** 3)
    return x[rows] * (1 + np.tanh(inner)) / 2


def _loss(device: Any, x: Any, targets: Any, *, out: Any) -> None:
    cross_entropy(device, x, targets, gradient=out, check=False)


def _loss_of_torch(torch: Any, x: Any, targets: Any) -> Any:
    x = x.detach().requires_grad_(True)
    return torch.autograd.grad(torch.nn.functional.cross_entropy(x, targets), x)[0]


def _loss_gradient(rows: Any, x: Any, targets: Any) -> Any:
    powers, classes = _softmax(rows, x), targets[rows].astype(np.int64)
    powers[np.arange(len(classes)), classes] -= 1
    return powers / len(targets[:])


def _loss_error(rows: Any, x: Any, targets: Any) -> Any:
    is_target = _loss_gradient(rows, x, targets) < 0
    return (16 * _softmax(rows, x) + 4 * is_target) / len(targets[:])


@cache
def _first_step(torch: Any, torch_device: Any) -> Any:
    """Return the step count 1 on a PyTorch device, made before calls are recorded."""
    return torch.ones((), device=torch_device)


def _adamw_of_torch(torch: Any, *state: Any) -> Any:
    """Take PyTorch's fused step; return the parameters."""
    # The kernel of torch.optim.AdamW(fused=True), without its step counter.
    torch._fused_adamw_(
        *([tensor] for tensor in state), [], [_first_step(torch, state[0].device)], lr=1e-3,
        beta1=0.9,
        beta2=0.999, weight_decay=0.01, eps=1e-8, amsgrad=False, maximize=False,
    )  # fmt: skip
    return state[0]


def _adamw_change(first: Any, gradient: Any, second: Any) -> Any:
    """Compute the change of the first step without weight decay."""
    mean, square = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
    return 1e-3 * (mean / 0.1) / (np.sqrt(square / 0.001) + 1e-8)


def _adamw(rows: Any, p: Any, gradient: Any, first: Any, second: Any) -> Any:
    return p[rows] * (1 - 1e-5) - _adamw_change(first[rows], gradient[rows], second[rows])


def _adamw_error(rows: Any, p: Any, gradient: Any, first: Any, second: Any) -> Any:
    moments_and_gradient = np.abs(first[rows]), np.abs(gradient[rows]), second[rows]
    return np.abs(p[rows]) + 20 * _adamw_change(*moments_and_gradient)


OPERATIONS: Mapping[str, Mapping[str, Operation]] = {
    "gemm": {kind: _gemm(kind) for kind in ("nn", "nt", "tn", "tt")} | _SHORT_PRODUCTS,
    "attention": {"full": _attention(causal=False), "causal": _attention(causal=True)},
    "decode": {"plain": _decoding(paged=False), "paged": _decoding(paged=True)},
    "softmax": {
        "softmax": _row_operation(
            0, run=softmax, exact=_softmax, error=lambda rows, x: 16 * _softmax(rows, x),
            torch=lambda torch, x: torch.softmax(x, -1),
        ),
    },
    "norm": {
        "layer": _row_operation(
            2, run=layer_norm, exact=_layer_norm, error=_norm_error,
            torch=lambda torch, x, weight, bias: torch.nn.functional.layer_norm(
                x, weight.shape, weight, bias
            ),
        ),
        "rms": _row_operation(
            1, run=rms_norm, exact=_rms_norm, error=_norm_error,
            torch=lambda torch, x, weight: torch.nn.functional.rms_norm(
                x, weight.shape, weight, 1e-6
            ),
        ),
    },
    "activation": {
        "silu": _activation(
            1, run=silu, exact=_silu, torch=lambda torch, x: torch.nn.functional.silu(x)
        ),
        "gelu": _activation(
            1, run=gelu, exact=_gelu, torch=lambda torch, x: torch.nn.functional.gelu(x),
            numpy=False,
        ),
        "gelu-tanh": _activation(
            1, run=partial(gelu, approximate="tanh"), exact=_gelu_tanh,
            torch=lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
        ),
        "swiglu": _activation(
            2, run=swiglu, exact=lambda rows, gate, up: _silu(rows, gate) * up[rows],
            torch=lambda torch, gate, up: torch.nn.functional.silu(gate) * up,
        ),
    },
    "loss": {
        "cross-entropy": Operation(
            axes=2, inputs=lambda s: [s, s[:1]], output=lambda s: s, kinds=("numbers", "classes"),
            run=_loss, torch=_loss_of_torch, exact=_loss_gradient, error=_loss_error,
        ),
    },
    "adamw": {
        "adamw": Operation(
            axes=2, inputs=lambda s: [s] * 4, output=lambda s: s, stored=(0, 2, 3),
            kinds=("numbers", "numbers", "f32", "squares"), run=partial(adamw, step=1),
            torch=_adamw_of_torch, exact=_adamw, error=_adamw_error,
            f32_alone="PyTorch's fused AdamW keeps moments in the type of the parameters",
        ),
    },
}  # fmt: skip
"""The functions by subject and kind."""
