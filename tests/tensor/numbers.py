"""Elements of f32, f16 and bf16 in NumPy, and their units."""

from __future__ import annotations

from typing import Any

import numpy as np

from quod.device.protocol import AnyDevice
from quod.kernel import bf16, f16, f32
from quod.kernel.ir.types import Type

Array = np.ndarray[Any, Any]

TYPES = [f16, bf16, f32]
UNIT = {f32: 2.0**-23, f16: 2.0**-10, bf16: 2.0**-7}
"""A unit in the last place of 1."""
LEAST = {f32: 2.0**-149, f16: 2.0**-24, bf16: 2.0**-133}


def stored(values: Array, element: Type) -> Array:
    """Numbers as elements, bf16 as their bits."""
    if element is not bf16:
        return values.astype(np.float32 if element is f32 else np.float16)
    word = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((word + 0x7FFF + ((word >> 16) & 1)) >> 16).astype(np.uint16)


def numbers(values: Array, element: Type) -> Array:
    """Elements as f64."""
    if element is bf16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float64)


def same_bits(
    device: AnyDevice, actual: Array, expected: Array, element: Type, fused: Array | float
) -> bool:
    """Return whether elements equal the expected ones to the bit; through WebGPU, whose drivers may
    fuse a product with a sum, whether they are within `fused` and a rounding of them.
    """
    if device.kind != "webgpu":
        return np.array_equal(actual.view(np.uint8), expected.view(np.uint8))
    wanted = numbers(expected, element)
    bound = fused + UNIT[element] * np.abs(wanted) if element is not f32 else fused
    return bool((np.abs(numbers(actual, element) - wanted) <= bound + LEAST[element]).all())


def amid_poison(device: AnyDevice, array: Array) -> Any:
    """An array in memory of the device, where what lies before and behind it is NaN."""
    room = np.full(array.size + 128, 0, array.dtype)
    room.view(np.uint8)[:] = 0xFF
    room[64:-64] = array.reshape(-1)
    begin = 64 * array.itemsize
    return device.upload(room).slice(begin, begin + array.nbytes).like(device.upload(array))


class Guarded:
    """Memory for a result like an array, with a guard of 16 elements on each side: what the array
    has with `holds`, else poisoned."""

    def __init__(self, device: AnyDevice, like: Array, *, holds: bool = False) -> None:
        self._device, self._like = device, like
        # 16 elements begin at a multiple of 16 bytes.
        self._host = np.full(like.size + 32, 99, like.dtype)
        if holds:
            self._host[16:-16] = like.reshape(-1)
        self._room = device.upload(self._host)
        begin = 16 * like.itemsize
        self.memory = self._room.slice(begin, begin + like.nbytes).like(device.upload(like))

    def array(self) -> Array:
        """The contents of the guarded memory; AssertionError if a guard was overwritten."""
        self._device.download(self._room, self._host)
        assert (self._host[:16] == 99).all()
        assert (self._host[-16:] == 99).all()
        return self._host[16:-16].reshape(self._like.shape)
