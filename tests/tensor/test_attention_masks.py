"""Masked keys have no effect, even if they are NaN or an infinity.

Against NumPy that sums seen pairs alone, for every plan: of processors, without and with tensor
cores, by warpgroups and warp-specialised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.kernel import bf16, f16, f32
from quod.kernel.ir.types import Type
from quod.tensor import attention, attention_decode
from quod.tensor.flash_attention.plan import (
    WARPGROUP_GRADIENT_PLANS,
    WARPGROUP_PLANS,
    AnyAttentionPlan,
    WarpgroupPlan,
)
from tests.conftest import open_for_test
from tests.support.devices import present
from tests.support.thorough import one_and_others
from tests.tensor import test_attention_gradients, test_attention_pages
from tests.tensor.attention_model import NONE, Case, made
from tests.tensor.numbers import TYPES, UNIT, Array, numbers, stored
from tests.tensor.test_attention import run

Shape = tuple[int, int, int]
Run = Callable[[AnyDevice, Case], tuple[Array, Array]]

SHAPES: list[Shape] = [(5, 3, 8), (9, 131, 24)]
"""Queries, keys, elements: queries that see no key, and the edge of a mask after whole tiles."""


@pytest.fixture(scope="module", params=present("cpu", "emulated", "cuda"))
def anywhere(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    """A device of each kind whose numbers include NaN."""
    with open_for_test(request.param) as device:
        yield device


def interpreted(device: AnyDevice) -> bool:
    """Return whether a device is an interpreter, which is slow: it has one case of each kind."""
    return device.kind == "emulated"


def poisoned(case: Case, element: Type, value: float) -> Case:
    """With elements of late keys and values replaced, and all beyond a sequence's keys."""
    k, v = (numbers(x, element) for x in (case.k, case.v))
    for sequence in range(len(k)):
        keys = k.shape[-2] if case.lengths is None else int(case.lengths[sequence])
        k[sequence, :, keys:], v[sequence, :, keys:] = value, value
        if case.causal and keys:
            v[sequence, :, max(keys - 3, 0), 5] = value
            v[sequence, :, max(keys - 2, 0), 7] = -value
            k[sequence, :, keys - 1, 1] = value
    return case._replace(k=stored(k, element), v=stored(v, element))


def sums(weights: Array, seen: Array, lines: Array) -> Array:
    """weights @ lines, of the pairs that are seen."""
    terms = weights[..., None] * lines[..., None, :, :]
    return np.where(seen[..., None], terms, 0).sum(-2)


def selected(case: Case, element: Type) -> tuple[Array, Array, Array]:
    """The result, the weights and the logarithms of sums, of float64."""
    of, seen = case.as_numbers(element), case.seen
    logits = np.where(seen, case.scale * (of.q @ np.swapaxes(of.k, -1, -2)), -np.inf)
    top = np.where(seen.any(-1), logits.max(-1, initial=-np.inf), 0)
    powers = np.where(seen, np.exp(logits - top[..., None]), 0)
    total = powers.sum(-1)
    none = ~seen.any(-1)
    logs = np.where(none, NONE, top + np.log(np.where(none, 1, total)))
    weights = powers / np.where(none, 1, total)[..., None]
    return sums(weights, seen, of.v), weights, logs


def selected_gradients(case: Case, element: Type, slopes: Array) -> list[Array]:
    """Those of queries, keys and values."""
    of, seen = case.as_numbers(element), case.seen
    y, weights, _ = selected(case, element)
    products = (slopes * y).sum(-1, keepdims=True)
    change = case.scale * weights * (slopes @ np.swapaxes(of.v, -1, -2) - products)
    heads = case.k.shape[-3]

    def by_keys(x: Array, lines: Array) -> Array:
        key_sums = sums(np.swapaxes(x, -1, -2), np.swapaxes(seen, -1, -2), lines)
        return key_sums.reshape(*key_sums.shape[:-3], heads, -1, *key_sums.shape[-2:]).sum(-3)

    return [sums(change, seen, of.k), by_keys(change, of.q), by_keys(weights, slopes)]


