"""Gradients of attention by warpgroups: every plan and edge, what is masked, machine code."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.emulated.device import EmulatedDevice
from quod.kernel import bf16, f16, f32
from quod.kernel.ir.types import Type
from quod.tensor.flash_attention.backward.warpgroup_kernels import (
    ATTENTION_BACKWARD_KEYS_TILES,
    ATTENTION_BACKWARD_QUERIES_TILES,
)
from quod.tensor.flash_attention.backward.warpgroups import _Gradients
from quod.tensor.flash_attention.kernel import AttentionForm
from quod.tensor.flash_attention.plan import (
    CAUSAL_QUERY_PLANS,
    WARPGROUP_GRADIENT_PLANS,
    WarpgroupGradientPlan,
    plan_gradients,
)
from tests.support.ptx_assembler import assemble, opcodes, sass, usage
from tests.support.thorough import one_and_others
from tests.tensor.attention_model import made
from tests.tensor.test_attention_gradients import check, run, slopes_of

PLANS = list(WARPGROUP_GRADIENT_PLANS.values())
CAUSAL_PLANS = list(CAUSAL_QUERY_PLANS.values())
KERNELS = {
    "queries": ATTENTION_BACKWARD_QUERIES_TILES, "keys": ATTENTION_BACKWARD_KEYS_TILES,
}  # fmt: skip


@pytest.fixture
def by_warpgroups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few rows take warpgroups too, where plans may; counts the launches."""
    calls: list[int] = []

    def planned(device: Any, element: Type, head: int, sums: int, **options: Any) -> Any:
        calls.append(sums)
        usual = WARPGROUP_GRADIENT_PLANS[head]
        return CAUSAL_QUERY_PLANS.get(head, usual) if options["causal"] and sums == 1 else usual

    monkeypatch.setattr("quod.tensor.flash_attention.backward.call.plan_gradients", planned)
    return calls


@pytest.mark.parametrize(
    ("plan", "causal"),
    one_and_others(
        [*((plan, causal) for plan in PLANS for causal in (False, True)),
         *((plan, True) for plan in CAUSAL_PLANS)],
        always=[(PLANS[0], False)],
    ),
)  # fmt: skip
def test_every_plan(
    tiling: Any, by_warpgroups: list[int], plan: WarpgroupGradientPlan, causal: bool
) -> None:
    """More than a tile of rows, more steps than stages, heads that share keys."""
    rows, lines = plan.tile
    many_lines = plan.stages * lines + 9
    for queries, keys, heads in (
        (rows + 7, many_lines, (1, 1)), (many_lines, rows + 7, (1, 1)), (lines, lines, (4, 2)),
    ):  # fmt: skip
        check(tiling, made(bf16, queries, keys, plan.size, heads, 1, causal=causal), bf16)
    assert by_warpgroups == [1, 2] * 3


@pytest.mark.thorough
@pytest.mark.parametrize("element", one_and_others([f16, bf16], always=[bf16]), ids=str)
def test_edge_shapes(tiling: Any, by_warpgroups: list[int], element: Type) -> None:
    for queries, keys in ((1, 1), (7, 129), (63, 64), (64, 63), (130, 65), (200, 3)):
        for causal in (False, True):
            check(tiling, made(element, queries, keys, 64, (2, 1), 2, causal=causal), element)
    assert by_warpgroups


def test_weights_beyond_the_keys_do_not_overflow(tiling: Any, by_warpgroups: list[int]) -> None:
    """Zeros beyond the keys would have an infinite weight where all logits are far below zero."""
    case = made(f16, 70, 70, 64, (1, 1), 1)
    case.q[...], case.k[...] = np.abs(case.q), -64 * np.abs(case.k)
    logits = case.q.astype(np.float32) @ np.swapaxes(case.k, -1, -2).astype(np.float32)
    assert logits.max() * case.scale < -128 * np.log(2)
    for gradient in run(tiling, case, slopes_of(case, f16)):
        assert np.isfinite(gradient).all()
    check(tiling, case, f16)
    assert by_warpgroups


@pytest.mark.thorough
def test_two_runs(tiling: Any, by_warpgroups: list[int]) -> None:
    case = made(f16, 150, 300, 64, (2, 1), 1, causal=True)
    slopes = slopes_of(case, f16)
    for first, second in zip(run(tiling, case, slopes), run(tiling, case, slopes), strict=True):
        assert first.tobytes() == second.tobytes()
    assert by_warpgroups


def test_missing_tile_copies_are_detected(
    by_warpgroups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: Any) -> None: ...

    monkeypatch.setattr(_Gradients, "copy", nothing)
    case = made(f16, 3, 3, 64, batch=1)
    with EmulatedDevice() as device, pytest.raises(Exception, match="waits for ever"):
        run(device, case, slopes_of(case, f16))


def test_plan_selection_for_warpgroups() -> None:
    with EmulatedDevice(multiprocessors=132) as device:
        for element in (f16, bf16):
            for size, plan in WARPGROUP_GRADIENT_PLANS.items():
                gradient_plan = plan_gradients(device, element, size, 2, rows=1 << 17, uniform=True)
                assert gradient_plan == plan
                causal = plan_gradients(
                    device, element, size, 1, rows=1 << 17, uniform=True, causal=True
                )
                assert causal == CAUSAL_QUERY_PLANS.get(size, plan)
        for element, size, rows, uniform in (
            (f16, 80, 1 << 17, True), (f32, 64, 1 << 17, True), (f16, 64, 1 << 12, True),
            (f16, 64, 1 << 17, False),
        ):  # fmt: skip
            gradient_plan = plan_gradients(device, element, size, 2, rows=rows, uniform=uniform)
            assert not isinstance(gradient_plan, WarpgroupGradientPlan)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kernel", "plan"),
    [*product(KERNELS, PLANS), *(("queries", plan) for plan in CAUSAL_PLANS)],
)
def test_assembler_does_not_serialise_products(plan: WarpgroupGradientPlan, kernel: str) -> None:
    """Remarks C75xx are of products that the assembler put one after the other."""
    machine = ptx_machine(plan.lanes, "sm_90a")
    for causal in (False, True):
        form = AttentionForm(causal)
        traced = KERNELS[kernel][bf16].trace(machine, element=bf16, plan=plan, form=form)
        cubin, log = assemble(ptx.emit(traced, machine), "sm_90a")
        assert "C75" not in log
        assert not usage(log).spill_store_bytes
        sums = 1 if kernel == "queries" else 2
        wanted = 2 * plan.size // 16 + sums * plan.lines // 16
        assert opcodes(sass(cubin))["HGMMA"] == wanted
