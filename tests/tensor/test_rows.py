"""Softmax and the norms: against float64 at every edge, exact cases, hostile rows, bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import Buffer, open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.kernel import bf16, f16, f32
from quod.kernel.ir.types import Type
from quod.tensor import layer_norm, rms_norm, softmax
from quod.tensor.rows.plan import plan_rows
from tests.support.devices import present
from tests.support.thorough import one_and_others
from tests.tensor.numbers import LEAST, TYPES, UNIT, Array, Guarded, amid_poison, numbers, stored

COLUMNS = [1, 7, 8, 63, 64, 65, 127, 128, 129, 1000, 4095, 4096, 4097]
FEW = [7, 65, 512]
"""Sizes for drivers that take seconds to compile a plan."""


def softmax64(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


Case = tuple[Callable[..., Any], Callable[..., Array], int]


def rms64(x: Array, weight: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


def layer64(x: Array, weight: Array, bias: Array) -> Array:
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return (x - x.mean(-1, keepdims=True)) * scale * weight + bias


CASES: dict[str, Case] = {
    "softmax": (softmax, softmax64, 0),
    "rms_norm": (rms_norm, rms64, 1),
    "layer_norm": (layer_norm, layer64, 2),
}
"""The function, the same of f64, and how many vectors it takes."""


def allowed(name: str, x: Array, exact: Array, vectors: list[Array], element: Type) -> Array:
    """The error that arithmetic in f32 and one rounding to the element may make."""
    unit = UNIT[f32]
    depth = np.log2(x.shape[-1]) + 4
    if name == "softmax":
        arithmetic = exact * unit * (8 + 2 * np.abs(x - x.max(-1, keepdims=True)))
    else:
        scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
        if name == "layer_norm":
            scale = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        spread = (np.abs(x) + np.abs(x).mean(-1, keepdims=True) * depth) * scale
        arithmetic = unit * (16 * spread * np.abs(vectors[0]) + 2 * np.abs(exact))
    bound: Array = arithmetic + UNIT[element] / 2 * np.abs(exact) * 1.01 + 2 * LEAST[element]
    return bound


def check(device: AnyDevice, name: str, element: Type, rows: int, columns: int) -> None:
    function, exact64, count = CASES[name]
    random = np.random.default_rng(columns)
    x = stored(random.normal(1, 4, (rows, columns)), element)
    vectors = [stored(random.normal(1, 0.5, columns), element) for _ in range(count)]
    memory = [amid_poison(device, array) for array in (x, *vectors)]
    room = Guarded(device, x)
    assert function(device, *memory, out=room.memory) is room.memory
    output = numbers(room.array(), element)
    vector_values = [numbers(vector, element) for vector in vectors]
    wanted = exact64(numbers(x, element), *vector_values)
    error = np.abs(output - wanted)
    bound = allowed(name, numbers(x, element), wanted, vector_values, element)
    worst = np.unravel_index(np.argmax(error - bound), error.shape)
    assert (error <= bound).all(), (columns, worst, output[worst], wanted[worst])


@pytest.mark.crossed("device", "element", "name")
@pytest.mark.parametrize("element", TYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_edge_shapes(device: AnyDevice, name: str, element: Type) -> None:
    for columns in FEW if device.kind == "webgpu" else COLUMNS:
        check(device, name, element, 3, columns)


@pytest.mark.crossed("gpu_device", "element", "name")
@pytest.mark.parametrize("element", TYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_edge_shapes_on_gpus(gpu_device: AnyDevice, name: str, element: Type) -> None:
    for columns in FEW if gpu_device.kind == "webgpu" else [7, 65, 128, 1000]:
        check(gpu_device, name, element, 9, columns)


@pytest.mark.parametrize("name", CASES)
def test_rows_longer_than_registers(name: str) -> None:
    with open_device("emulated:ptx") as device:
        assert not plan_rows(device, f32, 33002).single_step
        check(device, name, f32, 2, 33002)
        check(device, name, f16, 2, 32770)


@pytest.mark.crossed("name", "columns")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("columns", one_and_others([17000, 24576, 40000, 65536]))
def test_partially_copied_rows(name: str, columns: int) -> None:
    """Registers have a share of a row, and shared memory the others."""
    with open_device("emulated:ptx") as device:
        check(device, name, f32, 5, columns)
        check(device, name, f16, 5, columns)


def test_plans_of_long_rows() -> None:
    with EmulatedDevice(executor="ptx", multiprocessors=132) as device:
        assert not plan_rows(device, f32, 32768).copied
        for element, columns in ((f32, 65536), (bf16, 131072)):
            plan = plan_rows(device, element, columns)
            assert plan.single_step
            assert plan.copied
        assert not plan_rows(device, f32, 131072).single_step
        # Norms ask for what is beside their rows as well.
        norm = plan_rows(device, f32, 32768, shared_vector_count=1)
        assert (norm.threads, norm.batch, norm.full) == (1024, 8, True)
        assert plan_rows(device, f32, 20000, shared_vector_count=2).resident == 2
    with EmulatedDevice(executor="ptx", shared_bytes_limit=48 * 1024) as device:
        assert not plan_rows(device, f32, 32768, shared_vector_count=1).copied
        assert not plan_rows(device, f32, 65536).single_step


def test_plans() -> None:
    with open_device("emulated:ptx") as gpu, open_device("cpu") as cpu:
        for element in TYPES:
            for columns in [*range(1, 300), 1024, 4096, 4097, 8192, 16384, 32768]:
                plan = plan_rows(gpu, element, columns)
                assert columns % plan.vector == 0
                assert plan.vector * element.bytes <= 16
                width = columns // plan.vector
                assert plan.single_step == (plan.threads * plan.batch >= width)
                assert plan.single_step or plan.vector == 1
                assert plan.copied < plan.batch
                assert plan.lanes % plan.threads == 0
                assert plan.groups(7) * (plan.lanes // plan.threads) >= 7
            assert plan_rows(cpu, element, 4096).vector == 1
        assert plan_rows(gpu, f32, 32768).single_step


# --- exact results


EXACT_ON = ["cpu", "emulated", "emulated:ptx"]


@pytest.fixture(params=EXACT_ON)
def exact_device(request: pytest.FixtureRequest) -> Any:
    with open_device(request.param) as opened:
        yield opened


@pytest.mark.crossed("exact_device", "columns")
@pytest.mark.parametrize("columns", [1, 8, 64, 4096])
def test_equal_logits_have_equal_probabilities(exact_device: AnyDevice, columns: int) -> None:
    x = np.full((3, columns), 5, np.float32)
    assert (softmax(exact_device, x) == 1 / columns).all()


def test_one_hot(exact_device: AnyDevice) -> None:
    """The result identifies a wrong index."""
    columns = 77
    x = 200 * np.eye(columns, dtype=np.float32)
    assert np.array_equal(softmax(exact_device, x), np.eye(columns))
    ones = np.where(np.arange(columns) % 2, -1, 1).astype(np.float32)[None]
    weight = np.arange(columns, dtype=np.float32)
    assert np.array_equal(rms_norm(exact_device, ones, weight, epsilon=0), ones * weight)
    bias = weight + 1000
    for at in (0, 40, 76):
        only = np.zeros(columns, np.float32)
        only[at] = 8
        row = layer_norm(exact_device, x, only, bias)[3]
        assert np.array_equal(np.delete(row, at), np.delete(bias, at))
        assert row[at] != bias[at]


def test_repeated_and_in_place_runs_are_equal(device: AnyDevice) -> None:
    x = np.random.default_rng(2).normal(0, 3, (5, 130)).astype(np.float32)
    memory = device.upload(x)
    results = []
    for _ in range(2):
        out = softmax(device, memory)
        results.append(np.empty_like(x))
        device.download(out, results[-1])
    assert np.array_equal(results[0].view(np.uint32), results[1].view(np.uint32))
    assert softmax(device, memory, out=memory) is memory
    device.download(memory, x)
    assert np.array_equal(x, results[0])


# --- hostile rows


@pytest.fixture(params=present("cpu", "emulated:ptx", "cuda"))
def ieee_device(request: pytest.FixtureRequest) -> Any:
    """WGSL knows neither infinity nor NaN."""
    from tests.conftest import open_for_test

    with open_for_test(request.param) as opened:
        yield opened


@pytest.mark.crossed("ieee_device", "columns")
@pytest.mark.parametrize("columns", [9, 64, 1000])
def test_non_finite_values_stay_in_their_row(ieee_device: AnyDevice, columns: int) -> None:
    x = np.random.default_rng(4).normal(0, 1, (7, columns)).astype(np.float32)
    usual = softmax(ieee_device, x)
    x[1, 5], x[2, 3], x[4] = np.nan, np.inf, -np.inf
    x[5, 0] = -np.inf
    probabilities = softmax(ieee_device, x)
    assert np.isnan(probabilities[[1, 2, 4]]).all()
    assert np.array_equal(probabilities[[0, 3, 6]], usual[[0, 3, 6]])
    assert probabilities[5, 0] == 0
    assert np.allclose(probabilities[5].sum(), 1, atol=1e-5)
    ones = np.ones(columns, np.float32)
    for norm in (rms_norm(ieee_device, x, ones), layer_norm(ieee_device, x, ones, ones)):
        assert np.isnan(norm[1]).all()
        assert np.isfinite(norm[[0, 3, 6]]).all()


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_large_logits(device: AnyDevice, element: Type) -> None:
    largest = {f32: 3e38, f16: 65504.0, bf16: 3e38}[element]
    x = np.zeros((3, 70))
    x[0, 3], x[1, :], x[2, 10], x[2, 11] = 1e4, largest, -1e4, 1.0
    logits = stored(x, element)
    probabilities = np.empty_like(logits)
    device.download(softmax(device, device.upload(logits)), probabilities)
    wanted = softmax64(numbers(logits, element))
    assert np.abs(numbers(probabilities, element) - wanted).max() <= UNIT[element]


def test_a_variance_far_from_zero(device: AnyDevice) -> None:
    """The mean of squares minus the squared mean would lose all digits."""
    noise = np.random.default_rng(6).normal(0, 1, (2, 1024))
    x = (1e4 + noise).astype(np.float32)
    ones, zeros = np.ones(1024, np.float32), np.zeros(1024, np.float32)
    out = layer_norm(device, *map(device.upload, (x, ones, zeros)))
    normalised = np.empty_like(x)
    device.download(out, normalised)
    exact = layer64(x.astype(np.float64), ones, zeros)
    # The mean is off by units of 1e4 at most; E[x*x] - E[x]**2 is off by 8.
    assert np.abs(normalised - exact).max() < 0.004


# --- arrays and bad input


class WithDlpack:
    """An array that only DLPack reaches, and that makes others like it."""

    def __init__(self, data: Array) -> None:
        self.data = data

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def new_empty(self, shape: tuple[int, ...]) -> WithDlpack:
        return WithDlpack(np.full(shape, 7, self.data.dtype))


def test_arrays_of_other_libraries() -> None:
    with open_device("cpu") as device:
        x = np.random.default_rng(1).normal(0, 1, (2, 3, 10)).astype(np.float32)
        usual = softmax(device, x)
        assert usual.shape == (2, 3, 10)
        other = softmax(device, WithDlpack(x))
        assert isinstance(other, WithDlpack)
        assert np.array_equal(other.data, usual)
        out = np.empty_like(x)
        assert softmax(device, x, out=out) is out
        assert np.array_equal(out, usual)
        probabilities = softmax(device, device.upload(x))
        assert isinstance(probabilities, Buffer)
        assert probabilities.shape == x.shape
        assert np.array_equal(np.asarray(probabilities), usual)
        assert np.array_equal(softmax(device, x[1]), usual[1])  # memory that begins elsewhere
        empty = softmax(device, np.zeros((0, 4), np.float32))
        assert empty.shape == (0, 4)
        assert softmax(device, np.zeros((4, 0), np.float16)).shape == (4, 0)


X = np.zeros((4, 6), np.float32)
ROW = np.zeros(6, np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: softmax(d, X.astype(np.float64)), "x is of float64; tensors are of float32"),
        (lambda d: softmax(d, X.astype(">f4")), "x is of >f4"),
        (lambda d: softmax(d, np.float32(1)[()]), "x must be an array or a buffer, not float32"),
        (lambda d: softmax(d, np.zeros((), np.float32)), "x is one number"),
        (lambda d: softmax(d, X.T), r"x has strides \(4, 24\); take a contiguous copy"),
        (lambda d: softmax(d, X[:, ::2]), "x has strides"),
        (lambda d: softmax(d, [[1.0]]), "x must be an array or a buffer, not list"),
        (lambda d: softmax(d, Buffer.zeros(64)), "x is a buffer of bytes"),
        (
            lambda d: softmax(d, X, out=np.zeros((4, 5), np.float32)),
            r"out must be f32 of shape \(4, 6\) to go with x, not f32 of shape \(4, 5\)",
        ),
        (lambda d: softmax(d, X, out=X.astype(np.float16)), "out must be f32 .* not f16"),
        (lambda d: rms_norm(d, X, ROW[:5]), r"weight must be f32 of shape \(6,\)"),
        (lambda d: rms_norm(d, X, ROW.astype(np.float16)), "weight must be f32"),
        (lambda d: layer_norm(d, X, ROW, X), "bias must be f32 of shape"),
        (lambda d: rms_norm(d, X, ROW, epsilon=-1), "epsilon must be at least 0"),
        (lambda d: rms_norm(d, X, ROW, epsilon=float("nan")), "epsilon must be a number that f32"),
        (lambda d: rms_norm(d, X, ROW, epsilon=10**400), "epsilon must be a number that f32"),
        (lambda d: rms_norm(d, X, ROW, epsilon=-(10**9000)), "epsilon must be a number that f32"),
        (lambda d: rms_norm(d, X, ROW, epsilon="small"), "epsilon must be a number"),
    ],
)
def test_bad_input(call: Callable[[Any], Any], message: str) -> None:
    with open_device("cpu") as device, pytest.raises(InputError, match=message):
        call(device)


def test_unsuitable_memory_is_rejected() -> None:
    fixed = X.copy()
    fixed.flags.writeable = False
    with open_device("cpu") as cpu, open_device("emulated") as gpu:
        with pytest.raises(DeviceError, match=r"^out is read-only, and a result"):
            softmax(cpu, X, out=fixed)
        with pytest.raises(DeviceError, match=r"^x is memory of the device emulated"):
            softmax(cpu, gpu.upload(X), out=X.copy())
        odd = gpu.upload(np.zeros(50, np.float32)).slice(4, 4 + X.nbytes).like(gpu.upload(X))
        with pytest.raises(DeviceError, match=r"^x begins .* not a multiple of 16"):
            softmax(gpu, odd)
