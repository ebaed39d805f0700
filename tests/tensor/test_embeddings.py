"""Embeddings: every bit of what is picked, gradients against float64, indices that are no rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import bf16, f32
from quod.kernel.ir.types import Type
from quod.tensor import embedding, embedding_backward
from tests.tensor.numbers import LEAST, TYPES, UNIT, Guarded, amid_poison, numbers, stored

SIZES = [(1, 1, (1,)), (5, 7, (3, 4)), (3, 64, (65,)), (9, 129, (200,)), (300, 24, (7, 9))]
"""Rows, their size, and the shape of the indices."""
FEW = [(5, 7, (3, 4)), (3, 64, (65,))]


def check(device: AnyDevice, element: Type, rows: int, size: int, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(rows + size)
    table = stored(random.normal(0, 2, (rows, size)), element)
    indices = random.integers(0, rows, shape).astype(np.int32)
    room = Guarded(device, table[indices])
    picks = amid_poison(device, indices)
    returned = embedding(device, amid_poison(device, table), picks, out=room.memory)
    assert returned is room.memory
    assert np.array_equal(room.array(), table[indices])

    gradient = stored(random.normal(0, 2, (*shape, size)), element)
    room = Guarded(device, table)
    returned = embedding_backward(
        device, amid_poison(device, gradient), picks, rows, out=room.memory
    )
    assert returned is room.memory
    exact, sizes = np.zeros((2, rows, size))
    np.add.at(exact, indices, numbers(gradient, element))
    np.add.at(sizes, indices, np.abs(numbers(gradient, element)))
    bound = 80 * UNIT[f32] * sizes + UNIT[element] / 2 * np.abs(exact) * 1.01 + LEAST[element]
    error = np.abs(numbers(room.array(), element) - exact)
    assert (error <= bound).all(), np.argmax(error - bound)
    assert not room.array()[np.setdiff1d(np.arange(rows), indices)].any()


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_edge_shapes(device: AnyDevice, element: Type) -> None:
    for sizes in FEW if device.kind == "webgpu" else SIZES:
        check(device, element, *sizes)


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_on_an_emulated_gpu(element: Type) -> None:
    with open_device("emulated:ptx") as device:
        for sizes in [*FEW, (2, 600, (3,))]:
            check(device, element, *sizes)


@pytest.mark.parametrize("element", [f32, bf16], ids=str)
def test_lists_of_lists(element: Type) -> None:
    """One row picked more than 64 * 64 times, one 64 times, one 65 times: integers are exact."""
    random = np.random.default_rng(5)
    indices = np.repeat(np.array([4, 1, 2, 0], np.uint32), [64 * 64 + 5, 64, 65, 1])
    random.shuffle(indices)
    values = random.integers(-1, 2, (len(indices), 5))
    values[indices == 4] *= random.integers(0, 50, (len(indices), 1))[indices == 4] < 1
    exact = np.zeros((6, 5))
    np.add.at(exact, indices, values)
    gradient = embedding_backward("cpu", stored(values.astype(np.float32), element), indices, 6)
    assert np.array_equal(numbers(gradient, element), exact)
    with open_device("cpu:checked") as device:
        again = embedding_backward(
            device, stored(values[:70].astype(np.float32), element), np.zeros(70, np.int32), 1
        )
        assert np.array_equal(numbers(again, element)[0], values[:70].sum(0))


def test_bits() -> None:
    """NaN with a payload, subnormal numbers and -0 come as they are."""
    words = np.array([[0x7FC12345, 1, 0x80000000, 0xFF800000]], np.uint32)
    for table in (words.view(np.float32), words.view(np.float16), words.view(np.uint16)):
        for where in ("cpu", "emulated:ptx"):
            with open_device(where) as device:
                rows = embedding(device, table, np.zeros(2, np.uint32))
            assert rows.tobytes() == 2 * table.tobytes()


def test_unchecked_indices(device: AnyDevice) -> None:
    """A valid index picks its row; an invalid one picks the last row."""
    table = np.arange(15, dtype=np.float32).reshape(5, 3)
    for indices in (np.array([4, 0, 5, -1, -(1 << 31)], np.int32), np.array([9, 1], np.uint32)):
        within = np.where((indices >= 0) & (indices < 5), indices, 4)
        room = Guarded(device, table[within])
        embedding(
            device, amid_poison(device, table), amid_poison(device, indices), check=False,
            out=room.memory,
        )  # fmt: skip
        assert np.array_equal(room.array(), table[within])


def test_empty_table() -> None:
    table, none = np.zeros((0, 3), np.float32), np.zeros(0, np.int32)
    assert embedding("cpu", table, none, check=False).shape == (0, 3)
    for check in (False, True):
        with pytest.raises(InputError, match=r"no row to pick|indices\[0\] is 0, and the 0 rows"):
            embedding("cpu", table, np.zeros(2, np.int32), check=check)


def test_two_runs(device: AnyDevice) -> None:
    random = np.random.default_rng(6)
    gradient = random.normal(0, 1, (500, 6)).astype(np.float32)
    indices = random.integers(0, 3, 500).astype(np.int32)
    runs = []
    for _ in range(2):
        table_gradient = np.empty((3, 6), np.float32)
        gradient_buffer = embedding_backward(
            device, device.upload(gradient), device.upload(indices), 3
        )
        device.download(gradient_buffer, table_gradient)
        runs.append(table_gradient.tobytes())
    assert runs[0] == runs[1]


def test_gradients_are_the_transpose() -> None:
    """embedding is linear: <embedding(t), g> = <t, embedding_backward(g)>, in small integers."""
    random = np.random.default_rng(7)
    table = random.integers(-5, 6, (7, 3)).astype(np.float32)
    indices = random.integers(0, 7, (4, 5)).astype(np.int32)
    gradient = random.integers(-5, 6, (4, 5, 3)).astype(np.float32)
    forward = (embedding("cpu", table, indices) * gradient).sum()
    assert forward == (table * embedding_backward("cpu", gradient, indices, 7)).sum()


def test_non_finite_values_stay_in_their_row() -> None:
    gradient = np.ones((4, 3), np.float32)
    gradient[1, 2], gradient[2, 0] = np.nan, np.inf
    table_gradient = embedding_backward("cpu", gradient, np.array([0, 1, 2, 2], np.int32), 3)
    assert np.array_equal(
        table_gradient, [[1, 1, 1], [1, 1, np.nan], [np.inf, 2, 2]], equal_nan=True
    )  # fmt: skip


TABLE, PICKS = np.ones((3, 4), np.float32), np.array([[0, 2]], np.int32)
G = np.ones((1, 2, 4), np.float32)


@pytest.mark.crossed("where", "wrong")
@pytest.mark.parametrize("where", ["cpu", "emulated:ptx"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.array([[0, 3]], np.int32), r"indices\[0, 1\] is 3, and the 3 rows are counted from 0"),
        (np.array([[-1, 9]], np.int32), r"indices\[0, 0\] is -1, .* 2 such"),
        (np.array([[0, 0xFFFFFFFF]], np.uint32), r"indices\[0, 1\] is 4294967295"),
    ],
)  # fmt: skip
def test_out_of_range_indices_are_rejected(where: str, wrong: Any, message: str) -> None:
    out, sums = np.full((1, 2, 4), 7, np.float32), np.full((3, 4), 7, np.float32)
    with open_device(where) as device:
        with pytest.raises(InputError, match=message):
            embedding(device, TABLE, wrong, out=out)
        with pytest.raises(InputError, match=message):
            embedding_backward(device, G, device.upload(wrong), 3, out=sums)
    assert (out == 7).all()
    assert (sums == 7).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: embedding("cpu", TABLE[0], PICKS), "table must have the axes rows and size"),
        (lambda: embedding("cpu", TABLE.T, PICKS), "table has strides"),
        (lambda: embedding("cpu", TABLE, PICKS.astype(np.int64)), "indices is of int64; indices a"),
        (lambda: embedding("cpu", TABLE, TABLE), "indices is of float32"),
        (lambda: embedding("cpu", TABLE, PICKS, out=TABLE), r"out must be f32 of shape \(1, 2, 4"),
        (lambda: embedding("cpu", TABLE, PICKS[0], out=TABLE[1:]), "out is in the memory of table"),
        (lambda: embedding_backward("cpu", G[0], PICKS, 3), r"indices must be of shape \(2,\), as"),
        (lambda: embedding_backward("cpu", G, PICKS, -1), "rows must be"),
        (lambda: embedding_backward("cpu", G, PICKS, 2), r"indices\[0, 1\] is 2, and the 2 rows"),
        (lambda: embedding_backward("cpu", G, PICKS, 3, out=TABLE[:2]), r"out must be f32 of sha"),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_empty() -> None:
    none = np.zeros(0, np.int32)
    assert embedding("cpu", TABLE, none).shape == (0, 4)
    assert not embedding_backward("cpu", np.zeros((0, 4), np.float32), none, 3).any()
    assert embedding_backward("cpu", np.zeros((0, 4), np.float32), none, 0).shape == (0, 4)
    with open_device("emulated") as device:
        assert not embedding_backward(device, np.zeros((0, 4), np.float32), none, 3).any()
