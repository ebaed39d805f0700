"""Rotary positions: against complex numbers of float64, other forms of them, hostile input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import f32
from quod.kernel.ir.types import Type
from quod.tensor import rope, rope_backward, rope_table
from tests.tensor.numbers import LEAST, TYPES, UNIT, Array, Guarded, amid_poison, numbers, stored

Case = tuple[tuple[int, ...], int, int]
CASES: list[Case] = [
    ((1, 2), 2, -2), ((3, 8), 8, -2), ((2, 5, 64), 64, -2), ((5, 3, 64), 32, -3),
    ((2, 7, 3, 128), 128, -3), ((2, 3, 65, 6), 6, -2), ((17, 10), 4, -2), ((3, 2, 254), 126, -2),
]  # fmt: skip
"""The shape, how many elements are turned, and the tokens' axis."""
FORMS = ["halves", "interleaved"]


def rope64(x: Array, positions: Array, turned: int, pairs: str, axis: int) -> Array:
    """By complex numbers; positions have one axis."""
    half = turned // 2
    angles = positions[:, None] / 10000.0 ** (np.arange(half) / half)
    angles = angles.reshape(len(positions), *[1] * (-axis - 2), half)
    places = np.arange(turned)
    first, second = (
        (places[:half], places[half:]) if pairs == "halves" else (places[::2], places[1::2])
    )
    rotated = x.copy()
    rotated_pairs = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angles)
    rotated[..., first], rotated[..., second] = rotated_pairs.real, rotated_pairs.imag
    return rotated


def check(device: AnyDevice, element: Type, case: Case, pairs: Any) -> None:
    shape, turned, axis = case
    random = np.random.default_rng(sum(shape))
    x = stored(random.normal(0, 2, shape), element)
    positions = random.integers(0, 1 << 20, shape[axis])
    table = amid_poison(device, rope_table(positions, turned))
    for function, sign in ((rope, 1), (rope_backward, -1)):
        room = Guarded(device, x)
        memory = amid_poison(device, x)
        returned = function(device, memory, table, pairs=pairs, axis=axis, out=room.memory)
        assert returned is room.memory
        exact = rope64(numbers(x, element), sign * positions, turned, pairs, axis)
        # A row is as long as before, so that no element is more than that.
        size = np.abs(numbers(x, element)).max(-1, keepdims=True)
        bound = 4 * UNIT[f32] * size + UNIT[element] / 2 * np.abs(exact) * 1.01 + LEAST[element]
        error = np.abs(numbers(room.array(), element) - exact)
        assert (error <= bound).all(), (case, np.argmax(error - bound))
        assert np.array_equal(room.array()[..., turned:], x[..., turned:])


@pytest.mark.crossed("device", "element", "pairs")
@pytest.mark.parametrize("element", TYPES, ids=str)
@pytest.mark.parametrize("pairs", FORMS)
def test_edge_shapes(device: AnyDevice, pairs: str, element: Type) -> None:
    for case in CASES[3:5] if device.kind == "webgpu" else CASES:
        check(device, element, case, pairs)


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_on_an_emulated_gpu(element: Type) -> None:
    with open_device("emulated:ptx") as device:
        for pairs in FORMS:
            for case in (CASES[1], CASES[3], CASES[6], ((2, 1030), 1030, -2)):
                check(device, element, case, pairs)


def test_tables() -> None:
    """Far positions too, of which f32 would know no digit of the angle."""
    counted = rope_table(5, 8)
    assert counted.dtype == np.float32
    assert np.array_equal(counted, rope_table(range(5), 8))
    assert np.array_equal(counted, rope_table(np.arange(5, dtype=np.uint8), 8))
    assert np.array_equal(counted[0], [1, 1, 1, 1, 0, 0, 0, 0])
    far = rope_table(np.array([10**6 + 7]), 4, base=100.0)
    exact = [np.cos(1000007.0), np.cos(100000.7), np.sin(1000007.0), np.sin(100000.7)]
    assert np.abs(far[0] - exact).max() <= 2.0**-24
    assert rope_table(np.zeros((2, 3), np.int64), 6).shape == (2, 3, 6)
    assert rope_table(0, 6).shape == (0, 6)


def test_explicit_positions() -> None:
    """A batch whose sequences begin elsewhere, with tokens before heads."""
    x = np.random.default_rng(3).normal(0, 1, (2, 4, 3, 8)).astype(np.float32)
    positions = np.array([[0, 1, 2, 3], [7, 8, 9, 10]])
    rotated = rope("cpu", x, rope_table(positions, 8), axis=-3)
    for number in range(2):
        alone = rope("cpu", x[number], rope_table(positions[number], 8), axis=-3)
        assert np.array_equal(rotated[number], alone)


