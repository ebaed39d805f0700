"""Lanes and indices at the end of long chains of ops, which unrolled loops of a kernel make."""

from __future__ import annotations

import numpy as np
import pytest

from quod.device.cpu.device import CpuDevice
from quod.kernel import U32, Builder, Pointer, kernel

LENGTH = 600
LANES = 8


@kernel(workgroup=LANES)
def exchanged(k: Builder, x: Pointer[U32], out: Pointer[U32], *, from_index: bool) -> None:
    """out[i] = what an instance has whose number takes many ops to compute."""
    i = k.local_id()
    lane = i if from_index else x[i]
    for step in range(LENGTH):
        lane = (lane * 5 + 3) ^ step
    out[i] = k.shuffle(x[i], lane % LANES)


@pytest.mark.parametrize("from_index", [True, False])
def test_shuffle_chains_with_static_or_dynamic_lanes(from_index: bool) -> None:
    """Lane numbers are known at compile time, or loaded."""
    device = CpuDevice(strategy="scalar")
    x = np.arange(LANES, dtype=np.uint32)[::-1].copy()
    out = np.zeros(LANES, np.uint32)
    device.launch(device.compile(exchanged, from_index=from_index), 1, x, out)
    lanes = np.arange(LANES, dtype=np.uint32) if from_index else x
    for step in range(LENGTH):
        lanes = (lanes * 5 + 3) ^ step
    assert (out == x[lanes % LANES]).all()


@kernel(workgroup=LANES)
def moved(k: Builder, step: U32, x: Pointer[U32], out: Pointer[U32]) -> None:
    """out[i] = x[i], at places that are sums of many."""
    place, far = k.local_id(), step
    for _ in range(LENGTH):
        far = far * 3 + step
        place = place + far
    out[place] = x[place]


def test_places() -> None:
    """Neighbours in memory, whose address is computed of the first lane alone."""
    device = CpuDevice(strategy="scalar")
    x, out = np.arange(1, LANES + 1, dtype=np.uint32), np.zeros(LANES, np.uint32)
    device.launch(device.compile(moved), 1, 0, x, out)
    assert (out == x).all()
