"""Tensor arguments: NumPy arrays, buffers, and arrays of other libraries in place."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from quod.device.elements import FLOAT8_NAMES
from quod.device.memory.array_protocols import ForeignArray
from quod.device.memory.buffer import Array, Buffer, base_array, overlap
from quod.device.memory.foreign import in_place
from quod.device.memory.torch_tensors import as_torch_float8, torch_float8
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.frozen import frozen
from quod.kernel.ir.types import Type, bf16, f16, f32, i8, i32, u8, u16, u32, u64
from quod.validation import shown

AnyArray: TypeAlias = "Array | Buffer | ForeignArray"
"""A tensor argument as callers pass it."""

WORDS = {each.bytes: each for each in (u8, u16, u32, u64)}
"""The unsigned type of each element size in bytes, for kernels that only move bits."""
_MOST = (1 << 31) - 1
"""The limit of rows and of elements of a row, which kernels count in 32-bit words."""


@frozen(eq=False)
class Tensor:
    """A validated tensor argument: memory with an element type and a shape."""

    name: str
    memory: Any
    element: Type
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def columns(self) -> int:
        """The length of the last axis."""
        return self.shape[-1]

    @property
    def rows(self) -> int:
        return math.prod(self.shape[:-1])

    @property
    def text(self) -> str:
        return f"{self.element} of shape {self.shape}"


def tensor(device: AnyDevice, name: str, value: AnyArray) -> Tensor:
    """Return a tensor of f32, f16 or bf16, contiguous in C order, with at least one axis.

    Raises InputError, with the argument's name, for any other array.
    """
    return _described(
        device, name, value, _element, "tensors are of float32, float16 or bfloat16, the last of "
        "which NumPy knows as the uint16 of its bits or by ml_dtypes",
    )  # fmt: skip


def indices(device: AnyDevice, name: str, value: AnyArray) -> Tensor:
    """Return a tensor of int32 or uint32, as u32 bits; errors as in `tensor`."""
    return _described(
        device, name, value, _index,
        "indices are of int32 or uint32, which x.astype(numpy.int32) makes of others",
    )  # fmt: skip


def bytes_of(device: AnyDevice, name: str, value: AnyArray) -> Tensor:
    """Return a tensor of int8; errors as in `tensor`."""
    return _described(
        device, name, value, lambda dtype: i8 if dtype == np.int8 else None,
        "8-bit integers are int8",
    )  # fmt: skip


def floats8(device: AnyDevice, name: str, value: AnyArray, element: Type | None) -> Tensor:
    """Return a tensor of 8-bit floats, in the format of its dtype or of `element`.

    Raises InputError as `tensor` does, and if the dtype and `element` differ.
    """
    held, torch_element = torch_float8(value)
    described = _described(
        device, name, held, lambda dtype: torch_element or _float8(dtype, element),
        "8-bit floats are float8_e4m3fn or float8_e5m2 of ml_dtypes or PyTorch, or uint8 with the "
        'bits where dtype="e4m3" or dtype="e5m2" says so',
    )  # fmt: skip
    if element is not None and described.element is not element:
        raise InputError(f"{name} is of {described.element}, and dtype says {element}")
    return described


def result_tensor(device: AnyDevice, name: str, value: AnyArray) -> Tensor:
    """Return a tensor of int32, f32, f16 or bf16; errors as in `tensor`."""
    return _described(
        device, name, value, lambda dtype: i32 if dtype == np.int32 else _element(dtype),
        "results are of int32, float32, float16 or bfloat16",
    )  # fmt: skip


def words(device: AnyDevice, name: str, value: AnyArray) -> Tensor:
    """Return a tensor of 1-, 2-, 4- or 8-byte elements, as unsigned bits; errors as in `tensor`."""
    return _described(device, name, value, _word, "elements have 1, 2, 4 or 8 bytes")


def _described(
    device: AnyDevice, name: str, value: AnyArray,
    element_of: Callable[[np.dtype[Any]], Type | None], expected: str,
) -> Tensor:  # fmt: skip
    """Validate an array and describe it; `element_of` maps a dtype to a kernel type, or to None."""
    memory = _memory(device, name, value)
    dtype, shape = _dtype_and_shape(name, memory)
    element = element_of(dtype)
    if element is None:
        raise InputError(f"{name} is of {dtype}; {expected}")
    if not shape:
        raise InputError(f"{name} is one number; a tensor has an axis at least")
    if isinstance(memory, np.ndarray) and not memory.flags.c_contiguous:
        raise InputError(f"{name} has strides {memory.strides}; take a contiguous copy of it")
    described = Tensor(name, memory, element, dtype, shape)
    if described.rows > _MOST or described.columns > _MOST:
        raise InputError(
            f"{name} has the shape {described.shape}; at most {_MOST} rows and columns go"
        )
    _check_accessible(device, described)
    return described


def _dtype_and_shape(name: str, memory: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the dtype and shape of an array or buffer.

    Raises InputError for a buffer without them, or with ones that do not match its size.
    """
    if memory.dtype is None or memory.shape is None:
        raise InputError(
            f"{name} is a buffer of bytes: one that was uploaded from an array has a type"
        )
    try:
        dtype, shape = np.dtype(memory.dtype), tuple(map(operator.index, memory.shape))
    except TypeError:
        raise InputError(f"{name} is a buffer whose dtype or shape is none") from None
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != memory.nbytes:
        raise InputError(
            f"{name} is a buffer of {memory.nbytes} bytes, and no {dtype} of shape {shape}"
        )
    return dtype, shape


