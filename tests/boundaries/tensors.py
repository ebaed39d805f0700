"""Tensors: kernels read shapes, lengths and indices of arrays; one call of each kind of check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from quod.tensor import (
    adamw,
    append_to_pages,
    attention,
    attention_decode,
    cross_entropy,
    embedding,
    embedding_backward,
    gemm,
    gemm_fp8,
    gemm_int8,
    layer_norm,
    lora,
    paged_attention,
    quantise_fp8,
    quantised,
    reduce_sum,
    rope,
    rope_table,
    softmax,
    swiglu,
    transpose,
)
from tests.boundaries.row import DEVICE, Row, row

ON: dict[str, Any] = {"device": DEVICE, "out": None}
X, VECTOR = np.ones((3, 2), np.float32), np.ones(2, np.float32)
PICKED = np.zeros(3, np.int32)
NUMBER, POSITIVE = "negative huge", "huge"


def rows() -> Iterator[tuple[str, Row]]:
    """Yield the rows of rows, products, attention, indices, training and quantised weights."""
    yield from _rows()
    yield from _products()
    yield from _attention()
    yield from _quantised()


def _rows() -> Iterator[tuple[str, Row]]:
    yield "softmax", row(softmax, **ON, x=X)
    yield "layer_norm", row(
        layer_norm, {"epsilon": POSITIVE}, **ON, x=X, weight=VECTOR, bias=VECTOR, epsilon=1e-5
    )  # fmt: skip
    yield "swiglu", row(swiglu, **ON, gate=X, up=X)
    yield "reduce_sum", row(reduce_sum, {"axis": "negative"}, **ON, x=X, axis=1)
    yield "transpose", row(transpose, **ON, x=X, axes=(1, 0))
    yield "embedding", row(embedding, **ON, indices=PICKED, table=X)
    yield "embedding_backward", row(embedding_backward, **ON, indices=PICKED, gradient=X, rows=1)
    yield "rope_table", row(rope_table, {"base": POSITIVE}, positions=3, size=2, base=100.0)
    yield "rope", row(
        rope, {"axis": "negative"}, **ON, x=X, table=rope_table(3, 2), pairs="halves", axis=-2
    )  # fmt: skip
    yield "cross_entropy", row(
        cross_entropy, {"gradient_scale": NUMBER, "ignore_index": "negative"}, **ON, logits=X,
        targets=PICKED, ignore_index=-100, reduction="mean", gradient=None, gradient_scale=1.0,
    )  # fmt: skip
    settings = dict.fromkeys(("learning_rate", "epsilon", "weight_decay", "max_norm"), POSITIVE)
    moments = {name: np.ones(3, np.float32) for name in ("first_moment", "second_moment")}
    yield "adamw", row(
        adamw, settings | {"gradient_scale": NUMBER}, device=DEVICE,
        parameter=np.ones(3, np.float32), gradient=np.ones(3, np.float32), **moments, step=1,
        learning_rate=1e-3, beta1=0.9, beta2=0.99, epsilon=1e-8, weight_decay=0.1,
        gradient_scale=1.0, max_norm=1.0, norm=np.ones(1, np.float32),
    )  # fmt: skip


def _products() -> Iterator[tuple[str, Row]]:
    matrix = np.ones((2, 2), np.float32)
    yield "gemm", row(
        gemm, {"scale": NUMBER}, **ON, a=matrix, b=matrix, bias=None, activation=None,
        residual=None, scale=1.0,
    )  # fmt: skip
    yield "lora", row(
        lora, {"scale": NUMBER}, **ON, scale=1.0, x=matrix, weight=matrix, a=matrix, b=matrix
    )  # fmt: skip
    matrix = np.ones((2, 2), np.int8)
    yield "gemm_int8", row(
        gemm_int8, **ON, a=matrix, b=matrix, row_scales=None, column_scales=None,
        bias=None,
    )  # fmt: skip
    matrix = np.ones((2, 2), np.uint8)
    yield "gemm_fp8", row(
        gemm_fp8, {"scale_a": NUMBER, "scale_b": NUMBER}, **ON, a=matrix, b=matrix,
        scale_a=None, scale_b=None, bias=None, dtype="e4m3",
    )  # fmt: skip
    yield "quantise_fp8", row(quantise_fp8, **ON, x=X, dtype="e4m3", scales="rows")


def _attention() -> Iterator[tuple[str, Row]]:
    x, scaled = np.ones((1, 3, 2), np.float32), {"scale": POSITIVE}
    heads: dict[str, Any] = {**ON, "scale": None, "log_sums": None}
    yield "attention", row(attention, scaled, **heads, q=x, k=x, v=x, lengths=None)
    yield "attention_decode", row(
        attention_decode, scaled, **heads, q=x, k=x, v=x, lengths=None, parts=None
    )  # fmt: skip
    x, page = np.ones((1, 1, 1, 2), np.float32), np.ones((3, 1, 4, 2), np.float32)
    pages: dict[str, Any] = {
        "key_pages": page, "value_pages": page.copy(), "table": np.array([[2, 0]], np.int32),
        "lengths": np.array([5], np.int32),
    }  # fmt: skip
    yield "paged_attention", row(paged_attention, scaled, **heads, **pages, q=x, parts=None)
    yield "append_to_pages", row(append_to_pages, device=DEVICE, **pages, k=x, v=x)


def _quantised() -> Iterator[tuple[str, Row]]:
    blocks = np.zeros((2, 34), np.uint8)
    matrix = quantised.QuantisedMatrix(DEVICE, "Q8_0", blocks)
    yield "dequantise", row(quantised.dequantise, type_name="Q8_0", blocks=blocks)
    yield "quantise", row(
        quantised.quantise, type_name="Q8_0", values=np.zeros((2, 32), np.float32)
    )  # fmt: skip
    yield "QuantisedMatrix", row(
        quantised.QuantisedMatrix, device=DEVICE, type_name="Q8_0", blocks=blocks
    )  # fmt: skip
    yield (
        "ProductLayout",
        row(quantised.ProductLayout, lanes=8, width=1, rows_per_instance=1, row_groups=1),
    )
    for name, shape, activations in (
        ("a vector", (32,), "exact"),
        ("rows", (2, 32), "int8"),
    ):
        yield f"multiply {name}", row(
            matrix.multiply, x=np.zeros(shape, np.float32), y=None, activations=activations
        )  # fmt: skip
    yield "nf4_blocks", row(
        quantised.nf4_blocks, packed=np.zeros((2, 32), np.uint8),
        largest=np.zeros((2, 1), np.float32),
    )  # fmt: skip
