"""Attention by warpgroups: plans, edges, hidden values, mistakes of roles, machine code."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.emulated.device import EmulatedDevice
from quod.errors import QuodError
from quod.kernel import bf16, f16, f32
from quod.kernel.ir.types import Type
from quod.tensor import attention
from quod.tensor.flash_attention.kernel import AttentionForm
from quod.tensor.flash_attention.plan import (
    WARPGROUP_PLANS,
    WarpgroupPlan,
    heads_together,
    plan_attention,
)
from quod.tensor.flash_attention.warpgroup_kernel import WARPGROUP_ATTENTION
from quod.tensor.flash_attention.warpgroups import HeadTiles, WarpgroupAttention
from tests.support.ptx_assembler import (
    assemble,
    opcodes,
    sass,
    usage,
    with_multiplying_registers,
)
from tests.support.thorough import one_and_others
from tests.tensor.attention_model import (
    Case,
    bound,
    check_what_is_no_number,
    exact,
    made,
    plain_error,
)
from tests.tensor.numbers import Array, Guarded, amid_poison, numbers

PLANS = list(WARPGROUP_PLANS.values())


@pytest.fixture
def by_warpgroups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few queries take warpgroups too; counts the calls."""
    calls: list[int] = []

    def planned(device: Any, element: Type, queries: int, head: int, heads: int, **_: Any) -> Any:
        calls.append(queries)
        return WARPGROUP_PLANS[head]

    monkeypatch.setattr("quod.tensor.flash_attention.call.plan_attention", planned)
    return calls


def run(device: Any, case: Case) -> tuple[Array, Array]:
    q, k, v = (amid_poison(device, x) for x in case[:3])
    out = Guarded(device, np.zeros_like(case.q))
    logs = Guarded(device, np.zeros(case.q.shape[:-1], np.float32))
    attention(
        device, q, k, v, scale=case.scale, causal=case.causal, log_sums=logs.memory, out=out.memory
    )
    return out.array(), logs.array()


def check(device: Any, case: Case, element: Type) -> None:
    output, logs = run(device, case)
    wanted, wanted_logs = exact(case, element)
    error = np.abs(numbers(output, element) - wanted)
    allowed = bound(case, element)
    assert (error <= allowed).all(), np.unravel_index(np.argmax(error - allowed), error.shape)
    assert error.max(initial=0) <= 2 * plain_error(case, element) + 2e-6
    assert np.allclose(logs, wanted_logs, rtol=2e-6, atol=2e-5)


@pytest.mark.parametrize("causal", one_and_others([True, False]), ids=["causal", "full"])
@pytest.mark.parametrize("plan", one_and_others(PLANS), ids=str)
def test_every_plan(
    tiling: Any, by_warpgroups: list[int], plan: WarpgroupPlan, causal: bool
) -> None:
    """One tile of keys, two, three and five; more than a tile of queries; shared heads."""
    rows, keys = plan.tile
    for queries, count in ((rows + 7, keys), (5, keys + 9), (9, 2 * keys + 1), (rows, 5 * keys)):
        case = made(bf16, queries, count, plan.size, (2, 1), 1, causal=causal)
        check(tiling, case, bf16)
    assert len(by_warpgroups) == 4


@pytest.mark.parametrize("element", one_and_others([f16, bf16]), ids=str)
def test_edge_shapes(tiling: Any, by_warpgroups: list[int], element: Type) -> None:
    for queries, keys in ((1, 1), (7, 129), (63, 64), (64, 63), (130, 65), (200, 3)):
        for causal in (False, True):
            check(tiling, made(element, queries, keys, 64, (2, 2), 1, causal=causal), element)
    assert by_warpgroups


@pytest.mark.parametrize("causal", one_and_others([True, False]), ids=["causal", "full"])
def test_non_finite_values(tiling: Any, by_warpgroups: list[int], causal: bool) -> None:
    check_what_is_no_number(lambda case: run(tiling, case)[0], 64, causal=causal)
    assert by_warpgroups


def test_exact_cases(tiling: Any, by_warpgroups: list[int]) -> None:
    """One-hot values name the keys; a large logit leaves one."""
    random = np.random.default_rng(2)
    values = np.eye(64, dtype=np.float16)[None, None]
    nothing = np.zeros((1, 1, 70, 64), np.float16)
    output, _ = run(tiling, Case(nothing, values, values, 1.0))
    assert (output == 1 / 64).all()
    chosen = random.permutation(64)
    queries = np.where(values[:, :, chosen] > 0, np.float16(100), np.float16(0))
    keys = np.where(values > 0, np.float16(100), np.float16(-100))
    values = random.normal(0, 1, values.shape).astype(np.float16)
    output, logs = run(tiling, Case(queries, keys, values, 1.0))
    assert np.array_equal(output[0, 0], values[0, 0, chosen])
    assert np.allclose(logs, 1e4)