def _check_accessible(device: AnyDevice, array: Tensor) -> None:
    """Raise DeviceError if kernels of the device cannot read a tensor's memory."""
    memory, alignment = array.memory, device.address_alignment
    if isinstance(memory, Buffer):
        space, other = device.space, memory.space
        if other is not space:
            name = "another of that name" if space.name == other.name else space.name
            raise DeviceError(
                f"{array.name} is memory of {other.name}, and kernels read that of {name}; upload "
                "or download it"
            )
    elif not device.host_memory:
        return  # a copy is what they read
    if device.host_memory:
        alignment = min(alignment, array.element.bytes)
    if memory.nbytes and _begin(array) % alignment:
        raise DeviceError(
            f"{array.name} begins at an address that is not a multiple of {alignment}; copy it"
        )


def check_writable(out: Tensor) -> None:
    """Raise DeviceError if a result is read-only; callers check all results before a launch."""
    memory = out.memory
    if not (memory.writeable if isinstance(memory, Buffer) else memory.flags.writeable):
        raise DeviceError(f"{out.name} is read-only, and a result is stored to it")


def _memory(device: AnyDevice, name: str, value: AnyArray) -> Any:
    """Return the memory of an argument as a buffer or a NumPy array, without a copy."""
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
    """Return f32, f16 or bf16 for a dtype; None for any other dtype."""
    if not dtype.isnative:
        return None
    if dtype == np.float32:
        return f32
    if dtype == np.float16:
        return f16
    # PyTorch and ml_dtypes describe bf16 as two opaque bytes, which a dtype with fields is not.
    plain = dtype.kind == "V" and dtype.itemsize == 2 and dtype.names is None
    return bf16 if dtype == np.uint16 or plain else None


def _float8(dtype: np.dtype[Any], element: Type | None) -> Type | None:
    return FLOAT8_NAMES.get(dtype.name) or (element if dtype == np.uint8 else None)


def _index(dtype: np.dtype[Any]) -> Type | None:
    return u32 if dtype in (np.int32, np.uint32) else None


def _word(dtype: np.dtype[Any]) -> Type | None:
    plain = dtype.kind in "biufcV" and not dtype.hasobject
    return WORDS.get(dtype.itemsize) if plain else None


def tensor_like(device: AnyDevice, name: str, value: AnyArray, prototype: Tensor) -> Tensor:
    """Return a tensor of the type and shape of `prototype`; InputError if it differs."""
    return _check_fits(tensor(device, name, value), prototype, prototype.shape)


def row_tensor(device: AnyDevice, name: str, value: AnyArray, prototype: Tensor) -> Tensor:
    """Return a vector of the type and row length of `prototype`; InputError if it differs."""
    return _check_fits(tensor(device, name, value), prototype, (prototype.columns,))


def tensor_of_shape(
    device: AnyDevice, name: str, value: AnyArray, prototype: Tensor, shape: tuple[int, ...]
) -> Tensor:
    """Return a tensor of the type of `prototype` and of a given shape; InputError if it differs."""
    return _check_fits(tensor(device, name, value), prototype, shape)


def float32_tensor(device: AnyDevice, name: str, value: AnyArray, shape: tuple[int, ...]) -> Tensor:
    """Return an f32 tensor of a given shape; InputError if it differs."""
    numbers_tensor = tensor(device, name, value)
    if numbers_tensor.element is not f32 or numbers_tensor.shape != shape:
        raise InputError(f"{name} must be f32 of shape {shape}, not {numbers_tensor.text}")
    return numbers_tensor


def indices_of_shape(
    device: AnyDevice, name: str, value: AnyArray, shape: tuple[int, ...]
) -> Tensor:
    """Return an int32 or uint32 tensor of a given shape; InputError if it differs."""
    index_tensor = indices(device, name, value)
    if index_tensor.shape != shape:
        raise InputError(f"{name} must be of shape {shape}, not {index_tensor.shape}")
    return index_tensor


