"""Products with activations of 8 bits: the model's bits on every device, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import bf16, f16, f32
from quod.kernel.ir.types import Type
from quod.tensor.quantised import QuantisedMatrix, batch, dequantise
from quod.tensor.quantised.bytes_cores import LANES, MULTIPLY_BYTES_ON_CORES
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from tests.conftest import open_for_test
from tests.support.devices import present
from tests.support.ptx_assembler import assemble, opcodes, sass, usage
from tests.support.thorough import one_and_others
from tests.tensor.numbers import Array, Guarded, amid_poison, numbers, same_bits, stored
from tests.tensor.quantised.blocks import bits, weights
from tests.tensor.quantised.bytes_model import fused_bound, product, quantised

PACKED = [name for name, row in QUANTISED_TYPES.items() if row.packed is not None]


def activations(m: int, depth: int) -> Array:
    """Rows of all sizes, with blocks of zeros, of numbers that are taken for it, and of halves."""
    random = np.random.default_rng(m + depth)
    x = (random.standard_normal((m, depth)) * 10.0 ** random.integers(-9, 9, (m, 1))).astype("f4")
    x[0, :32] = 0
    x[0, 31] = 2.0**-112
    x[-1, -32:] = np.arange(32) * 0.5 - 8
    x[-1, -1] = 127
    x[m // 2, :32] = 2.0**-111
    return x


def check(device: AnyDevice, name: str, m: int, n: int, blocks: int, element: Type = f32) -> None:
    data = weights(name, n, blocks, size=2.0**-6)
    depth = blocks * QUANTISED_TYPES[name].elements
    x = (
        activations(m, depth)
        if element is f32
        else np.random.default_rng(m).normal(0, 1, (m, depth))
    )
    stored_x = stored(x, element)
    x = numbers(stored_x, element).astype(np.float32)
    out = Guarded(device, np.zeros((m, n), stored_x.dtype))
    matrix = QuantisedMatrix(device, name, data)
    assert (
        matrix.multiply(amid_poison(device, stored_x), out.memory, activations="int8") is out.memory
    )
    expected = stored(product(name, data, x), element)
    assert same_bits(device, out.array(), expected, element, fused_bound(name, data, x))


@pytest.mark.crossed("device", "name")
@pytest.mark.parametrize("name", one_and_others(PACKED, ["Q4_0", "Q4_K"]))
def test_every_device_gives_the_same_bits(device: AnyDevice, name: str) -> None:
    # More groups than instances, and no whole number of workgroups.
    check(device, name, 5, 3, 35 if QUANTISED_TYPES[name].elements == 32 else 9)


@pytest.mark.parametrize("name", one_and_others(PACKED, ["Q4_0", "Q4_K"]))
def test_emulated_gpus_give_the_same_bits(name: str) -> None:
    with open_device("emulated:ptx") as device:
        check(device, name, 6, 5, 35 if QUANTISED_TYPES[name].elements == 32 else 9)
        check(device, name, 1, 1, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("element", [f16, bf16], ids=str)
def test_other_types(device: AnyDevice, element: Type) -> None:
    check(device, "Q4_0", 2, 3, 3, element)


def test_within_a_browser(gpu_device: AnyDevice) -> None:
    check(gpu_device, "Q5_K", 2, 3, 1)


@pytest.fixture(scope="module", params=present("emulated", "emulated:ptx", "cuda"))
def cores(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    with open_for_test(request.param) as device:
        yield device


@pytest.mark.crossed("cores", "name")
@pytest.mark.parametrize("name", one_and_others(PACKED, ["Q4_0", "Q4_K"]))
def test_tensor_cores_give_the_same_bits(cores: AnyDevice, name: str) -> None:
    """Many rows: groups for all sums of a row and more, and tiles with rows beyond the matrix."""
    small_blocks = QUANTISED_TYPES[name].elements == 32
    check(cores, name, 17, 33, 35 if small_blocks else 9)
    check(cores, name, 33, 5, 3 if small_blocks else 1, f16)


@pytest.mark.crossed("cores", "m")
@pytest.mark.parametrize(("m", "n"), [(15, 3), (16, 31), (17, 32), (31, 33), (32, 1), (64, 65)])
def test_edge_shapes_of_a_tile(cores: AnyDevice, m: int, n: int) -> None:
    check(cores, "Q4_0", m, n, 2, bf16)


def test_kernel_selection_for_int8(cores: AnyDevice) -> None:
    matrix = QuantisedMatrix(cores, "Q4_K", weights("Q4_K", 3, 1))
    for rows, expected in ((15, "multiply_bytes_f32"), (16, "multiply_bytes_on_cores_f32")):
        x, y = (cores.upload(np.zeros((rows, size), np.float32)) for size in (256, 3))
        assert matrix.launches(x, y, activations="int8")[1][0].name == expected


def test_non_finite_scales_stay_in_their_columns(cores: AnyDevice) -> None:
    """Groups beyond the last are not multiplied by infinite scales."""
    data, x = weights("Q4_K", 9, 1), activations(20, 256)
    plain = QuantisedMatrix(cores, "Q4_K", data).multiply(x, activations="int8")
    data.view(np.float16)[4, 0], data.view(np.float16)[6, 1] = np.inf, np.nan
    x[11, 255] = np.inf
    few = QuantisedMatrix("cpu", "Q4_K", data).multiply(x, activations="int8")
    y = QuantisedMatrix(cores, "Q4_K", data).multiply(x, activations="int8")
    assert np.array_equal(y, few, equal_nan=True)
    kept = np.ix_(np.delete(np.arange(20), 11), np.delete(np.arange(9), [4, 6]))
    assert np.array_equal(bits(y[kept].copy()), bits(plain[kept].copy()))
    assert np.isnan(y[11]).all()
    assert not np.isfinite(y[:, [4, 6]]).any()


@pytest.mark.parametrize("m", [1, 2, 3, 4, 63, 64, 65])
def test_any_number_of_rows(m: int) -> None:
    with open_device("emulated:ptx") as device:
        check(device, "Q4_0", m, 3, 1)


def test_a_vector_is_a_row(device: AnyDevice) -> None:
    matrix = QuantisedMatrix(device, "Q4_K", weights("Q4_K", 7, 1))
    x = activations(1, 256)
    y = matrix.multiply(x[0], activations="int8")
    assert y.shape == (7,)
    assert np.array_equal(bits(y), bits(matrix.multiply(x, activations="int8")[0]))
    assert matrix.multiply(x[:0], activations="int8").shape == (0, 7)
    assert matrix.launches(x[:0], np.zeros((0, 7), np.float32), activations="int8") == ()


@pytest.mark.parametrize("name", one_and_others(PACKED, ["Q4_K"]))
def test_rounding_error_is_bounded(name: str) -> None:
    """Half a step of each block of activations, and what sums in f32 are."""
    data = weights(name, 9, 4)
    w = dequantise(name, data).astype(np.float64)
    x = np.random.default_rng(3).standard_normal((4, w.shape[1])).astype(np.float32)
    y = QuantisedMatrix("cpu", name, data).multiply(x, activations="int8")
    step = np.abs(x).reshape(4, -1, 32).max(axis=2) / 127
    of_bytes = np.repeat(step / 2, 32, axis=1) @ np.abs(w.T)
    # What a minimum takes off is as large as what it is taken from.
    large = np.abs(w).max() * 2 * np.abs(x).sum(axis=1, keepdims=True)
    error = np.abs(y - x.astype(np.float64) @ w.T)
    assert (error <= 1.001 * of_bytes + w.shape[1] * 2.0**-22 * large).all()
    assert error.max() > 2.0**-20 * large.max()


def test_bytes_are_the_nearest() -> None:
    x = activations(9, 256)
    integers, scale = quantised(x)
    assert np.abs(integers).max() == 127
    near = integers * scale[..., None].astype(np.float64)
    size = np.abs(x).reshape(9, -1, 32).max(axis=2)[..., None]
    assert (np.abs(near - x.reshape(9, -1, 32)) <= size / 127 * 0.5001 + 2.0**-111).all()


def test_non_finite_values_stay_in_their_row() -> None:
    data, x = weights("Q8_0", 3, 2), np.ones((5, 64), np.float32)
    x[1, 40], x[3, 0], x[4] = np.nan, -np.inf, np.float32(3e38)
    for name in ("cpu", "emulated:ptx"):
        with open_device(name) as device:
            y = QuantisedMatrix(device, "Q8_0", data).multiply(x, activations="int8")
            assert np.isnan(y[[1, 3]]).all()
            assert np.isfinite(y[[0, 2]]).all()


def test_cpu_accesses_are_in_bounds(checked_cpu: AnyDevice) -> None:
    check(checked_cpu, "Q4_0", 3, 2, 2)


def test_nf4_rejects_int8_activations() -> None:
    matrix = QuantisedMatrix("cpu", "NF4", np.zeros((2, 36), np.uint8))
    with pytest.raises(InputError, match="activations of NF4 are exact"):
        matrix.multiply(np.zeros((1, 64), np.float32), activations="int8")


def test_element_counts_beyond_kernel_limits_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = QuantisedMatrix("cpu", "Q8_0", np.zeros((2, 34), np.uint8))
    monkeypatch.setattr(batch, "_MAX_U32", 64)
    matrix.multiply(np.zeros((2, 32), np.float32), activations="int8")
    with pytest.raises(InputError, match="x has 96 elements; as bytes at most 64 go"):
        matrix.multiply(np.zeros((3, 32), np.float32), activations="int8")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, x: m.multiply(x, activations="int4"), "activations must be exact or int8"),
        (lambda m, x: m.multiply(x[0, :31], activations="int8"), "rows of 32 elements"),
        (lambda m, x: m.multiply(x.astype(int), activations="int8"), "x is of int64"),
        (lambda m, x: m.multiply(x, x, activations="int8"), r"y must be f32 of shape \(4, 2\)"),
    ],
)
def test_bad_input(call: Callable[..., Any], message: str) -> None:
    matrix = QuantisedMatrix("cpu", "Q8_0", np.zeros((2, 34), np.uint8))
    with pytest.raises(InputError, match=message):
        call(matrix, np.zeros((4, 32), np.float32))


# --- machine code


MAX_SPILLED = {"Q8_0": 0, "Q4_K": 8, "Q6_K": 240}


@pytest.mark.parametrize("name", one_and_others(MAX_SPILLED))
def test_no_spills_while_groups_are_accumulated(name: str) -> None:
    """For two workgroups a multiprocessor; what waits to be added is in shared memory."""
    machine = ptx_machine(LANES, "sm_90a")
    kernel = MULTIPLY_BYTES_ON_CORES[f16].trace(machine, form=name, tile=(32, 32))
    cubin, log = assemble(ptx.emit(kernel, machine), "sm_90a")
    assert usage(log).registers <= 128
    assert usage(log).spill_store_bytes <= MAX_SPILLED[name]
    factors = 2 if name == "Q6_K" else 1
    runs = QUANTISED_TYPES[name].packed_decoder().runs
    assert opcodes(sass(cubin))["IMMA"] == 8 * runs * factors
