"""PyTorch tensors as arguments of `quod.tensor`, and calls ordered with the current stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from quod.errors import DeviceError, InputError

TYPES = (torch.float32, torch.float16, torch.bfloat16)
FLOATS8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_INDICES = (torch.int32, torch.uint32, torch.int64)
_ALIGNMENT = 16
"""The alignment of GPU memory in bytes that kernels require."""


def check_alike(**tensors: Tensor | None) -> None:
    """Check that tensors share one type that kernels have, and one device.

    Raises InputError for types, DeviceError for devices.
    """
    (first_name, first_tensor), *others = check_same_device(**tensors)
    if first_tensor.dtype not in TYPES:
        raise InputError(
            f"{first_name} is of {first_tensor.dtype}; tensors are of float32, float16 or bfloat16"
        )
    for name, each in others:
        if each.dtype != first_tensor.dtype:
            raise InputError(f"{name} is of {each.dtype}, and {first_name} of {first_tensor.dtype}")


def check_same_device(**tensors: Tensor | None) -> list[tuple[str, Tensor]]:
    """Return the tensors that are not None.

    Raises DeviceError unless all are on one device, InputError for a layout that is not strided.
    """
    present = [(name, x) for name, x in tensors.items() if x is not None]
    first_name, first_tensor = present[0]
    for name, each in present:
        if each.layout != torch.strided:
            raise InputError(
                f"{name} is a tensor of {each.layout}; x.to_dense() makes it a plain one"
            )
        if each is not first_tensor and each.device != first_tensor.device:
            raise DeviceError(
                f"{name} is on {each.device}, and {first_name} on {first_tensor.device}; "
                f"move one of them"
            )
    return present


def check_indices(name: str, x: Tensor) -> None:
    """Raise InputError unless a tensor has a type of indices."""
    if x.dtype not in _INDICES:
        raise InputError(f"{name} is of {x.dtype}; indices are of int64, int32 or uint32")


def check_shape(name: str, x: Tensor, *shape: Any) -> None:
    """Raise InputError unless a tensor has a given shape."""
    if x.dim() != len(shape) or tuple(x.shape) != shape:
        raise InputError(f"{name} must be of shape {shape}, not {tuple(x.shape)}")


def empty_like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Allocate a contiguous result of a tensor's shape, and of its type unless `dtype` is given."""
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


def one_like(*names: str) -> Callable[..., Tensor]:
    """Return a function that allocates the result of an op on tensors with these names.

    The function checks that all tensors have one type and shape, which are those of the result.
    """

    def allocate(*tensors: Any) -> Tensor:
        check_alike(**dict(zip(names, tensors)))
        for name, each in zip(names[1:], tensors[1:]):
            check_shape(name, each, *tensors[0].shape)
        return empty_like(tensors[0])

    return allocate


def as_it_lies(x: Tensor, transposed: bool) -> tuple[Tensor, bool]:
    """Return an operand with contiguous rows, transposed if that makes them so, and its flag."""
    if not x.is_contiguous() and x.mT.is_contiguous():
        return x.mT, not transposed
    return x, transposed


def int32_indices(indices: Any) -> Any:
    """Convert int64 indices to int32, clamped so that indices out of range stay invalid."""
    if indices is None or indices.dtype != torch.int64:
        return indices
    return indices.clamp(-(1 << 31), (1 << 31) - 1).to(torch.int32)


def call(function: Callable[..., Any], out: Tensor | tuple[Tensor, ...], **arguments: Any) -> Any:
    """Call a function of `quod.tensor` on the device of the tensors, and return `out`.

    Tensors that are not contiguous or not aligned are copied first.
    """
    model = out if isinstance(out, Tensor) else out[0]
    device = _device(model)
    arrays = {
        name: _memory(value) if isinstance(value, Tensor) else value
        for name, value in arguments.items()
    }
    targets = _memory(out) if isinstance(out, Tensor) else tuple(map(_memory, out))
    with _after_current_stream(model) if model.is_cuda else nullcontext():
        function(device, **arrays, out=targets)
    return out


def _device(x: Tensor) -> str:
    """Return Quod's name of the device of a tensor."""
    kind = x.device.type
    if kind == "cpu":
        return "cpu"
    if kind == "cuda":
        return f"cuda:{x.device.index}"
    raise DeviceError(
        f"tensors are on {x.device}, and kernels run on cpu and cuda; move them there"
    )


def _memory(x: Tensor) -> Any:
    """Return a tensor's memory as `quod.tensor` takes it, copied if kernels cannot read it."""
    x = x.detach().contiguous()
    if x.is_cuda:
        return x.clone() if x.data_ptr() % _ALIGNMENT else x
    if x.dtype in FLOATS8:
        return x  # NumPy has no 8-bit floats, so only the tensor carries the type.
    # NumPy has no bfloat16.
    return (x.view(torch.uint16) if x.dtype == torch.bfloat16 else x).numpy()


@contextmanager
def _after_current_stream(x: Tensor) -> Iterator[None]:
    """Run the body after the work of the GPU's current stream.

    A launch in the body returns when it has ended, so later work sees the result. Raises
    DeviceError while a CUDA graph is captured.
    """
    # Restore the thread's current context, which a launch changes to the device's.
    with torch.cuda.device(x.device):
        if torch.cuda.is_current_stream_capturing():
            raise DeviceError("CUDA graphs of PyTorch capture no kernel of Quod's; call it outside")
        torch.cuda.current_stream().synchronize()
        yield
