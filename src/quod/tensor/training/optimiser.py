"""AdamW: a training step of one parameter tensor, in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Array
from quod.errors import InputError
from quod.kernel.ir.types import f32
from quod.tensor.arrays import AnyArray, check_apart, float32_tensor, tensor
from quod.tensor.elementwise.launch import launch_flat
from quod.tensor.scalars import between, positive, real
from quod.tensor.training.adamw_kernel import ADAMW
from quod.validation import whole_number


def adamw_rates(
    step: int, *, learning_rate: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999,
    weight_decay: float = 0.01,
) -> Array:  # fmt: skip
    """Return the rates of `adamw` that change with the step, as f32 of shape (3,).

    They are weight_decay * learning_rate, learning_rate / (1 - beta1**step) and 1 / sqrt(1 -
    beta2**step), computed in f64. Raises InputError, which names the argument, if an argument is
    out of range.
    """
    step = whole_number("step", step, 1, 1 << 62)
    rate = between("learning_rate", learning_rate, 0.0, math.inf)
    decay = real(
        "weight_decay * learning_rate", between("weight_decay", weight_decay, 0.0, math.inf) * rate
    )
    first_beta, second_beta = between("beta1", beta1, 0.0, 1.0), between("beta2", beta2, 0.0, 1.0)
    rate_over_bias = real("learning_rate / (1 - beta1**step)", rate / (1 - first_beta**step))
    return np.array([decay, rate_over_bias, 1 / math.sqrt(1 - second_beta**step)], np.float32)


def adamw(
    device: DeviceChoice, parameter: AnyArray, gradient: AnyArray, first_moment: AnyArray,
    second_moment: AnyArray, *, step: int | None = None, learning_rate: float = 1e-3,
    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, weight_decay: float = 0.01,
    gradient_scale: float = 1.0, max_norm: float | None = None, norm: AnyArray | None = None,
    rates: AnyArray | None = None,
) -> None:  # fmt: skip
    """Take step number `step`, from 1 on, of one parameter tensor and its two moments, in place.

    With g the gradient times `gradient_scale`:

        m = beta1 * m + (1 - beta1) * g            v = beta2 * v + (1 - beta2) * g**2
        p = p - learning_rate * (weight_decay * p
                + m / (1 - beta1**step) / (sqrt(v / (1 - beta2**step)) + epsilon))

    (Loshchilov and Hutter, Decoupled weight decay regularization, 2019, with the decay times the
    learning rate.) Factors common to all elements are computed in f64. `parameter` is a
    contiguous tensor of f32, f16 or bf16. `gradient` has its shape, and its type or f32; the
    moments are f32, initially 0. `norm` is the result of `gradient_norm` for all unscaled
    gradients. With it, g is clipped as in `clip_gradients`: all scaled gradients together then have
    a norm of at most `max_norm`.

    `rates`, f32 of shape (3,), replaces `step`: the result of `adamw_rates` is read from that
    memory, and `learning_rate` and `weight_decay` are ignored, so that a recorded launch can take
    further steps. With the same betas in both functions, the result is the same bit for bit.

    Raises InputError, which names the argument, if a type, shape or value is not as described or
    if tensors overlap; DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    if (step is None) == (rates is None):
        raise InputError("step or rates say which step it is: give one of them")
    host_rates = device_rates = None
    if step is not None:
        host_rates = adamw_rates(
            step, learning_rate=learning_rate, beta1=beta1, beta2=beta2, weight_decay=weight_decay
        )
    if rates is not None:
        device_rates = float32_tensor(device, "rates", rates, (3,))
    first_beta, second_beta = between("beta1", beta1, 0.0, 1.0), between("beta2", beta2, 0.0, 1.0)
    values: list[Any] = [] if host_rates is None else host_rates.tolist()
    values += [
        positive("epsilon", epsilon), first_beta, 1 - first_beta, second_beta, 1 - second_beta,
        real("gradient_scale", gradient_scale),
    ]  # fmt: skip
    if (max_norm is None) != (norm is None):
        raise InputError("max_norm and norm go together: give both, or neither")
    device_norm = None
    if max_norm is not None and norm is not None:
        device_norm = float32_tensor(device, "norm", norm, (1,))
        values.append(positive("max_norm", max_norm))
    device_inputs = [operand for operand in (device_rates, device_norm) if operand is not None]
    values += [operand.memory for operand in device_inputs]
    parameter_tensor, gradient_tensor = (
        tensor(device, "parameter", parameter),
        tensor(device, "gradient", gradient),
    )
    if (
        gradient_tensor.element not in (parameter_tensor.element, f32)
        or gradient_tensor.shape != parameter_tensor.shape
    ):
        raise InputError(
            f"gradient must be {parameter_tensor.text}, as parameter is, or f32, not "
            f"{gradient_tensor.text}"
        )
    moments_by_name = {"first_moment": first_moment, "second_moment": second_moment}
    moments = [
        float32_tensor(device, name, moment, parameter_tensor.shape)
        for name, moment in moments_by_name.items()
    ]
    tensors = [parameter_tensor, gradient_tensor, *moments]
    for index in (0, 2, 3):
        check_apart(tensors[index], *device_inputs, *tensors[:index], *tensors[index + 1 :])
    kernel = ADAMW[
        parameter_tensor.element, gradient_tensor.element, norm is not None, rates is not None
    ]
    launch_flat(device, kernel, values, tensors)