def test_heads_are_processed_in_groups(
    tiling: Any, by_warpgroups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last group is smaller."""
    monkeypatch.setattr("quod.tensor.flash_attention.call.heads_together", lambda *_: 2)
    check(tiling, made(f16, 150, 140, 64, (5, 5), 1, causal=True), f16)


@pytest.mark.thorough
def test_two_runs(tiling: Any, by_warpgroups: list[int]) -> None:
    case = made(f16, 150, 300, 64, (2, 1), 1, causal=True)
    for first, second in zip(run(tiling, case), run(tiling, case), strict=True):
        assert first.tobytes() == second.tobytes()


@pytest.mark.thorough
@pytest.mark.parametrize("causal", one_and_others([True, False]), ids=["causal", "full"])
def test_parsed_text_gives_equal_results(by_warpgroups: list[int], causal: bool) -> None:
    case = made(f16, 200, 140, 64, (2, 1), 1, causal=causal)
    with EmulatedDevice() as traced, EmulatedDevice(executor="ptx", tiles=True) as text:
        for first, second in zip(run(traced, case), run(text, case), strict=True):
            assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(
    ("of", "name", "message"),
    [
        (HeadTiles, "wait_until_read", "bytes twice|what another instance|over a"),
        (HeadTiles, "release", "12 of 12 arrivals are missing"),
        (WarpgroupAttention, "_copy_tile", "waits for ever: 0 bytes"),
    ],
)
def test_mistakes_are_detected(
    by_warpgroups: list[int], monkeypatch: pytest.MonkeyPatch, of: Any, name: str, message: str
) -> None:
    monkeypatch.setattr(of, name, lambda *_: None)
    with EmulatedDevice() as device, pytest.raises(QuodError, match=message):
        run(device, made(f16, 3, 600, 64, batch=1))


def test_many_tiles_keep_the_sum_of_weights(tiling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest logits are first, so that no step rescales: errors of steps must not add up."""
    plan = WarpgroupPlan(64, 1, 16, (24, 240))
    monkeypatch.setattr("quod.tensor.flash_attention.call.plan_attention", lambda *_, **__: plan)
    case = made(f16, 64, 1024, 64, batch=1)
    keys = np.asarray(case.k, np.float32)
    keys[..., :8, :] = np.asarray(case.q, np.float32)[..., :8, :] * 2
    case = Case(case.q, keys.astype(np.float16), case.v, 0.4)
    _, logs = run(tiling, case)
    # Logits reach 50 here, and tensor cores cut off their sums: some units of 2^-18.
    assert np.abs(logs - exact(case, f16)[1]).max() <= 2e-5


def test_rising_maxima(tiling: Any, by_warpgroups: list[int]) -> None:
    """Logits rise from tile to tile by less and by more than the threshold of rescaling."""
    for rise in (0.5, 40.0, -40.0):
        case = made(f16, 70, 700, 64, batch=1)
        slopes = np.linspace(0, rise, 700, dtype=np.float32)[:, None]
        queries, keys = (np.asarray(x, np.float32) for x in (case.q, case.k))
        keys = keys * np.float32(0.1) + slopes * np.float32(1 / 64)
        case = Case(
            np.abs(queries).astype(np.float16), keys.astype(np.float16), case.v, 1.0
        )  # fmt: skip
        check(tiling, case, f16)


def test_plan_selection_for_warpgroups() -> None:
    with EmulatedDevice(multiprocessors=132) as device:
        assert plan_attention(device, bf16, 1 << 13, 128, 16) == WARPGROUP_PLANS[128]
        assert plan_attention(device, f16, 1 << 13, 64, 16) == WARPGROUP_PLANS[64]
        for element, size, heads in ((f16, 80, 16), (f32, 64, 16), (f16, 64, 1)):
            attention_plan = plan_attention(device, element, 1 << 12, size, heads)
            assert not isinstance(attention_plan, WarpgroupPlan)
        attention_plan = plan_attention(device, f16, 1 << 13, 64, 16, uniform=False)
        assert not isinstance(attention_plan, WarpgroupPlan)
    assert heads_together(8192, 128, 1) == 4
    assert heads_together(1 << 20, 128, 8) == 8


@pytest.mark.parametrize("causal", one_and_others([True, False]), ids=["causal", "full"])
@pytest.mark.parametrize("plan", one_and_others(PLANS), ids=str)
def test_assembler_does_not_serialise_products(plan: WarpgroupPlan, causal: bool) -> None:
    """Remarks C75xx are of products that the assembler put one after the other."""
    machine = ptx_machine(plan.lanes, "sm_90a")
    traced = WARPGROUP_ATTENTION[bf16, True].trace(
        machine, element=bf16, plan=plan, form=AttentionForm(causal=causal, sums=True)
    )
    text = ptx.emit(traced, machine)
    counts = [("dec", str(plan.registers[0])), ("inc", str(plan.registers[1]))]
    assert re.findall(r"setmaxnreg\.(...)\S* (\d+)", text) == counts
    cubin, log = assemble(with_multiplying_registers(text), "sm_90a")
    assert "C75" not in log
    assert usage(log).registers <= plan.registers[1]
    assert not usage(log).spill_store_bytes
    # Keys of the first tile, in each loop those of a tile and values, and the last values.
    assert opcodes(sass(cubin))["HGMMA"] == 3 * (plan.size // 16) + 3 * (plan.keys // 16)
