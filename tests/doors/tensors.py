"""Tensors in the table of public calls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quod.tensor import (
    gelu,
    gelu_backward,
    gemm,
    layer_norm,
    quantised,
    rms_norm,
    silu,
    silu_backward,
    softmax,
    swiglu,
    swiglu_backward,
)  # fmt: skip
from tests.doors.row import DEVICE, OPTIONAL, Row


def rows() -> Iterator[tuple[str, Row]]:
    """Of all functions."""
    yield from rows_of_arrays()
    yield from rows_of_products()
    yield from rows_of_activations()
    yield from rows_of_quantised()


def rows_of_arrays() -> Iterator[tuple[str, Row]]:
    """Softmax and the norms."""
    vector = np.ones(2, np.float32)
    given = {"device": DEVICE, "x": np.ones((3, 2), np.float32), "out": None}
    fine = {"out": OPTIONAL, "epsilon": ("a float", "huge")}
    yield "softmax", Row(softmax, given, fine)
    given = given | {"weight": vector, "epsilon": 1e-5}
    yield "rms_norm", Row(rms_norm, given, fine)
    yield "layer_norm", Row(layer_norm, given | {"bias": vector}, fine)


def rows_of_products() -> Iterator[tuple[str, Row]]:
    """Matrix products."""
    matrix = np.ones((2, 2), np.float32)
    given = {
        "device": DEVICE, "a": matrix, "b": matrix, "bias": None, "residual": None, "scale": 1.0,
        "transpose_a": False, "transpose_b": False, "out": None,
    }  # fmt: skip
    fine = dict.fromkeys(("bias", "residual", "out"), OPTIONAL)
    fine |= dict.fromkeys(("transpose_a", "transpose_b"), ("true",))
    fine["scale"] = ("a float", "negative", "huge")
    yield "gemm", Row(gemm, given, fine)


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
        quantised.ProductLayout, {"lanes": 8, "width": 1, "at_once": 1}, {}
    )  # fmt: skip
    matrix = quantised.QuantisedMatrix(DEVICE, "Q8_0", blocks)
    x = np.zeros(32, np.float32)
    yield "multiply", Row(matrix.multiply, {"x": x, "y": None}, {"y": OPTIONAL})
    yield "QuantisedMatrix.dequantise", Row(matrix.dequantise, {"out": None}, {"out": OPTIONAL})
