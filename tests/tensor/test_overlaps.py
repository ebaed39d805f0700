"""Results that alias operands: full aliasing where documented, partial overlap never."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.tensor import (
    adamw,
    clip_gradients,
    cross_entropy,
    gemm,
    gradient_norm,
    layer_norm,
    rms_norm,
    silu,
    softmax,
    swiglu,
    swiglu_backward,
)
from quod.tensor.quantised import QuantisedMatrix, quantise

Array = np.ndarray[Any, Any]


def shifted() -> tuple[Array, Array]:
    """Two matrices of 8 by 8, the second a row further in the same memory."""
    memory = np.ones((9, 8), np.float32)
    return memory[:-1], memory[1:]


X, LATER = shifted()
ROW = LATER[0]
OTHER, VECTOR = np.ones((8, 8), np.float32), np.ones(8, np.float32)
CLASSES = np.zeros(8, np.int32)


@pytest.mark.parametrize(
    "call",
    [
        lambda: softmax("cpu", X, out=LATER),
        lambda: rms_norm("cpu", OTHER, ROW, out=LATER),
        lambda: layer_norm("cpu", OTHER, VECTOR, ROW, out=LATER),
        lambda: silu("cpu", LATER, out=X),
        lambda: swiglu("cpu", OTHER, X, out=LATER),
        lambda: swiglu_backward("cpu", OTHER, OTHER, OTHER, out=(X, LATER)),
        lambda: swiglu_backward("cpu", OTHER, OTHER, OTHER, out=(X, X)),
        lambda: gemm("cpu", X, OTHER, out=X),
        lambda: gemm("cpu", OTHER, X, out=X),
        lambda: gemm("cpu", X, OTHER, out=LATER),
        lambda: gemm("cpu", OTHER, OTHER, bias=ROW, out=LATER),
        lambda: gemm("cpu", OTHER, OTHER, residual=X, out=LATER),
        lambda: gemm("cpu", X[:, :0].copy(), LATER[:0].copy(), residual=X, out=LATER),
        lambda: cross_entropy("cpu", X, CLASSES, gradient=LATER),
        lambda: cross_entropy("cpu", X, CLASSES, out=ROW[:1]),
        lambda: cross_entropy("cpu", OTHER, CLASSES, gradient=X, reduction="none", out=ROW),
        lambda: cross_entropy("cpu", OTHER, ROW.view(np.int32), gradient=LATER),
        lambda: cross_entropy("cpu", OTHER, CLASSES, reduction="none", out=CLASSES.view("f4")),
        lambda: gradient_norm("cpu", [OTHER, X], out=ROW[:1]),
        lambda: clip_gradients("cpu", [X, OTHER, X], 1.0),
        lambda: clip_gradients("cpu", [X, OTHER, ROW], 1.0),
        lambda: adamw("cpu", X, LATER, OTHER, OTHER.copy(), step=1),
        lambda: adamw("cpu", OTHER, OTHER.copy(), X, X, step=1),
        lambda: adamw("cpu", OTHER, X, OTHER.copy(), X, step=1),
        lambda: adamw(
            "cpu", X, OTHER, OTHER.copy(), OTHER.copy(), step=1, max_norm=1, norm=ROW[:1]
        ),
    ],
)
def test_results_must_not_overlap_operands(call: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match=r"is in (a part of )?the memory of .* other memory$"):
        call()
    assert (X == 1).all(), "nothing was stored"


def test_adjacent_memory_does_not_overlap() -> None:
    memory = np.ones((16, 8), np.float32)
    softmax("cpu", memory[:8], out=memory[8:])
    gemm("cpu", memory[:8], OTHER, out=memory[8:])
    rms_norm("cpu", memory[1:2], memory[0], out=memory[2:3])
    softmax("cpu", memory[:0], out=memory[:0])


def test_overlapping_buffers_are_rejected(device: AnyDevice) -> None:
    """Addresses of one device are compared, whatever the driver calls its buffers."""
    a, b = device.upload(OTHER.copy()), device.upload(OTHER.copy())
    assert softmax(device, a, out=a) is a
    with pytest.raises(InputError, match=r"^out is in the memory of b; take other memory$"):
        gemm(device, a, b, out=b)
    gemm(device, a, b, out=device.upload(OTHER.copy()))


def test_overlapping_quantised_products_are_rejected() -> None:
    device = open_device("cpu")
    blocks = quantise("Q8_0", np.ones((32, 32), np.float32))
    x = device.upload(np.ones(32, np.float32))
    matrix = QuantisedMatrix(device, "Q8_0", blocks)
    with pytest.raises(InputError, match=r"^y is in memory that is read for it"):
        matrix.multiply(x, x)
    with pytest.raises(InputError, match=r"^y is in memory that is read for it"):
        matrix.launched(x, x)
    block_buffer = matrix.launched(x, device.upload(np.ones(32, np.float32)))[4]
    with pytest.raises(InputError, match=r"^y is in memory that is read for it"):
        matrix.multiply(x, block_buffer.slice(0, 4 * 32))
    with pytest.raises(InputError, match=r"^out is in memory that is read for it"):
        QuantisedMatrix(device, "Q8_0", blocks[:1]).dequantise(block_buffer.slice(0, 4 * 32))
    assert np.allclose(matrix.multiply(np.ones(32, np.float32)), 32, rtol=1e-3)
