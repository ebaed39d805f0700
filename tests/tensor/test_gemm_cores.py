"""Matrix products on tensor cores: every plan, edge and transposition, exact; machine code.

Plans are of subgroups, `CorePlan`, and of warpgroups, `TilePlan`, which some devices have.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

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
from quod.tensor import gemm
from quod.tensor.matmul.call import tensor_maps
from quod.tensor.matmul.epilogue import FUNCTIONS
from quod.tensor.matmul.form import GemmForm
from quod.tensor.matmul.kernel import GEMM
from quod.tensor.matmul.plan import (
    CORE_PLANS,
    TILE_PLANS,
    CorePlan,
    GemmPlan,
    TilePlan,
    WarpSpecialisedTilePlan,
    plan_gemm,
    workgroups,
)
from quod.tensor.matmul.warpgroups.kernel import GEMM_TILES
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
from tests.tensor.numbers import UNIT, Guarded, amid_poison, numbers, stored
from tests.tensor.test_activations import FORWARD, is_near

WAYS = list(product((False, True), repeat=2))
SOME_WAYS = [
    pytest.param(way, marks=() if way[0] == way[1] else pytest.mark.thorough) for way in WAYS
]
"""Both operands as they are and both transposed; the others thoroughly."""
SMALL = CORE_PLANS[-1]
OTHERS = [
    CorePlan((64, 64), (32, 32), 32, 2), CorePlan((128, 64), (64, 32), 32, 3, resident=2),
    CorePlan((64, 128), (64, 64), 64, 4),
]  # fmt: skip


@pytest.fixture(scope="module", params=present("emulated", "emulated:ptx", "cuda"))
def cores(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    with open_for_test(request.param) as device:
        yield device


def check(
    device: AnyDevice, plan: CorePlan | TilePlan, sizes: tuple[int, int, int], form: GemmForm,
    element: Type = bf16, batch: int = 1,
) -> None:  # fmt: skip
    """Small whole numbers: the result is exact; memory around it stays as it was."""
    m, n, depth = sizes
    random = np.random.default_rng(sum(sizes))
    a, b, bias, residual = (
        random.integers(-2, 3, shape).astype(np.float32)
        for shape in ((batch, m, depth), (batch, depth, n), (n,), (batch, m, n))
    )
    operands = [
        np.ascontiguousarray(np.swapaxes(x, 1, 2)) if turned else x
        for x, turned in ((a, form.transpose_a), (b, form.transpose_b))
    ]
    memory = [amid_poison(device, stored(x, element)) for x in (*operands, bias, residual)]
    out = Guarded(device, np.zeros((batch, m, n), stored(bias, element).dtype))
    tiled = isinstance(plan, TilePlan)
    widest = 8 if tiled and n % 8 == 0 else 2
    plan = replace(plan, c_vector=widest if n % widest == 0 else 1)
    compiled = device.compile(
        (GEMM_TILES if tiled else GEMM)[element], lanes=plan.lanes, element=element, plan=plan,
        form=form,
    )  # fmt: skip
    given_sizes: list[object] = [m, n, depth, 1, 0.5]
    if isinstance(plan, TilePlan):
        maps = tensor_maps(
            device, memory[:2], sizes, (batch, batch), (form.transpose_a, not form.transpose_b),
            plan,
        )  # fmt: skip
        given_sizes = [m, n, depth, batch, 1, 0.5, maps]
    groups = workgroups(device, plan, m, n, batch)
    device.launch(compiled, groups, *given_sizes, *memory, out.memory)
    exact = 0.5 * (a @ b)
    exact += bias if form.bias else 0
    if form.activation is not None:
        _, _, exact64, units = FORWARD[form.activation]
        exact, activation_error = exact64(exact.astype(np.float64)), units(exact) * UNIT[f32]
        is_near(
            numbers(out.array(), element), exact + (residual if form.residual else 0),
            activation_error * np.abs(exact), element,
        )  # fmt: skip
        return
    exact += residual if form.residual else 0
    expected = numbers(stored(exact, element), element)
    assert np.array_equal(numbers(out.array(), element), expected)


@pytest.mark.crossed("cores", "ways", "plan")
@pytest.mark.parametrize("ways", WAYS, ids=str)
@pytest.mark.parametrize("plan", [*CORE_PLANS, *OTHERS], ids=str)
def test_every_plan(cores: AnyDevice, plan: CorePlan, ways: tuple[bool, bool]) -> None:
    down, right = plan.tile
    check(cores, plan, (down + 8, right // 2 + 8, 2 * plan.depth + 24), GemmForm(*ways, bias=True))


@pytest.mark.crossed("cores", "ways", "element")
@pytest.mark.parametrize("ways", WAYS, ids=str)
@pytest.mark.parametrize("element", one_and_others([f16, bf16]), ids=str)
def test_edge_shapes(cores: AnyDevice, element: Type, ways: tuple[bool, bool]) -> None:
    """Eight is the least of an axis that follows in memory; others are free."""
    turned_a, turned_b = ways
    m, n = 8 if turned_a else 1, 1 if turned_b else 8
    depth = 8 if turned_b or not turned_a else 1
    for sizes in ((m, n, depth), (72, 56, 72), (64, 64, 64), (8 * m + m, 9 * n, 65 * depth)):
        check(cores, SMALL, sizes, GemmForm(*ways, residual=True), element)


def test_batches(cores: AnyDevice) -> None:
    check(cores, SMALL, (40, 72, 40), GemmForm(), f16, batch=3)


def test_non_finite_values_stay_in_their_row(cores: AnyDevice) -> None:
    """Zeros beyond the end of K meet zeros, not what is there in memory."""
    a, b = np.ones((70, 40), np.float32), np.ones((40, 72), np.float32)
    a[3, 39], a[7, 0] = np.nan, np.inf
    memory = [cores.upload(stored(x, f16)) for x in (a, b, a, a, np.zeros((70, 72)))]
    compiled = cores.compile(GEMM[f16], lanes=SMALL.lanes, element=f16, plan=SMALL, form=GemmForm())
    cores.launch(compiled, SMALL.groups(70, 72), 70, 72, 40, 0, 1.0, *memory)
    product = np.zeros((70, 72), np.float16)
    cores.download(memory[-1], product)
    assert np.isnan(product[3]).all()
    assert np.isposinf(product[7]).all()
    assert (np.delete(product, [3, 7], 0) == 40).all()


@pytest.mark.parametrize("activation", FUNCTIONS)
def test_activations(cores: AnyDevice, activation: str) -> None:
    check(cores, SMALL, (72, 56, 24), GemmForm(False, True, True, True, activation), f16)


# --- warpgroups

CHOSEN = [plan for plan, _ in TILE_PLANS]
TILES = [
    *CHOSEN,
    TilePlan((64, 128), 2, 4),
    TilePlan((128, 64), 8, 2),
    WarpSpecialisedTilePlan((128, 64), 4),
]


@pytest.mark.crossed("tiling", "ways", "plan")
@pytest.mark.parametrize("ways", SOME_WAYS, ids=str)
@pytest.mark.parametrize("plan", TILES, ids=str)
def test_every_plan_of_warpgroups(
    tiling: AnyDevice, plan: TilePlan, ways: tuple[bool, bool]
) -> None:
    """More steps than stages, and a tile of which the cluster has a part."""
    down, right = plan.tile
    depth = 64 * plan.stages + 88
    check(tiling, plan, (down + 8, right // 2 + 8, depth), GemmForm(*ways, bias=True))


@pytest.mark.crossed("tiling", "ways", "element")
@pytest.mark.parametrize("ways", WAYS, ids=str)
@pytest.mark.parametrize("element", one_and_others([f16, bf16]), ids=str)
def test_edge_shapes_by_warpgroups(
    tiling: AnyDevice, element: Type, ways: tuple[bool, bool]
) -> None:
    turned_a, turned_b = ways
    m, n = 8 if turned_a else 1, 1 if turned_b else 8
    depth = 8 if turned_b or not turned_a else 1
    for sizes in ((m, n, depth), (72, 56, 72), (64, 64, 64), (9 * m, 9 * n, 65 * depth)):
        check(tiling, CHOSEN[-1], sizes, GemmForm(*ways, residual=True), element)
    if turned_b:
        check(tiling, CHOSEN[-1], (64, 30, 64), GemmForm(*ways, True, True), element)


def test_batches_of_warpgroups(tiling: AnyDevice) -> None:
    check(tiling, TilePlan((64, 64), 4, 2), (40, 72, 40), GemmForm(), f16, batch=3)


@pytest.mark.parametrize("activation", FUNCTIONS)
def test_activations_of_warpgroups(tiling: AnyDevice, activation: str) -> None:
    for columns, residual in ((56, False), (30, True)):
        form = GemmForm(False, True, True, residual, activation)
        check(tiling, CHOSEN[-1], (72, columns, 72), form)


# --- f32 with ten bits behind the point


def cut(x: np.ndarray) -> np.ndarray:
    """Cut f32 to the bits that tensor cores read."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