@pytest.mark.parametrize("pairs", FORMS)
def test_products_depend_on_distances_only(pairs: Any) -> None:
    random = np.random.default_rng(4)
    q, k = random.normal(0, 1, (2, 1, 64)).astype(np.float32)
    products = []
    for begin in (0, 5, 1000):
        turned = [rope("cpu", x, rope_table(np.array([at]), 64), pairs=pairs)
                  for x, at in ((q, begin + 3), (k, begin))]  # fmt: skip
        products.append(float((turned[0].astype(float) * turned[1]).sum()))
    assert np.ptp(products) < 1e-4
    # The forms are one but for the order of elements.
    order = np.concatenate([np.arange(0, 64, 2), np.arange(1, 64, 2)])
    interleaved = rope("cpu", q, rope_table(np.array([9]), 64), pairs="interleaved")
    halves = rope("cpu", q[:, order].copy(), rope_table(np.array([9]), 64))
    assert np.array_equal(interleaved[:, order], halves)


def test_repeated_and_in_place_runs_are_equal(device: AnyDevice) -> None:
    x = np.random.default_rng(2).normal(0, 3, (3, 6, 20)).astype(np.float32)
    memory, table = device.upload(x), device.upload(rope_table(6, 20))
    runs = [np.empty_like(x) for _ in range(3)]
    for run in runs[:2]:
        device.download(rope(device, memory, table), run)
    assert rope(device, memory, table, out=memory) is memory
    device.download(memory, runs[2])
    assert runs[0].tobytes() == runs[1].tobytes() == runs[2].tobytes()
    rope_backward(device, memory, table, out=memory)
    device.download(memory, runs[2])
    assert np.abs(runs[2] - x).max() < 1e-5


@pytest.mark.parametrize("where", ["cpu", "emulated:ptx"])
def test_non_finite_values_stay_in_their_pair(where: str) -> None:
    x = np.ones((2, 12), np.float32)
    with open_device(where) as device:
        usual = rope(device, x, rope_table(2, 8))
        x[1, 1], x[0, 9], x[0, 10] = np.nan, np.inf, np.nan
        rotated = rope(device, x, rope_table(2, 8))
    changed = np.zeros((2, 12), bool)
    changed[1, [1, 5]] = changed[0, [9, 10]] = True
    assert np.isnan(rotated[1, [1, 5]]).all()
    assert rotated[0, 9] == np.inf
    assert np.isnan(rotated[0, 10])
    assert np.array_equal(rotated[~changed], usual[~changed])


X, TABLE = np.zeros((4, 3, 6), np.float32), rope_table(3, 6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rope("cpu", X, TABLE[:2]), r"table must be f32 of shape \(3, turned\), turned"),
        (lambda: rope("cpu", X, TABLE, axis=-3), r"table must be f32 of shape \(4, turned\)"),
        (lambda: rope("cpu", X, rope_table(3, 8)), "even and from 2 to 6, to go with x"),
        (lambda: rope("cpu", X, TABLE.astype(np.float16)), "table must be f32"),
        (lambda: rope("cpu", X, TABLE[:, :3].copy()), "table must be f32"),
        (lambda: rope("cpu", X, TABLE[:, :0].copy()), "table must be f32"),
        (lambda: rope("cpu", X[..., :5].copy(), TABLE), "x must have rows of even length, not f32"),
        (lambda: rope("cpu", X[0, 0], TABLE), "x must have the axes tokens and size at least"),
        (lambda: rope("cpu", X, TABLE, axis=-1), "axis must be"),
        (lambda: rope("cpu", X, TABLE, axis=-4), "axis must be"),
        (lambda: rope("cpu", X, TABLE, pairs="neox"), "pairs must be"),
        (lambda: rope("cpu", X, TABLE, out=TABLE), "out must be f32 of shape"),
        (lambda: rope("cpu", TABLE, TABLE, out=TABLE), "out is in the memory of table"),
        (lambda: rope_backward("cpu", X.astype(float), TABLE), "gradient is of float64"),
        (lambda: rope_table(3, 5), "size must be even, not 5"),
        (lambda: rope_table(3, 0), "size must be"),
        (lambda: rope_table(-1, 4), "positions must be"),
        (lambda: rope_table(np.ones(1), 4), "positions must be whole numbers in an array, not"),
        (lambda: rope_table(np.array([1 << 60]), 4), "positions must be at most 2.53"),
        (lambda: rope_table(3, 4, base=0), "base must be at least"),
    ],
)  # fmt: skip
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_empty() -> None:
    assert rope("cpu", np.zeros((0, 4), np.float32), rope_table(0, 4)).shape == (0, 4)
    assert rope("cpu", np.zeros((2, 0, 4), np.float32), rope_table(0, 2)).shape == (2, 0, 4)
