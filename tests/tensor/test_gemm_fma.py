"""Matrix products of f32 by asynchronous copies: every plan, the choice of one, machine code."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.frozen import replace
from quod.kernel import f32
from quod.kernel.analysis import analyze
from quod.tensor.matmul.form import GemmForm
from quod.tensor.matmul.kernel import GEMM
from quod.tensor.matmul.plan import FMA_PLANS, NARROW_FMA_PLANS, FmaPlan, GemmPlan, plan_gemm
from tests.support.ptx_assembler import assemble, opcodes, sass, usage
from tests.support.selection import runs_all
from tests.support.thorough import one_and_others

WAYS = list(product((False, True), repeat=2))
PLANS = [plan for plan, _ in FMA_PLANS]
NARROW = [plan for plan, _ in NARROW_FMA_PLANS]
OTHERS = [
    FmaPlan((64, 64), (64, 32), (8, 8), 8, 4),
    FmaPlan((64, 64), (32, 64), (8, 8), 16, 2, slices=2, ahead=True),
    FmaPlan((128, 64), (64, 64), (8, 16), 16, 3, slices=4),
]


def multiply(
    device: AnyDevice, plan: FmaPlan, sizes: tuple[int, int, int], form: GemmForm, vector: int
) -> None:
    """A product of small integers, which is exact, and of which nothing beyond is stored."""
    m, n, depth = sizes
    random = np.random.default_rng(sum(sizes))
    a, b = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((m, depth), (depth, n)))
    operands = [np.ascontiguousarray(a.T if form.transpose_a else a)]
    operands.append(np.ascontiguousarray(b.T if form.transpose_b else b))
    used = replace(plan, a_vector=vector, b_vector=vector, c_vector=vector)
    kernel = device.compile(GEMM[f32], lanes=plan.lanes, element=f32, plan=used, form=form)
    x, y = map(device.upload, operands)
    c = device.upload(np.full(m * n + 8, np.nan, np.float32))
    device.launch(kernel, plan.groups(m, n), m, n, depth, 0, 1.0, x, y, x, x, c)
    product = np.empty(m * n + 8, np.float32)
    device.download(c, product)
    assert np.array_equal(product[: m * n].reshape(m, n), a @ b)
    assert np.isnan(product[m * n :]).all()


@pytest.mark.parametrize(
    "plan",
    one_and_others([*PLANS, NARROW[0], *OTHERS], always=[NARROW[0]]),
    ids=str,
)
def test_every_plan(plan: FmaPlan) -> None:
    with EmulatedDevice(executor="ptx") as device:
        for transposed in WAYS if runs_all() else WAYS[1:3]:
            multiply(device, plan, (68, 36, 44), GemmForm(*transposed), 4)
            multiply(device, plan, (35, 67, 9), GemmForm(*transposed), 1)


@pytest.mark.thorough
def test_several_tiles_and_accesses_of_two() -> None:
    with EmulatedDevice(executor="ptx") as device:
        for transposed in WAYS:
            multiply(device, PLANS[1], (130, 134, 18), GemmForm(*transposed), 2)


def test_plan_selection() -> None:
    with EmulatedDevice(executor="ptx", multiprocessors=132) as device:
        for size, plan in ((8192, PLANS[1]), (4096, PLANS[1]), (1024, PLANS[2]), (512, PLANS[3])):
            gemm_plan = plan_gemm(device, f32, (size,) * 3, (size,) * 3)
            assert gemm_plan == replace(plan, a_vector=4, b_vector=4, c_vector=4)
        gemm_plan = plan_gemm(device, f32, (8192, 8190, 63), (63, 8192, 8190))
        assert isinstance(gemm_plan, FmaPlan)
        assert (gemm_plan.a_vector, gemm_plan.b_vector, gemm_plan.c_vector) == (1, 4, 2)
        assert gemm_plan.tile == NARROW[0].tile
        assert gemm_plan.resident == 1
    with EmulatedDevice(executor="ptx", shared_bytes_limit=48 * 1024) as device:
        assert isinstance(plan_gemm(device, f32, (4096,) * 3, (4096,) * 3), GemmPlan)
    # Without asynchronous copies the tiles come through registers.
    with EmulatedDevice(executor="ptx", arch="sm_75") as device:
        assert isinstance(plan_gemm(device, f32, (4096,) * 3, (4096,) * 3), GemmPlan)


# --- machine code


@pytest.mark.crossed("ways", "plan")
@pytest.mark.parametrize(
    "ways",
    [pytest.param(way, marks=() if way == WAYS[0] else pytest.mark.thorough) for way in WAYS],
    ids=str,
)
@pytest.mark.parametrize("plan", one_and_others(PLANS, PLANS[1:2]), ids=str)
def test_copy_bank_conflicts_are_minimal(plan: FmaPlan, ways: tuple[bool, bool]) -> None:
    machine = ptx_machine(plan.lanes)
    used = replace(plan, a_vector=4, b_vector=4, c_vector=4)
    findings = analyze(
        GEMM[f32].trace(machine, element=f32, plan=used, form=GemmForm(*ways))
    ).findings
    banks = [finding for finding in findings if finding.topic == "banks"]
    # Loads of fragments are left out: many instances share what they load.
    copies = [finding for finding in banks if not finding.text.startswith("load")]
    assert copies
    assert all(finding.good for finding in copies)


@pytest.mark.thorough
@pytest.mark.crossed("arch", "plan")
@pytest.mark.parametrize("arch", one_and_others(["sm_80", "sm_90a", "sm_120"], ["sm_90a"]))
@pytest.mark.parametrize("plan", one_and_others([*PLANS, NARROW[0]]), ids=str)
def test_no_registers_are_spilled(plan: FmaPlan, arch: str) -> None:
    machine = ptx_machine(plan.lanes, arch)
    vector = 1 if plan in NARROW else 4
    used = replace(plan, a_vector=vector, b_vector=vector, c_vector=vector)
    for ways in WAYS:
        traced = GEMM[f32].trace(machine, element=f32, plan=used, form=GemmForm(*ways, bias=True))
        cubin, log = assemble(ptx.emit(traced, machine), arch)
        # Of two workgroups a multiprocessor sm_120's assembler moves some addresses.
        # A few addresses are moved where the next fragments take registers besides.
        least = 24 if plan.ahead and plan.resident == 2 else 0
        most = 32 if (arch, plan.resident) == ("sm_120", 2) else least
        assert usage(log).spill_store_bytes <= most
        assert usage(log).registers <= 65536 // (plan.resident * plan.lanes)
        instructions = opcodes(sass(cubin))
        assert instructions["FFMA"] >= plan.own[0] * plan.own[1] * plan.depth // plan.slices
