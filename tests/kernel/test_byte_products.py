"""Products of 16-bit integers and bytes, of GPUs that have an instruction for them."""

from __future__ import annotations

import numpy as np
import pytest

from quod.device import open_device
from quod.device.emulated.device import EmulatedDevice
from quod.errors import KernelError
from quod.kernel import I32, U32, Builder, Pointer, kernel
from tests.conftest import open_for_test
from tests.support.devices import present

COUNT = 4096


@kernel
def dot_products(
    k: Builder, n: U32, a: Pointer[U32], b: Pointer[U32], c: Pointer[I32], low: Pointer[I32],
    high: Pointer[I32],
) -> None:  # fmt: skip
    i = k.global_id()
    with k.if_(i < n):
        low[i] = k.dot2_low_bytes(a[i], b[i], c[i])
        high[i] = k.dot2_high_bytes(a[i], b[i], c[i])


def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random words, and all combinations of extreme halves and bytes."""
    rng = np.random.default_rng(8)
    a, b = (rng.integers(0, 1 << 32, COUNT, np.uint32) for _ in range(2))
    extremes = np.array([0, 0x7FFF7FFF, 0x80008000, 0xFFFFFFFF, 0x80007FFF, 0x00FF80], np.uint32)
    a[:36], b[:36] = np.repeat(extremes, 6), np.tile(extremes, 6)
    c = rng.integers(-(1 << 31), 1 << 31, COUNT).astype(np.int32)
    return a, b, c


def check(name: str, device_results: tuple[np.ndarray, np.ndarray]) -> None:
    a, b, c = operands()
    halves, as_bytes = a.view(np.int16).reshape(-1, 2).astype(np.int64), b.view(np.uint8)
    unsigned = as_bytes.reshape(-1, 4).astype(np.int64)
    signed = as_bytes.view(np.int8).reshape(-1, 4).astype(np.int64)
    for result, factors in zip(device_results, (unsigned[:, :2], signed[:, 2:]), strict=True):
        expected = c + (halves * factors).sum(axis=1)
        assert np.array_equal(result, expected.astype(np.int32)), name


@pytest.mark.parametrize("name", [*present("emulated", "cuda"), "ptx"])
def test_products_equal_those_of_integers(name: str) -> None:
    device = EmulatedDevice(executor="ptx") if name == "ptx" else open_for_test(name)
    low, high = np.zeros(COUNT, np.int32), np.zeros(COUNT, np.int32)
    with device:
        definition = device.compile(dot_products, lanes=128)
        device.launch(definition, COUNT // 128, COUNT, *operands(), low, high)
    check(name, (low, high))


def test_other_machines_name_the_op_to_write() -> None:
    with (
        open_device("cpu") as device,
        pytest.raises(KernelError, match=r"write k\.dot2\(a, b, c\)"),
    ):
        device.compile(dot_products, lanes=1)
