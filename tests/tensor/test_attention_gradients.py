"""Gradients of attention: against float64, whose model agrees with differences; bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.codegen import kernel_usage
from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import f16, f32
from quod.kernel.ir.types import Type
from quod.tensor import attention, attention_backward
from quod.tensor.flash_attention.backward.kernels import (
    ATTENTION_BACKWARD_KEYS,
    ATTENTION_BACKWARD_QUERIES,
)
from quod.tensor.flash_attention.kernel import ATTENTION, AttentionForm
from quod.tensor.flash_attention.plan import plan_tiles
from tests.support.thorough import one_and_others
from tests.tensor.attention_model import Case, exact, gradient_bounds, gradients, made
from tests.tensor.numbers import LEAST, TYPES, UNIT, Array, Guarded, amid_poison, numbers, stored

EDGES = [
    (1, 1, 1, (1, 1)), (7, 50, 15, (4, 2)), (49, 64, 64, (2, 1)), (65, 31, 40, (3, 1)),
    (3, 0, 8, (2, 1)), (0, 3, 8, (2, 1)), (17, 9, 250, (1, 1)),
]  # fmt: skip
FEW = [(20, 19, 12, (4, 2)), (0, 5, 8, (1, 1))]


def slopes_of(case: Case, element: Type) -> Array:
    return stored(np.random.default_rng(9).normal(0, 1, case.q.shape), element)


def run(device: AnyDevice, case: Case, slopes: Array) -> list[Array]:
    """The gradients in poisoned memory whose surroundings must stay, after the forward pass."""
    q, k, v, dy = (amid_poison(device, x) for x in (*case[:3], slopes))
    options: dict[str, Any] = {"scale": case.scale, "causal": case.causal}
    options["lengths"] = None if case.lengths is None else amid_poison(device, case.lengths)
    logs = device.upload(np.zeros(case.q.shape[:-1], np.float32))
    y = attention(device, q, k, v, log_sums=logs, **options)
    out = [Guarded(device, np.zeros_like(x)) for x in case[:3]]
    memory = tuple(each.memory for each in out)
    returned = attention_backward(device, dy, q, k, v, y, logs, out=memory, **options)
    assert returned == memory
    return [each.array() for each in out]


def check(device: AnyDevice, case: Case, element: Type) -> None:
    slopes = slopes_of(case, element)
    computed_gradients, as_numbers = run(device, case, slopes), numbers(slopes, element)
    wanted, bounds = (
        function(case, element, as_numbers) for function in (gradients, gradient_bounds)
    )
    for name, *tensors in zip("qkv", computed_gradients, wanted, bounds, strict=True):
        gradient, best, bound = numbers(tensors[0], element), tensors[1], tensors[2]
        allowed = bound + UNIT[element] * 0.51 * np.abs(best) + 2 * LEAST[element]
        error = np.abs(gradient - best)
        worst = np.unravel_index(np.argmax(error - allowed), error.shape) if error.size else ()
        assert (error <= allowed).all(), (name, worst)


@pytest.mark.crossed("device", "causal", "element")
@pytest.mark.parametrize("causal", one_and_others([True, False]), ids=["causal", "full"])
@pytest.mark.parametrize("element", one_and_others(TYPES), ids=str)
def test_edge_shapes(device: AnyDevice, element: Type, causal: bool) -> None:
    some = EDGES if element is f32 else EDGES[1:2]
    for queries, keys, size, heads in FEW if device.kind == "webgpu" else some:
        check(device, made(element, queries, keys, size, heads, causal=causal), element)


def test_edge_shapes_on_emulated_gpus() -> None:
    with open_device("emulated") as device:
        for queries, keys, size, heads in ((36, 40, 33, (2, 1)), (7, 9, 130, (1, 1))):
            check(device, made(f32, queries, keys, size, heads, 1, causal=queries > 9), f32)


@pytest.mark.thorough
def test_cpu_accesses_are_in_bounds(checked_cpu: AnyDevice) -> None:
    for size in (1, 17):
        check(checked_cpu, made(f32, 5, 9, size, (2, 1), causal=True, lengths=[0, 9]), f32)


@pytest.mark.parametrize("causal", one_and_others([True, False]), ids=["causal", "full"])
def test_lengths(device: AnyDevice, causal: bool) -> None:
    """Keys beyond a sequence's length are not read, and have the gradient 0."""
    case = made(f32, 20, 37, 16, (2, 1), 3, causal=causal, lengths=[21, 0, 37])
    slopes = slopes_of(case, f32)
    wanted = gradients(case, f32, slopes.astype(np.float64))
    for tensor in (case.k, case.v):
        tensor[0, :, 21:] = np.nan
        tensor[1] = np.nan
    computed_gradients = run(device, case, slopes)
    for gradient, best in zip(computed_gradients, wanted, strict=True):
        assert np.allclose(gradient, best, atol=1e-5)
        assert (gradient[1] == 0).all()
    assert (computed_gradients[1][0, :, 21:] == 0).all()