@pytest.mark.thorough
@pytest.mark.crossed("cores", "ways")
@pytest.mark.parametrize("ways", SOME_WAYS, ids=str)
def test_tf32(cores: AnyDevice, ways: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are not along k are turned if that is worth it, else all digits count."""
    random = np.random.default_rng(7)
    a, b = (random.normal(size=shape).astype(np.float32) for shape in ((2, 70, 36), (2, 36, 65)))
    operands = [
        amid_poison(cores, np.ascontiguousarray(np.swapaxes(x, 1, 2)) if turned else x)
        for x, turned in zip((a, b), ways, strict=True)
    ]
    along_k = ways == (False, True)
    for least in (1 << 20, 32):
        monkeypatch.setattr("quod.tensor.matmul.k_major.LEAST", least)
        out = Guarded(cores, np.zeros((2, 70, 65), np.float32))
        gemm(
            cores, *operands, transpose_a=ways[0], transpose_b=ways[1], tf32=True, out=out.memory
        )  # fmt: skip
        of = [cut(x) if along_k or least == 32 else x.astype(np.float64) for x in (a, b)]
        bound = (np.abs(of[0]) @ np.abs(of[1])) * 40 * 2.0**-22
        assert (np.abs(out.array() - of[0] @ of[1]) <= bound).all()


# --- which plan


def test_plan_selection_for_tensor_cores() -> None:
    size, pitches = (4096, 4096, 4096), (4096, 4096, 4096)
    with EmulatedDevice(executor="ptx") as device:
        assert plan_gemm(device, bf16, size, pitches) == replace(CORE_PLANS[0], c_vector=2)
        assert plan_gemm(device, f16, (8, 8, 8), (8, 8, 7)) == SMALL
        # Rows that do not begin at multiples of 16 bytes take the other kernel.
        for element, row_pitches in ((bf16, (4, 8, 8)), (f16, (8, 12, 8))):
            assert isinstance(plan_gemm(device, element, (64, 64, 64), row_pitches), GemmPlan)
    with EmulatedDevice() as device:
        assert plan_gemm(device, bf16, size, pitches) == replace(CHOSEN[0], c_vector=8)
        assert plan_gemm(device, f16, (8, 8, 8), (8, 8, 4)) == replace(CHOSEN[-1], c_vector=4)
        # Both of two multiprocessors have a tile.
        gemm_plan = plan_gemm(device, f16, (128, 64, 64), (64, 64, 64))
        assert gemm_plan == replace(CHOSEN[-1], c_vector=8)
    with EmulatedDevice(multiprocessors=132) as device:
        for length, plan in (
            (512, CHOSEN[4]), (1024, CHOSEN[3]), (1536, CHOSEN[1]), (2048, CHOSEN[0]),
            (3072, CHOSEN[1]), (4096, CHOSEN[0]), (8192, CHOSEN[0]),
        ):  # fmt: skip
            size = (length, length, length)
            assert plan_gemm(device, bf16, size, size) == replace(plan, c_vector=8)
    with EmulatedDevice(shared_bytes_limit=48 * 1024) as device:
        gemm_plan = plan_gemm(device, bf16, size, pitches)
        assert isinstance(gemm_plan, CorePlan)
        assert gemm_plan.shared_bytes <= 48 * 1024
    with EmulatedDevice(arch="sm_75") as device:
        assert isinstance(plan_gemm(device, bf16, size, pitches), GemmPlan)


# --- machine code


@pytest.mark.crossed("ways", "plan")
@pytest.mark.parametrize("ways", SOME_WAYS, ids=str)
@pytest.mark.parametrize("plan", CORE_PLANS, ids=str)
def test_bank_conflicts_are_minimal(plan: CorePlan, ways: tuple[bool, bool]) -> None:
    machine = ptx_machine(plan.lanes)
    form = GemmForm(*ways)
    findings = analyze(GEMM[bf16].trace(machine, element=bf16, plan=plan, form=form)).findings
    banks = [finding for finding in findings if finding.topic == "banks"]
    assert len(banks) == 2  # copies, and loads of matrices
    assert all(finding.good for finding in banks)


@pytest.mark.crossed("arch", "plan")
@pytest.mark.parametrize("arch", one_and_others(["sm_80", "sm_90a", "sm_120"], ["sm_90a"]))
@pytest.mark.parametrize("plan", one_and_others(CORE_PLANS[::-1]), ids=str)
def test_no_registers_are_spilled(plan: CorePlan, arch: str) -> None:
    machine = ptx_machine(plan.lanes, arch)
    for ways in ((False, False), (True, True)):
        form = GemmForm(*ways, bias=True)
        traced = GEMM[bf16].trace(machine, element=bf16, plan=plan, form=form)
        cubin, log = assemble(with_multiplying_registers(ptx.emit(traced, machine)), arch)
        assert not usage(log).spill_store_bytes
        instructions = opcodes(sass(cubin))
        rows, columns = plan.part
        steps = plan.depth // 16
        assert instructions["HMMA"] == rows // 16 * (columns // 8) * steps
        # The first matrices are loaded before the loop.
        assert instructions["LDSM"] == (rows + columns) // 16 * (steps + 1)


@pytest.mark.parametrize("plan", one_and_others(CHOSEN, CHOSEN[3:4]), ids=str)
def test_assembler_does_not_serialise_warpgroup_products(plan: TilePlan) -> None:
    """Remarks C75xx are of products that the assembler put one after the other."""
    machine = ptx_machine(plan.lanes, "sm_90a")
    for ways in WAYS[::3]:
        form = GemmForm(*ways, bias=True)
        vector_plan = replace(plan, c_vector=8)
        traced = GEMM_TILES[bf16].trace(machine, element=bf16, plan=vector_plan, form=form)
        cubin, log = assemble(with_multiplying_registers(ptx.emit(traced, machine)), "sm_90a")
        assert "C75" not in log
        assert not usage(log).spill_store_bytes
        assert opcodes(sass(cubin))["HGMMA"] == 4


@pytest.mark.thorough
@pytest.mark.parametrize("plan", one_and_others([CHOSEN[0], CORE_PLANS[0]]), ids=str)
def test_activations_add_no_spills(plan: CorePlan | TilePlan) -> None:
    machine = ptx_machine(plan.lanes, "sm_90a")
    tiled = isinstance(plan, TilePlan)
    used, spilled = replace(plan, c_vector=8 if tiled else 2), []
    for activation in (None, "gelu"):
        form = GemmForm(bias=True, residual=True, activation=activation)
        kernel = (GEMM_TILES if tiled else GEMM)[bf16]
        text = ptx.emit(kernel.trace(machine, element=bf16, plan=used, form=form), machine)
        spilled.append(
            usage(assemble(with_multiplying_registers(text), "sm_90a")[1]).spill_store_bytes
        )
    # A warp-specialised plan keeps 128 sums and the words of four stores: 28 bytes do not fit.
    assert spilled[1] <= spilled[0] + (28 if tiled else 0)