def _check_fits(operand: Tensor, prototype: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return `operand`; InputError unless it has the type of `prototype` and the given shape."""
    if operand.element is not prototype.element or operand.shape != shape:
        expected = f"{prototype.element} of shape {shape}"
        raise InputError(
            f"{operand.name} must be {expected} to go with {prototype.name}, not {operand.text}"
        )
    return operand


def check_apart(out: Tensor, *others: Tensor | None, same: bool = False) -> None:
    """Check that a result's memory is writable and overlaps no other argument.

    Kernels would otherwise read what they have just stored. With `same`, the result may occupy
    exactly the memory of another argument. Raises InputError for an overlap, DeviceError for
    read-only memory.
    """
    check_writable(out)
    for each in others:
        if each is None or not overlap(out.memory, each.memory):
            continue
        if not same:
            raise InputError(f"{out.name} is in the memory of {each.name}; take other memory")
        if _begin(out) != _begin(each) or out.shape != each.shape:
            raise InputError(
                f"{out.name} is in a part of the memory of {each.name}; take all of it, or other "
                "memory"
            )


def in_order_of_memory(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the non-empty tensors by address; if any two overlap, two neighbours do."""
    return sorted((each for each in tensors if math.prod(each.shape)), key=_begin)


def _begin(operand: Tensor) -> int:
    memory = operand.memory
    return int(memory.address if isinstance(memory, Buffer) else memory.ctypes.data)


def allocate_like(device: AnyDevice, argument: AnyArray, prototype: Tensor) -> Any:
    """Allocate a result like `prototype`, in the caller's library if it can make an array."""
    return allocate_shaped(device, argument, prototype, prototype.shape)


def allocate_shaped(
    device: AnyDevice, argument: AnyArray, prototype: Tensor, shape: tuple[int, ...]
) -> Any:
    """Allocate a result of the type of `prototype` and of another shape; see `allocate_like`."""
    make = _maker(argument)
    return (
        _allocate_memory(device, prototype, shape, prototype.dtype) if make is None else make(shape)
    )


def allocate_float32(
    device: AnyDevice, argument: AnyArray, prototype: Tensor, shape: tuple[int, ...]
) -> Any:
    """Allocate an f32 result on the side of `prototype`, host or device; see `allocate_like`."""
    make = _maker(argument)
    if make is not None and prototype.element is f32:
        return make(shape)
    if make is not None and hasattr(argument, "float"):
        return make(shape).float()
    return _allocate_memory(device, prototype, shape, np.dtype(np.float32))


def allocate_int32(
    device: AnyDevice, argument: AnyArray, prototype: Tensor, shape: tuple[int, ...]
) -> Any:
    """Allocate an int32 result on the side of `prototype`, host or device; see `allocate_like`."""
    make = _maker(argument)
    if make is not None and hasattr(argument, "int"):
        return make(shape).int()
    return _allocate_memory(device, prototype, shape, np.dtype(np.int32))


def allocate_float8(device: AnyDevice, argument: AnyArray, prototype: Tensor, element: Type) -> Any:
    """Allocate 8-bit floats of the shape of `prototype`: uint8 bits, or PyTorch's 8-bit type."""
    make = _maker(argument)
    if make is not None and hasattr(argument, "byte"):
        return as_torch_float8(make(prototype.shape).byte(), element)
    return _allocate_memory(device, prototype, prototype.shape, np.dtype(np.uint8))


def _maker(argument: AnyArray) -> Callable[[tuple[int, ...]], Any] | None:
    """Return the function of the caller's library that allocates an array, or None."""
    if isinstance(argument, (Buffer, np.ndarray)):
        return None
    make: Callable[[tuple[int, ...]], Any] | None = getattr(argument, "new_empty", None)
    return make


def _allocate_memory(
    device: AnyDevice, prototype: Tensor, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    """Allocate a NumPy array if `prototype` is one, else a buffer of the device."""
    if not isinstance(prototype.memory, Buffer):
        try:
            return np.empty(shape, dtype)
        except (MemoryError, ValueError) as error:
            # NumPy raises ValueError for arrays that exceed the address space.
            raise DeviceError(f"no memory for a result of {dtype} of shape {shape}") from error
    memory = device.allocate(math.prod(shape) * dtype.itemsize, zero=False)
    memory.dtype, memory.shape = dtype, shape
    return memory


def view(operand: Tensor, shape: tuple[int, ...]) -> Any:
    """Return a tensor's memory with another shape."""
    memory = operand.memory
    if not isinstance(memory, Buffer):
        return memory.reshape(shape)
    reshaped = memory.slice(0, memory.nbytes)
    reshaped.dtype, reshaped.shape = operand.dtype, shape
    return reshaped


def check_results(whose: str, number: int, out: object) -> None:
    """Raise InputError unless `out` is None or a tuple or list of `number` tensors."""
    if out is not None and (not isinstance(out, (tuple, list)) or len(out) != number):
        how = {2: "two", 3: "three"}[number]
        raise InputError(f"out must be {how} tensors, for {whose}, not {shown(out)}")


def on_device(device: AnyDevice, memory: Any) -> Buffer:
    """Return memory as a buffer of the device, uploaded if needed, with a known address."""
    if isinstance(memory, Buffer) and memory.space is device.space:
        return memory
    return device.upload(memory)
