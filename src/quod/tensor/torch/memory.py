"""PyTorch's tensors as the functions of `quod.tensor` take them, and calls of these in order."""

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
"""Where memory of a GPU begins at a multiple of."""


def check_alike(**given: Tensor | None) -> None:
    """InputError unless tensors are of one type, which kernels have, and beside each other."""
    (first, model), *others = check_beside(**given)
    if model.dtype not in TYPES:
        raise InputError(
            f"{first} is of {model.dtype}; tensors are of float32, float16 or bfloat16"
        )
    for name, each in others:
        if each.dtype != model.dtype:
            raise InputError(f"{name} is of {each.dtype}, and {first} of {model.dtype}")


def check_beside(**given: Tensor | None) -> list[tuple[str, Tensor]]:
    """The tensors that are given; DeviceError unless they are on one device, InputError for those
    without plain memory."""
    found = [(name, x) for name, x in given.items() if x is not None]
    first, model = found[0]
    for name, each in found:
        if each.layout != torch.strided:
            raise InputError(
                f"{name} is a tensor of {each.layout}; x.to_dense() makes it a plain one"
            )
        if each is not model and each.device != model.device:
            raise DeviceError(
                f"{name} is on {each.device}, and {first} on {model.device}; move one of them"
            )
    return found


def check_indices(name: str, x: Tensor) -> None:
    """InputError unless a tensor's type is one of indices."""
    if x.dtype not in _INDICES:
        raise InputError(f"{name} is of {x.dtype}; indices are of int64, int32 or uint32")


def check_shape(name: str, x: Tensor, *shape: Any) -> None:
    """InputError unless a tensor has a shape."""
    if x.dim() != len(shape) or tuple(x.shape) != shape:
        raise InputError(f"{name} must be of shape {shape}, not {tuple(x.shape)}")


def empty_like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Memory for a result like a tensor, or of another type, contiguous whatever that is."""
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


def one_like(*names: str) -> Callable[..., Tensor]:
    """What makes the result of an op of tensors of these names, and of numbers behind them, all of
    which are of one type and shape, as the result is."""

    def made(*given: Any) -> Tensor:
        check_alike(**dict(zip(names, given)))
        for name, each in zip(names[1:], given[1:]):
            check_shape(name, each, *given[0].shape)
        return empty_like(given[0])

    return made


def as_it_lies(x: Tensor, transposed: bool) -> tuple[Tensor, bool]:
    """An operand whose rows are contiguous, if either of its two forms is."""
    if not x.is_contiguous() and x.mT.is_contiguous():
        return x.mT, not transposed
    return x, transposed


def words(indices: Any) -> Any:
    """Indices as words of 32 bits; what these do not hold becomes one that is none."""
    if indices is None or indices.dtype != torch.int64:
        return indices
    return indices.clamp(-(1 << 31), (1 << 31) - 1).to(torch.int32)


def call(function: Callable[..., Any], out: Tensor | tuple[Tensor, ...], **given: Any) -> Any:
    """`out`, into which a function of `quod.tensor` has stored what it makes of what is given.

    It runs on the device that the tensors are on. What is not contiguous, or begins at an address
    that kernels do not take, is copied before.
    """
    model = out if isinstance(out, Tensor) else out[0]
    device = _device(model)
    arrays = {
        name: _memory(value) if isinstance(value, Tensor) else value
        for name, value in given.items()
    }
    targets = _memory(out) if isinstance(out, Tensor) else tuple(map(_memory, out))
    with _in_order(model) if model.is_cuda else nullcontext():
        function(device, **arrays, out=targets)
    return out


def _device(x: Tensor) -> str:
    kind = x.device.type
    if kind == "cpu":
        return "cpu"
    if kind == "cuda":
        return f"cuda:{x.device.index}"
    raise DeviceError(
        f"tensors are on {x.device}, and kernels run on cpu and cuda; move them there"
    )


def _memory(x: Tensor) -> Any:
    x = x.detach().contiguous()
    if x.is_cuda:
        return x.clone() if x.data_ptr() % _ALIGNMENT else x
    if x.dtype in FLOATS8:
        return x  # whose type is known of the tensor alone
    # NumPy knows no bfloat16.
    return (x.view(torch.uint16) if x.dtype == torch.bfloat16 else x).numpy()


@contextmanager
def _in_order(x: Tensor) -> Iterator[None]:
    """What was begun on the current stream of a GPU is done before, and a launch waits for its own
    end: what comes after sees the result."""
    # The context of the device is the thread's current one afterwards, if nobody restores it.
    with torch.cuda.device(x.device):
        if torch.cuda.is_current_stream_capturing():
            raise DeviceError("CUDA graphs of PyTorch capture no kernel of Quod's; call it outside")
        torch.cuda.current_stream().synchronize()
        yield
