"""Gradients of attention on tensor cores: edges, what is not looked at, machine code."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.frozen import replace
from quod.kernel import bf16, f16, f32
from quod.kernel.analysis import analyze
from quod.kernel.ir.types import Type
from quod.tensor.flash_attention.backward.kernels import (
    ATTENTION_BACKWARD_KEYS,
    ATTENTION_BACKWARD_QUERIES,
)
from quod.tensor.flash_attention.kernel import AttentionForm
from quod.tensor.flash_attention.plan import GRADIENT_PLANS, CoreTilePlan, TilePlan, plan_gradients
from tests.conftest import open_for_test
from tests.support.devices import present
from tests.support.ptx_assembler import assemble, usage
from tests.support.thorough import one_and_others
from tests.tensor.attention_model import gradients, made
from tests.tensor.test_attention_gradients import check, run, slopes_of

PLANS = list(GRADIENT_PLANS.values())
KERNELS = {"queries": ATTENTION_BACKWARD_QUERIES, "keys": ATTENTION_BACKWARD_KEYS}


@pytest.fixture(
    scope="module",
    params=one_and_others(present("emulated", "emulated:ptx", "cuda"), present("emulated", "cuda")),
)
def cores(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    with open_for_test(request.param) as device:
        yield device


@pytest.mark.thorough
@pytest.mark.crossed("cores", "causal", "element")
@pytest.mark.parametrize("causal", one_and_others([True, False]), ids=["causal", "full"])
@pytest.mark.parametrize("element", one_and_others([f16, bf16]), ids=str)
def test_edge_shapes(cores: AnyDevice, element: Type, causal: bool) -> None:
    """More than a tile of rows and of lines, heads that share keys, heads of other sizes."""
    for queries, keys, size, heads in (
        (70, 65, 64, (2, 1)), (9, 70, 128, (1, 1)), (65, 3, 24, (2, 1)), (0, 5, 8, (1, 1)),
    ):  # fmt: skip
        check(cores, made(element, queries, keys, size, heads, 1, causal=causal), element)


def test_lengths(cores: AnyDevice) -> None:
    """Keys beyond a sequence's length are not read, and have the gradient 0."""
    case = made(f16, 20, 80, 64, (2, 1), 3, causal=True, lengths=[70, 0, 80])
    slopes = slopes_of(case, f16)
    wanted = gradients(case, f16, slopes.astype(np.float64))
    for tensor in (case.k, case.v):
        tensor[0, :, 70:] = np.nan
        tensor[1] = np.nan
    computed_gradients = run(cores, case, slopes)
    for gradient, best in zip(computed_gradients, wanted, strict=True):
        assert np.allclose(gradient, best, atol=0.01)
        assert (gradient[1] == 0).all()
    assert (computed_gradients[1][0, :, 70:] == 0).all()


def test_plan_selection_for_tensor_cores() -> None:
    with EmulatedDevice(executor="ptx") as device:
        assert plan_gradients(device, f16, 128, 1) == GRADIENT_PLANS[128]
        assert plan_gradients(device, bf16, 40, 2) == replace(GRADIENT_PLANS[64], exact=False)
        for element, size in ((f32, 64), (f16, 60), (bf16, 136)):
            assert isinstance(plan_gradients(device, element, size, 2), TilePlan)
    with EmulatedDevice(shared_bytes_limit=48 * 1024) as device:
        assert isinstance(plan_gradients(device, f16, 128, 1), TilePlan)


@pytest.mark.parametrize("kernel", one_and_others(KERNELS, ["keys"]))
@pytest.mark.parametrize("plan", one_and_others(PLANS), ids=str)
def test_no_registers_are_spilled(plan: CoreTilePlan, kernel: str) -> None:
    for arch, form in (("sm_80", AttentionForm(True, True)), ("sm_90a", AttentionForm())):
        machine = ptx_machine(plan.lanes, arch)
        definition = KERNELS[kernel][bf16, form.lengths]
        traced = definition.trace(machine, element=bf16, plan=plan, form=form)
        assert not usage(assemble(ptx.emit(traced, machine), arch)[1]).spill_store_bytes
    banks = [finding for finding in analyze(traced).findings if finding.topic == "banks"]
    assert banks
    assert all(finding.good for finding in banks)
