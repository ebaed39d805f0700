"""Attention on tensor cores: every plan and edge, what is masked, machine code."""

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
from quod.tensor.flash_attention.kernel import ATTENTION, AttentionForm
from quod.tensor.flash_attention.plan import CORE_PLANS, CoreTilePlan, TilePlan, plan_attention
from quod.tensor.rows.row import LOG2_E
from tests.conftest import open_for_test
from tests.support.devices import present
from tests.support.ptx_assembler import assemble, opcodes, sass, usage
from tests.support.thorough import one_and_others
from tests.tensor.attention_model import (
    NONE,
    Case,
    bound,
    check_what_is_no_number,
    exact,
    made,
    plain_error,
)
from tests.tensor.numbers import Array, Guarded, amid_poison, numbers

PLANS = [plan for plans in CORE_PLANS.values() for plan in plans]
OTHERS = [CoreTilePlan(64, 16, 8, 32, 4, kept=False), CoreTilePlan(128, 16, 8, 64, 2, kept=True)]
FORMS = [AttentionForm(), AttentionForm(causal=True, lengths=True, sums=True)]


@pytest.fixture(
    scope="module",
    params=one_and_others(present("emulated", "emulated:ptx", "cuda"), present("emulated", "cuda")),
)
def cores(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    with open_for_test(request.param) as device:
        yield device


def run(device: AnyDevice, plan: CoreTilePlan, case: Case, element: Type) -> tuple[Array, Array]:
    """The result and the logarithms of sums by a plan, between guards."""
    batch, heads, queries, size = case.q.shape
    plan = replace(plan, exact=size == plan.size)
    lengths = case.lengths is not None
    out = Guarded(device, np.zeros_like(case.q))
    logs = Guarded(device, np.zeros(case.q.shape[:-1], np.float32))
    form = AttentionForm(case.causal, lengths, sums=True)
    compiled = device.compile(
        ATTENTION[element, lengths, True], lanes=plan.lanes, element=element, plan=plan, form=form
    )
    memory = [amid_poison(device, x) for x in (*case[:3], *([case.lengths] if lengths else []))]
    groups = -(-queries // plan.tile[0]) * heads * batch
    device.launch(
        compiled, groups, queries, case.k.shape[2], size, heads, heads // case.k.shape[1],
        case.scale * LOG2_E, *memory, out.memory, logs.memory,
    )  # fmt: skip
    return out.array(), logs.array()


def check(device: AnyDevice, plan: CoreTilePlan, case: Case, element: Type) -> None:
    output, logs = run(device, plan, case, element)
    wanted, wanted_logs = exact(case, element)
    error = np.abs(numbers(output, element) - wanted)
    allowed = bound(case, element)
    assert (error <= allowed).all(), np.unravel_index(np.argmax(error - allowed), error.shape)
    assert error.max(initial=0) <= 2 * plain_error(case, element) + 2e-6
    assert np.allclose(logs, wanted_logs, rtol=2e-6, atol=2e-5)


@pytest.mark.crossed("cores", "plan")
@pytest.mark.parametrize("plan", one_and_others([*PLANS, *OTHERS], [PLANS[0], OTHERS[1]]), ids=str)
def test_every_plan(cores: AnyDevice, plan: CoreTilePlan) -> None:
    """More than a tile of queries and of keys; all of the ring of tiles."""
    rows, keys = plan.tile
    many = (plan.stages + 1) * keys + 9
    check(cores, plan, made(bf16, rows + 7, keys + 9, plan.size, batch=1), bf16)
    check(cores, plan, made(f16, 20, many, plan.size, (2, 1), 1, causal=True), f16)


@pytest.mark.parametrize("element", one_and_others([bf16, f16]), ids=str)
def test_edge_shapes(cores: AnyDevice, element: Type) -> None:
    plan = CORE_PLANS[64][-1]
    for queries, keys in ((1, 1), (7, 129), (64, 63), (65, 65), (5, 0), (70, 3)):
        for causal in (False, True):
            check(cores, plan, made(element, queries, keys, 8, (2, 2), 1, causal=causal), element)


def test_lengths(cores: AnyDevice) -> None:
    """Keys beyond a sequence's length are not read."""
    case = made(f16, 20, 150, 64, (2, 1), 3, causal=True, lengths=[70, 0, -1])
    for tensor in (case.k, case.v):
        tensor[0, :, 70:] = np.nan
        tensor[1] = np.nan
    output, logs = run(cores, CORE_PLANS[64][0], case, f16)
    assert (output[1] == 0).all()
    assert (logs[1] == NONE).all()
    case.k[:2], case.v[:2] = np.nan_to_num(case.k[:2]), np.nan_to_num(case.v[:2])
    case = case._replace(lengths=np.array([70, 0, 150]))
    assert (np.abs(output - exact(case, f16)[0]) <= bound(case, f16)).all()


@pytest.mark.parametrize("causal", one_and_others([True, False]), ids=["causal", "full"])
def test_non_finite_values(cores: AnyDevice, causal: bool) -> None:
    plan = CORE_PLANS[64][-1]
    check_what_is_no_number(lambda case: run(cores, plan, case, f16)[0], 64, causal=causal)


def test_exact_cases(cores: AnyDevice) -> None:
    """One-hot values name the keys; a large logit leaves one."""
    random = np.random.default_rng(2)
    plan = CORE_PLANS[64][-1]
    values = np.eye(64, dtype=np.float16)[None, None]
    nothing = np.zeros((1, 1, 70, 64), np.float16)
    output, _ = run(cores, plan, Case(nothing, values, values, 1.0), f16)
    assert (output == 1 / 64).all()
    chosen = random.permutation(64)
    queries = np.where(values[:, :, chosen] > 0, np.float16(100), np.float16(0))
    keys = np.where(values > 0, np.float16(100), np.float16(-100))
    values = random.normal(0, 1, values.shape).astype(np.float16)
    output, logs = run(cores, plan, Case(queries, keys, values, 1.0), f16)
    assert np.array_equal(output[0, 0], values[0, 0, chosen])
    assert np.allclose(logs, 1e4)


@pytest.mark.crossed("cores", "slope")
@pytest.mark.parametrize("slope", [-1.0, 0.05, 0.3, 3.0])
def test_rising_and_falling_logits(cores: AnyDevice, slope: float) -> None:
    """Sums are scaled for some tiles of keys, for all, or for the first alone."""
    case = made(f16, 33, 170, 64, batch=1)
    case.q[:] = 1
    case.k[:] = (np.arange(170)[:, None] * slope / 64).astype(np.float16)
    case.k[0, 0, 150:] *= 0.5
    check(cores, CORE_PLANS[64][-1], case._replace(scale=1.0), f16)


def test_the_smallest_scale(cores: AnyDevice) -> None:
    """Masked keys have no weight even where all logits are equal."""
    case = made(f16, 9, 9, 64, batch=1, causal=True)._replace(scale=1e-37)
    check(cores, CORE_PLANS[64][-1], case, f16)


# --- which plan


def test_plan_selection_for_tensor_cores() -> None:
    with EmulatedDevice(executor="ptx") as device:
        assert plan_attention(device, bf16, 1 << 13, 128, 16) == CORE_PLANS[128][0]
        assert plan_attention(device, f16, 1 << 13, 64, 16) == CORE_PLANS[64][0]
        assert plan_attention(device, f16, 64, 64, 1) == CORE_PLANS[64][-1]
        other = plan_attention(device, f16, 1 << 13, 80, 16)
        assert other == replace(CORE_PLANS[128][-1], exact=False)
        for element, size in ((f32, 64), (f16, 60), (bf16, 136)):
            assert isinstance(plan_attention(device, element, 99, size, 1), TilePlan)
    with EmulatedDevice(shared_bytes_limit=48 * 1024) as device:
        assert isinstance(plan_attention(device, f16, 1 << 13, 128, 16), TilePlan)
    with EmulatedDevice(arch="sm_75") as device:
        assert isinstance(plan_attention(device, f16, 1 << 13, 64, 16), TilePlan)


# --- machine code


@pytest.mark.parametrize("plan", one_and_others(PLANS), ids=str)
def test_bank_conflicts_are_minimal(plan: CoreTilePlan) -> None:
    kernel = ATTENTION[bf16, False, False]
    traced = kernel.trace(ptx_machine(plan.lanes), element=bf16, plan=plan, form=FORMS[0])
    banks = [finding for finding in analyze(traced).findings if finding.topic == "banks"]
    assert banks
    assert all(finding.good for finding in banks)


@pytest.mark.crossed("arch", "plan")
@pytest.mark.parametrize(
    ("arch", "form"),
    one_and_others(
        [("sm_80", FORMS[1]), *(("sm_90a", x) for x in FORMS)], always=[("sm_90a", FORMS[1])]
    ),
)
@pytest.mark.parametrize("plan", one_and_others(PLANS), ids=str)
def test_no_registers_are_spilled(plan: CoreTilePlan, arch: str, form: AttentionForm) -> None:
    machine = ptx_machine(plan.lanes, arch)
    kernel = ATTENTION[bf16, form.lengths, form.sums]
    cubin, log = assemble(
        ptx.emit(kernel.trace(machine, element=bf16, plan=plan, form=form), machine), arch
    )
    assert not usage(log).spill_store_bytes
    # A loop with masks and one without, each of two products.
    products = plan.rows // 16 * (plan.keys // 8) * (plan.size // 16)
    assert opcodes(sass(cubin))["HMMA"] == 4 * products
