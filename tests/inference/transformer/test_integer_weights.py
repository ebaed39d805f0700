"""Weights as integers: equal to the gguf package's values; damaged and unusual tensors."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from quod.errors import InputError
from quod.formats.gguf.file import GgufTensor
from quod.formats.gguf.types import GGUF_TYPES
from quod.inference.transformer.integer_weights import read_matrix, read_vector
from tests.inference.transformer.models import blocks_of

TYPES = ("Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K")


def tensor_of(kind: str, blocks: NDArray[np.generic], shape: tuple[int, ...]) -> GgufTensor:
    return GgufTensor("w", GGUF_TYPES[kind], shape, 1000, memoryview(blocks.tobytes()))


def values(rows: int = 5, columns: int = 512) -> NDArray[np.float32]:
    return (np.random.default_rng(1).standard_normal((rows, columns)) / 20).astype(np.float32)


@pytest.mark.parametrize("kind", TYPES)
def test_integers_are_the_values_of_gguf(kind: str) -> None:
    blocks = blocks_of(kind, values())
    matrix = read_matrix(tensor_of(kind, blocks, (5, 512)), "f")
    expected = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind])
    exact = np.ldexp(matrix.integers().astype(np.float64), matrix.exponent)
    # A value is exact here, and rounded once there.
    assert np.array_equal(exact.astype(np.float32), expected)
    assert max(np.abs(matrix.scales).max(), np.abs(matrix.minima).max()) < 2**31
    assert np.abs(matrix.scales).max() >= 2**15
    some = matrix.take_rows(slice(1, 3))
    assert np.array_equal(some.integers(), matrix.integers(slice(1, 3)))
    # Rows of rows: nothing is decoded in between.
    turned = matrix.take_rows(np.array([4, 0, 2])).take_rows(np.array([2, 0]))
    assert np.array_equal(turned.integers(), matrix.integers()[[2, 4]])
    assert np.array_equal(turned.integers(slice(1, 2)), matrix.integers()[[4]])


@pytest.mark.parametrize("kind", ["F16", "F32"])
def test_floats_are_rounded_to_sixteen_bits(kind: str) -> None:
    floats = values().astype(np.float16 if kind == "F16" else np.float32)
    floats[2] *= 2.0**-10
    floats[3] = 0
    matrix = read_matrix(tensor_of(kind, floats, floats.shape), "f")
    assert np.abs(matrix.quants[:].astype(int)).max(axis=1)[[0, 1, 2, 4]].min() > 2**14
    assert np.abs(matrix.quants[:].astype(int)).max() <= 32767
    exact = np.ldexp(matrix.integers().astype(np.float64), matrix.exponent)
    step = np.abs(floats.astype(np.float64)).max(axis=1, keepdims=True) / 2**14
    assert (np.abs(exact - floats) <= step / 2).all()


def test_rows_that_differ_much_keep_fewer_bits() -> None:
    floats = np.ones((2, 32), np.float32)
    floats[1] = 2.0**-40
    matrix = read_matrix(tensor_of("F32", floats, (2, 32)), "f")
    assert matrix.scales.max() == 1 << 30
    assert matrix.quants[:][1].tolist() == [16] * 32
    floats[0] = 32767.6 / 32768
    assert read_matrix(tensor_of("F32", floats, (2, 32)), "f").quants[:][0, 0] == 16384


@pytest.mark.parametrize(("kind", "at"), [("Q4_1", 2), ("Q4_0", 0), ("Q4_K", 2), ("Q6_K", 208)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scales_that_are_no_numbers_are_refused(kind: str, at: int, value: float) -> None:
    blocks = blocks_of(kind, values()).copy()
    size = GGUF_TYPES[kind].bytes
    flat = blocks.reshape(-1, size)
    flat[3, at : at + 2] = np.array([value], np.float16).view(np.uint8)
    with pytest.raises(InputError, match=f"has the value {value}, which no integer") as caught:
        read_matrix(tensor_of(kind, blocks, (5, 512)), "f.gguf")
    error = caught.value
    assert (error.path, error.section, error.offset) == (
        "f.gguf",
        "tensor 'w'",
        1000 + 3 * size + at,
    )


def test_floats_that_are_no_numbers_are_refused() -> None:
    floats = values()
    floats[1, 7] = -np.inf
    with pytest.raises(InputError, match="has the value -inf") as caught:
        read_matrix(tensor_of("F32", floats, (5, 512)), "f")
    assert caught.value.offset == 1000 + 4 * (512 + 7)
    with pytest.raises(InputError, match="has the value -inf"):
        read_vector(tensor_of("F32", floats[1], (512,)), "f", 512)


def test_unusual_tensors_are_refused() -> None:
    blocks = blocks_of("Q8_0", values())
    with pytest.raises(InputError, match="is of type Q8_0; vectors are F32 or F16"):
        read_vector(tensor_of("Q8_0", blocks, (2560,)), "f", 2560)
    with pytest.raises(InputError, match=r"has the shape \(3,\), not \(4,\)"):
        read_vector(tensor_of("F32", np.ones(3, np.float32), (3,)), "f", 4)
    with pytest.raises(InputError, match="is of type Q2_K; the integer program reads Q4_0, Q4_1"):
        read_matrix(tensor_of("Q2_K", np.zeros(84, np.uint8), (1, 256)), "f")
    with pytest.raises(InputError, match="has no elements"):
        read_matrix(tensor_of("Q5_0", np.zeros(0, np.uint8), (0, 32)), "f")
    with pytest.raises(InputError, match="has 1 dimensions; a matrix has two"):
        read_matrix(tensor_of("F32", np.ones(32, np.float32), (32,)), "f")
    with pytest.raises(InputError, match="has 24 columns, which is no multiple of 16"):
        read_matrix(tensor_of("F32", np.ones((2, 24), np.float32), (2, 24)), "f")
    flat = blocks.reshape(-1, 34).copy()
    flat[0, :2] = np.array([60000], np.float16).view(np.uint8)
    with pytest.raises(InputError, match=r"differ by too much: .* they need 4\d bits"):
        read_matrix(tensor_of("Q8_0", flat, (5, 512)), "f")
