"""Products of 8-bit floats: small numbers exactly on every path, others within bounds, what scales
make of them, numbers that are none, bad input."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import replace
from quod.kernel import bf16, e4m3, e5m2, f16, f32
from quod.kernel.ir.types import FLOATS8, Type
from quod.kernel.ops import float8
from quod.tensor import gemm_fp8
from quod.tensor.matmul.float8_kernel import GEMM_FLOAT8, GEMM_FLOAT8_TILES
from quod.tensor.matmul.plan import (
    CORE_PLANS,
    PROMOTED_CORE_PLANS,
    PROMOTED_TILE_PLANS,
    TILE_PLANS,
    CorePlan,
    GemmPlan,
    TilePlan,
    plan_gemm_float8,
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
from tests.tensor.numbers import Array, Guarded, amid_poison, same_bits, stored

WAYS = list(product((False, True), repeat=2))
SOME_WAYS = [pytest.param(way, marks=pytest.mark.thorough if any(way) else ()) for way in WAYS]
"""Both operands as they are; the others, which other tests have, thoroughly."""
PAIRS = list(product(FLOATS8, repeat=2))
SAME = (e4m3, e4m3)
SIZES = [(1, 1, 1), (7, 129, 64), (65, 30, 127), (129, 64, 144)]
FEW = [(65, 36, 48)]


def bits(values: Array, element: Type) -> Array:
    return float8.nearest(element, values.astype(np.float32))


def values(fp8_bits: Array, element: Type) -> Array:
    return float8.values_of(element, fp8_bits).astype(np.float64)


def small(element: Type, *shape: int) -> Array:
    """Whole numbers of which 128 products add up to 2**13 at most: exact in all ways of adding."""
    return bits(np.random.default_rng(sum(shape)).integers(-8, 9, shape), element)


def multiply(
    device: AnyDevice, a: Array, b: Array, pair: tuple[Type, Type] = SAME,
    ways: tuple[bool, bool] = (False, False), dtype: Any = np.float32, *, fast: bool = False,
    **beside: Any,
) -> Array:  # fmt: skip
    """A product into poisoned memory whose surroundings must stay."""
    operands = [
        amid_poison(device, np.ascontiguousarray(np.swapaxes(x, -1, -2)) if way else x)
        for x, way in zip((a, b), ways, strict=True)
    ]
    out = Guarded(device, np.zeros((*a.shape[:-1], b.shape[-1]), dtype))
    for name, value in beside.items():
        beside[name] = amid_poison(device, value) if isinstance(value, np.ndarray) else value
    returned = gemm_fp8(
        device, *operands, transpose_a=ways[0], transpose_b=ways[1], out=out.memory,
        dtype=(pair[0].name, pair[1].name), fast_accumulation=fast, **beside,
    )  # fmt: skip
    assert returned is out.memory
    return out.array()


@pytest.fixture(scope="module", params=one_and_others(["emulated", "emulated:ptx"]))
def emulated(request: pytest.FixtureRequest) -> Any:
    with open_for_test(request.param) as device:
        yield device


def check(
    device: AnyDevice, sizes: tuple[int, int, int], ways: tuple[bool, bool],
    pair: tuple[Type, Type] = SAME,
) -> None:  # fmt: skip
    m, n, depth = sizes
    a, b = small(pair[0], m, depth), small(pair[1], depth, n)
    exact = values(a, pair[0]) @ values(b, pair[1])
    assert np.array_equal(multiply(device, a, b, pair, ways), exact), (sizes, ways)


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


@pytest.mark.crossed("device", "pair")
@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, marks=() if pair == (e5m2, e4m3) else pytest.mark.thorough)
        for pair in PAIRS[1:]
    ],
    ids=str,
)
def test_each_pair_of_types(device: AnyDevice, pair: tuple[Type, Type]) -> None:
    check(device, (65, 36, 48), (False, True), pair)


@pytest.mark.crossed("device", "fast", "pair")
@pytest.mark.parametrize("fast", [False, True], ids=["", "fast"])
@pytest.mark.parametrize(
    "pair", [SAME, pytest.param((e5m2, e4m3), marks=pytest.mark.thorough)], ids=str
)
def test_within_bounds(device: AnyDevice, pair: tuple[Type, Type], fast: bool) -> None:
    """Normal numbers, and one large product in each 32, which hides the others on tensor cores."""
    random = np.random.default_rng(5)
    m, n, depth = 65, 40, 272 if device.kind == "webgpu" else 1040
    a, b = random.normal(size=(m, depth)), random.normal(size=(depth, n))
    a[:, ::32] *= 64
    operands = bits(a, pair[0]), bits(b, pair[1])
    first, second = (values(*each) for each in zip(operands, pair, strict=True))
    sizes = np.abs(first) @ np.abs(second)
    for ways in ((False, True), (False, False))[: 1 if fast else 2]:
        product = multiply(device, *operands, pair, ways, fast=fast)
        cores = device.kind == "cuda" and ways[1]
        part = (depth / 32 * 2.0**-8 if fast else 2.0**-6) if cores else (depth + 3) * 2.0**-22
        assert (np.abs(product - first @ second) <= part * sizes).all()


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", one_and_others([f32, f16, bf16], [f16]), ids=str)
def test_scales_and_bias(device: AnyDevice, element: Type) -> None:
    """Equal bits without fused operations, for two products whose B has its own scales."""
    random = np.random.default_rng(2)
    a, b = small(e4m3, 2, 37, 48), small(e4m3, 2, 48, 40)
    sums = (values(a, e4m3) @ values(b, e4m3)).astype(np.float32)
    rows, columns, bias = (
        random.normal(0, 0.1, shape).astype(np.float32) for shape in ((2, 37), (2, 40), (40,))
    )
    single_scale = np.array([0.3], np.float32)
    dtype = stored(bias, element).dtype
    cases: list[tuple[Any, Any]] = [
        (rows, columns),
        (single_scale, columns),
        (rows, 0.3),
        (None, single_scale),
    ]
    ways = (False, True)
    for scale_a, scale_b in cases if element is f32 else cases[:1]:
        by_row = rows[..., None] if scale_a is rows else np.float32(1 if scale_a is None else 0.3)
        by_column = columns[:, None, :] if scale_b is columns else np.float32(0.3)
        exact = ((sums * by_row) * by_column + bias).astype(np.float32)
        product = multiply(
            device, a, b, SAME, ways, dtype, scale_a=scale_a, scale_b=scale_b, bias=bias
        )
        fused = 2.0**-23 * (np.abs(exact - bias) + np.abs(exact))
        assert same_bits(device, product, stored(exact, element), element, fused)
    alone = multiply(device, a, b[0], SAME, (False, True), dtype, bias=bias)
    exact = (values(a, e4m3) @ values(b[0], e4m3)).astype(np.float32) + bias
    assert np.array_equal(alone, stored(exact, element))


@pytest.mark.parametrize(
    "name",
    one_and_others(present("cpu", "emulated", "emulated:ptx", "cuda"), present("emulated", "cuda")),
)
def test_non_finite_values_spread_within_their_row_or_column(name: str) -> None:
    """Through its row or column alone; infinity times zero is none."""
    a, b = small(e5m2, 5, 32), small(e5m2, 32, 7)
    a[1, 3], a[2, 4], a[3, 5] = 0x7F, 0x7C, 0xFC
    b[:, :] = 0x3C  # ones
    b[5, 6] = 0
    with open_for_test(name) as device:
        for ways in ((False, True), (False, False)):
            product = multiply(device, a, b, (e5m2, e5m2), ways)
            assert np.isnan(product[1]).all()
            assert np.isposinf(product[2]).all()
            assert np.isneginf(product[3, :6]).all()
            assert np.isnan(product[3, 6])
            assert np.isfinite(product[[0, 4]]).all()


def test_largest_numbers() -> None:
    a = np.full((2, 64), 0x7E, np.uint8)
    assert (gemm_fp8("cpu", a, a, transpose_b=True, dtype="e4m3") == 448.0**2 * 64).all()


def test_results_without_out() -> None:
    a, b = small(e4m3, 5, 16), small(e4m3, 16, 3)
    product = gemm_fp8("cpu", a, b, dtype="e4m3")
    assert product.dtype == np.float32
    assert np.array_equal(gemm_fp8("cpu", a, b, dtype="e4m3", scale_a=0.5), product / 2)
    assert gemm_fp8("cpu", a[:0], b, dtype="e4m3").shape == (0, 3)
    assert not gemm_fp8("cpu", a[:, :0], b[:0], dtype="e4m3").any()
    bias = np.arange(3, dtype=np.float32)
    nothing = gemm_fp8("cpu", a[:, :0], b[:0], dtype="e4m3", bias=bias, scale_b=2.0)
    assert np.array_equal(nothing, np.tile(bias, (5, 1)))


@pytest.mark.thorough
def test_cpu_accesses_are_in_bounds(checked_cpu: AnyDevice) -> None:
    for ways in WAYS:
        check(checked_cpu, (9, 5, 7), ways, (e4m3, e5m2))


def test_arrays_of_ml_dtypes() -> None:
    types: Any = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    a, b = small(e4m3, 5, 16), small(e5m2, 16, 3)
    exact = values(a, e4m3) @ values(b, e5m2)
    named = a.view(types.float8_e4m3fn), b.view(types.float8_e5m2)
    assert np.array_equal(gemm_fp8("cpu", *named), exact)
    with pytest.raises(InputError, match="a is of e4m3, and dtype says e5m2"):
        gemm_fp8("cpu", *named, dtype="e5m2")


def test_tensors_of_pytorch() -> None:
    torch: Any = pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")
    a, b = small(e4m3, 5, 16), small(e5m2, 16, 3)
    exact = values(a, e4m3) @ values(b, e5m2)
    x = torch.from_numpy(a).view(torch.float8_e4m3fn)
    y = torch.from_numpy(b).view(torch.float8_e5m2)
    product = gemm_fp8("cpu", x, y)
    assert product.dtype == torch.float32
    assert np.array_equal(product.numpy(), exact)
    with pytest.raises(InputError, match="b is of e5m2, and dtype says e4m3"):
        gemm_fp8("cpu", x, y, dtype="e4m3")


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
    monkeypatch.setattr("quod.tensor.matmul.float8_call.plan_gemm_float8", lambda *_, **__: plan)
    check(device, (down + 8, right // 2 + 8, 128 * plan.stages + 48), (False, True), (e4m3, e5m2))


@pytest.mark.crossed("cores", "plan")
@pytest.mark.parametrize("plan", [*PROMOTED_CORE_PLANS, CORE_PLANS[-1]], ids=str)
def test_every_plan(cores: AnyDevice, plan: CorePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    launched(cores, plan, monkeypatch)


PROMOTED = [plan for plan, _ in PROMOTED_TILE_PLANS]


@pytest.mark.parametrize("plan", [*PROMOTED, TILE_PLANS[-1][0]], ids=str)
def test_every_plan_of_warpgroups(
    tiling: AnyDevice, plan: TilePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched(tiling, plan, monkeypatch)


def test_plan_selection_for_tensor_cores() -> None:
    sizes, pitches = (4096, 4096, 4096), (4096, 4096, 4096)

    def plan(device: AnyDevice, depth: int = 4096, **how: bool) -> object:
        how = {"along_k": True, **how}
        return plan_gemm_float8(device, f16, (*sizes[:2], depth), pitches, **how)

    with EmulatedDevice() as device:
        assert plan(device) == replace(PROMOTED[0], c_vector=8)
        assert plan(device, promoted=False) == replace(TILE_PLANS[0][0], c_vector=8)
        assert isinstance(plan(device, 4104), GemmPlan)
        assert isinstance(plan(device, along_k=False), GemmPlan)
    with EmulatedDevice(executor="ptx") as device:
        assert plan(device) == replace(PROMOTED_CORE_PLANS[0], c_vector=2)
    with EmulatedDevice(arch="sm_80") as device:
        assert isinstance(plan(device), GemmPlan)


@pytest.mark.crossed("cores", "ways")
@pytest.mark.parametrize("ways", WAYS[:3], ids=str)
def test_large_operands_are_transposed(
    cores: AnyDevice, ways: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By two products of one B, and of own ones; the result is that of tensor cores."""
    monkeypatch.setattr("quod.tensor.matmul.k_major.LEAST", 32)
    planned: list[object] = []

    def plan(*arguments: Any, along_k: bool, promoted: bool) -> Any:
        planned.append(along_k)
        return plan_gemm_float8(*arguments, along_k=along_k, promoted=promoted)

    monkeypatch.setattr("quod.tensor.matmul.float8_call.plan_gemm_float8", plan)
    a, b = small(e4m3, 2, 33, 48), small(e4m3, 2, 48, 40)
    wide = values(a, e4m3), values(b, e4m3)
    assert np.array_equal(multiply(cores, a, b, SAME, ways), wide[0] @ wide[1])
    assert np.array_equal(multiply(cores, a, b[1], SAME, ways), wide[0] @ wide[1][1])
    assert planned == [True, True]


