"""Activation functions of tensors and their gradients, element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.tensor.arrays import (
    AnyArray,
    allocate_like,
    check_apart,
    check_results,
    tensor,
    tensor_like,
)
from quod.tensor.elementwise.activation_kernels import ACTIVATIONS
from quod.tensor.elementwise.launch import launch_flat
from quod.validation import shown

Approximate = Literal["none", "tanh"]


def silu(device: DeviceChoice, x: AnyArray, *, out: AnyArray | None = None) -> Any:
    """Return x * sigmoid(x) of each element, in `out` or in new memory.

    Tensors are of f32, f16 or bf16, contiguous in C order, with at least one axis; `out` is like
    `x`, and may be the same memory.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    return _run_single(device, "silu", {"x": x}, out)


def silu_backward(
    device: DeviceChoice, gradient: AnyArray, x: AnyArray, *, out: AnyArray | None = None
) -> Any:
    """Return the gradient of `x`, where `gradient` is that of silu(x); see `silu`."""
    return _run_single(device, "silu_backward", {"gradient": gradient, "x": x}, out)


def gelu(
    device: DeviceChoice,
    x: AnyArray,
    *,
    approximate: Approximate = "none",
    out: AnyArray | None = None,
) -> Any:
    """Return x * Phi(x) of each element, Phi being the normal distribution function; see `silu`.

    With `approximate` "tanh" it is x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2.
    """
    return _run_single(device, _gelu(approximate), {"x": x}, out)


def gelu_backward(
    device: DeviceChoice, gradient: AnyArray, x: AnyArray, *, approximate: Approximate = "none",
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return the gradient of `x`, where `gradient` is that of gelu(x); see `silu`."""
    name = f"{_gelu(approximate)}_backward"
    return _run_single(device, name, {"gradient": gradient, "x": x}, out)


def swiglu(
    device: DeviceChoice, gate: AnyArray, up: AnyArray, *, out: AnyArray | None = None
) -> Any:
    """Return silu(gate) * up of each element; `out` may be either operand. See `silu`."""
    return _run_single(device, "swiglu", {"gate": gate, "up": up}, out)


def swiglu_backward(
    device: DeviceChoice, gradient: AnyArray, gate: AnyArray, up: AnyArray, *,
    out: tuple[AnyArray, AnyArray] | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the gradients of `gate` and `up`, where `gradient` is that of swiglu(gate, up).

    The two tensors of `out` may occupy the memory of two of the arguments.
    """
    check_results("gate and up", 2, out)
    inputs = {"gradient": gradient, "gate": gate, "up": up}
    names = ("out[0]", "out[1]")
    first, second = _run(resolve_device(device), "swiglu_backward", inputs, names, out)
    return first, second


def _gelu(approximate: object) -> str:
    if not isinstance(approximate, str) or approximate not in ("none", "tanh"):
        raise InputError(f'approximate must be "none" or "tanh", not {shown(approximate)}')
    return "gelu" if approximate == "none" else "gelu_tanh"


def _run_single(
    device: DeviceChoice, name: str, inputs: Mapping[str, AnyArray], out: AnyArray | None
) -> Any:
    """Run an activation with one result."""
    outs = None if out is None else [out]
    return _run(resolve_device(device), name, inputs, ("out",), outs)[0]


def _run(
    device: AnyDevice, name: str, inputs: Mapping[str, AnyArray], names: Sequence[str],
    outs: Sequence[AnyArray] | None,
) -> Sequence[Any]:  # fmt: skip
    """Run an activation; the last input determines the type and shape of all tensors."""
    prototype_name, prototype_value = list(inputs.items())[-1]
    prototype = tensor(device, prototype_name, prototype_value)
    input_tensors = [
        prototype if each == prototype_name else tensor_like(device, each, value, prototype)
        for each, value in inputs.items()
    ]
    targets = (
        [allocate_like(device, prototype_value, prototype) for _ in names]
        if outs is None
        else list(outs)
    )
    out_tensors = [
        tensor_like(device, *pair, prototype) for pair in zip(names, targets, strict=True)
    ]
    for each in out_tensors:
        check_apart(each, *input_tensors, same=True)
    check_apart(*out_tensors)
    launch_flat(device, ACTIVATIONS[name][prototype.element], [], [*input_tensors, *out_tensors])
    return targets
