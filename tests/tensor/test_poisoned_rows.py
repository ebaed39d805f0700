"""NaN and infinities change the results that depend on them, and no other bit.

Kernels pad tiles, read the last row again in place of rows that are not there, and multiply zeros.
Each row of the table poisons slices of the operands, and names the slices of the results that may
change. Shapes leave a remainder in each tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.tensor import (
    adamw,
    cross_entropy,
    dequantise_fp8,
    embedding,
    embedding_backward,
    gelu,
    gemm,
    gemm_fp8,
    gemm_int8,
    layer_norm,
    layer_norm_backward,
    lora,
    quantise_fp8,
    reduce_max,
    reduce_mean,
    reduce_sum,
    rms_norm,
    rms_norm_backward,
    rope,
    rope_table,
    softmax,
    softmax_backward,
    swiglu,
)
from quod.tensor.matmul.plan import TilePlan
from quod.tensor.quantised import QuantisedMatrix
from tests.conftest import open_for_test
from tests.support.devices import present
from tests.tensor.numbers import Array, amid_poison
from tests.tensor.quantised.blocks import weights

Slice = tuple[Any, ...]
ALL = slice(None)
ROW: Slice = (2,)
COLUMN: Slice = (ALL, 3)
NOTHING: list[Slice] = []


class Poisoned(NamedTuple):
    """A call with the shapes of its operands, the slices of them that are poisoned, and the slices
    of the results that depend on these."""

    call: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    poisoned: Sequence[Slice | None]
    changed: Sequence[list[Slice]]
    dtype: type = np.float32


def _losses(device: AnyDevice, logits: Any) -> tuple[Any, Any]:
    """Losses and gradient; the target of row 1 is ignored."""
    gradient = device.upload(np.zeros((5, 37), np.float32))
    targets = np.array([3, -100, 36, 0, 5], np.int32)
    losses = cross_entropy(device, logits, targets, reduction="none", gradient=gradient)
    return losses, gradient


def _mean_loss(device: AnyDevice, logits: Any) -> Any:
    return cross_entropy(device, logits, np.array([3, -100, 36, 0, 5], np.int32))


def _step(device: AnyDevice, *tensors: Any) -> tuple[Any, ...]:
    adamw(device, *tensors, step=1)
    return tensors


def _picked(device: AnyDevice, table: Any) -> Any:
    return embedding(device, table, np.array([0, 4, 4, 3], np.int32))


def _picked_back(device: AnyDevice, gradient: Any) -> Any:
    return embedding_backward(device, gradient, np.array([0, 4, 1, 4, 3], np.int32), 6)


def _turned(device: AnyDevice, x: Any) -> Any:
    return rope(device, x, rope_table(5, 4))


def _scaled_integers(device: AnyDevice, scales: Any) -> Any:
    integers = np.arange(5 * 16, dtype=np.int8).reshape(5, 16)
    return gemm_int8(device, integers, integers[:4], transpose_b=True, row_scales=scales)


def _through_8_bits(device: AnyDevice, x: Any) -> tuple[Any, ...]:
    small, scales = quantise_fp8(device, x)
    product = gemm_fp8(device, small, small, transpose_b=True, scale_a=scales, dtype="e4m3")
    return scales, dequantise_fp8(device, small, scales, dtype="e4m3"), product


def _by_blocks(device: AnyDevice, x: Any) -> Any:
    """The products of rows with 9 rows of blocks."""
    product = np.zeros((5, 9), np.float32)
    matrix = QuantisedMatrix(device, "Q8_0", weights("Q8_0", 9, 3, size=2.0**-9))
    return matrix.multiply(x, device.upload(product))


TABLE = {
    "softmax": Poisoned(softmax, [(5, 37)], [ROW], [[ROW]]),
    "softmax_backward": Poisoned(softmax_backward, [(5, 37)] * 2, [ROW, ROW], [[ROW]]),
    "rms_norm": Poisoned(rms_norm, [(5, 37), (37,)], [ROW, None], [[ROW]]),
    "rms_norm weight": Poisoned(rms_norm, [(5, 37), (37,)], [None, (3,)], [[COLUMN]]),
    "layer_norm": Poisoned(layer_norm, [(5, 37), (37,), (37,)], [ROW, None, None], [[ROW]]),
    "layer_norm bias": Poisoned(
        layer_norm, [(5, 37), (37,), (37,)], [None, None, (3,)], [[COLUMN]]
    ),
    "rms_norm_backward": Poisoned(
        rms_norm_backward, [(5, 37), (5, 37), (37,)], [ROW, None, None], [[ROW], [(ALL,)]]
    ),
    "layer_norm_backward": Poisoned(
        layer_norm_backward, [(5, 37), (5, 37), (37,)], [(2, 3), None, None],
        [[ROW], [(3,)], [(3,)]],
    ),
    "losses": Poisoned(_losses, [(5, 37)], [ROW], [[ROW], [ROW]]),
    "losses ignored": Poisoned(_losses, [(5, 37)], [(1,)], [NOTHING, NOTHING]),
    "mean loss ignored": Poisoned(_mean_loss, [(5, 37)], [(1,)], [NOTHING]),
    "adamw": Poisoned(_step, [(37,)] * 4, [None, (3,), None, None], [[(3,)]] * 4),
    "gelu": Poisoned(gelu, [(5, 37)], [ROW], [[ROW]]),
    "swiglu": Poisoned(swiglu, [(5, 37)] * 2, [ROW, None], [[ROW]]),
    "embedding": Poisoned(_picked, [(6, 37)], [ROW], [NOTHING]),
    "embedding last": Poisoned(_picked, [(5, 37)], [(4,)], [[(slice(1, 3),)]]),
    "embedding_backward": Poisoned(_picked_back, [(5, 37)], [ROW], [[(1,)]]),
    "rope": Poisoned(_turned, [(3, 5, 6)], [(1, 2)], [[(1, 2)]]),
    "reduce_sum rows": Poisoned(partial(reduce_sum, axis=-1), [(5, 37)], [ROW], [[ROW]]),
    "reduce_mean columns": Poisoned(partial(reduce_mean, axis=0), [(5, 37)], [COLUMN], [[(3,)]]),
    "reduce_max rows": Poisoned(partial(reduce_max, axis=-1), [(5, 37)], [ROW], [[ROW]]),
    "gemm_int8": Poisoned(_scaled_integers, [(5,)], [ROW], [[ROW]]),
    "8-bit floats": Poisoned(
        _through_8_bits, [(5, 48)], [(4,)], [[(4,)], [(4,)], [(4,), (ALL, 4)]]
    ),
    "lora": Poisoned(
        lora, [(5, 16), (9, 16), (3, 16), (9, 3)], [ROW, None, None, None], [[ROW]]
    ),
    "blocks": Poisoned(_by_blocks, [(5, 96)], [ROW], [[ROW]]),
    "gemm bias": Poisoned(
        lambda device, a, b, bias: gemm(device, a, b, bias=bias),
        [(5, 13), (13, 7), (7,)], [None, None, (3,)], [[COLUMN]],
    ),
    **{
        f"gemm {dtype.__name__} {size} {'T' if turned_a else 'N'}{'T' if turned_b else 'N'}":
        Poisoned(
            partial(gemm, transpose_a=turned_a, transpose_b=turned_b),
            [(2, size, 8) if turned_a else (2, 8, size),
             (2, 8, size) if turned_b else (2, size, 8)],
            [(0, ALL, -1) if turned_a else (0, -1), (1, 0) if turned_b else (1, ALL, 0)],
            [[(0, -1), (1, ALL, 0)]], dtype,
        )
        for dtype in (np.float32, np.float16)
        for size, turned_a, turned_b in (
            (40, False, False), (40, True, True), (13, False, True), (13, True, False),
        )
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=present("cpu", "emulated", "cuda"))
def anywhere(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    """A device of each kind whose numbers include NaN."""
    with open_for_test(request.param) as device:
        yield device


def results(device: AnyDevice, row: Poisoned, value: float | None) -> list[Array]:
    """The results of a call whose operands hold a value in their poisoned slices."""
    random = np.random.default_rng(7)
    operands = []
    for shape, where in zip(row.shapes, row.poisoned, strict=True):
        operand = random.uniform(0.5, 2, shape).astype(row.dtype)
        if where is not None and value is not None:
            operand[where] = value
        operands.append(amid_poison(device, operand))
    outcome = row.call(device, *operands)
    return [host(device, each) for each in (outcome if isinstance(outcome, tuple) else [outcome])]


def host(device: AnyDevice, memory: Any) -> Array:
    """The elements of a result."""
    if isinstance(memory, np.ndarray):
        return memory
    array: Array = np.zeros(memory.shape, memory.dtype)
    device.download(memory, array)
    return array


@pytest.mark.parametrize("name", TABLE)
def test_poison_in_one_row_does_not_change_others(anywhere: AnyDevice, name: str) -> None:
    check(anywhere, TABLE[name])


@pytest.mark.parametrize("name", ["gemm float16 40 NN", "gemm float16 40 TT"])
def test_poisoned_rows_in_warpgroup_products(
    tiling: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(
        "quod.tensor.matmul.call.plan_gemm", lambda *_, **__: TilePlan((64, 64), 4, 2)
    )
    check(tiling, TABLE[name])


def check(device: AnyDevice, row: Poisoned) -> None:
    clean = results(device, row, None)
    # An interpreter is slow, and of the two NaN spreads further.
    for value in (np.nan, np.inf)[: 1 if device.kind == "emulated" else 2]:
        with np.errstate(invalid="ignore"):
            poisoned = results(device, row, value)
        for before, after, changed in zip(clean, poisoned, row.changed, strict=True):
            if before.dtype.kind == "f":
                assert np.isfinite(before).all()
                assert not any(np.isfinite(after[where]).all() for where in changed)
            for where in changed:
                after[where] = before[where]
            assert np.array_equal(before, after), value