def test_two_runs(device: AnyDevice) -> None:
    case = made(f16, 33, 50, 24, (2, 1), causal=True)
    slopes = slopes_of(case, f16)
    for first, second in zip(run(device, case, slopes), run(device, case, slopes), strict=True):
        assert first.tobytes() == second.tobytes()


def test_model_matches_finite_differences() -> None:
    case = made(f32, 4, 6, 3, (2, 1), 1, causal=True)
    q, k, v = (x.astype(np.float64) for x in case[:3])
    case = Case(q, k, v, case.scale, True)
    slopes = np.random.default_rng(5).normal(0, 1, case.q.shape)
    wanted = gradients(case, f32, slopes)

    def total(place: int, at: tuple[int, ...], step: float) -> float:
        tensors = [x.copy() for x in case[:3]]
        tensors[place][at] += step
        changed = Case(tensors[0], tensors[1], tensors[2], case.scale, True)
        return float((exact(changed, f32)[0] * slopes).sum())

    for place in range(3):
        for at in np.ndindex(case[place].shape):
            difference = (total(place, at, 1e-6) - total(place, at, -1e-6)) / 2e-6
            assert abs(difference - wanted[place][at]) < 1e-7


def test_result_shapes() -> None:
    q, k = np.ones((2, 3, 4, 5, 6), np.float32), np.ones((2, 3, 2, 7, 6), np.float32)
    logs = np.zeros(q.shape[:-1], np.float32)
    y = attention("cpu", q, k, k, log_sums=logs)
    computed_gradients = attention_backward("cpu", q, q, k, k, y, logs)
    assert [gradient.shape for gradient in computed_gradients] == [q.shape, k.shape, k.shape]
    # All keys are alike: a weight is 1/7, for each of 2 heads with 5 queries.
    assert np.allclose(computed_gradients[2], 10 / 7)
    assert np.allclose(computed_gradients[0], 0, atol=1e-6)


# --- machine code


@pytest.mark.thorough
@pytest.mark.parametrize("size", one_and_others([64, 128, 256], always=[256]))
def test_f32_accumulators_are_not_spilled(size: int) -> None:
    lengths = AttentionForm(causal=True, lengths=True)
    with open_device("emulated:ptx") as device:
        for kernel, operands, sums in (
            (ATTENTION[f32, True, False], 1, 1), (ATTENTION_BACKWARD_QUERIES[f32, True], 2, 1),
            (ATTENTION_BACKWARD_KEYS[f32, True], 2, 2),
        ):  # fmt: skip
            plan = plan_tiles(device, f32, size, operands=operands, sums=sums)
            usage = kernel_usage(
                kernel, "sm_90a", workgroup=plan.lanes, element=f32, plan=plan, form=lengths
            )
            assert usage.registers is not None
            assert usage.registers <= 200
            assert not usage.spilled_bytes


# --- bad input

Q, K = np.ones((1, 2, 5, 8), np.float32), np.ones((1, 2, 7, 8), np.float32)
Y, G, LOGS = Q.copy(), Q.copy(), np.ones((1, 2, 5), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attention_backward("cpu", K, Q, K, K, Y, LOGS), "gradient must be f32 of shape"),
        (lambda: attention_backward("cpu", G, Q, K, K, K, LOGS), "y must be f32 of shape"),
        (lambda: attention_backward("cpu", G, Q, K, K, Y, Q), "log_sums must be f32 of shape"),
        (lambda: attention_backward("cpu", G, Q, K, Q, Y, LOGS), "v must be f32 of shape"),
        (lambda: attention_backward("cpu", G, Q, K, K, Y, LOGS, out=Q), "out must be three"),
        (lambda: attention_backward("cpu", G, Q, K, K, Y, LOGS, out=(Q.copy(), K.copy(), Q)),
         r"out\[2\] must be f32 of shape"),
        (lambda: attention_backward("cpu", G, Q, K, K, Y, LOGS, out=(G, K.copy(), K.copy())),
         r"out\[0\] is in the memory of gradient"),
        (lambda: attention_backward("cpu", G, Q, K, K, Y, LOGS, out=(Q.copy(), K, K.copy())),
         r"out\[1\] is in the memory of k"),
    ],
)  # fmt: skip
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
