"""Transpositions: every element where NumPy has it, to the bit, at every edge of a tile."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.codegen.ptx.machine import ptx_machine
from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import u32
from quod.kernel.analysis import analyze
from quod.tensor import transpose
from quod.tensor.permute.permutation import Permutation
from quod.tensor.permute.transpose_kernels import TILES, TransposePlan
from tests.support.thorough import one_and_others
from tests.tensor.numbers import Array, Guarded, amid_poison
from tests.tensor.test_rows import WithDlpack

TYPES = ["u1", "f2", "f4", "f8"]
MATRICES = [(1, 9), (5, 64), (31, 33), (32, 32), (63, 65), (127, 129), (64, 136), (3, 2000)]
FEW = [(33, 7), (36, 72)]
Case = tuple[tuple[int, ...], tuple[int, ...]]
OTHERS: list[Case] = [
    ((3, 40, 36), (0, 2, 1)), ((9, 8, 12), (2, 1, 0)), ((5, 6, 16), (1, 0, 2)),
    ((2, 3, 2051), (1, 0, 2)), ((3, 4999), (0, 1)), ((2, 3, 4, 5), (2, 0, 3, 1)),
    ((2, 9, 3, 40), (0, 2, 1, 3)), ((7, 1, 6), (2, 1, 0)),
    ((2, 1, 3, 2, 2, 3, 1, 12), (6, 3, 7, 0, 5, 2, 4, 1)),
]  # fmt: skip


def bits(shape: tuple[int, ...], kind: str) -> Array:
    """Elements with bits of all kinds, NaN among them."""
    dtype = np.dtype(kind)
    random = np.random.default_rng(sum(shape))
    return random.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]


def check(device: AnyDevice, kind: str, shape: tuple[int, ...], axes: Any = None) -> None:
    x = bits(shape, kind)
    wanted = np.ascontiguousarray(x.transpose(axes))
    room = Guarded(device, np.zeros_like(wanted))
    assert transpose(device, amid_poison(device, x), axes, out=room.memory) is room.memory
    assert room.array().tobytes() == wanted.tobytes(), (kind, shape, axes)


@pytest.mark.crossed("device", "kind")
@pytest.mark.parametrize("kind", TYPES)
def test_edge_shapes(device: AnyDevice, kind: str) -> None:
    for shape in FEW if device.kind == "webgpu" else MATRICES:
        check(device, kind, shape)


@pytest.mark.crossed("device", "kind")
@pytest.mark.parametrize("kind", one_and_others(TYPES, ["u1", "f4"]))
def test_every_axis_order(device: AnyDevice, kind: str) -> None:
    for shape, axes in OTHERS[::4] if device.kind == "webgpu" else OTHERS:
        check(device, kind, shape, axes)


def test_all_permutations() -> None:
    with open_device("cpu") as device:
        for axes in permutations(range(5)):
            check(device, "f4", (2, 3, 4, 2, 5), axes)


def test_on_emulated_gpus() -> None:
    with open_device("emulated:ptx") as device:
        for kind in TYPES:
            for shape in (*FEW, (5, 64), (64, 3)):
                check(device, kind, shape)
            check(device, kind, *OTHERS[0])
            check(device, kind, *OTHERS[2])
            check(device, kind, (2, 2, 1030 * 4), (1, 0, 2))


def test_cpu_accesses_are_in_bounds(checked_cpu: AnyDevice) -> None:
    check(checked_cpu, "f2", (9, 35))
    check(checked_cpu, "f4", *OTHERS[3])
    check(checked_cpu, "f4", *OTHERS[5])


def test_types_and_shapes() -> None:
    """Element types beyond Quod's, too; NumPy's axes, counted from either end."""
    x = np.arange(24).reshape(2, 3, 4)
    for given_type in (bool, np.int8, np.int16, np.int32, np.int64, np.complex64, ">i4", "V2"):
        given_x = x.astype(np.uint16).view("V2") if given_type == "V2" else x.astype(given_type)
        transposed = transpose("cpu", given_x)
        assert transposed.dtype == given_x.dtype
        assert transposed.tobytes() == given_x.transpose().tobytes()
    assert np.array_equal(transpose("cpu", x, (-1, 0, 1)), x.transpose(-1, 0, 1))
    assert np.array_equal(transpose("cpu", x, np.array([0, 1, 2])), x)
    assert transpose("cpu", x[:, :0].copy()).shape == (4, 0, 2)
    assert np.array_equal(transpose("cpu", WithDlpack(x.astype(np.float32))).data, x.transpose())
    with open_device("cpu") as device:
        transposed = transpose(device, device.upload(x), (1, 0, 2))
        assert (transposed.shape, transposed.dtype) == ((3, 2, 4), x.dtype)


@given(st.data())
@settings(max_examples=60)
def test_merged_axes(data: st.DataObject) -> None:
    """Merging keeps the transposition, and leaves no two axes adjacent in both orders."""
    shape = tuple(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=6)))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    x = np.arange(np.prod(shape))
    merged = Permutation(shape, order).merged
    assert merged.merged == merged
    turned = x.reshape(merged.shape).transpose(merged.order)
    assert np.array_equal(turned.ravel(), x.reshape(shape).transpose(order).ravel())
    assert turned.shape == merged.result
    assert all(b != a + 1 for a, b in zip(merged.order, merged.order[1:], strict=False))
    assert merged.strides == tuple(each // x.itemsize for each in x.reshape(merged.shape).strides)
    copied = np.ascontiguousarray(turned).transpose(np.argsort(merged.order))
    assert merged.result_strides == tuple(each // x.itemsize for each in copied.strides)


@pytest.mark.parametrize(("size", "vector", "side"), [(1, 4, 16), (2, 2, 32), (4, 1, 32)])
def test_no_bank_conflicts(size: int, vector: int, side: int) -> None:
    machine = ptx_machine(256)
    traced = TILES[size].trace(machine, unit=u32, axes=0, plan=TransposePlan(256, vector, side))
    banks = [each for each in analyze(traced).findings if each.topic == "banks"]
    assert banks
    assert all(each.good for each in banks), banks


X = np.zeros((4, 6), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: transpose("cpu", X.astype(np.complex128)), "x is of complex128; elements have 1,"),
        (lambda: transpose("cpu", np.array([None])), "x is of object"),
        (lambda: transpose("cpu", X.T), "x has strides"),
        (lambda: transpose("cpu", X.reshape((1,) * 7 + (4, 6))), "x has 9 axes, and at most 8"),
        (lambda: transpose("cpu", X, (0,)), "axes must have each of 2 axes once, not"),
        (lambda: transpose("cpu", X, (0, 0)), "axes must have each of 2 axes once, not"),
        (lambda: transpose("cpu", X, (0, 2)), r"axes\[1\] must be a whole number from -2 to 1"),
        (lambda: transpose("cpu", X, 1), "axes must be"),
        (lambda: transpose("cpu", X, out=X), r"out must be float32 of shape \(6, 4\) to go with x"),
        (
            lambda: transpose("cpu", X, out=np.zeros((6, 4), np.int32)),
            r"out must be float32 of shape \(6, 4\) to go with x, not int32",
        ),
        (lambda: transpose("cpu", X[:, :4].copy(), (0, 1), out=X[:, :4]), "out has strides"),
        (lambda: transpose("cpu", X, out=X.reshape(6, 4)), "out is in the memory of x"),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
