"""Attention: against float64 at every edge of a tile, exact cases, what is seen, bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import f16, f32
from quod.kernel.ir.types import Type
from quod.tensor import attention
from tests.support.thorough import one_and_others
from tests.tensor.attention_model import NONE, Case, bound, exact, made, plain_error
from tests.tensor.numbers import TYPES, Array, Guarded, amid_poison, numbers

EDGES = [
    (1, 1, 1, (1, 1)), (7, 129, 8, (4, 2)), (63, 64, 64, (2, 2)), (65, 127, 40, (3, 1)),
    (128, 63, 128, (1, 1)), (129, 65, 256, (1, 1)), (3, 0, 8, (2, 1)), (64, 1, 33, (1, 1)),
]  # fmt: skip
FEW = [(65, 40, 12, (4, 2)), (5, 0, 8, (1, 1))]


def run(device: AnyDevice, case: Case, call: Callable[..., Any] = attention) -> tuple[Array, Array]:
    """The result and the logarithms of sums, in poisoned memory whose surroundings must stay."""
    q, k, v = (amid_poison(device, x) for x in case[:3])
    out = Guarded(device, np.zeros_like(case.q))
    logs = Guarded(device, np.zeros(case.q.shape[:-1], np.float32))
    lengths = None if case.lengths is None else amid_poison(device, case.lengths)
    output = call(
        device, q, k, v, scale=case.scale, causal=case.causal, lengths=lengths,
        log_sums=logs.memory, out=out.memory,
    )  # fmt: skip
    assert output is out.memory
    return out.array(), logs.array()


def check(
    device: AnyDevice, case: Case, element: Type, call: Callable[..., Any] = attention
) -> None:
    output, logs = run(device, case, call)
    wanted, wanted_logs = exact(case, element)
    error = np.abs(numbers(output, element) - wanted)
    allowed = bound(case, element)
    assert (error <= allowed).all(), np.unravel_index(np.argmax(error - allowed), error.shape)
    assert error.max(initial=0) <= 2 * plain_error(case, element) + 2e-6
    assert np.allclose(logs, wanted_logs, rtol=2e-6, atol=2e-5)


@pytest.mark.crossed("device", "causal", "element")
@pytest.mark.parametrize("causal", one_and_others([True, False]), ids=["causal", "full"])
@pytest.mark.parametrize("element", one_and_others(TYPES), ids=str)
def test_edge_shapes(device: AnyDevice, element: Type, causal: bool) -> None:
    some = EDGES if element is f32 else EDGES[1:4]
    for queries, keys, size, heads in FEW if device.kind == "webgpu" else some:
        check(device, made(element, queries, keys, size, heads, causal=causal), element)


@pytest.mark.crossed("name", "causal")
@pytest.mark.parametrize("causal", one_and_others([False, True]), ids=["full", "causal"])
@pytest.mark.parametrize("name", one_and_others(["emulated", "emulated:ptx"]))
def test_edge_shapes_on_emulated_gpus(name: str, causal: bool) -> None:
    """Tests f32; tests/tensor/test_attention_cores.py has the other types."""
    with open_device(name) as device:
        for queries, keys, size, heads in ((65, 40, 33, (2, 1)), (7, 9, 130, (1, 1)), *FEW):
            check(device, made(f32, queries, keys, size, heads, 1, causal=causal), f32)


def test_cpu_accesses_are_in_bounds(checked_cpu: AnyDevice) -> None:
    for size in (1, 17):
        check(checked_cpu, made(f32, 5, 9, size, (2, 1), causal=True, lengths=[0, 9]), f32)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_lengths(device: AnyDevice, causal: bool) -> None:
    """Some keys, none, and more than there are; keys beyond are not looked at."""
    case = made(f32, 20, 37, 16, (2, 1), 4, causal=causal, lengths=[21, 0, 1 << 30, -1])
    for tensor in (case.k, case.v):
        tensor[0, :, 21:] = np.nan
        tensor[1] = np.nan
    output, logs = run(device, case)
    assert (output[1] == 0).all()
    assert (logs[1] == NONE).all()
    case.k[:2], case.v[:2] = np.nan_to_num(case.k[:2]), np.nan_to_num(case.v[:2])
    wanted = exact(case._replace(lengths=np.array([21, 0, 37, 37])), f32)
    assert np.allclose(output, wanted[0], atol=2e-6)
    assert np.allclose(logs, wanted[1], rtol=2e-6, atol=2e-6)


def test_queries_before_all_keys_attend_to_none(device: AnyDevice) -> None:
    output, logs = run(device, made(f32, 9, 4, 8, causal=True))
    assert (output[..., :5, :] == 0).all()
    assert (logs[..., :5] == NONE).all()
    assert (output[..., 5:, :] != 0).all()


def test_equal_weights_average_the_values(device: AnyDevice) -> None:
    """Sixteen keys that are alike, each with a value of its own: each weight is 1/16 exactly."""
    values = np.eye(16, dtype=np.float32)[None]
    zeros = np.zeros((1, 3, 16), np.float32)
    output, _ = run(device, Case(zeros, np.ones_like(values), values, 1.0))
    assert (output == 1 / 16).all()
    counts = np.minimum(np.arange(16) + 1, 16)[:, None]
    causal, _ = run(device, Case(np.zeros_like(values), values, values, 1.0, causal=True))
    assert np.allclose(causal[0], np.tri(16) / counts, rtol=2e-7)


def test_the_largest_of_large_logits(device: AnyDevice) -> None:
    """Logits of 1e4 and -1e4: one key has all the weight, which names it."""
    random = np.random.default_rng(4)
    chosen = random.permutation(40)
    keys = np.full((1, 40, 40), -100, np.float32)
    keys[0, np.arange(40), np.arange(40)] = 100
    queries = np.zeros((1, 40, 40), np.float32)
    queries[0, np.arange(40), chosen] = 100
    values = random.normal(0, 1, (1, 40, 40)).astype(np.float32)
    output, logs = run(device, Case(queries, keys, values, 1.0))
    assert np.array_equal(output[0], values[0, chosen])
    assert np.allclose(logs, 1e4)


def test_non_finite_values_stay_in_their_row() -> None:
    with open_device("cpu") as device:
        case = made(f32, 20, 33, 12)
        case.q[0, 0, 3, 5] = np.nan
        output, logs = run(device, case)
        assert np.isnan(output[0, 0, 3]).all()
        assert np.argwhere(np.isnan(logs)).tolist() == [[0, 0, 3]]
        assert np.isfinite(np.delete(output[0, 0], 3, 0)).all()
        assert np.isfinite(output[1]).all()


def test_two_runs(device: AnyDevice) -> None:
    case = made(f16, 33, 50, 24, (2, 1), causal=True)
    for first, second in zip(run(device, case), run(device, case), strict=True):
        assert first.tobytes() == second.tobytes()


def test_leading_axes_and_result_shapes() -> None:
    q, k = np.ones((2, 3, 4, 5, 6), np.float32), np.ones((2, 3, 2, 7, 6), np.float32)
    assert attention("cpu", q, k, k).shape == q.shape
    assert (attention("cpu", q, k, k, lengths=np.full((2, 3), 2, np.uint32)) == 1).all()
    assert (attention("cpu", q[0, 0], k[0, 0], k[0, 0], lengths=np.ones(1, np.int32)) == 1).all()
    assert attention("cpu", q[:, :0], k[:, :0], k[:, :0]).shape == (2, 0, 4, 5, 6)


# --- bad input

Q, K = np.ones((2, 4, 5, 8), np.float32), np.ones((2, 2, 7, 8), np.float32)
ROWS = np.ones((2, 4, 5), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attention("cpu", Q[0, 0], K, K), "q must have at least the axes"),
        (lambda: attention("cpu", Q, K[0], K), r"k must be f32 of shape \(2, kv_heads, keys, 8\)"),
        (lambda: attention("cpu", Q, K[:1], K), "k must be f32 of shape"),
        (lambda: attention("cpu", Q, K.astype(np.float16), K), "k must be f32 of shape"),
        (lambda: attention("cpu", Q, Q[:, :3], Q[:, :3]), "k has strides"),
        (lambda: attention("cpu", Q[:, :3].copy(), K, K), "k has 2 heads, but must divide"),
        (lambda: attention("cpu", Q, K[:, :0].copy(), K), "k has 0 heads"),
        (lambda: attention("cpu", Q, K, Q), r"v must be f32 of shape \(2, 2, 7, 8\) to go with k"),
        (lambda: attention("cpu", *[np.ones((1, 2, 257), np.float32)] * 3), "heads of 257"),
        (lambda: attention("cpu", *[np.ones((1, 2, 0), np.float32)] * 3), "heads of 0"),
        (lambda: attention("cpu", Q, K, K, scale=0.0), "scale must be at least"),
        (lambda: attention("cpu", Q, K, K, scale="half"), "scale must be a number"),
        (lambda: attention("cpu", Q, K, K, lengths=np.ones(3, np.int32)), "lengths must have the"),
        (lambda: attention("cpu", Q, K, K, lengths=np.ones(2)), "lengths is of float64"),
        (lambda: attention("cpu", Q, K, K, log_sums=ROWS[0]), "log_sums must be f32 of shape"),
        (lambda: attention("cpu", Q, K, K, out=K), "out must be f32 of shape"),
        (lambda: attention("cpu", Q, K, K, out=Q), "out is in the memory of q"),
        (lambda: attention("cpu", Q, Q, Q, log_sums=Q.reshape(-1)[:40].reshape(2, 4, 5)),
         "log_sums is in the memory of q"),
    ],
)  # fmt: skip
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