@pytest.mark.parametrize(
    ("plan", "arch"),
    one_and_others(
        [(PROMOTED[0], "sm_90a"), (TILE_PLANS[0][0], "sm_90a"),
         (PROMOTED_CORE_PLANS[0], "sm_89"), (CORE_PLANS[0], "sm_89")],
        always=[(PROMOTED_CORE_PLANS[0], "sm_89")],
    ),
    ids=str,
)  # fmt: skip
def test_no_registers_are_spilled(plan: CorePlan | TilePlan, arch: str) -> None:
    tiles, pair = isinstance(plan, TilePlan), (e5m2, e4m3)
    kernels = (GEMM_FLOAT8_TILES if tiles else GEMM_FLOAT8)[pair]
    machine, form = ptx_machine(plan.lanes, arch), ScaledForm(False, True, True, True, True)
    traced = kernels[f16].trace(
        machine, element=f16, operands=pair, plan=replace(plan, c_vector=2), form=form
    )
    cubin, log = assemble(with_multiplying_registers(ptx.emit(traced, machine)), arch)
    assert "C75" not in log
    assert not usage(log).spill_store_bytes
    assert opcodes(sass(cubin))["QGMMA" if tiles else "QMMA"]


# --- bad input

A, B = np.zeros((4, 6), np.uint8), np.zeros((6, 5), np.uint8)
F = np.zeros(5, np.float32)


