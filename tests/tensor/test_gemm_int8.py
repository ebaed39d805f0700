"""Products of 8-bit integers: to the bit on every path, what scales make of them, bad input."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device import open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import replace
from quod.kernel import bf16, f16, f32, i32
from quod.kernel.ir.types import Type
from quod.tensor import gemm_int8
from quod.tensor.matmul.int8_kernel import GEMM_INT8, GEMM_INT8_TILES
from quod.tensor.matmul.plan import (
    CORE_PLANS,
    TILE_PLANS,
    CorePlan,
    GemmPlan,
    TilePlan,
    plan_gemm_int8,
)
from quod.tensor.matmul.scaled import ScaledForm
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
from tests.tensor.numbers import Array, Guarded, amid_poison, numbers, same_bits, stored

WAYS = list(product((False, True), repeat=2))
SOME_WAYS = [pytest.param(way, marks=pytest.mark.thorough if any(way) else ()) for way in WAYS]
"""Both operands as they are; the others, which other tests have, thoroughly."""
SIZES = [(1, 1, 1), (7, 129, 64), (65, 30, 127), (129, 64, 144), (33, 48, 272), (260, 100, 17)]
FEW = [(65, 36, 48)]


def multiply(
    device: AnyDevice, a: Array, b: Array, ways: tuple[bool, bool] = (False, False),
    dtype: Any = np.int32, **beside: Array,
) -> Array:  # fmt: skip
    """A product into poisoned memory whose surroundings must stay."""
    turned = [
        np.ascontiguousarray(np.swapaxes(x, -1, -2)) if way else x
        for x, way in zip((a, b), ways, strict=True)
    ]
    out = Guarded(device, np.zeros((*a.shape[:-1], b.shape[-1]), dtype))
    returned = gemm_int8(
        device, *(amid_poison(device, x) for x in turned), transpose_a=ways[0], transpose_b=ways[1],
        out=out.memory, **{name: amid_poison(device, x) for name, x in beside.items()},
    )  # fmt: skip
    assert returned is out.memory
    return out.array()


def integers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-128, 128, shape).astype(np.int8)


def scaled(sums: Array, rows: Array, columns: Array, bias: Array) -> Array:
    """Compute the documented result from sums, each step rounded."""
    scaled_sums: Array = (sums.astype(np.float32) * rows[..., None]) * columns[..., None, :] + bias
    return scaled_sums


@pytest.fixture(scope="module", params=one_and_others(["emulated", "emulated:ptx"]))
def emulated(request: pytest.FixtureRequest) -> Any:
    with open_for_test(request.param) as device:
        yield device


def check(device: AnyDevice, sizes: tuple[int, int, int], ways: tuple[bool, bool]) -> None:
    m, n, depth = sizes
    a, b = integers(m, depth), integers(depth, n)
    exact = a.astype(np.int32) @ b.astype(np.int32)
    assert np.array_equal(multiply(device, a, b, ways), exact), (sizes, ways)


@pytest.mark.crossed("device", "ways")
@pytest.mark.parametrize("ways", SOME_WAYS, ids=str)
def test_edge_shapes(device: AnyDevice, ways: tuple[bool, bool]) -> None:
    for sizes in FEW if device.kind == "webgpu" else SIZES:
        check(device, sizes, ways)


@pytest.mark.crossed("emulated", "ways")
@pytest.mark.parametrize("ways", SOME_WAYS, ids=str)
def test_edge_shapes_on_emulated_gpus(emulated: AnyDevice, ways: tuple[bool, bool]) -> None:
    for sizes in ((1, 1, 16), (65, 30, 127), (70, 36, 144)):
        check(emulated, sizes, ways)


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", one_and_others([f32, f16, bf16], [f16]), ids=str)
def test_scales_and_bias(device: AnyDevice, element: Type) -> None:
    """Equal bits without fused operations, for two products whose B has its own scales."""
    random = np.random.default_rng(2)
    a, b = integers(2, 37, 48), integers(2, 48, 40)
    rows, columns, bias = (
        random.normal(0, 0.001, shape).astype(np.float32) for shape in ((2, 37), (2, 40), (40,))
    )
    exact = scaled(a.astype(np.int32) @ b.astype(np.int32), rows, columns, bias)
    dtype = stored(bias, element).dtype
    epilogue = {"row_scales": rows, "column_scales": columns, "bias": bias}
    for ways in ((False, True), (False, False)):
        product = multiply(device, a, b, ways, dtype, **epilogue)
        fused = 2.0**-23 * (np.abs(exact - bias) + np.abs(exact))
        assert same_bits(device, product, stored(exact, element), element, fused)
    alone = multiply(device, a, b[0], (False, True), dtype, bias=bias)
    sums = a.astype(np.int32) @ b[0].astype(np.int32)
    assert np.array_equal(alone, stored(sums.astype(np.float32) + bias, element))


def test_the_largest_sums() -> None:
    """-128 times -128, as often as 32 bits hold it, and once more."""
    a = np.full((1, 1 << 17), -128, np.int8)
    assert gemm_int8("cpu", a[:, 1:], a[:, 1:].T.copy())[0, 0] == (1 << 31) - (1 << 14)
    assert gemm_int8("cpu", a, a, transpose_b=True)[0, 0] == -(1 << 31)


def test_results_without_out() -> None:
    a, b = integers(5, 16), integers(16, 3)
    product = gemm_int8("cpu", a, b)
    assert product.dtype == np.int32
    scales = np.full(5, 0.5, np.float32)
    assert np.array_equal(gemm_int8("cpu", a, b, row_scales=scales), product.astype(np.float32) / 2)
    assert gemm_int8("cpu", a[:0], b).shape == (0, 3)
    assert not gemm_int8("cpu", a[:, :0], b[:0]).any()


@pytest.mark.thorough
def test_cpu_accesses_are_in_bounds(checked_cpu: AnyDevice) -> None:
    for ways in WAYS:
        check(checked_cpu, (9, 5, 7), ways)


# --- tensor cores


@pytest.fixture(
    scope="module",
    params=one_and_others(present("emulated", "emulated:ptx", "cuda"), present("emulated", "cuda")),
)
def cores(request: pytest.FixtureRequest) -> Any:
    with open_for_test(request.param) as device:
        yield device


def launched(device: Any, plan: CorePlan | TilePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product by a plan that the size would not have; more steps of K than stages."""
    down, right = plan.tile
    plan = replace(plan, c_vector=2)
    monkeypatch.setattr("quod.tensor.matmul.int8_call.plan_gemm_int8", lambda *_, **__: plan)
    check(device, (down + 8, right // 2 + 8, 128 * plan.stages + 48), (False, True))


@pytest.mark.crossed("cores", "plan")
@pytest.mark.parametrize("plan", CORE_PLANS, ids=str)
def test_every_plan(cores: AnyDevice, plan: CorePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    launched(cores, plan, monkeypatch)


@pytest.mark.parametrize(
    "plan", one_and_others([TilePlan((64, 128), 2, 4), *(plan for plan, _ in TILE_PLANS)]), ids=str
)
def test_every_plan_of_warpgroups(
    tiling: AnyDevice, plan: TilePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched(tiling, plan, monkeypatch)


def test_plan_selection_for_tensor_cores() -> None:
    sizes, pitches = (4096, 4096, 4096), (4096, 4096, 4096)

    def plan(device: AnyDevice, depth: int = 4096, *, along_k: bool = True) -> object:
        return plan_gemm_int8(device, i32, (*sizes[:2], depth), pitches, along_k=along_k)

    with EmulatedDevice() as device:
        assert plan(device) == replace(TILE_PLANS[0][0], c_vector=4)
        assert isinstance(plan(device, 4104), GemmPlan)
        assert isinstance(plan(device, along_k=False), GemmPlan)
    with EmulatedDevice(executor="ptx") as device:
        assert plan(device) == replace(CORE_PLANS[0], c_vector=2)
    with EmulatedDevice(arch="sm_75") as device:
        assert isinstance(plan(device), GemmPlan)


@pytest.mark.crossed("cores", "ways")
@pytest.mark.parametrize("ways", WAYS, ids=str)
def test_large_operands_are_transposed(
    cores: AnyDevice, ways: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By two products of one B, and of own ones; the result is that of tensor cores."""
    monkeypatch.setattr("quod.tensor.matmul.k_major.LEAST", 32)
    planned: list[object] = []

    def plan(*arguments: Any, along_k: bool) -> Any:
        planned.append(along_k)
        return plan_gemm_int8(*arguments, along_k=along_k)

    monkeypatch.setattr("quod.tensor.matmul.int8_call.plan_gemm_int8", plan)
    a, b = integers(2, 33, 48), integers(2, 48, 40)
    wide = a.astype(np.int32), b.astype(np.int32)
    assert np.array_equal(multiply(cores, a, b, ways), wide[0] @ wide[1])
    assert np.array_equal(multiply(cores, a, b[1], ways), wide[0] @ wide[1][1])
    assert planned == [True, True]


@pytest.mark.thorough
@pytest.mark.parametrize("plan", [TILE_PLANS[0][0], CORE_PLANS[0]], ids=str)
def test_no_registers_are_spilled(plan: CorePlan | TilePlan) -> None:
    tiles = isinstance(plan, TilePlan)
    arch, kernels = ("sm_90a", GEMM_INT8_TILES) if tiles else ("sm_80", GEMM_INT8)
    machine, form = ptx_machine(plan.lanes, arch), ScaledForm(False, True, True, True, True)
    traced = kernels[f16].trace(machine, element=f16, plan=replace(plan, c_vector=2), form=form)
    cubin, log = assemble(with_multiplying_registers(ptx.emit(traced, machine)), arch)
    assert "C75" not in log
    assert not usage(log).spill_store_bytes
    assert opcodes(sass(cubin))["IGMMA" if tiles else "IMMA"]


# --- bad input

A, B = np.zeros((4, 6), np.int8), np.zeros((6, 5), np.int8)
F = np.zeros(5, np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gemm_int8("cpu", A.astype(np.uint8), B), "a is of uint8; 8-bit integers are int8"),
        (lambda: gemm_int8("cpu", A, B.astype(np.float32)), "b is of float32; 8-bit integers"),
        (lambda: gemm_int8("cpu", A[0], B), "a must have at least two axes"),
        (lambda: gemm_int8("cpu", A, A), "the summed axis of b has 4 elements, but that of a"),
        (lambda: gemm_int8("cpu", A, B, row_scales=F), r"row_scales must be f32 of shape \(4,\)"),
        (lambda: gemm_int8("cpu", A, B, column_scales=F[1:]), r"column_scales must be f32 of"),
        (lambda: gemm_int8("cpu", A, B, bias=F.astype(np.float16)), r"bias must be f32 of shape"),
        (lambda: gemm_int8("cpu", A, B, out=np.zeros((4, 5), np.float32)), "out must be int32"),
        (lambda: gemm_int8("cpu", A, B, bias=F, out=np.zeros((4, 5), np.int32)),
         "out must be float32, float16 or bfloat16 with scales or bias, not i32"),
        (lambda: gemm_int8("cpu", A, B, out=np.zeros((5, 4), np.int32)), r"out must be of shape"),
        (lambda: gemm_int8("cpu", A, B, out=np.zeros((4, 5), np.int64)), "out is of int64"),
        (lambda: gemm_int8("cpu", A.T, B), "a has strides"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_rejected(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_result_must_not_alias_operands() -> None:
    room = np.zeros(64, np.int32)
    a = room.view(np.int8)[:16].reshape(4, 4)
    with pytest.raises(InputError, match="out is in the memory of a"):
        gemm_int8("cpu", a, a.copy(), out=room[:16].reshape(4, 4))
    scales = room.view(np.float32)[:4]
    with pytest.raises(InputError, match="out is in the memory of row_scales"):
        gemm_int8(
            "cpu", a.copy(), a.copy(), row_scales=scales,
            out=room.view(np.float32)[:16].reshape(4, 4),
        )  # fmt: skip


def test_two_runs_are_equal() -> None:
    a, b = integers(70, 90), integers(90, 50)
    with open_device("cpu") as device:
        first = multiply(device, a, b)
        assert np.array_equal(first, multiply(device, a, b))
        assert numbers(first, f32).any()
