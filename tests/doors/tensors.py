"""Tensors in the table of public calls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quod.tensor import (
    adamw,
    adamw_rates,
    append_to_pages,
    argmax,
    argmin,
    attention,
    attention_backward,
    attention_decode,
    clip_gradients,
    cross_entropy,
    dequantise_fp8,
    embedding,
    embedding_backward,
    gelu,
    gelu_backward,
    gemm,
    gemm_fp8,
    gemm_int8,
    gradient_norm,
    layer_norm,
    layer_norm_backward,
    lora,
    lora_backward,
    paged_attention,
    quantise_fp8,
    quantised,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_sum,
    rms_norm,
    rms_norm_backward,
    rope,
    rope_backward,
    rope_table,
    silu,
    silu_backward,
    softmax,
    softmax_backward,
    swiglu,
    swiglu_backward,
    transpose,
)  # fmt: skip
from tests.doors.row import DEVICE, OPTIONAL, Row


def rows() -> Iterator[tuple[str, Row]]:
    """Of all functions."""
    yield from rows_of_arrays()
    yield from rows_of_reductions()
    yield from rows_of_products()
    yield from rows_of_activations()
    yield from rows_of_losses()
    yield from rows_of_training()
    yield from rows_of_attention()
    yield from rows_of_positions()
    yield from rows_of_quantised()


def rows_of_attention() -> Iterator[tuple[str, Row]]:
    """Attention."""
    x = np.ones((1, 3, 2), np.float32)
    given = {
        "device": DEVICE, "q": x, "k": x, "v": x, "scale": None, "causal": False, "lengths": None,
        "log_sums": None, "out": None,
    }  # fmt: skip
    fine = dict.fromkeys(("lengths", "out"), OPTIONAL)
    fine |= {"scale": ("None", "a float", "huge"), "causal": ("true",)}
    yield "attention", Row(attention, given, fine | {"log_sums": OPTIONAL})
    slope = {name: value for name, value in given.items() if name != "log_sums"}
    slope |= {"gradient": x, "y": x, "log_sums": np.ones((1, 3), np.float32)}
    yield "attention_backward", Row(attention_backward, slope, fine)
    few = fine | {"log_sums": OPTIONAL, "parts": OPTIONAL}
    yield "attention_decode", Row(attention_decode, given | {"parts": None}, few)
    x = np.ones((1, 1, 1, 2), np.float32)
    pages = {
        "device": DEVICE, "key_pages": np.ones((3, 1, 4, 2), np.float32),
        "value_pages": np.ones((3, 1, 4, 2), np.float32), "table": np.array([[2, 0]], np.int32),
        "lengths": np.array([5], np.int32),
    }  # fmt: skip
    given = {name: given[name] for name in ("scale", "causal", "log_sums", "out")}
    few = {name: value for name, value in few.items() if name != "lengths"}
    yield "paged_attention", Row(paged_attention, pages | given | {"q": x, "parts": None}, few)
    yield "append_to_pages", Row(append_to_pages, pages | {"k": x, "v": x})


def rows_of_positions() -> Iterator[tuple[str, Row]]:
    """Embeddings and rotary positions."""
    picks = {"device": DEVICE, "indices": np.zeros(3, np.int32), "out": None}
    matrix, fine = np.ones((3, 2), np.float32), {"out": OPTIONAL}
    given = picks | {"table": matrix, "check": True}
    yield "embedding", Row(embedding, given, fine | {"check": ("true",)})
    slopes = picks | {"gradient": matrix, "rows": 1}
    yield "embedding_backward", Row(embedding_backward, slopes, fine)
    yield "rope_table", Row(rope_table, {"positions": 3, "size": 2, "base": 100.0}, {
        "base": ("a float", "huge")
    })  # fmt: skip
    given = {
        "device": DEVICE, "x": np.ones((3, 2), np.float32), "table": rope_table(3, 2),
        "pairs": "halves", "axis": -2, "out": None,
    }  # fmt: skip
    yield "rope", Row(rope, given, {"out": OPTIONAL})
    slope = {name if name != "x" else "gradient": value for name, value in given.items()}
    yield "rope_backward", Row(rope_backward, slope, {"out": OPTIONAL})


def rows_of_arrays() -> Iterator[tuple[str, Row]]:
    """Softmax and the norms."""
    vector = np.ones(2, np.float32)
    given = {"device": DEVICE, "x": np.ones((3, 2), np.float32), "out": None}
    fine = {"out": OPTIONAL, "epsilon": ("a float", "huge")}
    yield "softmax", Row(softmax, given, fine)
    given = given | {"weight": vector, "epsilon": 1e-5}
    yield "rms_norm", Row(rms_norm, given, fine)
    yield "layer_norm", Row(layer_norm, given | {"bias": vector}, fine)
    slope = given | {"gradient": given["x"]}
    yield "rms_norm_backward", Row(rms_norm_backward, slope, fine)
    yield "layer_norm_backward", Row(layer_norm_backward, slope, fine)
    slope = {"device": DEVICE, "y": given["x"], "gradient": given["x"], "out": None}
    yield "softmax_backward", Row(softmax_backward, slope, fine)


def rows_of_reductions() -> Iterator[tuple[str, Row]]:
    """Along an axis."""
    x = np.ones((3, 2), np.float32)
    given = {"device": DEVICE, "x": x, "axis": 1, "keepdims": False, "out": None}
    fine = {"out": OPTIONAL, "axis": ("None", "negative"), "keepdims": ("true",)}
    turned = {"device": DEVICE, "x": x, "axes": (1, 0), "out": None}
    yield "transpose", Row(transpose, turned, {"axes": OPTIONAL, "out": OPTIONAL, "x": ("floats",)})
    for function in (argmax, argmin, reduce_max, reduce_mean, reduce_min, reduce_sum):
        yield function.__name__, Row(function, given, fine)


def rows_of_products() -> Iterator[tuple[str, Row]]:
    """Matrix products."""
    matrix = np.ones((2, 2), np.float32)
    given = {
        "device": DEVICE, "a": matrix, "b": matrix, "bias": None, "activation": None,
        "residual": None, "scale": 1.0, "transpose_a": False, "transpose_b": False, "tf32": False,
        "out": None,
    }  # fmt: skip
    fine = dict.fromkeys(("bias", "residual", "out"), OPTIONAL)
    fine |= dict.fromkeys(("transpose_a", "transpose_b", "tf32"), ("true",))
    fine |= {"scale": ("a float", "negative", "huge"), "activation": ("None",)}
    yield "gemm", Row(gemm, given, fine)
    layer = {"device": DEVICE, "scale": 1.0, "out": None}
    layer |= dict.fromkeys(("x", "weight", "a", "b"), matrix)
    fine = {"scale": ("a float", "negative", "huge"), "out": OPTIONAL}
    yield "lora", Row(lora, layer, fine)
    yield "lora_backward", Row(lora_backward, layer | {"gradient": matrix}, fine)
    matrix = np.ones((2, 2), np.int8)
    given = {
        "device": DEVICE, "a": matrix, "b": matrix, "row_scales": None, "column_scales": None,
        "bias": None, "transpose_a": False, "transpose_b": False, "out": None,
    }  # fmt: skip
    fine = dict.fromkeys(("row_scales", "column_scales", "bias", "out"), OPTIONAL)
    fine |= dict.fromkeys(("transpose_a", "transpose_b"), ("true",))
    yield "gemm_int8", Row(gemm_int8, given, fine)
    matrix = np.ones((2, 2), np.uint8)
    given = {
        "device": DEVICE, "a": matrix, "b": matrix, "scale_a": None, "scale_b": None, "bias": None,
        "transpose_a": False, "transpose_b": False, "dtype": "e4m3", "fast_accumulation": False,
        "out": None,
    }  # fmt: skip
    fine = dict.fromkeys(("bias", "out"), OPTIONAL)
    fine |= dict.fromkeys(("scale_a", "scale_b"), (*OPTIONAL, "a float", "negative", "huge"))
    fine |= dict.fromkeys(("transpose_a", "transpose_b", "fast_accumulation"), ("true",))
    yield "gemm_fp8", Row(gemm_fp8, given, fine)
    given = {
        "device": DEVICE, "x": np.ones((2, 3), np.float32), "dtype": "e4m3", "scales": "rows",
        "out": None,
    }  # fmt: skip
    yield "quantise_fp8", Row(quantise_fp8, given, {"out": OPTIONAL})
    given = {
        "device": DEVICE, "x": matrix, "scales": np.ones(2, np.float32), "dtype": "e4m3",
        "out": None,
    }  # fmt: skip
    yield "dequantise_fp8", Row(dequantise_fp8, given, {"out": OPTIONAL})


def rows_of_activations() -> Iterator[tuple[str, Row]]:
    """Functions of elements."""
    x, fine = np.ones((3, 2), np.float32), {"out": OPTIONAL}
    one = {"device": DEVICE, "x": x, "out": None}
    slope = one | {"gradient": x}
    form = {"approximate": "none"}
    yield "silu", Row(silu, one, fine)
    yield "silu_backward", Row(silu_backward, slope, fine)
    yield "gelu", Row(gelu, one | form, fine)
    yield "gelu_backward", Row(gelu_backward, slope | form, fine)
    two = {"device": DEVICE, "gate": x, "up": x, "out": None}
    yield "swiglu", Row(swiglu, two, fine)
    yield "swiglu_backward", Row(swiglu_backward, two | {"gradient": x}, fine)


def rows_of_losses() -> Iterator[tuple[str, Row]]:
    """The cross-entropy."""
    given = {
        "device": DEVICE, "logits": np.ones((3, 2), np.float32),
        "targets": np.zeros(3, np.int32), "ignore_index": -100, "reduction": "mean",
        "gradient": None, "gradient_scale": 1.0, "check": True, "out": None,
    }  # fmt: skip
    fine = dict.fromkeys(("gradient", "out"), OPTIONAL) | {
        "gradient_scale": ("a float", "negative", "huge"), "ignore_index": ("negative",),
        "check": ("true",),
    }  # fmt: skip
    yield "cross_entropy", Row(cross_entropy, given, fine)


def rows_of_training() -> Iterator[tuple[str, Row]]:
    """The norm of gradients, and AdamW."""
    x, numbers = np.ones(3, np.float32), ("a float", "huge")
    some = {"device": DEVICE, "gradients": [x], "out": None}
    yield "gradient_norm", Row(gradient_norm, some, {"out": OPTIONAL})
    fine = {"out": OPTIONAL, "max_norm": numbers}
    yield "clip_gradients", Row(clip_gradients, some | {"max_norm": 1.0}, fine)
    given = {
        "device": DEVICE, "parameter": x, "gradient": x.copy(), "first_moment": np.zeros_like(x),
        "second_moment": np.ones_like(x), "step": 1, "learning_rate": 1e-3, "beta1": 0.9,
        "beta2": 0.99, "epsilon": 1e-8, "weight_decay": 0.1, "gradient_scale": 1.0,
        "max_norm": 1.0, "norm": np.ones(1, np.float32),
    }  # fmt: skip
    fine = dict.fromkeys(("learning_rate", "epsilon", "weight_decay", "max_norm"), numbers)
    fine["gradient_scale"] = (*numbers, "negative")
    yield "adamw", Row(adamw, given, fine)
    schedule = ("step", "learning_rate", "weight_decay")
    held = {name: value for name, value in given.items() if name not in schedule}
    yield "adamw of rates", Row(adamw, held | {"rates": np.ones(3, np.float32)}, fine)
    settings = ("step", "learning_rate", "beta1", "beta2", "weight_decay")
    yield "adamw_rates", Row(adamw_rates, {name: given[name] for name in settings}, fine)


def rows_of_quantised() -> Iterator[tuple[str, Row]]:
    """Of quantised weights."""
    blocks, values = np.zeros((2, 34), np.uint8), np.zeros((2, 32), np.float32)
    given = {"type_name": "Q8_0", "blocks": blocks}
    yield "dequantise", Row(quantised.dequantise, given)
    yield "quantise", Row(quantised.quantise, {"type_name": "Q8_0", "values": values})
    yield "QuantisedMatrix", Row(
        quantised.QuantisedMatrix, {"device": DEVICE, **given, "layout": None},
        {"layout": OPTIONAL},
    )  # fmt: skip
    yield "ProductLayout", Row(
        quantised.ProductLayout, {"lanes": 8, "width": 1, "at_once": 1, "together": 1}, {}
    )  # fmt: skip
    matrix = quantised.QuantisedMatrix(DEVICE, "Q8_0", blocks)
    x = np.zeros(32, np.float32)
    yield (
        "multiply",
        Row(matrix.multiply, {"x": x, "y": None, "activations": "exact"}, {"y": OPTIONAL}),
    )
    rows = np.zeros((2, 32), np.float32)
    yield (
        "QuantisedMatrix.multiply of rows",
        Row(matrix.multiply, {"x": rows, "y": None, "activations": "int8"}, {"y": OPTIONAL}),
    )
    packed = {"packed": np.zeros((2, 32), np.uint8), "largest": np.zeros((2, 1), np.float32)}
    yield "nf4_blocks", Row(quantised.nf4_blocks, packed)
    yield "QuantisedMatrix.dequantise", Row(matrix.dequantise, {"out": None}, {"out": OPTIONAL})
