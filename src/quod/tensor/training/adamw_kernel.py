"""Elementwise kernels of AdamW steps, per combination of parameter and gradient type.

Each kernel exists with and without clipping, and takes the step's rates as arguments or in memory:

    decay   weight_decay * learning_rate
    rate    learning_rate / (1 - beta1**step)
    root    1 / sqrt(1 - beta2**step)
"""

from __future__ import annotations

from quod.kernel import Builder, KernelDefinition, Value, f32
from quod.kernel.ir.types import HALVES, Type
from quod.kernel.registry import register
from quod.tensor.elementwise.kernel import Function, flat_kernel
from quod.tensor.rows.plan import FlatPlan
from quod.tensor.training.clipping_kernels import clip_factor

_RATES = "decay rate root"
_SCALARS = "epsilon keep_first add_first keep_second add_second scale"
"""Kernel parameters; beta1 is `keep_first`, 1 - beta1 is `add_first`, and likewise for beta2."""


def _adamw(
    k: Builder, decay: Value, rate: Value, root: Value, epsilon: Value, beta1: Value,
    one_minus_beta1: Value, beta2: Value, one_minus_beta2: Value, scale: Value, parameter: Value,
    gradient: Value, first_moment: Value, second_moment: Value,
) -> list[Value]:  # fmt: skip
    """A step of AdamW (Loshchilov and Hutter, Decoupled weight decay regularization, 2019).

    Returns the parameter, the first moment and the second moment; see `adamw` for the formula.
    """
    scaled_gradient = gradient * scale
    first_moment = k.fma(first_moment, beta1, scaled_gradient * one_minus_beta1)
    second_moment = k.fma(second_moment, beta2, scaled_gradient * one_minus_beta2 * scaled_gradient)
    update = first_moment / k.fma(k.sqrt(second_moment), root, epsilon)
    return [parameter - k.fma(parameter, decay, update * rate), first_moment, second_moment]


def _clipped_adamw(
    k: Builder, decay: Value, rate: Value, root: Value, epsilon: Value, beta1: Value,
    one_minus_beta1: Value, beta2: Value, one_minus_beta2: Value, scale: Value, max_norm: Value,
    norm: Value, *elements: Value,
) -> list[Value]:  # fmt: skip
    """A step of AdamW with clipped gradients; `norm` is the norm of the unscaled gradients."""
    clipped_scale = scale * clip_factor(k, max_norm, norm * abs(scale))
    scalars = (
        decay,
        rate,
        root,
        epsilon,
        beta1,
        one_minus_beta1,
        beta2,
        one_minus_beta2,
        clipped_scale,
    )
    return _adamw(k, *scalars, *elements)


def _adamw_memory_rates(
    k: Builder, epsilon: Value, beta1: Value, one_minus_beta1: Value, beta2: Value,
    one_minus_beta2: Value, scale: Value, decay: Value, rate: Value, root: Value, *elements: Value,
) -> list[Value]:  # fmt: skip
    """`_adamw` with rates in memory: kernel arguments come first, then values from memory."""
    scalars = (decay, rate, root, epsilon, beta1, one_minus_beta1, beta2, one_minus_beta2, scale)
    return _adamw(k, *scalars, *elements)


def _clipped_adamw_memory_rates(
    k: Builder, epsilon: Value, beta1: Value, one_minus_beta1: Value, beta2: Value,
    one_minus_beta2: Value, scale: Value, max_norm: Value, decay: Value, rate: Value, root: Value,
    norm: Value, *elements: Value,
) -> list[Value]:  # fmt: skip
    """`_clipped_adamw` with rates in memory: arguments come first, then values from memory."""
    scalars = (decay, rate, root, epsilon, beta1, one_minus_beta1, beta2, one_minus_beta2, scale)
    return _clipped_adamw(k, *scalars, max_norm, norm, *elements)


_FUNCTIONS: dict[tuple[bool, bool], Function] = {
    (False, False): _adamw, (True, False): _clipped_adamw,
    (False, True): _adamw_memory_rates, (True, True): _clipped_adamw_memory_rates,
}  # fmt: skip
"""The functions by whether gradients are clipped, and whether rates are in memory."""


def _make_kernel(
    parameter: Type, gradient: Type, *, clipped: bool, rates: bool
) -> KernelDefinition:
    """Build the kernel for element types; `rates`: decay, rate and root are read from memory."""
    moments = {"first": f32, "second": f32}
    scalars = [_SCALARS] if rates else [_RATES, _SCALARS]
    in_memory = {"rates": len(_RATES.split())} if rates else {}
    if clipped:
        scalars, in_memory = [*scalars, "most"], in_memory | {"norm": 1}
    return flat_kernel(
        f"adamw{'_rates' if rates else ''}{'_clipped' if clipped else ''}_{parameter}_{gradient}",
        _FUNCTIONS[clipped, rates],
        " ".join(scalars),
        {"parameter": parameter, "gradient": gradient, **moments},
        {"parameter": parameter, **moments},
        held=in_memory,
    )


ADAMW = {
    (parameter, gradient, clipped, rates): _make_kernel(
        parameter, gradient, clipped=clipped, rates=rates
    )
    for parameter, gradient in [(f32, f32), *((each, g) for each in HALVES for g in (each, f32))]
    for clipped in (False, True)
    for rates in (False, True)
}
"""The kernels by parameter type, gradient type, clipping, and rates in memory."""

for _definition in (
    ADAMW[f32, f32, False, False],
    ADAMW[HALVES[1], HALVES[1], True, False],
    ADAMW[f32, f32, True, True],
):
    register(
        f"tensor.{_definition.name}", _definition,
        plan=FlatPlan(lanes=8, vector=4, batch=2, steps=1),
    )  # fmt: skip
