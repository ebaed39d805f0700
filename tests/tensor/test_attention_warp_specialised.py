"""Warp-specialised attention: every edge, two runs, mistakes of roles, machine code."""

from __future__ import annotations

import re
from typing import Any

import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.emulated.device import EmulatedDevice
from quod.errors import QuodError
from quod.frozen import replace
from quod.kernel import bf16, f16
from quod.kernel.ir.types import Type
from quod.tensor.flash_attention.kernel import AttentionForm
from quod.tensor.flash_attention.plan import WarpSpecialisedPlan
from quod.tensor.flash_attention.warp_specialised import WarpSpecialisedAttention
from quod.tensor.flash_attention.warpgroup_kernel import WARPGROUP_ATTENTION
from quod.tensor.flash_attention.warpgroups import HeadTiles
from tests.support.ptx_assembler import assemble, opcodes, sass, usage
from tests.support.thorough import one_and_others
from tests.tensor.attention_model import made
from tests.tensor.test_attention_warpgroups import check, run

LONG, SHORT = WarpSpecialisedPlan(128, 2, 128), WarpSpecialisedPlan(64, 2, 32)
FREE = WarpSpecialisedPlan(128, 2, 144, ping_pong=False)
"""The fastest of those that were timed on an H200."""


@pytest.fixture
def warp_specialised(monkeypatch: pytest.MonkeyPatch) -> None:
    """All calls are warp-specialised; short heads have short tiles, and so many of them."""
    monkeypatch.setattr(
        "quod.tensor.flash_attention.call.plan_attention",
        lambda device, element, queries, head, heads, **_: LONG if head == 128 else SHORT,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("element", [bf16, f16], ids=str)
def test_long_heads(tiling: Any, warp_specialised: None, element: Type, causal: bool) -> None:
    """More than a tile of queries, and one, two and three tiles of keys; shared heads."""
    for queries, keys in ((135, 128), (9, 257)):
        check(tiling, made(element, queries, keys, 128, (2, 1), 1, causal=causal), element)


@pytest.mark.parametrize("causal", one_and_others([True, False]), ids=["causal", "full"])
def test_edge_shapes(tiling: Any, warp_specialised: None, causal: bool) -> None:
    for queries, keys in ((1, 1), (7, 129), (63, 64), (64, 31), (130, 65), (200, 3)):
        check(tiling, made(f16, queries, keys, 64, (2, 2), 1, causal=causal), f16)


@pytest.mark.thorough
def test_without_ping_pong_schedule(
    tiling: Any, warp_specialised: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = made(f16, 70, 130, 64, (2, 1), 1, causal=True)
    with_ping_pong = run(tiling, case)
    monkeypatch.setattr(
        "quod.tensor.flash_attention.call.plan_attention",
        lambda *_, **__: replace(SHORT, ping_pong=False),
    )
    for first, second in zip(with_ping_pong, run(tiling, case), strict=True):
        assert first.tobytes() == second.tobytes()


@pytest.mark.thorough
@pytest.mark.parametrize("causal", one_and_others([True, False]), ids=["causal", "full"])
def test_fastest_plan(tiling: Any, monkeypatch: pytest.MonkeyPatch, causal: bool) -> None:
    monkeypatch.setattr("quod.tensor.flash_attention.call.plan_attention", lambda *_, **__: FREE)
    for queries, keys in ((130, 433), (5, 144)):
        check(tiling, made(bf16, queries, keys, 128, (2, 1), 1, causal=causal), bf16)


@pytest.mark.thorough
def test_two_runs(tiling: Any, warp_specialised: None) -> None:
    case = made(bf16, 150, 200, 64, (2, 1), 1, causal=True)
    for first, second in zip(run(tiling, case), run(tiling, case), strict=True):
        assert first.tobytes() == second.tobytes()


@pytest.mark.thorough
@pytest.mark.parametrize("causal", one_and_others([True, False]), ids=["causal", "full"])
def test_parsed_text_gives_equal_results(warp_specialised: None, causal: bool) -> None:
    case = made(f16, 100, 70, 64, (2, 1), 1, causal=causal)
    with EmulatedDevice() as traced, EmulatedDevice(executor="ptx", tiles=True) as text:
        for first, second in zip(run(traced, case), run(text, case), strict=True):
            assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(
    ("of", "name", "instead", "message"),
    [
        (HeadTiles, "wait_until_read", lambda *_: None, "bytes twice|what another instance|over a"),
        (HeadTiles, "release", lambda *_: None, "8 of 8 arrivals are missing"),
        (
            WarpSpecialisedAttention,
            "_pass_turn",
            lambda *_: None,
            "named barrier 2 is of 256 instances, and 128 come",
        ),
        (WarpSpecialisedAttention, "_copy_tile", lambda *_: None, "waits for ever: 0 bytes"),
    ],
)
def test_mistakes_are_detected(
    warp_specialised: None,
    monkeypatch: pytest.MonkeyPatch,
    of: Any,
    name: str,
    instead: Any,
    message: str,
) -> None:
    monkeypatch.setattr(of, name, instead)
    with EmulatedDevice() as device, pytest.raises(QuodError, match=message):
        run(device, made(f16, 3, 200, 64, batch=1))


@pytest.mark.thorough
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("plan", [LONG, FREE], ids=["ping-pong", "free"])
def test_assembler_does_not_serialise_products(plan: WarpSpecialisedPlan, causal: bool) -> None:
    """Set aside register limits that linkers drop: threads that multiply have their registers from
    the start, and there are enough of them.
    """
    machine = ptx_machine(plan.lanes, "sm_90a")
    traced = WARPGROUP_ATTENTION[bf16, True].trace(
        machine, element=bf16, plan=plan, form=AttentionForm(causal=causal, sums=True)
    )
    module = ptx.translate(traced, machine)
    assert re.findall(r"setmaxnreg\.(...)\S* (\d+)", module.text) == [("dec", "40"), ("inc", "232")]
    text = re.sub(r"\n  setmaxnreg.*", "", module.text)
    text = text.replace(".maxntid 384\n.minnctapersm 1", ".maxntid 256\n.maxnreg 232")
    cubin, log = assemble(text, "sm_90a")
    assert "C75" not in log
    assert usage(log).registers <= 232
    assert not usage(log).spill_store_bytes
    # Keys of the first tile, in each loop those of a tile and values, and the last values.
    assert opcodes(sass(cubin))["HGMMA"] == 3 * (plan.size // 16) + 3 * (plan.keys // 16)
