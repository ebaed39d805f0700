"""Products of f32 on tensor cores: which digits count, every plan and edge; products elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.frozen import replace
from quod.kernel import f32
from quod.tensor.matmul.form import GemmForm
from quod.tensor.matmul.kernel import GEMM
from quod.tensor.matmul.plan import CORE_PLANS, TILE_PLANS, CorePlan, FmaPlan, TilePlan, plan_gemm
from quod.tensor.matmul.warpgroups.kernel import GEMM_TILES
from quod.tensor.rows.plan import widest
from tests.conftest import open_for_test
from tests.support.devices import present
from tests.support.ptx_assembler import (
    assemble,
    opcodes,
    sass,
    usage,
    with_multiplying_registers,
)
from tests.support.thorough import one_and_others
from tests.tensor.numbers import Array
from tests.tensor.test_gemm import multiply, turned

BEYOND = np.float32(1 + 2.0**-12)
"""Integers times this equal the integers where 10 bits behind the point count."""
EDGES = [(1, 1, 4), (65, 30, 68), (64, 64, 32), (70, 9, 100)]


@pytest.fixture(
    scope="module",
    params=one_and_others(present("emulated", "emulated:ptx", "cuda"), present("emulated", "cuda")),
)
def cores(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    with open_for_test(request.param) as device:
        yield device


def whole(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(np.float32)


def check(device: AnyDevice, sizes: tuple[int, int, int], batch: tuple[int, ...] = ()) -> None:
    """Digits that do not count are left off; products of a batch have one B, or their own."""
    m, n, depth = sizes
    a, bias, residual = whole(*batch, m, depth), whole(n), whole(*batch, m, n)
    for b in (whole(depth, n), whole(*batch, depth, n)):
        product = multiply(
            device, a * BEYOND, turned(b * BEYOND, True), transpose_b=True, tf32=True, scale=0.5,
            bias=bias, residual=residual,
        )  # fmt: skip
        assert np.array_equal(product, 0.5 * (a @ b) + bias + residual), (sizes, b.shape)


def test_edge_shapes(cores: AnyDevice) -> None:
    for sizes in EDGES:
        check(cores, sizes)
    check(cores, (33, 20, 36), (3,))


def planned(patch: pytest.MonkeyPatch, plan: CorePlan | TilePlan) -> None:
    """A plan that few rows would not have."""

    def plan_of(*arguments: Any, **_: object) -> CorePlan | TilePlan:
        return replace(plan, c_vector=widest(f32, arguments[3][2], 2))

    patch.setattr("quod.tensor.matmul.call.plan_gemm", plan_of)


@pytest.mark.crossed("cores", "plan")
@pytest.mark.parametrize("plan", CORE_PLANS, ids=str)
def test_every_plan(cores: AnyDevice, plan: CorePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """More steps than stages, which are of half as many elements."""
    planned(monkeypatch, plan)
    down, right = plan.tile
    check(cores, (down + 8, right // 2 + 8, plan.depth // 2 * plan.stages + 12))


@pytest.mark.parametrize(
    "plan", one_and_others([TilePlan((64, 128), 2, 4), *(plan for plan, _ in TILE_PLANS)]), ids=str
)
def test_every_plan_of_warpgroups(
    tiling: AnyDevice, plan: TilePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(monkeypatch, plan)
    down, right = plan.tile
    check(tiling, (down + 8, right // 2 + 8, 32 * plan.stages + 44))


def test_non_finite_values_stay_in_their_row(cores: AnyDevice) -> None:
    a, b = np.ones((70, 36), np.float32), np.ones((20, 36), np.float32)
    a[3, 35], a[7, 0] = np.nan, np.inf
    product = multiply(cores, a, b, transpose_b=True, tf32=True)
    assert np.isnan(product[3]).all()
    assert np.isposinf(product[7]).all()
    assert (np.delete(product, [3, 7], 0) == 36).all()


def test_unsupported_layouts_use_full_f32_precision(device: AnyDevice, cores: AnyDevice) -> None:
    """Lines not along k or no multiples of 16 bytes, and products without `tf32`."""
    for ways, depth, tf32 in (
        ((False, False), 36, True), ((True, True), 36, True), ((False, True), 37, True),
        ((False, True), 36, False),
    ):  # fmt: skip
        a, b = whole(20, depth), whole(depth, 12)
        options = {"transpose_a": ways[0], "transpose_b": ways[1], "tf32": tf32}
        operands = turned(a * BEYOND, ways[0]), turned(b, ways[1])
        for target in (device, cores):
            assert np.array_equal(multiply(target, *operands, **options), (a @ b) * BEYOND)


def test_f16_operands_ignore_tf32(device: AnyDevice) -> None:
    a = whole(20, 24).astype(np.float16)
    products = [multiply(device, a, a, transpose_b=True, tf32=tf32) for tf32 in (False, True)]
    assert products[0].tobytes() == products[1].tobytes()


def test_plan_selection_for_tensor_cores() -> None:
    size, pitches = (4096, 4096, 4096), (4096, 4096, 4096)
    with EmulatedDevice(executor="ptx") as device:
        gemm_plan = plan_gemm(device, f32, size, pitches, tf32=True)
        assert gemm_plan == replace(CORE_PLANS[0], c_vector=2)
        assert isinstance(plan_gemm(device, f32, size, pitches), FmaPlan)
        assert isinstance(plan_gemm(device, f32, size, (4098, 4096, 4096), tf32=True), FmaPlan)
    with EmulatedDevice() as device:
        gemm_plan = plan_gemm(device, f32, size, pitches, tf32=True)
        assert gemm_plan == replace(TILE_PLANS[0][0], c_vector=4)


@pytest.mark.thorough
@pytest.mark.parametrize("plan", [TILE_PLANS[0][0], CORE_PLANS[0]], ids=str)
def test_no_registers_are_spilled(plan: CorePlan | TilePlan) -> None:
    tiles = isinstance(plan, TilePlan)
    arch, kernels = ("sm_90a", GEMM_TILES) if tiles else ("sm_80", GEMM)
    machine, form = ptx_machine(plan.lanes, arch), GemmForm(False, True)
    vector_plan = replace(plan, c_vector=2)
    traced = kernels[f32].trace(machine, element=f32, plan=vector_plan, form=form)
    cubin, log = assemble(with_multiplying_registers(ptx.emit(traced, machine)), arch)
    assert "C75" not in log
    assert not usage(log).spill_store_bytes
    assert opcodes(sass(cubin))["HGMMA" if tiles else "HMMA"]
