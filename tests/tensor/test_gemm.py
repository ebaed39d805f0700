"""Matrix products: against float64 at every edge of a tile, exact cases, bad input."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from quod.codegen import kernel_usage
from quod.device import open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import bf16, f16, f32
from quod.kernel.ir.types import Type
from quod.tensor import gemm
from quod.tensor.matmul.epilogue import FUNCTIONS
from quod.tensor.matmul.form import GemmForm
from quod.tensor.matmul.kernel import GEMM
from quod.tensor.matmul.plan import GemmPlan, plan_gemm
from tests.support.thorough import one_and_others
from tests.tensor.numbers import LEAST, TYPES, UNIT, Array, amid_poison, numbers, stored
from tests.tensor.test_activations import FORWARD

EDGES = [1, 7, 63, 64, 65, 127, 128, 129]
WAYS = list(product((False, True), repeat=2))
SOME_WAYS = [
    pytest.param(way, marks=() if way[0] == way[1] else pytest.mark.thorough) for way in WAYS
]
"""Both operands as they are and both transposed; the others thoroughly."""
SIZES = [
    *zip(EDGES, EDGES[3:] + EDGES[:3], EDGES[1:] + EDGES[:1], strict=True),
    (129, 65, 260), (200, 3, 1), (1, 300, 130), (33, 1, 64), (260, 400, 17),
]  # fmt: skip
FEW = [(1, 7, 9), (65, 36, 63), (129, 129, 20)]


def turned(matrix: Array, transposed: bool) -> Array:
    return np.ascontiguousarray(np.swapaxes(matrix, -1, -2)) if transposed else matrix


def multiply(device: AnyDevice, a: Array, b: Array, **options: Any) -> Array:
    """A product into the middle of memory whose edges must stay, poisoned before."""
    shape = (
        *a.shape[:-2], a.shape[-1 if options.get("transpose_a") else -2],
        b.shape[-2 if options.get("transpose_b") else -1],
    )  # fmt: skip
    size = int(np.prod(shape))
    poison = 99 if a.dtype == np.uint16 else np.nan
    guarded = np.full(size + 32, poison, a.dtype)
    room = device.upload(guarded)
    like = device.upload(np.zeros(shape, a.dtype))
    out = room.slice(16 * a.itemsize, (16 + size) * a.itemsize).like(like)
    uploaded = {
        name: amid_poison(device, x) if isinstance(x, np.ndarray) else x
        for name, x in options.items()
    }
    assert gemm(device, amid_poison(device, a), amid_poison(device, b), out=out, **uploaded) is out
    device.download(room, guarded)
    for edge in (guarded[:16], guarded[-16:]):
        assert np.array_equal(edge, np.full(16, poison, a.dtype), equal_nan=poison != 99)
    return guarded[16:-16].reshape(shape)


def check(
    device: AnyDevice, element: Type, sizes: tuple[int, int, int], ways: Any,
    activation: str | None = None,
) -> None:  # fmt: skip
    m, n, depth = sizes
    random = np.random.default_rng(sum(sizes))
    a, b, bias, residual = (
        stored(random.normal(0, 1, shape), element)
        for shape in ((m, depth), (depth, n), (n,), (m, n))
    )
    product = multiply(
        device, turned(a, ways[0]), turned(b, ways[1]), transpose_a=ways[0], transpose_b=ways[1],
        bias=bias, residual=residual, scale=0.5, activation=activation,
    )  # fmt: skip
    a64, b64, bias64, residual64 = (numbers(x, element) for x in (a, b, bias, residual))
    exact = 0.5 * (a64 @ b64) + bias64
    slope, activation_error = 1.0, 0.0
    if activation is not None:
        _, _, exact64, units = FORWARD[activation]
        # No slope of these functions is above 1.13.
        slope, activation_error, exact = (
            1.13,
            units(exact) * UNIT[f32] * np.abs(exact64(exact)),
            exact64(exact),
        )
    exact = exact + residual64
    size = 0.5 * (np.abs(a64) @ np.abs(b64)) + np.abs(bias64) + np.abs(residual64)
    unit = UNIT[element] / 2 * np.abs(exact) * 1.01 + 2 * LEAST[element]
    error = np.abs(numbers(product, element) - exact)
    bound = slope * size * (depth + 3) * 2.0**-22 + activation_error + unit
    worst = np.unravel_index(np.argmax(error - bound), error.shape)
    assert (error <= bound).all(), (sizes, ways, worst)


@pytest.mark.crossed("device", "ways", "element")
@pytest.mark.parametrize("ways", SOME_WAYS, ids=str)
@pytest.mark.parametrize("element", one_and_others(TYPES, [f32]), ids=str)
def test_edge_shapes(device: AnyDevice, element: Type, ways: tuple[bool, bool]) -> None:
    few = device.kind == "webgpu"
    if few and element is not f32 and ways != (False, True):
        pytest.skip("slow with this driver")
    for sizes in FEW if few else SIZES:
        check(device, element, sizes, ways)


@pytest.mark.parametrize(
    "ways",
    [pytest.param(way, marks=() if all(way) else pytest.mark.thorough) for way in WAYS],
    ids=str,
)
def test_edge_shapes_on_emulated_gpus(ways: tuple[bool, bool]) -> None:
    with open_device("emulated:ptx") as device:
        for sizes in FEW:
            check(device, f32, sizes, ways)
        check(device, bf16, (36, 40, 24), ways)
        check(device, f16, (9, 7, 5), ways)


def test_cpu_accesses_are_in_bounds(checked_cpu: AnyDevice) -> None:
    for ways in WAYS:
        check(checked_cpu, f32, (9, 5, 7), ways)


@pytest.mark.parametrize("element", one_and_others(TYPES, [f32]), ids=str)
def test_the_large_tile(element: Type) -> None:
    """128 by 128 of an emulated GPU without asynchronous copies, where there are many tiles."""
    size, pitches = (1 << 14, 1 << 14, 63), (63, 1 << 14, 1 << 14)
    with EmulatedDevice(executor="ptx", arch="sm_75") as device:
        large = plan_gemm(device, element, size, pitches)
        assert isinstance(large, GemmPlan)
        assert large.tile == (128, 128)
    form = GemmForm()
    usage = kernel_usage(
        GEMM[element], "sm_90a", workgroup=large.lanes, element=element, plan=large, form=form
    )
    assert usage.registers is not None
    assert usage.registers <= 168
    assert not usage.spilled_bytes
    if element is not f32:
        return
    with open_device("emulated:ptx") as device:
        random = np.random.default_rng(3)
        a = random.integers(-3, 4, (130, 23)).astype(np.float32)
        b = random.integers(-3, 4, (23, 132)).astype(np.float32)
        memory = [device.upload(x) for x in (a, b, a, a, np.zeros((130, 132), np.float32))]
        kernel = device.compile(GEMM[f32], lanes=large.lanes, element=f32, plan=large, form=form)
        device.launch(kernel, large.groups(130, 132), 130, 132, 23, 0, 1.0, *memory)
        product = np.zeros((130, 132), np.float32)
        device.download(memory[-1], product)
        assert np.array_equal(product, a @ b)


# --- activations


@pytest.mark.parametrize("activation", one_and_others(FUNCTIONS, ["gelu"]))
def test_activations(device: AnyDevice, activation: str) -> None:
    for element in (f32,) if device.kind == "webgpu" else TYPES:
        check(device, element, (65, 36, 63), (False, True), activation)


def test_activations_of_emulated_gpus() -> None:
    with open_device("emulated:ptx") as device:
        check(device, f32, (65, 33, 9), (False, False), "gelu")
        check(device, bf16, (36, 40, 24), (False, True), "silu")
        check(device, f16, (9, 7, 5), (False, True), "gelu")
    with EmulatedDevice(executor="ptx", arch="sm_75") as device:
        check(device, f32, (9, 7, 5), (False, False), "silu")


@pytest.mark.parametrize("activation", one_and_others(FUNCTIONS, ["gelu"]))
@pytest.mark.parametrize("where", one_and_others(["emulated:ptx", "cpu"]))
def test_fused_activation_matches_its_function(where: str, activation: str) -> None:
    """Bit for bit, and before the residual."""
    a = np.random.default_rng(9).normal(0, 2, (9, 12)).astype(np.float32)
    b, bias = a[:8, ::-1].copy(), np.linspace(-20, 20, 8, dtype=np.float32)
    a[1, 0], a[2, 3], a[3] = np.nan, np.inf, 0
    with open_device(where) as device:
        options = {"transpose_b": True, "bias": bias, "scale": 0.75}
        usual = FORWARD[activation][0](device, gemm(device, a, b, **options))
        y = gemm(device, a, b, activation=activation, **options)
        assert np.array_equal(y.view(np.uint32), usual.view(np.uint32))
        both = gemm(device, a, b, activation=activation, residual=usual, **options)
        assert np.array_equal(both, usual + usual, equal_nan=True)
        nothing = gemm(device, a[:, :0].copy(), b[:, :0].copy(), activation=activation, **options)
        assert np.array_equal(nothing[0], FORWARD[activation][0](device, bias))


# --- exact results


def test_integers_are_exact(device: AnyDevice) -> None:
    random = np.random.default_rng(5)
    a = random.integers(-3, 4, (130, 300)).astype(np.float32)
    b = random.integers(-3, 4, (300, 70)).astype(np.float32)
    first = multiply(device, a, b)
    assert np.array_equal(first, a @ b)
    assert np.array_equal(first, multiply(device, a, b))


@pytest.mark.parametrize("ways", WAYS, ids=str)
def test_one_hot_operands_select_elements(ways: tuple[bool, bool]) -> None:
    with open_device("cpu") as device:
        b = np.arange(40 * 70, dtype=np.float32).reshape(40, 70)
        a = np.zeros((40, 40), np.float32)
        a[np.arange(40), (np.arange(40) * 7 + 3) % 40] = 1
        product = gemm(
            device, turned(a, ways[0]), turned(b, ways[1]), transpose_a=ways[0],
            transpose_b=ways[1],
        )  # fmt: skip
        assert np.array_equal(product, b[(np.arange(40) * 7 + 3) % 40])


def test_batches_and_empty_operands(device: AnyDevice) -> None:
    random = np.random.default_rng(8)
    a = random.integers(-3, 4, (2, 3, 9, 8)).astype(np.float32)
    b = random.integers(-3, 4, (2, 3, 8, 12)).astype(np.float32)
    assert np.array_equal(multiply(device, a, b), a @ b)
    assert np.array_equal(multiply(device, a, b[0, 1]), a @ b[0, 1])
    bias = np.arange(4, dtype=np.float32)
    nothing = multiply(
        device, np.zeros((2, 5, 0), np.float32), np.zeros((2, 0, 4), np.float32), bias=bias
    )
    assert np.array_equal(nothing, np.broadcast_to(bias, (2, 5, 4)))
    assert gemm("cpu", np.zeros((0, 3), np.float32), np.zeros((3, 2), np.float32)).shape == (0, 2)


def test_non_finite_values_stay_in_their_row() -> None:
    with open_device("cpu") as device:
        a, b = np.ones((20, 33), np.float32), np.ones((33, 50), np.float32)
        a[3, 32], a[7, 0] = np.nan, np.inf
        product = gemm(device, a, b)
        assert np.isnan(product[3]).all()
        assert np.isposinf(product[7]).all()
        assert (np.delete(product, [3, 7], 0) == 33).all()


def test_out_may_be_the_residual() -> None:
    a, b, c = (np.full((5, 5), x, np.float32) for x in (1, 2, 3))
    assert gemm("cpu", a, b, residual=c, out=c) is c
    assert (c == 13).all()


# --- bad input


A, B = np.zeros((4, 6), np.float32), np.zeros((6, 5), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gemm("cpu", A[0], B), "a must have at least two axes"),
        (lambda: gemm("cpu", A, B[0]), "b must have at least two axes"),
        (lambda: gemm("cpu", A, A), "the summed axis of b has 4 elements, but that of a has 6"),
        (lambda: gemm("cpu", A, B, transpose_b=True), "b has 5 elements"),
        (lambda: gemm("cpu", A.T, B), "a has strides"),
        (lambda: gemm("cpu", A, B.astype(np.float16)), "b must be of f32, as a is, not of f16"),
        (lambda: gemm("cpu", A, np.zeros((2, 6, 5), np.float32)), "b must have no leading axes"),
        (lambda: gemm("cpu", A, B, bias=A), r"bias must be f32 of shape \(5,\)"),
        (lambda: gemm("cpu", A, B, residual=A), r"residual must be f32 of shape \(4, 5\)"),
        (lambda: gemm("cpu", A, B, out=A), r"out must be f32 of shape \(4, 5\)"),
        (lambda: gemm("cpu", A, B, scale="half"), "scale must be a number"),
        (lambda: gemm("cpu", A, B, scale=10**400), "scale must be a number that f32 holds"),
        (lambda: gemm("cpu", A, B, scale=float("nan")), "scale must be a number that f32 holds"),
        (lambda: gemm("cpu", A, B, activation="relu"), "activation must be gelu or silu, not"),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
