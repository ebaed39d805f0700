"""Rows by a matrix of blocks: against float64 at every edge of a tile, exact cases, bad input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device import open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.frozen import replace
from quod.kernel import bf16, f16, f32
from quod.kernel.analysis import analyze
from quod.kernel.ir.types import Type
from quod.tensor.matmul.plan import CorePlan, GemmPlan
from quod.tensor.quantised import BLOCK_TYPES, QuantisedMatrix, dequantise, quantise
from quod.tensor.quantised.batch_kernel import CORE_PLANS, MULTIPLY_ROWS, plan_batch
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from tests.conftest import open_for_test
from tests.support.devices import present
from tests.support.ptx_assembler import assemble, opcodes, sass, usage
from tests.support.thorough import one_and_others
from tests.tensor.numbers import LEAST, TYPES, UNIT, Array, Guarded, amid_poison, numbers, stored
from tests.tensor.quantised.blocks import bits, weights


@pytest.fixture(
    scope="module",
    params=one_and_others(present("emulated", "emulated:ptx", "cuda"), present("emulated", "cuda")),
)
def cores(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    with open_for_test(request.param) as device:
        yield device


def scaled(name: str, rows: int, blocks: int) -> Array:
    """Blocks whose values f16 holds, as those of models are."""
    return weights(name, rows, blocks, size=2.0**-9)


def check(
    device: AnyDevice, name: str, element: Type, m: int, n: int, blocks: int = 1, **how: Any
) -> None:
    data = scaled(name, n, blocks)
    w = dequantise(name, data).astype(np.float64)
    depth = w.shape[1]
    x = stored(np.random.default_rng(m + n).normal(0, 1, (m, depth)), element)
    out = Guarded(device, np.zeros((m, n), x.dtype))
    matrix = QuantisedMatrix(device, name, data)
    assert matrix.multiply(amid_poison(device, x), out.memory, **how) is out.memory
    product, exact = numbers(out.array(), element), numbers(x, element) @ w.T
    size = np.abs(numbers(x, element)) @ np.abs(w.T)
    bound = size * (depth + 3) * 2.0**-22 + UNIT[element] / 2 * np.abs(exact) * 1.01
    rounded = device.machine(32).has("tensor_cores") or how.get("plan") == "dequantised"
    if rounded and element is not f32:
        # Weights are rounded to the type.
        bound += UNIT[element] / 2 * size + LEAST[element] * np.abs(x).sum(axis=1, keepdims=True)
    assert (np.abs(product - exact) <= bound + 2 * LEAST[element]).all(), (name, element, m, n)


@pytest.mark.crossed("device", "element", "name")
@pytest.mark.parametrize("element", TYPES, ids=str)
@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_every_type(device: AnyDevice, name: str, element: Type) -> None:
    if device.kind == "webgpu" and element is f16:
        pytest.skip("slow with this driver")
    check(device, name, element, 5, 37, 3 if QUANTISED_TYPES[name].elements < 256 else 2)


@pytest.mark.crossed("device", "m")
@pytest.mark.parametrize(
    ("m", "n"),
    one_and_others(
        [(1, 1), (63, 65), (64, 64), (65, 63), (129, 200)], [(1, 1), (65, 63), (129, 200)]
    ),
)
def test_edge_shapes(device: AnyDevice, m: int, n: int) -> None:
    check(device, "Q4_K", f32, m, n)
    if device.kind != "webgpu":
        check(device, "Q4_0", bf16, m, n, 5)


@pytest.mark.crossed("cores", "element", "name")
@pytest.mark.parametrize("element", TYPES, ids=str)
@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_every_type_on_cores(cores: AnyDevice, name: str, element: Type) -> None:
    blocks = 5 if QUANTISED_TYPES[name].elements < 256 else 1
    check(cores, name, element, 9, 20, blocks, plan="fused")


@pytest.mark.crossed("cores", "m")
@pytest.mark.parametrize(("m", "n"), [(1, 1), (63, 65), (64, 64), (65, 63)])
def test_edge_shapes_on_tensor_cores(cores: AnyDevice, m: int, n: int) -> None:
    check(cores, "Q8_0", f16, m, n, 2, plan="fused")


@pytest.mark.crossed("cores", "name", "plan")
@pytest.mark.parametrize("name", BLOCK_TYPES)
@pytest.mark.parametrize("plan", CORE_PLANS, ids=str)
def test_every_tensor_core_plan(cores: AnyDevice, plan: CorePlan, name: str) -> None:
    """Small whole numbers, of which one row names each element of K."""
    blocks = 9 if QUANTISED_TYPES[name].elements < 256 else 2
    m, n = plan.tile[0] // 2 + 8, plan.tile[1] // 2 + 9
    data = scaled(name, n, blocks)
    w = numbers(stored(dequantise(name, data), bf16), bf16)
    depth = w.shape[1]
    x = np.zeros((m, depth), np.float32)
    x[np.arange(m), np.arange(m) * 37 % depth] = 2
    operands = [cores.upload(each) for each in (stored(x, bf16), data.reshape(-1))]
    out = Guarded(cores, np.zeros((m, n), np.uint16))
    kernel = cores.compile(
        MULTIPLY_ROWS[bf16], lanes=plan.lanes, element=bf16, form=name, plan=plan
    )
    cores.launch(kernel, plan.groups(m, n), m, n, depth, *operands, out.memory)
    assert np.array_equal(numbers(out.array(), bf16), x @ w.T)


def test_cpu_accesses_are_in_bounds(checked_cpu: AnyDevice) -> None:
    check(checked_cpu, "Q4_0", f32, 3, 5, 1)


@pytest.mark.thorough
def test_the_large_tile() -> None:
    """128 by 128 of a GPU without tensor cores."""
    with EmulatedDevice(executor="ptx", arch="sm_75") as device:
        plan = plan_batch(device, f32, "Q6_K", (1 << 14, 1 << 14, 256))
        assert isinstance(plan, GemmPlan)
        assert plan.tile == (128, 128)
        assert plan.a_vector == 2
        data, x = scaled("Q4_0", 130, 1), np.eye(3, 32, dtype=np.float32)
        kernel = device.compile(
            MULTIPLY_ROWS[f32], lanes=plan.lanes, element=f32, form="Q4_0",
            plan=replace(plan, c_vector=1),
        )  # fmt: skip
        out = device.upload(np.zeros((3, 130), np.float32))
        operands = [device.upload(each) for each in (x, data.reshape(-1))]
        device.launch(kernel, plan.groups(3, 130), 3, 130, 32, *operands, out)
        product = np.zeros((3, 130), np.float32)
        device.download(out, product)
        assert np.array_equal(product, dequantise("Q4_0", data)[:, :3].T)


# --- exact results


def test_a_product_of_small_integers_is_exact(device: AnyDevice) -> None:
    generator = np.random.default_rng(6)
    data = generator.integers(-127, 128, (70, 96)).astype(np.float32)
    data[:, ::32] = 127
    matrix = QuantisedMatrix(device, "Q8_0", quantise("Q8_0", data))
    x = generator.integers(-3, 4, (2, 3, 96)).astype(np.float32)
    product = matrix.multiply(x)
    assert product.dtype == np.float32
    assert np.array_equal(product, x @ data.T)
    assert np.array_equal(bits(matrix.multiply(x)), bits(product))
    for shape in ((0, 96), (2, 0, 96)):
        assert matrix.multiply(np.zeros(shape, np.float16)).shape == (*shape[:-1], 70)


@pytest.mark.parametrize("plan", ["fused", "dequantised"])
def test_non_finite_values_stay_in_their_row(cores: AnyDevice, plan: Any) -> None:
    matrix = QuantisedMatrix(cores, "Q8_0", quantise("Q8_0", np.ones((5, 96), np.float32)))
    x = np.ones((9, 96), np.float16)
    x[3, 95], x[7, 0] = np.nan, np.inf
    product = matrix.multiply(x, plan=plan)
    assert np.isnan(product[3]).all()
    assert np.isposinf(product[7]).all()
    assert np.isfinite(np.delete(product, [3, 7], 0)).all()


def test_weights_beyond_f16_are_infinite_on_cores() -> None:
    data = quantise("Q8_0", np.full((1, 32), 80000, np.float32))
    with open_device("emulated:ptx") as device:
        matrix = QuantisedMatrix(device, "Q8_0", data)
        assert np.isposinf(matrix.multiply(np.ones((1, 32), np.float16))).all()
        assert np.isfinite(matrix.multiply(np.ones((1, 32), np.float32))).all()


def test_launches_can_be_run_directly() -> None:
    matrix = QuantisedMatrix("cpu", "Q8_0", quantise("Q8_0", np.eye(3, 32, dtype=np.float32)))
    x, y = np.arange(64, dtype=np.float32).reshape(2, 32), np.zeros((2, 3), np.float32)
    (launch,) = matrix.launches(x, y)
    matrix.device.launch(*launch)
    assert np.allclose(y, x[:, :3], rtol=1e-3)
    assert matrix.launches(x[:0], y[:0]) == ()
    assert len(matrix.launches(x[0], y[0])) == 1


# --- machine code


def test_no_spills_and_minimal_bank_conflicts() -> None:
    plan = CORE_PLANS[0]
    machine = ptx_machine(plan.lanes, "sm_90a")
    traced = MULTIPLY_ROWS[bf16].trace(machine, element=bf16, form="Q4_K", plan=plan)
    cubin, log = assemble(ptx.emit(traced, machine), "sm_90a")
    assert not usage(log).spill_store_bytes
    rows, columns = plan.part
    assert opcodes(sass(cubin))["HMMA"] == rows // 16 * (columns // 8) * 2
    banks = [each for each in analyze(traced).findings if each.topic == "banks"]
    assert len(banks) == 3  # copies of X, stores of weights, and loads of matrices
    assert all(each.good for each in banks)


# --- bad input

X = np.zeros((4, 32), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.multiply(X[:, :31]), "x has strides"),
        (lambda m: m.multiply(np.zeros((4, 31), np.float32)), "x must have rows of 32 elements"),
        (lambda m: m.multiply(X.astype(np.float64)), "x is of float64"),
        (lambda m: m.multiply([[0.0] * 32]), "x must be a NumPy array or a buffer"),
        (lambda m: m.multiply(X, X), r"y must be f32 of shape \(4, 2\)"),
        (lambda m: m.multiply(X, np.zeros((4, 2), np.float16)), "y must be f32"),
    ],
)
def test_bad_input(call: Callable[[Any], Any], message: str) -> None:
    matrix = QuantisedMatrix("cpu", "Q8_0", np.zeros((2, 34), np.uint8))
    with pytest.raises(InputError, match=message):
        call(matrix)


def test_results_do_not_alias_operands() -> None:
    matrix = QuantisedMatrix("cpu", "Q8_0", np.zeros((32, 34), np.uint8))
    x = np.zeros((4, 32), np.float32)
    with pytest.raises(InputError, match="y is in the memory of x"):
        matrix.multiply(x, x)
    x.flags.writeable = False
    with pytest.raises(DeviceError, match="read-only"):
        matrix.multiply(np.ones((4, 32), np.float32), x)
    block_bytes = np.zeros((4, 34), np.uint8)
    matrix = QuantisedMatrix("cpu", "Q8_0", block_bytes)
    with pytest.raises(InputError, match="y is in memory that is read"):
        matrix.multiply(x, block_bytes.reshape(-1)[:64].view(np.float32).reshape(4, 4))
