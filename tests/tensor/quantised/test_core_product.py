from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from quod.codegen import kernel_usage
from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.kernel import f32
from quod.tensor.quantised import QuantisedMatrix, dequantise
from quod.tensor.quantised.core_layout import CoreLayout, core_layout
from quod.tensor.quantised.core_product import MULTIPLY_ON_CORES
from tests.conftest import open_for_test
from tests.support.devices import present
from tests.support.thorough import one_and_others
from tests.tensor.numbers import Guarded, amid_poison
from tests.tensor.quantised.blocks import bits, weights

Array = np.ndarray[Any, Any]


@pytest.fixture(
    scope="module",
    params=one_and_others(present("emulated", "emulated:ptx", "cuda"), present("emulated", "cuda")),
)
def cores(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    """Devices with tensor cores."""
    with open_for_test(request.param) as device:
        yield device


def product(device: AnyDevice, data: Array, x: Array, layout: CoreLayout) -> Array:
    """By the kernel itself, amid NaN and what stays as it is."""
    rows, blocks = len(data), data.shape[1] // 144
    kernel = device.compile(MULTIPLY_ON_CORES[f32], lanes=layout.lanes, layout=layout)
    room = Guarded(device, np.full(rows, np.nan, np.float32))
    device.launch(
        kernel, -(-rows // layout.rows), rows, blocks, amid_poison(device, data.reshape(-1)),
        amid_poison(device, x), room.memory,
    )  # fmt: skip
    return room.array().copy()


def bound(values: Array, x: Array) -> Array:
    """Bound the error of sums in f32, and of elements rounded to 2^-29 of the largest of 512."""
    size, places = np.abs(values).astype(np.float64), np.abs(x).astype(np.float64)
    # Where a minimum is taken off a sum of products, these are as large as what is taken off.
    most = size.max()
    steps = np.array([part.max() for part in np.split(places, range(512, len(x), 512))])
    error_bound: Array = (
        2.0**-22 * (size @ places + most * places.sum()) + 2.0**-18 * most * steps.sum()
    )
    return error_bound


@pytest.mark.crossed("cores", "rows")
@pytest.mark.parametrize(
    ("rows", "blocks", "layout"),
    [
        (1, 1, (1, 1, 1, 1, True)), (17, 2, (1, 2, 1, 1, True)), (33, 3, (2, 2, 1, 1, True)),
        (31, 3, (1, 1, 2, 2, True)), (65, 5, (2, 1, 2, 2, False)), (40, 9, (2, 2, 1, 2, False)),
        (16, 4, (4, 1, 1, 4, False)), (3, 17, (8, 2, 1, 1, False)),
    ],
)  # fmt: skip
def test_products(cores: AnyDevice, rows: int, blocks: int, layout: tuple[Any, ...]) -> None:
    """Rows beyond the last, a half of two blocks, more stages than steps, slices without any."""
    data = weights("Q4_K", rows, blocks, seed=rows)
    x = np.random.default_rng(blocks).standard_normal(256 * blocks).astype(np.float32)
    values = dequantise("Q4_K", data).astype(np.float64)
    y = product(cores, data, x, CoreLayout(*layout))
    assert (np.abs(y - values @ x) <= bound(values, x)).all()
    assert np.array_equal(bits(product(cores, data, x, CoreLayout(*layout))), bits(y))


def test_integers_are_exact() -> None:
    """Scales of 1, minima of -1, and sums that f32 holds: every term is there once."""
    generator = np.random.default_rng(8)
    data = weights("Q4_K", 20, 3)
    data.reshape(-1, 144)[:, :4] = np.array([1, -1], np.float16).view(np.uint8)
    values = dequantise("Q4_K", data).astype(np.float64)
    with open_device("emulated:ptx") as device:
        for most in (1, 3):
            x = generator.integers(-most, most + 1, 768).astype(np.float32)
            y = product(device, data, x, CoreLayout(2, 2, 1, 1, True))
            assert np.array_equal(y, values @ x)
        for column in (0, 15, 32, 255, 256, 767):
            x = np.zeros(768, np.float32)
            x[column] = 2.0**20
            y = product(device, data, x, CoreLayout(1, 1, 1, 2, True))
            assert np.array_equal(y, values @ x), column


@pytest.mark.crossed("cores", "size")
@pytest.mark.parametrize("size", [2.0**-149, 1e-42, 2.0**-126, 1e-30, 2.0**-63, 1e20, 1e33])
def test_vectors_of_any_size(cores: AnyDevice, size: float) -> None:
    """Subnormal elements are whole numbers of the smallest one; none overflows on its way."""
    data = weights("Q4_K", 18, 2, size=2.0**-6)
    values = dequantise("Q4_K", data).astype(np.float64)
    x = (np.random.default_rng(3).uniform(-4, 4, 512) * size).astype(np.float32)
    y = product(cores, data, x, CoreLayout(1, 2, 1, 1, True))
    # Sums that minima take off are whole numbers of 32 of the smallest.
    least = 2.0**-144 * (1 + 16 * np.abs(values).max())
    assert (np.abs(y - values @ x) <= bound(values, x) + least).all()


def test_elements_far_below_the_largest_are_dropped() -> None:
    """2^-29 of it is what they are multiples of; those of other blocks have their own."""
    data = weights("Q4_K", 16, 4)
    data.reshape(-1, 144)[:, :4] = np.array([1, 0], np.float16).view(np.uint8)
    x = np.zeros(1024, np.float32)
    x[[0, 1, 600]] = 1, 1.5 * 2.0**-29, 1.5 * 2.0**-29
    values = dequantise("Q4_K", data).astype(np.float64)
    with open_device("emulated:ptx") as device:
        layout = CoreLayout(2, 1, 1, 1, True)
        without_largest = x.copy()
        without_largest[0] = 0
        assert np.array_equal(
            product(device, data, without_largest, layout), values @ without_largest
        )
        kept = x.copy()
        kept[1] = 2.0**-29
        assert np.array_equal(product(device, data, x, layout), product(device, data, kept, layout))


@pytest.mark.crossed("cores", "wrong")
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_non_finite_element_gives_nan_results(cores: AnyDevice, wrong: float) -> None:
    data = weights("Q4_K", 5, 3)
    x = np.ones(768, np.float32)
    x[700] = wrong
    assert np.isnan(product(cores, data, x, CoreLayout(2, 1, 1, 1, True))).all()


def test_non_finite_scales_stay_in_their_rows() -> None:
    data = weights("Q4_K", 20, 1)
    data[3, :2] = np.array([np.inf], np.float16).view(np.uint8)
    data[18, 2:4] = np.array([np.nan], np.float16).view(np.uint8)
    x = np.random.default_rng(2).standard_normal(256).astype(np.float32)
    with open_device("emulated:ptx") as device:
        y = product(device, data, x, CoreLayout(1, 2, 1, 1, True))
    assert np.flatnonzero(~np.isfinite(y)).tolist() == [3, 18]


def test_two_workgroups_fit_a_multiprocessor() -> None:
    """The next launch begins to copy before the previous one ends."""
    layout = CoreLayout(8, 2, 1, 1, True)
    usage = kernel_usage(MULTIPLY_ON_CORES[f32], "sm_90a", workgroup=layout.lanes, layout=layout)
    assert usage.registers is not None
    assert 2 * layout.lanes * usage.registers <= 1 << 16
    assert not usage.spilled_bytes
    assert usage.shared_bytes == layout.shared_bytes
    assert 2 * (layout.shared_bytes + 1024) <= 228 * 1024


def test_layout_depends_on_matrix_and_device() -> None:
    with open_device("emulated:ptx") as device:
        assert core_layout(device, "Q5_K", 64, 4) is None
        small = core_layout(device, "Q4_K", 32, 1)
        assert small is not None
        assert (small.slices, small.whole) == (1, True)
        matrix = QuantisedMatrix(device, "Q4_K", weights("Q4_K", 64, 17))
        assert isinstance(matrix.layout, CoreLayout)
        assert not matrix.layout.whole
    with open_device("cpu") as device:
        assert core_layout(device, "Q4_K", 64, 4) is None


def test_chain_of_overlapping_launches(cores: AnyDevice) -> None:
    """Each fed by the one before, and begun before that has ended."""
    matrices = [
        QuantisedMatrix(cores, "Q4_K", weights("Q4_K", 256, 1, seed, 2.0**-9)) for seed in range(4)
    ]
    x = np.random.default_rng(4).standard_normal(256).astype(np.float32)
    wanted, between = x, [cores.upload(x) for _ in range(3)]
    recording, vector = cores.stream().record(), between[2]
    for number, matrix in enumerate(matrices):
        wanted = matrix.multiply(wanted)
        for launch in matrix.launches(vector, between[number % 2]):
            recording.launch(*launch)
        vector = between[number % 2]
    recording.finish().run()
    y = np.empty_like(x)
    cores.download(vector, y)
    assert np.array_equal(bits(y), bits(wanted))