E4M3: dict[str, Any] = {"dtype": "e4m3"}


@pytest.mark.parametrize(
    ("a", "b", "options", "message"),
    [
        (A, B, {}, r"a is of uint8; 8-bit floats are float8_e4m3fn or .*uint8"),
        (A.astype(np.int8), B, E4M3, "a is of int8; 8-bit floats"),
        (A, B.astype(np.float32), E4M3, "b is of float32; 8-bit floats"),
        (A, B, {"dtype": "e4m2"}, "dtype must be"),
        (A, B, {"dtype": ("e4m3", "f16")}, "dtype must be"),
        (A[0], B, E4M3, "a must have at least two axes"),
        (A, A, E4M3, "the summed axis of b has 4 elements, but that of a has 6"),
        (A, B, E4M3 | {"scale_a": F}, r"scale_a must be f32 of shape \(4,\)"),
        (A, B, E4M3 | {"scale_b": F[1:]}, r"scale_b must be f32 of shape \(5,\)"),
        (A, B, E4M3 | {"scale_a": F[:1].astype(np.float16)}, r"scale_a must be f32 of shape \(1,"),
        (A, B, E4M3 | {"scale_a": True}, "scale_a must be"),
        (A, B, E4M3 | {"bias": F.astype(np.float16)}, "bias must be f32 of shape"),
        (A, B, E4M3 | {"out": np.zeros((4, 5), np.int32)}, "out is of int32; tensors are of"),
        (A, B, E4M3 | {"out": np.zeros((5, 4), np.float32)}, "out must be of shape"),
        (A.T, B, E4M3, "a has strides"),
    ],
)
def test_invalid_arguments_are_rejected(
    a: Array, b: Array, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        gemm_fp8("cpu", a, b, **options)


def test_result_must_not_alias_operands() -> None:
    room = np.zeros(64, np.float32)
    a = room.view(np.uint8)[:16].reshape(4, 4)
    for operand, beside, name in ((a, {}, "a"), (a.copy(), {"scale_a": room[:4]}, "scale_a")):
        with pytest.raises(InputError, match=f"out is in the memory of {name}"):
            gemm_fp8(
                "cpu", operand, a.copy(), dtype="e4m3", out=room[:16].reshape(4, 4), **beside
            )  # fmt: skip
