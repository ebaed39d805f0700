from __future__ import annotations

import hashlib
import json
import platform
import warnings
from pathlib import Path
from typing import Any

import gguf as peer
import numpy as np
import pytest

from quod.codegen import kernel_usage
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.formats import GGUF_TYPES, Gguf, write_gguf
from quod.kernel import f32
from quod.tensor.quantised import (
    BLOCK_TYPES,
    ProductLayout,
    QuantisedMatrix,
    dequantise,
    quantise,
)
from quod.tensor.quantised.product import MULTIPLY_BLOCKS
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from tests.tensor.quantised.blocks import bits, random_blocks, weights

OF_GGUF = [name for name in BLOCK_TYPES if name in GGUF_TYPES]
FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures" / "gguf"


@pytest.mark.parametrize("name", OF_GGUF)
def test_values_match_the_gguf_package(name: str) -> None:
    kind = peer.GGMLQuantizationType[name]
    blocks = random_blocks(name, 40, 6)
    assert np.array_equal(
        bits(dequantise(name, blocks)), bits(peer.quants.dequantize(blocks, kind))
    )
    # Scales that are infinite or NaN among them.
    blocks = np.random.default_rng(2).integers(0, 256, (300, GGUF_TYPES[name].bytes), np.uint8)
    with np.errstate(all="ignore"):
        expected = peer.quants.dequantize(blocks, kind)
    dequantised = dequantise(name, blocks)
    assert np.isnan(expected).any()
    assert np.array_equal(dequantised, expected, equal_nan=True)


@pytest.mark.parametrize("name", OF_GGUF)
@pytest.mark.fixtures
def test_values_match_ggml(name: str) -> None:
    if not FIXTURES.is_dir():
        pytest.skip("needs the shared fixtures beside the checkout (../shared/fixtures)")
    types = json.loads((FIXTURES / "manifest.json").read_text())["types"]
    if name not in types:
        pytest.skip(f"there are no shared fixtures of {name}")
    stored = np.fromfile(FIXTURES / f"{name.lower()}.bin", np.uint8).reshape(8, -1)
    dequantised = dequantise(name, stored)
    assert hashlib.sha256(dequantised.tobytes()).hexdigest() == types[name]["sha256_of_dequantised"]
    assert dequantised.tobytes() == (FIXTURES / f"{name.lower()}.f32").read_bytes()
    if name in ("Q4_0", "Q8_0"):
        data = np.fromfile(FIXTURES / "data.f32", np.float32).reshape(8, 1024)
        assert np.array_equal(quantise(name, data), stored)


def test_array_types_with_overridden_multiplication() -> None:
    """`numpy.matrix` has products of matrices for `*`."""
    values = np.random.default_rng(1).standard_normal((2, 32)).astype(np.float32)
    for name in ("Q4_0", "Q8_0"):
        blocks = quantise(name, values)
        assert (quantise(name, np.asmatrix(values)) == blocks).all()
        assert (dequantise(name, np.asmatrix(blocks)) == dequantise(name, blocks)).all()


def test_plain_types() -> None:
    values = np.array([[1.5, -0.0, 3e38], [np.inf, 1e-40, 7]], np.float32)
    assert np.array_equal(bits(dequantise("F32", values)), bits(values))
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert np.array_equal(dequantise("F16", halves), halves.astype(np.float32), equal_nan=True)
    upper = np.array([0x3F80, 0xFF80, 0x0001], np.uint16)
    assert dequantise("BF16", upper).tolist() == [1.0, -np.inf, 2.0**-133]
    assert dequantise("I8", np.array([-128, 127], np.int8)).tolist() == [-128.0, 127.0]


@pytest.mark.parametrize("name", ["Q4_0", "Q8_0"])
def test_quantisation_matches_the_gguf_package(name: str) -> None:
    generator = np.random.default_rng(3)
    values = generator.standard_normal((600, 128)) * 10.0 ** generator.integers(-9, 5, (600, 1))
    data = values.astype(np.float32)
    data[5] = 0
    data[6] = -data[7]
    # Halves between two integers, on both sides.
    data[8] = np.arange(-64, 64) * 0.5
    data[8, ::32] = 127
    blocks = quantise(name, data)
    assert np.array_equal(blocks, peer.quants.quantize(data, peer.GGMLQuantizationType[name]))
    error = np.abs(dequantise(name, blocks) - data).reshape(600, -1, 32).max(axis=2)
    step = np.abs(data).reshape(600, -1, 32).max(axis=2) / (8 if name == "Q4_0" else 127)
    # An f16 scale below its normal numbers has fewer bits.
    assert (error <= 1.01 * step + 2.0**-24 * 130).all()