def agree(actual: Array, wanted: Array, element: Type, *, kinds: bool = True) -> None:
    """Assert equal finite numbers, but for rounding, and others at the same indices; with `kinds`
    these are infinities and NaN as expected.
    """
    actual_numbers = numbers(actual, element)
    there = np.isfinite(wanted)
    assert np.array_equal(np.isfinite(actual_numbers), there), np.argwhere(
        np.isfinite(actual_numbers) != there
    )[:4]
    spread = 1e-5 if element is f32 else 8 * UNIT[element]
    assert np.allclose(actual_numbers[there], wanted[there], rtol=spread, atol=spread)
    if kinds:
        assert np.array_equal(actual_numbers[~there], wanted[~there], equal_nan=True)


def check(device: AnyDevice, case: Case, element: Type, run: Run = run) -> None:
    """Poison with NaN and an infinity; in f32, rows that see neither keep their bits."""
    plain, _ = run(device, case)
    for value in (np.nan, np.inf)[: 1 if interpreted(device) else 2]:
        poisoned_case = poisoned(case, element, value)
        with np.errstate(invalid="ignore"):
            wanted, _, wanted_logs = selected(poisoned_case, element)
        output, logs = run(device, poisoned_case)
        agree(output, wanted, element, kinds=value != value)
        blind = ~case.seen.any(-1)
        assert not numbers(output, element)[blind].any()
        assert np.allclose(logs, wanted_logs, rtol=1e-4, atol=1e-4, equal_nan=True)
        if element is f32:
            changed = (poisoned_case.k != case.k).any(-1) | (poisoned_case.v != case.v).any(-1)
            changed = np.repeat(changed, case.q.shape[-3] // case.k.shape[-3], -2)
            kept = ~(case.seen & changed[..., None, :]).any(-1)
            assert np.array_equal(output[kept], plain[kept])


def cases(device: AnyDevice, element: Type, shapes: list[Shape] = SHAPES) -> Iterator[Case]:
    for queries, keys, size in shapes[: 1 if interpreted(device) else 2]:
        yield made(element, queries, keys, size, (2, 1), 1, causal=True)


def with_lengths(element: Type, *, causal: bool) -> Case:
    return made(element, 4, 9, 8, (2, 1), 3, causal=causal, lengths=[7, 3, 0])


@pytest.mark.parametrize("element", one_and_others(TYPES, [f32]), ids=str)
def test_attention(anywhere: AnyDevice, element: Type) -> None:
    for case in cases(anywhere, element):
        check(anywhere, case, element)


@pytest.mark.crossed("causal", "element")
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("element", one_and_others(TYPES, [f32]), ids=str)
def test_lengths(anywhere: AnyDevice, element: Type, causal: bool) -> None:
    check(anywhere, with_lengths(element, causal=causal), element)


@pytest.mark.crossed("parts", "element")
@pytest.mark.parametrize("parts", one_and_others([3, 1]))
@pytest.mark.parametrize("element", one_and_others(TYPES, [f32]), ids=str)
def test_decode(anywhere: AnyDevice, element: Type, parts: int) -> None:
    call = partial(run, call=partial(attention_decode, parts=parts))
    for case in cases(anywhere, element):
        check(anywhere, case, element, call)
    if not interpreted(anywhere):
        check(anywhere, with_lengths(element, causal=True), element, call)


@pytest.mark.parametrize("element", one_and_others(TYPES, [f32]), ids=str)
def test_pages(anywhere: AnyDevice, element: Type) -> None:
    def of_pages(device: AnyDevice, case: Case) -> tuple[Array, Array]:
        pages = test_attention_pages.paged(case, 8)
        return test_attention_pages.run(device, case, pages, 2)

    check(anywhere, with_lengths(element, causal=True), element, of_pages)


def test_through_webgpu(gpu_device: AnyDevice) -> None:
    """WGSL assumes finite numbers, so that fully masked rows may hold any value."""
    check(gpu_device, made(f32, 9, 4, 8, (1, 1), 1, causal=True), f32)


@pytest.mark.parametrize("size", [7, 8])
def test_an_infinite_last_value(anywhere: AnyDevice, size: int) -> None:
    """Tiles read the last line again, or zeros, in place of lines beyond it: a weight of 0 would
    make NaN of its infinity."""
    for element in (f32, f16):
        case = made(element, 1, 3, size, (2, 1), 1)
        case.v[..., -1, 2] = np.inf
        for call in (attention, partial(attention_decode, parts=2)):
            outcome, _ = run(anywhere, case, call)
            infinite = np.isposinf(outcome)
            assert infinite[..., 2].all()
            assert infinite.sum() == 2
            assert np.isfinite(outcome[~infinite]).all()


# --- gradients


def check_gradients(device: AnyDevice, case: Case, element: Type) -> None:
    """With NaN and an infinity in late keys and values; in early queries; and in their slopes."""
    slopes = stored(np.random.default_rng(3).normal(0, 1, case.q.shape), element)
    for variant, dy in (
        (poisoned(case, element, np.nan), slopes),
        (case._replace(q=_early(case.q, element)), _early(slopes, element)),
        (poisoned(case, element, np.inf), slopes), (case, _early(slopes, element)),
    )[: 2 if interpreted(device) else 4]:  # fmt: skip
        with np.errstate(invalid="ignore"):
            wanted = selected_gradients(variant, element, numbers(dy, element))
        computed_gradients = test_attention_gradients.run(device, variant, dy)
        for each, best in zip(computed_gradients, wanted, strict=True):
            agree(each, best, element, kinds=False)
        assert not numbers(computed_gradients[0], element)[~case.seen.any(-1)].any()


def _early(lines: Array, element: Type) -> Array:
    """NaN in the first line, which sees fewest keys."""
    values = numbers(lines, element)
    values[..., 0, 1] = np.nan
    return stored(values, element)


@pytest.mark.parametrize("element", one_and_others([f32, f16]), ids=str)
def test_gradients(anywhere: AnyDevice, element: Type) -> None:
    for case in cases(anywhere, element):
        check_gradients(anywhere, case, element)


@pytest.mark.parametrize(
    ("element", "causal"), one_and_others([(f32, False), (f16, False), (f16, True)]),
    ids=["f32-full", "f16-full", "f16-causal"],
)  # fmt: skip
def test_gradients_with_lengths(anywhere: AnyDevice, element: Type, causal: bool) -> None:
    check_gradients(anywhere, with_lengths(element, causal=causal), element)


def test_an_infinite_last_gradient(anywhere: AnyDevice) -> None:
    """The gradient of values is infinite where the last query's is, and not NaN."""
    case = made(f32, 3, 5, 8, (1, 1), 1)
    slopes = np.ones(case.q.shape, np.float32)
    slopes[..., -1, 2] = np.inf
    of_values = test_attention_gradients.run(anywhere, case, slopes)[2]
    infinite = np.isposinf(of_values)
    assert infinite[..., 2].all()
    assert np.isfinite(np.delete(of_values, 2, -1)).all()


# --- warpgroups

BY_WARPGROUPS: list[Shape] = [(5, 3, 64), (9, 259, 64)]


@pytest.mark.parametrize(
    ("plan", "element"),
    one_and_others([(WARPGROUP_PLANS[64], f16), (WarpgroupPlan(64, 2, 32, (40, 232)), bf16)]),
    ids=["three", "two"],
)  # fmt: skip
def test_warpgroups(
    tiling: Any, monkeypatch: pytest.MonkeyPatch, element: Type, plan: AnyAttentionPlan
) -> None:
    monkeypatch.setattr("quod.tensor.flash_attention.call.plan_attention", lambda *_, **__: plan)
    for case in cases(tiling, element, BY_WARPGROUPS):
        check(tiling, case, element)


def test_gradients_by_warpgroups(tiling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "quod.tensor.flash_attention.backward.call.plan_gradients",
        lambda *_, **__: WARPGROUP_GRADIENT_PLANS[64],
    )
    for case in cases(tiling, bf16, BY_WARPGROUPS):
        check_gradients(tiling, case, bf16)
