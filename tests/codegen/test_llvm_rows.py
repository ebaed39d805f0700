"""Lanes that read and write several consecutive words each."""

from __future__ import annotations

import numpy as np
import pytest

from quod.device.cpu.device import CpuDevice
from quod.kernel import I32, U32, U64, Builder, Pointer, kernel
from tests.support.thorough import one_and_others


@kernel
def move_rows(
    k: Builder,
    n: U32,
    places: Pointer[U32],
    rows: Pointer[U32],
    signed: Pointer[I32],
    wide: Pointer[U64],
    out: Pointer[U32],
    signed_out: Pointer[I32],
    wide_out: Pointer[U64],
    *,
    count: int,
) -> None:
    """Row places[i] of each array to row i, and its words in the other order behind all."""
    i = k.global_id()
    with k.if_(i < n):
        (place,) = k.load(places, i)
        for source, target in ((rows, out), (signed, signed_out), (wide, wide_out)):
            words = k.load(source, place * count, count)
            k.store(target, i * count, *words)
            k.store(target, (n + place) * count, *reversed(words))


@pytest.mark.parametrize("lanes", one_and_others([8, 1, 16]))
@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8, 10])
def test_rows_of_words(count: int, lanes: int) -> None:
    generator, n = np.random.default_rng(count), 29
    device = CpuDevice()
    places = generator.permutation(n).astype(np.uint32)
    arrays = [
        generator.integers(0, 1 << 63, n * count, np.uint64).astype(kind)
        for kind in (np.uint32, np.int32, np.uint64)
    ]
    arrays = [array ^ np.array(-1 & np.iinfo(array.dtype).max, array.dtype) for array in arrays]
    outputs = [np.zeros(2 * n * count, array.dtype) for array in arrays]
    compiled = device.compile(move_rows, lanes=lanes, count=count)
    device.launch(compiled, -(-n // lanes), n, places, *arrays, *outputs)
    for array, moved in zip(arrays, outputs, strict=True):
        rows, moved = array.reshape(n, count), moved.reshape(2 * n, count)
        assert (moved[:n] == rows[places]).all()
        assert (moved[n:] == rows[:, ::-1]).all()