@pytest.mark.crossed("name", "size")
@pytest.mark.parametrize("name", ["Q4_0", "Q8_0"])
@pytest.mark.parametrize("size", [2.0**-149, 1e-42, 2.0**-128, 2.0**-125, 2.0**-121, 1e-36])
def test_blocks_without_an_invertible_scale(name: str, size: float) -> None:
    """Zeros, without a warning; to the byte those of the gguf package where processors make 0 of an
    infinity that becomes an integer."""
    data = np.full((2, 32), size, np.float32)
    data[0, 3:6], data[1] = (0, -size / 2, -size), -data[0]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = peer.quants.quantize(data, peer.GGMLQuantizationType[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blocks = quantise(name, data)
    assert not dequantise(name, blocks).any()
    assert np.array_equal(blocks, wanted) or platform.machine() != "x86_64"


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda: dequantise("I32", np.zeros(20, np.int32)), "the type must be F32, "),
        (lambda: dequantise("Q4_0", np.zeros(18, np.int8)), "must be uint8, not int8"),
        (lambda: dequantise("Q4_0", np.zeros(17, np.uint8)), "whole blocks of 18 bytes"),
        (lambda: dequantise("BF16", np.zeros(3, np.float32)), "must be uint16, not float32"),
        (lambda: quantise("F16", np.zeros(256, np.float32)), "must be Q4_0, Q8_0, Q4_K, Q5_K"),
        (lambda: quantise("Q8_0", np.zeros(33, np.float32)), "whole blocks of 32"),
        (lambda: quantise("Q8_0", np.zeros(32)), "must be float32, not float64"),
        (lambda: quantise("Q8_0", np.full(32, np.nan, np.float32)), "must be finite"),
        (lambda: quantise("Q8_0", np.full(32, 1e8, np.float32)), "too large for Q8_0"),
        (lambda: quantise("Q4_0", np.full(32, 3e38, np.float32)), "too large for Q4_0"),
    ],
)
def test_invalid_arguments_are_reported(call: Any, part: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert part in str(error.value)


@pytest.mark.crossed("device", "name")
@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_kernels_match_the_values_bitwise(device: AnyDevice, name: str) -> None:
    # A number of blocks that fills no workgroup.
    blocks = random_blocks(name, 3, 5)
    values = QuantisedMatrix(device, name, blocks).dequantise()
    assert values.shape == (3, 5 * QUANTISED_TYPES[name].elements)
    assert np.array_equal(bits(values), bits(dequantise(name, blocks)))


@pytest.mark.crossed("gpu_device", "name")
@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_gpu_kernels_match_the_values_bitwise(gpu_device: AnyDevice, name: str) -> None:
    blocks = random_blocks(name, 1, 3, seed=4)
    matrix = QuantisedMatrix(gpu_device, name, blocks)
    out = gpu_device.upload(np.full(matrix.columns, 7, np.float32))
    assert matrix.dequantise(out) is out
    values = np.zeros(matrix.columns, np.float32)
    gpu_device.download(out, values)
    assert np.array_equal(bits(values), bits(dequantise(name, blocks)[0]))


def check_product(device: AnyDevice, name: str, rows: int, blocks: int, **layout: int) -> None:
    """Within the bound of sums in f32; twice the same; and one column at a time."""
    data = weights(name, rows, blocks)
    layout_option: Any = {"layout": ProductLayout(**layout)} if layout else {}
    matrix, values = QuantisedMatrix(device, name, data, **layout_option), dequantise(name, data)
    x = np.random.default_rng(5).standard_normal(matrix.columns).astype(np.float32)
    y = matrix.multiply(x)
    exact, size = values.astype(np.float64), np.abs(values).astype(np.float64)
    # Where a minimum is taken off a sum of products, these are as large as what is taken off.
    least = size.max()
    bound = (matrix.columns * 2.0**-23) * (size @ np.abs(x) + least * np.abs(x).sum())
    assert (np.abs(y - exact @ x) <= bound).all()
    assert np.array_equal(bits(matrix.multiply(x)), bits(y))
    for column in {0, 1, 16, matrix.columns // 2 + 5, matrix.columns - 1}:
        unit_vector = np.zeros(matrix.columns, np.float32)
        unit_vector[column] = 1
        close = np.abs(matrix.multiply(unit_vector) - values[:, column])
        assert (close <= 2.0**-20 * least).all(), column


@pytest.mark.crossed("device", "name")
@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_products(device: AnyDevice, name: str) -> None:
    check_product(device, name, 5, 3)


@pytest.mark.crossed("gpu_device", "name")
@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_products_on_gpus(gpu_device: AnyDevice, name: str) -> None:
    check_product(gpu_device, name, 3, 9)


@pytest.mark.crossed("lanes", "name")
@pytest.mark.parametrize(
    ("lanes", "width", "rows_per_instance"), [(8, 8, 1), (16, 1, 3), (32, 1, 2)]
)
@pytest.mark.parametrize("name", ["Q4_K", "Q6_K", "Q4_0"])
def test_products_in_other_layouts(
    name: str, lanes: int, width: int, rows_per_instance: int
) -> None:
    from quod.device import open_device

    device = open_device("cpu")
    check_product(device, name, 4, 2, lanes=lanes, width=width, rows_per_instance=rows_per_instance)


@pytest.mark.parametrize(
    ("where", "name", "blocks", "layout"),
    [
        ("emulated:ptx", "Q4_K", 17, (256, 32, 2, 4)), ("emulated:ptx", "Q5_K", 3, (64, 16, 1, 2)),
        ("emulated:ptx", "Q6_K", 2, (32, 8, 3, 16)), ("emulated:ptx", "Q8_0", 17, (64, 4, 2, 8)),
        ("emulated:ptx", "NF4", 5, (32, 2, 1, 4)), ("emulated:ptx", "Q4_0", 9, (96, 1, 2, 2)),
        ("emulated:ptx", "Q8_0", 3, (32, 1, 2, 4)), ("cpu", "Q6_K", 2, (32, 1, 1, 16)),
        ("cpu", "Q4_0", 9, (32, 2, 1, 4)),
    ],
)  # fmt: skip
def test_products_by_partial_subgroups(
    where: str, name: str, blocks: int, layout: tuple[int, ...]
) -> None:
    """More units than instances of a row, and rows that fill no workgroup."""
    from quod.device import open_device

    lanes, width, rows_per_instance, row_groups = layout
    with open_device(where) as device:
        check_product(
            device,
            name,
            11,
            blocks,
            lanes=lanes,
            width=width,
            rows_per_instance=rows_per_instance,
            row_groups=row_groups,
        )


@pytest.mark.parametrize("name", ["Q4_K", "Q5_K"])
def test_two_workgroups_fit_a_multiprocessor(name: str) -> None:
    usage = kernel_usage(
        MULTIPLY_BLOCKS[f32],
        "sm_90a",
        workgroup=256,
        form=name,
        width=8,
        at_once=2,
        together=2,
    )
    assert usage.registers is not None
    assert usage.registers <= 128
    assert not usage.spilled_bytes


def test_a_matrix_of_a_mapped_file_and_buffers(device: AnyDevice, tmp_path: Path) -> None:
    blocks = weights("Q8_0", 33, 4)
    write_gguf(tmp_path / "m.gguf", {}, {"w": ("Q8_0", blocks)})
    tensor = Gguf.open(tmp_path / "m.gguf").tensors["w"]
    matrix = QuantisedMatrix(device, tensor.type.name, tensor.array())
    assert (matrix.rows, matrix.columns, matrix.nbytes) == (33, 128, blocks.size)
    assert "Q8_0 matrix of 33 x 128" in repr(matrix)
    x = np.arange(128, dtype=np.float32)
    # More room than rows would be an error: what lies behind stays.
    y = device.upload(np.full(33, 7, np.float32))
    assert matrix.multiply(device.upload(x), y) is y
    product = np.zeros(33, np.float32)
    device.download(y, product)
    assert np.array_equal(product, matrix.multiply(x))
    # One that begins at an odd address.
    room = np.zeros(blocks.size + 1, np.uint8)
    room[1:] = blocks.reshape(-1)
    moved = QuantisedMatrix(device, "Q8_0", room[1:].reshape(blocks.shape))
    assert np.array_equal(moved.multiply(x), product)


def test_blocks_of_no_rows() -> None:
    for shape, blocks in (((0, 32), (0, 34)), ((3, 0), (3, 0)), ((2, 0, 64), (2, 0, 68))):
        quantised = quantise("Q8_0", np.zeros(shape, np.float32))
        assert quantised.shape == blocks
        assert dequantise("Q8_0", quantised).shape == shape


@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_empty_blocks(name: str) -> None:
    kind = QUANTISED_TYPES[name]
    for shape in ((0,), (3, 0), (0, kind.bytes), (2, 0, 2 * kind.bytes)):
        values = dequantise(name, np.zeros(shape, np.uint8))
        assert values.dtype == np.float32
        assert values.shape == (*shape[:-1], shape[-1] // kind.bytes * kind.elements)


def test_launches_do_not_copy_operands() -> None:
    """A copy would be stale in a replay."""
    matrix = QuantisedMatrix("cpu", "Q8_0", quantise("Q8_0", np.eye(2, 32, dtype=np.float32)))
    strided, x, y = np.ones(64, np.float32)[::2], np.ones(32, np.float32), np.zeros(2, np.float32)
    assert matrix.multiply(strided).tolist() == matrix.multiply(x).tolist()
    with pytest.raises(InputError, match=r"^x has strides \(8,\); take a contiguous copy of it$"):
        matrix.launches(strided, y)
    with pytest.raises(InputError, match=r"^y has strides \(8,\); take a contiguous copy of it$"):
        matrix.multiply(x, np.zeros(4, np.float32)[::2])


def test_a_product_of_small_integers_is_exact(device: AnyDevice) -> None:
    generator = np.random.default_rng(6)
    data = generator.integers(-127, 128, (9, 64)).astype(np.float32)
    data[:, ::32] = 127
    x = generator.integers(-3, 4, 64).astype(np.float32)
    blocks = quantise("Q8_0", data)
    assert np.array_equal(dequantise("Q8_0", blocks), data)
    assert np.array_equal(QuantisedMatrix(device, "Q8_0", blocks).multiply(x), data @ x)


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (
            lambda m: QuantisedMatrix(m.device, "F32", np.zeros((1, 4), np.uint8)),
            "the type must be",
        ),
        (lambda m: QuantisedMatrix(m.device, "Q4_0", np.zeros(18, np.uint8)), "two dimensions"),
        (lambda m: QuantisedMatrix(m.device, "Q4_0", np.zeros((0, 18), np.uint8)), "(0, 18)"),
        (lambda m: QuantisedMatrix(m.device, "Q4_0", np.zeros((2, 20), np.uint8)), "of 18 bytes"),
        (
            lambda m: QuantisedMatrix(
                m.device, "Q4_0", np.broadcast_to(np.uint8(0), (1 << 20, 18 << 7))
            ),
            "2^32 values or more",
        ),
        (
            lambda m: QuantisedMatrix(
                m.device, "Q6_K", np.zeros((1, 210), np.uint8), layout=ProductLayout(8, 16, 1)
            ),
            "layout.width must be at most 8",
        ),
        (
            lambda m: QuantisedMatrix(
                m.device, "Q6_K", np.zeros((1, 210), np.uint8), layout=ProductLayout(65, 1, 1)
            ),
            "layout must have at most 64 lanes on a processor",
        ),
        (
            lambda m: QuantisedMatrix(
                m.device, "Q6_K", np.zeros((1, 210), np.uint8), layout=ProductLayout(64, 8, 16)
            ),
            "lanes * width * rows_per_instance at most 4096",
        ),
        (lambda m: ProductLayout(8, 3, 1), "width must be a power of two"),
        (lambda m: ProductLayout(64, 4, 1, 3), "row_groups must be a power of two"),
        (
            lambda m: QuantisedMatrix(
                m.device, "Q8_0", np.zeros((1, 34), np.uint8), layout=ProductLayout(16, 1, 1, 2)
            ),
            "layout.row_groups must be 1 where 16 lanes are no subgroups of 32",
        ),
        (lambda m: m.multiply(np.zeros(31, np.float32)), "x must be float32 of shape (32,)"),
        # What is launched reads and stores as much, whoever launches it.
        (lambda m: m.launched(np.zeros(31, np.float32), None), "x must be float32 of shape (32,)"),
        (
            lambda m: m.launched(np.zeros(32, np.float32), np.zeros(1, np.float32)),
            "y must be float32 of shape (2,)",
        ),
        (lambda m: m.multiply(np.zeros(32)), "not float64"),
        (lambda m: m.multiply(m.device.allocate(124)), "x must be a buffer of 32 f32"),
        (
            lambda m: m.multiply(np.zeros(32, np.float32), m.device.allocate(4)),
            "y must be a buffer of 2 f32",
        ),
        (lambda m: m.dequantise(m.device.allocate(4)), "out must be a buffer of 64 f32"),
    ],
)
def test_invalid_matrices_and_vectors_are_reported(call: Any, part: str) -> None:
    matrix = QuantisedMatrix("cpu", "Q8_0", np.zeros((2, 34), np.uint8))
    with pytest.raises(InputError) as error:
        call(matrix)
    assert part in str(error.value)
