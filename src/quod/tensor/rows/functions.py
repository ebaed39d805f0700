"""Softmax and the norms, along the last axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import KernelDefinition
from quod.kernel.ir.types import Type
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_like,
    check_apart,
    row_tensor,
    tensor,
    tensor_like,
)
from quod.tensor.rows.kernels import LAYER_NORM, RMS_NORM, SOFTMAX
from quod.tensor.rows.plan import plan_rows
from quod.tensor.scalars import real


def softmax(device: DeviceChoice, x: AnyArray, *, out: AnyArray | None = None) -> Any:
    """Return exp(x) / sum(exp(x)) along the last axis, in `out` or in new memory.

    `x` is a NumPy array, a buffer with a type, or another library's array, of f32, f16 or bf16 and
    contiguous in C order; `out` is like it, and may be the same memory. A row with a NaN or plus
    infinity, or with only minus infinity, is NaN.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    return _run(device, SOFTMAX, x, out, (), {})


def rms_norm(
    device: DeviceChoice,
    x: AnyArray,
    weight: AnyArray,
    *,
    epsilon: float = 1e-6,
    out: AnyArray | None = None,
) -> Any:
    """Return x / sqrt(mean(x**2) + epsilon) * weight along the last axis; see `softmax`.

    `weight` is a vector of the same type, as long as the axis.
    """
    return _run(device, RMS_NORM, x, out, (not_negative(epsilon),), {"weight": weight})


def layer_norm(
    device: DeviceChoice, x: AnyArray, weight: AnyArray, bias: AnyArray, *, epsilon: float = 1e-5,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return (x - mean) / sqrt(variance + epsilon) * weight + bias along the last axis.

    `weight` and `bias` are vectors of the same type, as long as the axis. The variance is the
    population variance: the sum of squares is divided by the number of elements. See `softmax`.
    """
    vectors = {"weight": weight, "bias": bias}
    return _run(device, LAYER_NORM, x, out, (not_negative(epsilon),), vectors)


def not_negative(epsilon: object) -> float:
    """Return an epsilon as a float; InputError unless it is a non-negative number of f32."""
    value = real("epsilon", epsilon)
    if value < 0:
        raise InputError(f"epsilon must be at least 0, not {value}")
    return value


def _run(
    device: DeviceChoice, kernels: Mapping[Type, KernelDefinition], x: AnyArray,
    out: AnyArray | None, numbers: tuple[float, ...], vectors: Mapping[str, AnyArray],
) -> Any:  # fmt: skip
    """Validate the tensors of a row function, launch it, and return the result."""
    device = resolve_device(device)
    source = tensor(device, "x", x)
    shared_vectors = [row_tensor(device, name, value, source) for name, value in vectors.items()]
    target = allocate_like(device, x, source) if out is None else out
    out_tensor = tensor_like(device, "out", target, source)
    check_apart(out_tensor, source, same=True)
    check_apart(out_tensor, *shared_vectors)
    if source.rows and source.columns:
        memory = [each.memory for each in [source, *shared_vectors, out_tensor]]
        launch_rows(
            device,
            kernels[source.element],
            source,
            numbers,
            memory,
            shared_vector_count=len(shared_vectors),
        )
    return target


def launch_rows(
    device: AnyDevice, kernel: KernelDefinition, x: Tensor, numbers: tuple[float, ...],
    memory: Sequence[Any], at_once: int = 1, shared_vector_count: int = 0, **static: Any,
) -> None:  # fmt: skip
    """Launch a kernel over the rows of `x`.

    at_once: Number of tensors of which the kernel holds a row at a time.
    shared_vector_count: Number of vectors that all rows share.
    static: Further compile-time arguments of the kernel.
    """
    plan = plan_rows(device, x.element, x.columns, at_once, shared_vector_count)
    compiled = device.compile(kernel, lanes=plan.lanes, element=x.element, plan=plan, **static)
    width = x.columns // plan.vector
    device.launch(compiled, plan.groups(x.rows), x.rows, width, *numbers, *memory)
