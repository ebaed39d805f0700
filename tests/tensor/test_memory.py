"""Tensor functions reject unsuitable memory, name the argument, and store nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import Buffer, open_device
from quod.errors import DeviceError, InputError
from quod.tensor import (
    adamw,
    clip_gradients,
    cross_entropy,
    embedding,
    gelu,
    gemm,
    layer_norm_backward,
    softmax,
    swiglu_backward,
)

Array = np.ndarray[Any, Any]

ONES = np.ones(8, np.float32)
CLASSES = np.zeros(4, np.int32)


def matrix() -> Array:
    return np.arange(32, dtype=np.float32).reshape(4, 8) / 8


def fixed(array: Array) -> Array:
    array.flags.writeable = False
    return array


def odd(count: int) -> Array:
    """Numbers that begin at an address where no f32 does."""
    return np.zeros(4 * count + 1, np.uint8)[1:].view(np.float32)


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        (np.dtype(np.float32), (4, 1024), r"128 bytes, and no float32 of shape \(4, 1024\)$"),
        (np.dtype(np.float32), (-4, -8), "128 bytes, and no float32"),
        (np.dtype(np.float16), (4, 8), "128 bytes, and no float16"),
        ("nonsense", (4, 8), "whose dtype or shape is none$"),
        (np.dtype(np.float32), "ab", "whose dtype or shape is none$"),
    ],
)
def test_buffers_with_false_shapes_are_rejected(dtype: Any, shape: Any, message: str) -> None:
    """Kernels would read and store beyond the end."""
    with open_device("cpu") as cpu:
        buffer = cpu.upload(matrix())
        buffer.dtype, buffer.shape = dtype, shape
        with pytest.raises(InputError, match="^x is a buffer .*" + message):
            softmax(cpu, buffer)


def test_structured_dtypes_are_not_bf16() -> None:
    pairs = np.zeros(4, [("low", np.uint8), ("high", np.uint8)])
    with pytest.raises(InputError, match=r"^x is of .*low"):
        gelu("cpu", pairs)


Call = Callable[[Array, Any], Any]
BAD = {
    "read-only": lambda like: fixed(np.zeros_like(like)),
    "begins at": lambda like: odd(like.size).reshape(like.shape),
    "memory of": lambda like: open_device("emulated").upload(np.zeros_like(like)),
}


@pytest.mark.parametrize("why", BAD)
@pytest.mark.parametrize(
    ("name", "like", "call"),
    [
        ("out", ONES[:1], lambda x, bad: cross_entropy("cpu", x, CLASSES, gradient=x, out=bad)),
        ("gradients[1]", ONES, lambda x, bad: clip_gradients("cpu", [x, bad], 1.0)),
        ("out", ONES[:1], lambda x, bad: clip_gradients("cpu", [x], 1.0, out=bad)),
        (
            "out[2]", ONES,
            lambda x, bad: layer_norm_backward(
                "cpu", matrix(), matrix(), ONES, out=(x, np.zeros_like(ONES), bad)
            ),
        ),
        ("out[1]", matrix(), lambda x, bad: swiglu_backward("cpu", x, x, x, out=(x, bad))),
        (
            "second_moment", matrix(),
            lambda x, bad: adamw("cpu", x, matrix(), np.zeros_like(x), bad, step=1),
        ),
    ],
)  # fmt: skip
def test_rejected_calls_store_nothing(why: str, name: str, like: Array, call: Call) -> None:
    """A failed step can be repeated: gradients are not clipped twice, and logits are kept."""
    x, bad = matrix(), BAD[why](like)
    with pytest.raises(DeviceError) as error:
        call(x, bad)
    assert str(error.value).startswith(f"{name} ")
    assert why in str(error.value)
    assert np.array_equal(x, matrix())


def test_unaligned_gpu_memory_is_rejected() -> None:
    """The loss is stored last, but validated first."""
    with open_device("emulated") as gpu:
        logits = gpu.upload(matrix())
        room: Buffer = gpu.upload(np.zeros(8, np.float32))
        out = room.slice(4, 8).like(gpu.upload(ONES[:1]))
        with pytest.raises(DeviceError, match=r"^out begins .* not a multiple of 16"):
            cross_entropy(gpu, logits, gpu.upload(CLASSES), gradient=logits, out=out)
        after = np.zeros_like(matrix())
        gpu.download(logits, after)
        assert np.array_equal(after, matrix())


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_results_exceeding_memory_are_reported(dtype: Any) -> None:
    """Results of more bytes than there are addresses, and of as many as NumPy allocates."""
    nothing = np.zeros(((1 << 31) - 1, 0), dtype)
    with pytest.raises(DeviceError, match=r"^no memory for a result of float.. of shape \(2147"):
        gemm("cpu", nothing, nothing, transpose_b=True)


def test_int64_indices_suggest_a_conversion() -> None:
    with pytest.raises(InputError, match=r"^indices is of int64; .* x.astype\(numpy.int32\) makes"):
        embedding("cpu", matrix(), np.array([0, 1]))
