"""Tensor maps of a GPU that is simulated: what the driver is asked, what is kept, errors."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device.cuda import tensor_map
from quod.device.memory.tensor_map import MAP_BYTES, TiledMemory
from quod.errors import DeviceError
from tests.device.cuda_fixture import open_gpu

ARRAY = TiledMemory(4096, 2, 40, 72, 16)


class Encoder:
    """Stands in for the driver's function: gives a code and notes what it was asked."""

    def __init__(self, code: int = 0) -> None:
        self.code, self.asked = code, list[tuple[Any, ...]]()

    def __call__(self, place: Any, *arguments: Any) -> int:
        assert place.value % 64 == 0
        self.asked.append(arguments)
        return self.code


def test_tensor_maps_are_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder()
    monkeypatch.setattr(tensor_map, "_encoder", lambda: encoder)
    with open_gpu("simulated", tmp_path) as device:
        other = TiledMemory(8192, 1, 8, 64, 8)
        maps = device.tensor_maps((ARRAY, other))
        assert maps.nbytes == 2 * MAP_BYTES
        assert device.tensor_maps((ARRAY, other)) is maps
        assert len(encoder.asked) == 2
        assert device.tensor_maps((other,)) is not maps
    kind, rank, address, sizes, strides, box, steps, *modes = encoder.asked[0]
    assert (kind, rank.value, address.value) == (1, 3, 4096)
    assert [list(each) for each in (sizes, strides, box, steps)] == [
        [72, 40, 2], [144, 5760], [64, 16, 1], [1, 1, 1],
    ]  # fmt: skip
    assert modes == [0, 3, 3, 0]


@pytest.mark.parametrize(
    ("code", "message"),
    [(1, "CUDA_ERROR_INVALID_VALUE .* cuTensorMapEncodeTiled"), (4711, "unknown result 4711")],
)
def test_driver_errors_are_reported(
    code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_map, "_encoder", lambda: Encoder(code))
    with open_gpu("simulated", tmp_path) as device:
        for _ in range(2):
            with pytest.raises(DeviceError, match=message):
                device.tensor_maps((ARRAY,))
        assert device.upload(np.ones(4)).nbytes == 32


def test_a_driver_without_the_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Any:
        raise OSError(f"no {name} here")

    monkeypatch.setattr(ctypes, "CDLL", nothing)
    message = r"does not support tensor maps \(no libcuda.so.1 here\)"
    with open_gpu("simulated", tmp_path) as device, pytest.raises(DeviceError, match=message):
        device.tensor_maps((ARRAY,))
