"""What callers give as tensors: arrays of NumPy, buffers, and other libraries' arrays in place."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from quod.device.array_protocols import ForeignArray
from quod.device.buffer import Array, Buffer, base_array
from quod.device.foreign import in_place
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.frozen import frozen
from quod.kernel.types import Type, bf16, f16, f32

Given: TypeAlias = "Array | Buffer | ForeignArray"
"""A tensor of the caller's."""

_MOST = (1 << 31) - 1
"""Rows, and elements of a row: what kernels count in words of 32 bits."""


@frozen(eq=False)
class Tensor:
    """Memory with the type and the shape of what is in it."""

    name: str
    memory: Any
    element: Type
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def columns(self) -> int:
        """The elements of a row, which are along the last axis."""
        return self.shape[-1]

    @property
    def rows(self) -> int:
        return math.prod(self.shape[:-1])

    @property
    def text(self) -> str:
        return f"{self.element} of shape {self.shape}"


def tensor(device: AnyDevice, name: str, value: Given) -> Tensor:
    """A tensor of at least one axis, contiguous in C order; InputError, with its name, if not."""
    memory = _memory(device, name, value)
    dtype, shape = memory.dtype, memory.shape
    if dtype is None or shape is None:
        raise InputError(
            f"{name} is a buffer of bytes: one that was uploaded from an array has a type"
        )
    element = _element(np.dtype(dtype))
    if element is None:
        raise InputError(
            f"{name} is of {dtype}; tensors are of float32, float16 or bfloat16, the last of which "
            "NumPy knows as the uint16 of its bits or by ml_dtypes"
        )
    if not shape:
        raise InputError(f"{name} is one number; a tensor has an axis at least")
    if isinstance(memory, np.ndarray) and not memory.flags.c_contiguous:
        raise InputError(f"{name} has strides {memory.strides}; take a contiguous copy of it")
    found = Tensor(name, memory, element, np.dtype(dtype), tuple(shape))
    if found.rows > _MOST or found.columns > _MOST:
        raise InputError(f"{name} has the shape {found.shape}; at most {_MOST} rows and columns go")
    return found


def _memory(device: AnyDevice, name: str, value: Given) -> Any:
    try:
        if isinstance(value, (Buffer, np.ndarray)):
            return base_array(value)
        memory: Any = device.foreign_memory(value)
        memory = in_place(value) if memory is None else memory
    except DeviceError as error:
        raise InputError(f"{name}: {error}") from None
    if memory is None:
        raise InputError(f"{name} must be an array or a buffer, not {type(value).__name__}")
    return memory


def _element(dtype: np.dtype[Any]) -> Type | None:
    if not dtype.isnative:
        return None
    if dtype == np.float32:
        return f32
    if dtype == np.float16:
        return f16
    # PyTorch and ml_dtypes describe bf16 as two bytes without a meaning.
    return bf16 if dtype == np.uint16 or (dtype.kind == "V" and dtype.itemsize == 2) else None


def like(device: AnyDevice, name: str, value: Given, model: Tensor) -> Tensor:
    """Another tensor of a tensor's type and shape; InputError if it is of another."""
    return _fitting(tensor(device, name, value), model, model.shape)


def row_of(device: AnyDevice, name: str, value: Given, model: Tensor) -> Tensor:
    """A vector of a tensor's type, as long as its rows; InputError if it is none."""
    return _fitting(tensor(device, name, value), model, (model.columns,))


def _fitting(found: Tensor, model: Tensor, shape: tuple[int, ...]) -> Tensor:
    if found.element is not model.element or found.shape != shape:
        wanted = f"{model.element} of shape {shape}"
        raise InputError(f"{found.name} must be {wanted}, as {model.name} is, not {found.text}")
    return found


def result(device: AnyDevice, given: Given, model: Tensor) -> Any:
    """Memory for a result like a tensor: an array of its caller's library, if that gives one."""
    make: Any = getattr(given, "new_empty", None)
    if make is not None and not isinstance(given, (Buffer, np.ndarray)):
        return make(model.shape)
    if isinstance(model.memory, Buffer):
        return device.allocate(model.memory.nbytes, zero=False).like(model.memory)
    return np.empty(model.shape, model.dtype)
